"""Writer of games in ALFWorld's own layout, which TextWorld, alfworld and this package read alike.

    <folder>/<kind of game>/<trial>/{game.tw-pddl,traj_data.json}

The shared texts of a game file come from the installed alfworld (`game_file.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from alfworld_native.errors import GameError
from alfworld_native.game_file import game_file
from alfworld_native.record import GameRecord, Wording


def official_key(record: GameRecord) -> str:
    """Kind of game and trial, as ALFWorld names its folders.

    >>> record = GameRecord("generated/3/7", "pick_and_place_simple", "", "", "kitchen", "Mug-None-Shelf")
    >>> official_key(record)
    'pick_and_place_simple-Mug-None-Shelf-kitchen/trial_generated_3_7'
    """
    # A game out of a data folder has such a name already.
    if not record.key.startswith("generated/"):
        return record.key
    return f"{record.task_type}-{record.subject}-{record.scene}/trial_{record.key.replace('/', '_')}"


def story(record: GameRecord) -> dict[str, Any]:
    """The part of a `traj_data.json` that ALFWorld's environment, its experts and `load_games` read."""
    thing, movable, place = record.subject.split("-")
    is_lamp = record.task_type == "look_at_obj_in_light"
    return {
        "task_id": official_key(record).rpartition("/")[2],
        "task_type": record.task_type,
        "pddl_params": {
            "mrecep_target": "" if movable == "None" else movable,
            "object_sliced": False,
            "object_target": thing,
            "parent_target": "" if is_lamp else place,
            "toggle_target": place if is_lamp else "",
        },
        "scene": {"floor_plan": record.scene, "object_poses": []},
        "turk_annotations": {"anns": [{"task_desc": text, "high_descs": []} for text in record.annotations]},
    }


def write_games(records: Iterable[GameRecord], folder: Path, wording: Wording = "2.1.1") -> list[Path]:
    """Write games, each into a folder of its own; the paths of the game files.

    Args:
        records: from `generate_games` or `load_games`.
        folder: of the split, for example `…/json_2.1.1/train`; made where it is missing.
        wording: version of the text.

    Raises:
        TextWorldMissingError: alfworld is not installed.
        GameError: a game's folder exists already, or cannot be written.
    """
    written = []
    for record in records:
        text = game_file(record.problem, record.goal, wording)
        trial = folder / official_key(record)
        try:
            trial.mkdir(parents=True)
            # The story last: ALFWorld looks for it first, so a game that was cut off is not found.
            (trial / "game.tw-pddl").write_text(text)
            (trial / "traj_data.json").write_text(json.dumps(story(record)))
        except FileExistsError:
            raise GameError(f"{trial} exists already. Name another folder, or other seeds.") from None
        except OSError as error:
            raise GameError(f"{trial} cannot be written: {error.strerror}.") from None
        written.append(trial / "game.tw-pddl")
    return written
