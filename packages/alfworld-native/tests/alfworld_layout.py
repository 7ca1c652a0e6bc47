"""Games in the layout of `alfworld-download`, made from records."""

from __future__ import annotations

import json
from pathlib import Path

from alfworld_native.record import GameRecord

__all__ = ["GRAMMAR", "game_text", "parameters", "write_official"]

GRAMMAR = '{"task": [{"rhs": "Your task is to: UNKNOWN GOAL."}]}'


def parameters(record: GameRecord) -> dict:
    thing, movable, place = record.subject.split("-")
    lamp = record.task_type == "look_at_obj_in_light"
    return {
        "mrecep_target": "" if movable == "None" else movable,
        "object_sliced": False,
        "object_target": thing,
        "parent_target": "" if lamp else place,
        "toggle_target": place if lamp else "",
    }


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
    story = {
        "task_type": record.task_type,
        "pddl_params": parameters(record),
        "scene": {"floor_plan": record.scene, "object_poses": []},
        "turk_annotations": {"anns": [{"task_desc": each, "high_descs": ["Go."]} for each in record.annotations]},
    }
    (trial / "traj_data.json").write_text(json.dumps(story))
    return trial
