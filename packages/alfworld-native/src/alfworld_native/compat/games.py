"""Games of a split by the path that alfworld would give them.

Three sources: a folder in ALFWorld's layout, a file of compact records (`.jsonl.xz`), or generated games
(`generated:<split>:<count>[:<seed>]`). Games of the last two get paths as if they lay in a folder, because programs
read a game's kind out of its path.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from alfworld_native.engine import Game
from alfworld_native.errors import GameError, suggestion
from alfworld_native.game_file import GameText, parse_game_file
from alfworld_native.generate import GameSplit, game_seed, numbered_game
from alfworld_native.official import official_key
from alfworld_native.record import GameRecord, TaskType
from alfworld_native.sources import read_records

COMPACT: Final = ".jsonl.xz"
GENERATED: Final = "generated:"


@dataclass(frozen=True, slots=True)
class GameFiles:
    """Games of a split, each opened when it is played."""

    paths: tuple[str, ...]
    """In the order in which alfworld lists them."""
    skipped: Mapping[str, int]
    """Number of games that were passed over, by reason: movable or sliced, task type, missing, unsolvable, broken."""
    read: Callable[[str], GameText]
    """Reads the game of a path; raises `GameError` if it is missing or broken."""

    def open(self, path: str) -> Game:
        """The game of a path.

        Raises:
            GameError: it is missing or broken.
        """
        text = self.read(path)
        return Game(text.problem, text.goal, text.wording)


def find_games(path: str, task_types: Sequence[TaskType], *, skip_broken: bool) -> GameFiles:
    """The games that alfworld would play.

    Args:
        path: a source, see the top of this file.
        task_types: kinds of task to keep.
        skip_broken: pass over game files that cannot be read, instead of raising.

    Raises:
        GameError: no such source, no game in it, or a broken game file.
    """
    if path.startswith(GENERATED):
        games = _of_records(path, _generated(path), task_types)
    elif path.endswith(COMPACT):
        file = Path(path).expanduser()
        games = _of_records(str(file.parent), read_records(file), task_types)
    else:
        games = _of_folder(Path(path).expanduser(), task_types, skip_broken=skip_broken)
    if not games.paths:
        passed = ", ".join(f"{count} {reason}" for reason, count in sorted(games.skipped.items())) or "none"
        raise GameError(f"{path} has no game of {', '.join(task_types)} (passed over: {passed}).")
    return games


def _of_folder(folder: Path, task_types: Sequence[TaskType], *, skip_broken: bool) -> GameFiles:
    if not folder.is_dir():
        raise GameError(f"there is no folder {folder} with ALFWorld's games. Set $ALFWORLD_DATA, or name another.")
    paths: list[str] = []
    skipped: Counter[str] = Counter()
    # alfworld's order, which is that of the file system: a seed must choose the same games on the same machine.
    for root, _, files in os.walk(folder, topdown=False):
        if "traj_data.json" not in files:
            continue
        try:
            reason = _reason_to_skip(Path(root), task_types)
        except GameError:
            if not skip_broken:
                raise
            reason = "broken"
        if reason:
            skipped[reason] += 1
        else:
            paths.append(os.path.join(root, "game.tw-pddl"))  # noqa: PTH118 (a string as alfworld makes it)
    return GameFiles(tuple(paths), skipped, _read_file)


def _reason_to_skip(trial: Path, task_types: Sequence[TaskType]) -> str:
    """Why alfworld passes over a game; empty if it plays it."""
    if "movable" in str(trial) or "Sliced" in str(trial):
        return "movable or sliced"
    if _object(trial / "traj_data.json").get("task_type") not in task_types:
        return "other task type"
    file = trial / "game.tw-pddl"
    if not file.exists():
        return "missing"
    game = _object(file)
    # alfworld takes any value that counts as true.
    return "" if game.get("solvable") else "unsolvable"


def _object(file: Path) -> dict[str, object]:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise GameError(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise GameError(f"{file} is not JSON ({error}). Copy it again, or pass skip_broken=True.") from None
    if not isinstance(value, dict):
        raise GameError(f"{file} holds {type(value).__name__}, not a JSON object.")
    return value


def _read_file(path: str) -> GameText:
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise GameError(f"the game {path} cannot be read: {error.strerror}.") from None
    return parse_game_file(raw, path)


def _of_records(folder: str, records: Iterable[GameRecord], task_types: Sequence[TaskType]) -> GameFiles:
    found: dict[str, GameRecord] = {}
    skipped: Counter[str] = Counter()
    for record in records:
        if record.task_type in task_types:
            found[f"{folder}/{official_key(record)}/game.tw-pddl"] = record
        else:
            skipped["other task type"] += 1

    def read(path: str) -> GameText:
        return GameText(found[path].problem, found[path].goal, "2.1.1")

    return GameFiles(tuple(found), skipped, read)


def _generated(path: str) -> Iterable[GameRecord]:
    """Records of `generated:<split>:<count>[:<seed>]`."""
    name, *numbers = path.removeprefix(GENERATED).split(":")
    splits: tuple[GameSplit, ...] = get_args(GameSplit)
    split = next((each for each in splits if each == name), None)
    if split is None:
        raise GameError(f"generated games have no split {name!r}. {suggestion(name, splits)}")
    if not 1 <= len(numbers) <= 2 or not all(number.isdecimal() for number in numbers) or int(numbers[0]) < 1:
        raise GameError(f"{path!r} is not of the form generated:{name}:<count from 1>[:<seed>].")
    seed = game_seed(split, int(numbers[1]) if len(numbers) == 2 else 0)
    return (numbered_game(seed, number) for number in range(int(numbers[0])))
