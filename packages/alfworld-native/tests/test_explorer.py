"""The expert who sees what the player sees: it wins soon, and knows no more than the text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alfworld_native.engine import Game
from alfworld_native.explorer import advised, aims, pending, sought
from alfworld_native.generate import generate_games
from alfworld_native.likelihood import likelihood
from alfworld_native.memory import Memory
from alfworld_native.record import GameRecord, TaskType, Wording
from alfworld_native.scene import Found, Scene, read_scene, scene_of, write_scene
from alfworld_native.sources import load_games
from household_games import WINNING, kitchen_record

FOLDER = os.environ.get("REFLECT_RL_ALFWORLD")


def played(record: GameRecord, wording: Wording = "2.1.1", horizon: int = 50) -> list[str]:
    """The expert's commands until it wins; it is given the state text alone."""
    state = Game(record.problem, record.goal, wording).start()
    memory, commands = Memory(state.first().feedback, state.first().admissible), []
    while not state.won and len(commands) < horizon:
        commands.append(advised(read_scene(write_scene(scene_of(memory)))))
        assert commands[-1] in state.admissible
        step = state.step(commands[-1])
        memory.update(commands[-1], step.feedback, step.admissible)
    assert state.won, record.key
    return commands


@pytest.mark.parametrize("wording", ["2.1.1", "2.1.2"])
@pytest.mark.parametrize("task_type", WINNING)
def test_it_wins_each_kind_of_task_in_both_wordings(task_type: TaskType, wording: Wording):
    assert len(played(kitchen_record(task_type), wording)) >= len(WINNING[task_type])


def test_it_wins_generated_games_within_the_horizon():
    lengths = [len(played(record)) for record in generate_games("test", 40)]
    assert sum(lengths) / len(lengths) < 12


@pytest.mark.skipif(not FOLDER, reason="REFLECT_RL_ALFWORLD names no folder with ALFWorld's games")
@pytest.mark.parametrize("split", ["valid_seen", "valid_train"])
def test_it_wins_the_real_games_in_less_than_half_the_turns_of_alfworlds_expert(split: str):
    """ALFWorld's hand-coded expert needs 18.7 turns on average, and wins 95 % within 50."""
    lengths = [len(played(record)) for record in load_games(Path(str(FOLDER)), split)]
    assert sum(lengths) / len(lengths) < 8


TWO = "put two mug in desk."


@pytest.mark.parametrize(
    ("scene", "command"),
    [
        (Scene("put some pillow on sofa.", unseen=("bed 1", "armchair 1", "drawer 1", "sofa 1")), "go to bed 1"),
        # Kinds that nobody counted are searched too.
        (Scene("put some gizmo on sofa.", unseen=("toaster 1", "desk 1")), "go to desk 1"),
        (Scene("put some gizmo on widget.", unseen=("widget 1",)), "go to widget 1"),
        # What is closed here is opened before the same elsewhere is gone to.
        (
            Scene("put a fork in desk.", ("drawer 2",), can=("open drawer 2",), closed=("drawer 1", "drawer 2")),
            "open drawer 2",
        ),
        (
            Scene("put a mug in desk.", ("shelf 1",), can=("take mug 1 from shelf 1",),
                  found=(Found("mug 1", (), "shelf 1"),)),
            "take mug 1 from shelf 1",
        ),
        (Scene("put a mug in desk.", found=(Found("mug 1", (), "shelf 1"),), unseen=("desk 1",)), "go to shelf 1"),
        # Of two, the one that lies where both belong stays there.
        (
            Scene(TWO, ("desk 1",), can=("take mug 1 from desk 1",), found=(Found("mug 1", (), "desk 1"),),
                  searched=("desk 1",), unseen=("shelf 1",)),
            "go to shelf 1",
        ),
        # A wrong thing is put down, here if that is possible.
        (
            Scene("put a mug in desk.", ("shelf 1",), "pen 1", can=("put pen 1 in/on shelf 1",), searched=("shelf 1",)),
            "put pen 1 in/on shelf 1",
        ),
        # Else where it came from, or where such a thing is often seen.
        (Scene("put a mug in tub.", ("sofa 1",), "pen 1", origin="bed 1", unseen=("bed 1", "desk 1")), "go to bed 1"),
        (Scene("put a mug in tub.", ("sofa 1",), "pen 1", unseen=("bed 1", "desk 1")), "go to desk 1"),
        (
            Scene("look at cd under the desklamp.", (), "cd 1", found=(Found("desklamp 1", (), "desk 1"),)),
            "go to desk 1",
        ),
        (Scene("look at cd under the desklamp.", ("desk 1",), "cd 1", can=("use desklamp 1",)), "use desklamp 1"),
        (Scene("put a mug in desk.", searched=("desk 1",)), "look"),
    ],
)  # fmt: skip
def test_it_does_what_the_scene_asks_for(scene: Scene, command: str):
    assert advised(scene) == command


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        (Scene("put a mug in desk.", unseen=("desk 1", "desk 2")), ("", "desk 1")),
        # One that is open needs no opening, and where one is needs no way.
        (Scene("put a mug in desk.", closed=("desk 1",), searched=("desk 2",)), ("", "desk 2")),
        (Scene("put a mug in desk.", ("desk 1",), closed=("desk 1",), searched=("desk 2",)), ("", "desk 1")),
        # The second of two things belongs to the first.
        (
            Scene("put two mug in desk.", found=(Found("mug 1", (), "desk 2"),), searched=("desk 1", "desk 2")),
            ("", "desk 2"),
        ),
        (Scene("put a hot mug in desk.", unseen=("desk 1", "microwave 1")), ("microwave 1", "desk 1")),
        (Scene("put a hot mug in desk.", (), "mug 1", ("hot",), unseen=("desk 1", "microwave 1")), ("", "desk 1")),
        (Scene("look at mug under the desklamp.", unseen=("desk 1",)), ("", "")),
    ],
)
def test_a_scene_says_where_the_task_leads(scene: Scene, expected: tuple[str, str]):
    assert aims(scene) == expected


def test_a_lamp_is_looked_for_once_the_thing_is_in_hand():
    task = "look at cd under the desklamp."
    assert sought(Scene(task)) == ("cd", "desklamp")
    assert sought(Scene(task, held="cd 1")) == ("desklamp",)


def test_treated_things_are_fetched_first():
    found = (Found("mug 1", (), "shelf 1"), Found("mug 2", ("hot",), "sofa 1"))
    assert [entry.thing for entry in pending(Scene("put a hot mug in desk.", found=found))] == ["mug 2", "mug 1"]


def test_unknown_kinds_have_a_likelihood_too():
    assert likelihood("pillow", "bed") == 1.0
    assert likelihood("gizmo", "desk") == likelihood("widget", "desk") > likelihood("gizmo", "toaster") > 0
    assert 0 < likelihood("pillow", "toaster") < 0.01
