"""The solver: its plans win, and no plan is shorter."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from alfworld_native.engine import Game, State
from alfworld_native.experts import NEVER, best_commands, turns_left
from alfworld_native.generate import Mix, generate_games
from alfworld_native.record import TASK_TYPES, TaskType
from household_games import WINNING, kitchen_record

FOLDER = os.environ.get("REFLECT_RL_ALFWORLD")


@pytest.mark.parametrize("task_type", WINNING)
def test_the_kitchen_is_solved_as_fast_as_can_be(task_type: TaskType):
    record = kitchen_record(task_type)
    state = Game(record.problem, record.goal).start()
    for number, command in enumerate(WINNING[task_type]):
        assert turns_left(state) == len(WINNING[task_type]) - number
        assert command in best_commands(state)
        state.step(command)
    assert (state.won, turns_left(state)) == (True, 0)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_every_best_command_saves_a_turn_also_after_mistakes(task_type: TaskType):
    rng = np.random.default_rng(1)
    for record in generate_games("test", 4, mix=Mix((task_type,))):
        state = Game(record.problem, record.goal).start()
        for _ in range(12):
            state.step(str(rng.choice(state.admissible)))
        while not state.won:
            left = turns_left(state)
            if left == NEVER:
                break
            state.step(str(rng.choice(best_commands(state))))
            assert turns_left(state) == left - 1


IDLE = ("examine", "look", "inventory", "slice")


def facts(state: State) -> tuple[object, ...]:
    things, receptacles = state.game.things, state.game.receptacles
    return (
        state.place,
        state.holding,
        *((state.is_open(name), state.contents(name)) for name in receptacles),
        *((state.is_clean(name), state.is_hot(name), state.is_cool(name), state.is_lit(name)) for name in things),
    )


def wins_within(state: State, turns: int) -> bool:
    """Whether some plan wins: all are tried."""
    edge, known = [state], {facts(state)}
    for _ in range(turns):
        later = []
        for before in edge:
            for command in before.admissible:
                after = before.copy()
                if command.startswith(IDLE) or after.step(command).won:
                    if after.won:
                        return True
                    continue
                if facts(after) not in known:
                    known.add(facts(after))
                    later.append(after)
        edge = later
    return False


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_no_plan_is_shorter(task_type: TaskType):
    """From random states that are near the end; all shorter plans are tried."""
    rng, tried = np.random.default_rng(2), 0
    for record in generate_games("validation", 12, mix=Mix((task_type,), size=0.4)):
        state = Game(record.problem, record.goal).start()
        for _ in range(int(rng.integers(4, 16))):
            if rng.random() < 0.4:
                state.step(str(rng.choice(state.admissible)))
            elif turns_left(state) > 3:
                state.step(str(rng.choice(best_commands(state))))
        left = turns_left(state)
        if 2 <= left <= 4:
            assert not wins_within(state, left - 1), (record.key, left)
            tried += 1
    assert tried >= 4


@pytest.mark.skipif(not FOLDER, reason="REFLECT_RL_ALFWORLD names no folder with ALFWorld's games")
def test_plans_are_never_longer_than_the_walkthroughs():
    with lzma.open(Path(str(FOLDER)) / "valid_seen.jsonl.xz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    for record in records:
        assert turns_left(Game(record["pddl_problem"], record["goal"]).start()) <= len(record["walkthrough"])
