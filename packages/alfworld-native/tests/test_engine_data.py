"""The engine on ALFWorld's own games, where their records are at hand (`REFLECT_RL_ALFWORLD`, a folder)."""

import json
import lzma
import os
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest

from alfworld_native.engine import Game

FOLDER = os.environ.get("REFLECT_RL_ALFWORLD")

pytestmark = pytest.mark.skipif(not FOLDER, reason="REFLECT_RL_ALFWORLD names no folder with ALFWorld's games")


def records(split: str, first: int, every: int = 1) -> list[dict]:
    with lzma.open(Path(FOLDER) / f"{split}.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in islice(lines, 0, first * every, every)]


@pytest.mark.parametrize(("split", "every"), [("valid_seen", 1), ("train", 25), ("tomato_microwave", 1)])
def test_the_walkthrough_wins_with_its_last_command(split, every):
    for record in records(split, 140, every):
        game = Game(record["pddl_problem"], record["goal"])
        assert game.goal.task_type == record["task_type"]
        state = game.start()
        *before, last = record["walkthrough"]
        assert not any(state.step(command).won for command in before)
        assert state.step(last).won, record["id"]


def test_a_hand_coded_expert_finds_what_it_found_in_the_original():
    """Its recorded commands win here too, so they met the same rooms: 18.7 commands a game."""
    games = {record["id"]: record for record in records("valid_seen", 140)}
    for played in records("valid_seen.handcoded", 140):
        record = games[played["id"]]
        state = Game(record["pddl_problem"], record["goal"]).start()
        for command in played["actions"]:
            state.step(command)
        assert state.won is played["won"]


def test_a_game_needs_less_than_200_kilobytes():
    problems = [(record["pddl_problem"], record["goal"]) for record in records("valid_seen", 20)]
    Game(*problems[0])
    tracemalloc.start()
    games = [Game(problem, goal) for problem, goal in problems]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(games) < 200_000
