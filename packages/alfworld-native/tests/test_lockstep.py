"""The native engine says what TextWorld says, letter for letter; scripts/alfworld_lockstep.py asks at length."""

import os
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from alfworld_native import lockstep
from alfworld_native.engine import Game
from alfworld_native.generate import generate_games
from alfworld_native.lockstep import compare
from alfworld_native.record import TASK_TYPES
from alfworld_native.sources import load_games
from alfworld_native.textworld import TextWorldGame, Workers
from household_games import kitchen_record

pytestmark = pytest.mark.skipif(
    find_spec("alfworld") is None, reason="the extra `alfworld` is not installed; it compiles: g++, make, cmake"
)

WORDINGS = ("2.1.1", "2.1.2")

COMMON = {"go", "take", "open", "close", "use", "heat", "cool", "clean", "slice", "examine", "look", "inventory"}


@pytest.fixture(scope="module")
def workers():
    with Workers(shortcuts=True) as workers:
        yield workers


@pytest.fixture
def real_games():
    folder = os.environ.get("REFLECT_RL_ALFWORLD")
    if not folder:
        pytest.skip("REFLECT_RL_ALFWORLD does not name a folder with ALFWorld's games")
    return load_games(Path(folder), "valid_seen")


def with_sink(record):
    """The kitchen with a sink at its basin: one can clean in it by the older rules, but not by the newer."""
    sink = (
        "(receptacleType Sink_bar_a SinkType) (receptacleAtLocation Sink_bar_a loc_bar_e) (canContain SinkType MugType)"
    )
    objects = record.problem.replace("(:objects", "(:objects Sink_bar_a - receptacle SinkType - rtype")
    # The receptacle type of this name takes the place of the kind of thing, which no thing is of.
    problem = objects.replace("(:init", f"(:init {sink}").replace("ChairType SinkType - otype", "ChairType - otype")
    return replace(record, problem=problem)


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_sink_cleans_by_the_older_rules_only(workers, wording):
    record = with_sink(kitchen_record())
    states = [
        TextWorldGame(record.problem, record.goal, wording, workers).start(),
        Game(record.problem, record.goal, wording).start(),
    ]
    for command in ("go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", "go to sink 1"):
        steps = [state.step(command) for state in states]
    assert steps[0] == steps[1]
    assert ("clean mug 1 with sink 1" in steps[0].admissible) == (wording == "2.1.1")
    assert "clean mug 1 with sinkbasin 1" in steps[0].admissible


@pytest.mark.parametrize("wording", WORDINGS)
def test_the_kitchen_with_every_verb(workers, wording):
    verbs, won = Counter(), 0
    for number, task_type in enumerate(TASK_TYPES):
        outcome = compare(with_sink(kitchen_record(task_type)), wording, workers, np.random.default_rng(number), 150)
        assert outcome.difference is None
        assert outcome.steps == 150
        verbs += outcome.verbs
        won += outcome.won
    assert won > 0
    own = {"put"} if wording == "2.1.1" else {"move", "help"}
    assert set(verbs) == COMMON | own | {"wrong"}


@pytest.mark.parametrize("wording", WORDINGS)
def test_generated_games(workers, wording):
    for number, game in enumerate(generate_games("validation", 6)):
        outcome = compare(game, wording, workers, np.random.default_rng(number), 25)
        assert outcome.difference is None, game.key


@pytest.mark.parametrize("wording", WORDINGS)
def test_real_games(workers, real_games, wording):
    for number, game in enumerate(real_games[::30]):
        outcome = compare(game, wording, workers, np.random.default_rng(number), 40)
        assert outcome.difference is None, game.key


def test_shortcuts_change_no_answer(workers):
    """The comparisons above are with a TextWorld that was sped up; here it answers beside the one that comes."""
    record = kitchen_record("pick_heat_then_place_in_recep")
    with Workers() as unchanged:
        states = [TextWorldGame(record.problem, record.goal, "2.1.2", each).start() for each in (workers, unchanged)]
        steps = [state.first() for state in states]
        rng = np.random.default_rng(3)
        for _ in range(40):
            assert steps[0] == steps[1]
            command = rng.choice([*steps[0].admissible, "nonsense"])
            steps = [state.step(command) for state in states]
        assert steps[0] == steps[1]


@pytest.mark.parametrize(
    ("field", "value"), [("feedback", "You see nothing."), ("admissible", ("look", "inventory")), ("won", True)]
)
def test_a_difference_is_found(workers, monkeypatch, field, value):
    """In the third command, whichever it is: the kitchen cannot be won by then."""

    class Wrong(Game):
        def start(self):
            return WrongState(super().start())

    class WrongState:
        def __init__(self, state):
            self.first = state.first
            self.state, self.count = state, 0

        def step(self, command):
            self.count += 1
            step = self.state.step(command)
            return replace(step, **{field: value}) if self.count == 3 else step

    monkeypatch.setattr(lockstep, "Game", Wrong)
    game = kitchen_record("pick_clean_then_place_in_recep")
    outcome = compare(game, "2.1.1", workers, np.random.default_rng(0), 10)
    assert outcome.steps == 3
    assert (outcome.difference.field, len(outcome.difference.commands)) == (field, 3)
    assert outcome.difference.native == str(value)
    assert outcome.difference.textworld != str(value)
