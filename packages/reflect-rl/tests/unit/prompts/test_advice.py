"""The number behind the action that a reflection recommends is that of the state, whatever the player wrote."""

from __future__ import annotations

import pytest

from alfworld_native.plugin import env as alfworld
from alfworld_native.scene import Scene as Room, write_scene as write_room
from reflect_locate.envs import autoexplore
from reflect_locate.envs.state_text import ExplorationState, action_numbers, write_state
from reflect_rl.prompts import recommended, with_right_number

NUMBERS = {"go to shelf 1": 5, "cat a =1.py": 7}


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("Next: go to shelf 1 =8.", "Next: go to shelf 1 =5."),
        ("I hold mug 1. Next: go to shelf 1 =5.", "I hold mug 1. Next: go to shelf 1 =5."),
        ("Next: go to shelf 1.", "Next: go to shelf 1 =5."),
        ("Next: go to shelf 1 =8", "Next: go to shelf 1 =5."),  # cut short
        ("Next: go to shelf 2 =8.", "Next: go to shelf 2."),
        ("Next: look =8. Next: go to shelf 1 =8.", "Next: look =8. Next: go to shelf 1 =5."),
        ("Next: cat a =1.py =9.", "Next: cat a =1.py =7."),
        ("Best file: rates.py (rate) =8.", "Best file: rates.py (rate) =8."),
        ("", ""),
    ],
)
def test_the_number_is_set_right(written, right):
    assert with_right_number(written, NUMBERS) == right


def test_what_is_recommended_is_the_last_sentence_without_its_number():
    assert recommended("Next: look =8. Next: go to shelf 1 =8.") == "go to shelf 1"
    assert recommended("I look around.") is None


@pytest.mark.parametrize("text", ["Next: cat rates.py =0.", "Next: cat rates.py =31."])
def test_the_numbers_of_autoexplore_are_those_of_the_state(text):
    state = write_state(ExplorationState("Parsing rate limits", 1, 15, "src", files=("rates.py",)))
    assert with_right_number(text, action_numbers(state)) == "Next: cat rates.py =1."


def test_the_numbers_of_alfworld_are_those_of_the_state():
    room = Room("put some mug on shelf.", ("desk 1",), unseen=("shelf 1",), numbers={"go to shelf 1": 4})
    assert alfworld.Alfworld().action_numbers(write_room(room)) == {"go to shelf 1": 4}


@pytest.mark.parametrize("game", [alfworld.Alfworld(), autoexplore])
def test_a_text_that_is_no_state_is_refused(game):
    with pytest.raises(ValueError, match="no state"):
        game.action_numbers("You see nothing.")
