"""The benchmark of household games: every side does the same, and the figures are what they are called."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from alfworld_native.engine import Game
from alfworld_native.plugin.env import Alfworld, AlfworldConfig
from alfworld_native.textworld import Workers
from household_games import WINNING, kitchen_record
from reflect_bench import household
from reflect_bench.household import Walk, measure_household, table_of_games, time_textworld, walk_of
from reflect_rl.errors import ReflectRLError, UserError
from reflect_rl.types import Task

needs_textworld = pytest.mark.skipif(find_spec("alfworld") is None, reason="the extra `alfworld` is not installed")

CONFIG = AlfworldConfig(generated_games=6)
WALK = Walk(Task("", "all", "test"), kitchen_record(), WINNING["pick_and_place_simple"])


def test_commands_are_listed_ones_and_end_with_the_win():
    for seed, task in enumerate(Alfworld(CONFIG).tasks("all", "test")):
        walk = walk_of(CONFIG, task, seed)
        state = Game(walk.record.problem, walk.record.goal).start()
        for command in walk.commands:
            assert not state.won
            assert command in state.admissible
            state.step(command)
        assert len(walk.commands) == household.COMMANDS or state.won
        assert walk == walk_of(CONFIG, task, seed)


def test_figures_without_textworld(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(household, "find_spec", lambda name: None)
    notes: list[str] = []
    row = measure_household("generated", quick=True, report=notes.append)
    assert notes == ["drawing commands", "native engine", "environment"]
    assert (row["games"], row["count"], row["textworld"]) == ("generated", 10, {})
    assert 10 < row["commands"] <= 10 * household.COMMANDS
    engine, environment = row["engine"], row["environment"]
    for side in (engine, environment):
        assert side["steps_per_second"] == pytest.approx(1e3 / side["step_ms"])
        assert min(side.values()) > 0
    # To read a game takes longer than to begin it; a state text takes longer than none, and its game is held, too.
    assert engine["open_ms"] > engine["reset_ms"]
    assert environment["step_ms"] > engine["step_ms"]
    assert environment["kilobytes_per_game"] > engine["kilobytes_per_game"] > engine["kilobytes_per_episode"]
    assert json.loads(json.dumps(row)) == row
    assert table_of_games([row]).row_count == 3


def test_memory_is_that_of_what_is_held():
    held, kilobytes = household._held(lambda: [bytes(KILOBYTE) for _ in range(100)])
    assert len(held) == 100
    assert kilobytes == pytest.approx(100, rel=0.1)


KILOBYTE = 1024


def test_a_ratio_is_their_time_over_ours():
    ours = {"engine": {"open_ms": 2.0, "reset_ms": 0.5, "step_ms": 0.01}}
    ratios = household._ratios({"open_ms": 700.0, "step_ms": 50.0}, ours)
    assert ratios == {"engine": {"open": 350.0, "reset": 1400.0, "step": pytest.approx(5000.0)}}


def test_a_folder_without_games_is_a_mistake(tmp_path):
    with pytest.raises(UserError, match="has neither valid_seen"):
        measure_household(str(tmp_path), quick=True, report=lambda _: None)


@needs_textworld
def test_textworld_plays_the_same_commands():
    with Workers(shortcuts=True) as workers:
        figures = time_textworld([WALK, WALK], "2.1.1", workers)
    assert figures["steps_per_second"] == pytest.approx(1e3 / figures["step_ms"])
    assert figures["open_ms"] > 1


@needs_textworld
def test_answers_that_differ_are_no_benchmark(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(household, "Game", lambda problem, goal, wording: Game(problem, goal, "2.1.2"))
    with Workers(shortcuts=True) as workers, pytest.raises(ReflectRLError, match="differ in 'kitchen/pick"):
        time_textworld([WALK], "2.1.1", workers)
