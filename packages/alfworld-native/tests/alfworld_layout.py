"""Games in the layout of `alfworld-download`, made from records."""

from __future__ import annotations

import json
from pathlib import Path

from alfworld_native.official import story
from alfworld_native.record import GameRecord

GRAMMAR = '{"task": [{"rhs": "Your task is to: UNKNOWN GOAL."}]}'


def game_text(record: GameRecord, domain: str = "(domain)", grammar: str = GRAMMAR) -> str:
    spoken = grammar.replace("UNKNOWN GOAL.", record.goal)
    game = {"pddl_domain": domain, "grammar": spoken, "pddl_problem": record.problem, "solvable": True}
    return json.dumps(game)


def write_official(split: Path, record: GameRecord, game: str | None = None) -> Path:
    """One trial as `alfworld-download` leaves it."""
    trial = split / record.key
    trial.mkdir(parents=True)
    (trial / "game.tw-pddl").write_text(game_text(record) if game is None else game)
    (trial / "initial_state.pddl").write_text(record.problem)
    (trial / "traj_data.json").write_text(json.dumps(story(record)))
    return trial
