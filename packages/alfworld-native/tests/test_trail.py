"""The way to a state, without detours, leads to that state."""

from __future__ import annotations

import numpy as np
import pytest

from alfworld_native.engine import Game, State
from alfworld_native.generate import generate_games
from alfworld_native.memory import Memory, Trail
from household_games import kitchen_record


def walked(state: State, *commands: str) -> list[str]:
    memory, trail = Memory(state.first().feedback, state.first().admissible), Trail()
    for command in commands:
        step = state.step(command)
        memory.update(command, step.feedback, step.admissible)
        trail.add(command, memory)
    return trail.commands


def kitchen() -> State:
    record = kitchen_record()
    return Game(record.problem, record.goal).start()


@pytest.mark.parametrize(
    ("commands", "left"),
    [
        (["look", "inventory"], []),
        (["go to fridge 1", "examine fridge 1", "go to safe 1"], ["go to safe 1"]),
        (["go to fridge 1", "open fridge 1", "close fridge 1"], ["go to fridge 1"]),
        (["go to fridge 1", "open fridge 1", "close fridge 1", "go to safe 1"], ["go to safe 1"]),
        (
            ["go to countertop 1", "take apple 2 from countertop 1", "put apple 2 in/on countertop 1"],
            ["go to countertop 1"],
        ),
        # Back where something was done: no way is left.
        (["go to fridge 1", "open fridge 1", "go to safe 1", "go to fridge 1"], ["go to fridge 1", "open fridge 1"]),
        # The other cabinet is at the same place.
        (
            ["go to cabinet 1", "open cabinet 1", "go to safe 1", "go to cabinet 2"],
            ["go to cabinet 1", "open cabinet 1"],
        ),
    ],
)
def test_detours_are_left_out(commands: list[str], left: list[str]):
    assert walked(kitchen(), *commands) == left


def facts(state: State) -> tuple[object, ...]:
    game = state.game
    return (
        state.place,
        state.holding,
        [(name, state.is_open(name), state.contents(name)) for name in game.receptacles],
        [(state.is_clean(name), state.is_hot(name), state.is_cool(name), state.is_lit(name)) for name in game.things],
        state.admissible,
    )


def test_the_trail_of_a_random_walk_leads_to_where_the_walk_is():
    rng = np.random.default_rng(0)
    for record in generate_games("train", 8):
        state, again = (Game(record.problem, record.goal).start() for _ in range(2))
        commands: list[str] = []
        walk = state.copy()
        for _ in range(30):
            commands.append(str(rng.choice([c for c in walk.admissible if not c.startswith("slice")])))
            walk.step(commands[-1])
        for command in walked(state, *commands):
            assert command in again.admissible
            again.step(command)
        assert facts(again) == facts(walk)
