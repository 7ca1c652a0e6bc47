"""The state text of a household game, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from alfworld_native.engine import Game
from alfworld_native.generate import generate_games
from alfworld_native.memory import Memory
from alfworld_native.record import GameRecord
from alfworld_native.scene import Found, Scene, read_scene, scene_of, write_scene
from household_games import kitchen_record


def texts(record: GameRecord, turns: int, seed: int, numbered: bool = True) -> list[tuple[Memory, str]]:
    """States of a random walk."""
    state, rng = Game(record.problem, record.goal).start(), np.random.default_rng(seed)
    memory, out = Memory(state.first().feedback, state.first().admissible), []
    for _ in range(turns):
        out.append((memory, write_scene(scene_of(memory, memory.admissible if numbered else ()))))
        command = str(rng.choice(state.admissible))
        step = state.step(command)
        memory.update(command, step.feedback, step.admissible)
    return out


def test_a_state_says_where_one_is_what_one_has_found_and_where_it_leads():
    record = kitchen_record("pick_cool_then_place_in_recep")
    state = Game(record.problem, record.goal).start()
    memory = Memory(state.first().feedback, state.first().admissible)
    for command in ("go to cabinet 2", "go to countertop 1", "take apple 2 from countertop 1", "go to fridge 1"):
        step = state.step(command)
        memory.update(command, step.feedback, step.admissible)
    assert write_scene(scene_of(memory, memory.admissible)).splitlines() == [
        "Task: cool some apple and put it in countertop.",
        "At: fridge 1",
        "Hand: apple 2",
        "Can: cool apple 2 with fridge 1=0, open fridge 1=12",
        "Closed: cabinet 1=3 2, fridge 1",
        "Searched: countertop 1=5",
        "Unseen: dresser 1=6, microwave 1=7, safe 1=8, sinkbasin 1=9",
        "Last: go to fridge 1",
        "> You arrive at loc 6. The fridge 1 is closed.",
    ]
    assert memory.admissible[5] == "go to countertop 1"
    assert memory.admissible[12] == "open fridge 1"


def test_things_of_other_kinds_are_left_out_and_those_of_the_task_are_not():
    record = kitchen_record("pick_two_obj_and_place")
    state = Game(record.problem, record.goal).start()
    memory = Memory(state.first().feedback, state.first().admissible)
    for command in ("go to countertop 1", "go to fridge 1", "open fridge 1", "go to dresser 1"):
        step = state.step(command)
        memory.update(command, step.feedback, step.admissible)
    *lines, _ = write_scene(scene_of(memory)).splitlines()
    assert "Found: apple 2 in countertop 1, apple 1 in fridge 1" in lines
    assert not any(thing in line for line in lines for thing in ("knife", "watch", "desklamp"))


@pytest.mark.parametrize("numbered", [True, False])
def test_what_is_written_is_read_back(numbered: bool):
    for seed, record in enumerate(generate_games("validation", 8)):
        for memory, text in texts(record, 30, seed, numbered):
            scene = read_scene(text)
            assert write_scene(scene) == text
            assert sorted(scene.receptacles) == sorted(memory.receptacles)
            assert ("=" in text) is numbered


def test_numbers_are_those_of_the_action_list():
    record = generate_games("validation", 1)[0]
    state = Game(record.problem, record.goal).start()
    memory, rng = Memory(state.first().feedback, state.first().admissible), np.random.default_rng(0)
    counted = 0
    for _ in range(40):
        numbers = read_scene(write_scene(scene_of(memory, memory.admissible))).numbers
        assert all(memory.admissible[place] == command for command, place in numbers.items())
        counted += len(numbers)
        command = str(rng.choice(state.admissible))
        step = state.step(command)
        memory.update(command, step.feedback, step.admissible)
    assert counted > 40


def test_a_state_is_short_whatever_was_done():
    longest = max(len(text) for record in generate_games("test", 6) for _, text in texts(record, 50, 1))
    assert longest <= 1000


names = st.lists(
    st.tuples(st.sampled_from(["cabinet", "drawer", "shelf"]), st.integers(1, 40)), unique=True, max_size=30
).map(lambda pairs: tuple(f"{kind} {number}" for kind, number in sorted(pairs)))


@given(names, st.booleans(), st.sampled_from(["", "mug 3"]), st.sampled_from([(), ("clean", "hot")]))
def test_any_scene_is_read_back(unseen: tuple[str, ...], again: bool, held: str, conditions: tuple[str, ...]):
    scene = Scene(
        "put a mug in shelf.",
        here=("desk 1",),
        held=held,
        conditions=conditions if held else (),
        can=("open desk 1",),
        found=(Found("mug 1", conditions, "desk 1"), Found("mug 2", (), "sofa 1")),
        searched=("desk 1", "sofa 1"),
        unseen=unseen,
        last="go to desk 1",
        again=again,
        result="You arrive at loc 1. On the desk 1, you see a mug 1.",
    )
    assert read_scene(write_scene(scene)) == scene


@pytest.mark.parametrize("text", ["", "Task: put a mug in desk.", "Turn 1 of 15 in /"])
def test_other_texts_are_refused(text: str):
    with pytest.raises(ValueError, match="no state of a household game"):
        read_scene(text)
