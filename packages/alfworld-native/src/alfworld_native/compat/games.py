"""Games of a split by the path that alfworld would give them.

Three sources: a folder in ALFWorld's layout, compact records (a `.jsonl.xz`, or a folder of them), or generated games
(`generated:<split>:<count>[:<seed>]`). Games of the last two get paths as if they lay in a folder, because programs
read a game's kind out of its path.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from alfworld_native.engine import Game
from alfworld_native.errors import GameError
from alfworld_native.game_file import GameText, parse_game_file
from alfworld_native.official import official_key
from alfworld_native.record import TASK_TYPES, GameRecord, TaskType
from alfworld_native.sources import (
    COMPACT,
    GENERATED,
    OfficialSplit,
    RecordLine,
    expanded,
    generated_games,
    read_records,
    tell_of_missing,
)

REMEDY: Final = "Copy it again, or skip broken games (`skip_broken=True`, `--skip-broken`)."

Reason = Literal["movable or sliced", "other task type", "missing", "unsolvable", "no traj_data.json", "broken"]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Reason why a game is left out."""

    reason: Reason
    error: str = ""
    """Fault of a broken game."""

    def __str__(self) -> str:
        return f"{self.reason}: {self.error}" if self.error else self.reason


@dataclass(frozen=True, slots=True)
class GameFiles:
    """Games of a split, each opened when it is played."""

    paths: tuple[str, ...]
    """In the order in which alfworld lists them."""
    passed_over: Mapping[str, PassedOver]
    """Games that are left out, by their path."""
    read: Callable[[str], GameText]
    """Reads the game of a path; raises `GameError` if it is missing or broken."""
    where: Callable[[str], str] = str
    """Place of a game, by its path, for messages."""

    @property
    def skipped(self) -> dict[str, int]:
        """Number of games that were passed over, by reason."""
        return dict(Counter(passed.reason for passed in self.passed_over.values()))

    def open(self, path: str) -> Game:
        """The game of a path.

        Raises:
            GameError: it is missing or broken.
        """
        text = self.read(path)
        try:
            return Game(text.problem, text.goal, text.wording)
        except (GameError, RecursionError) as error:
            raise GameError(f"{self.where(path)} holds no game that can be played: {error} {REMEDY}") from None


def find_games(
    path: str, task_types: Sequence[TaskType], *, skip_broken: bool, split: OfficialSplit | None = None
) -> GameFiles:
    """The games that alfworld would play.

    Args:
        path: a source, see the top of this file.
        task_types: kinds of task to keep.
        skip_broken: open each game once, and pass over those that cannot be played, instead of raising.
        split: the file of a folder of compact records; None = such a folder is refused.

    Raises:
        GameError: no such source, no game in it, a file of compact records that breaks off, or a broken game.
    """
    where = expanded(path)
    if path.startswith(GENERATED):
        games = _of_records(
            path, (RecordLine(path, record) for record in generated_games(path)), task_types, skip_broken=skip_broken
        )
    elif path.endswith(COMPACT):
        games = _of_records(str(where.parent), read_records(where), task_types, skip_broken=skip_broken)
    else:
        games = _of_folder(where, task_types, skip_broken=skip_broken)
        compact = where / f"{split}{COMPACT}"
        # Only where alfworld finds nothing at all, whose layout comes first here.
        if split and not games.paths and not games.passed_over and compact.is_file():
            games = _of_records(str(where), read_records(compact), task_types, skip_broken=skip_broken)
            where = compact
    if skip_broken:
        games = _opened(games)
    if not games.paths:
        passed = ", ".join(f"{count} {reason}" for reason, count in sorted(games.skipped.items())) or "none"
        broken = next((f" One is {each}" for each in games.passed_over.values() if each.reason == "broken"), "")
        raise GameError(
            f"{path} has no game of {', '.join(task_types)} (passed over: {passed}).{broken}{_compact_there(path)}"
        )
    # The official counts are those of all kinds of task.
    if set(task_types) == set(TASK_TYPES):
        tell_of_missing(where.resolve().name.removesuffix(COMPACT), where, [_key(each) for each in games.paths])
    return games


def _key(path: str) -> str:
    """Kind of game and trial, as in `GameRecord.key`."""
    return "/".join(Path(path).parts[-3:-1])


def _compact_there(path: str) -> str:
    """The end of a message: files of compact records in a folder that has no other games."""
    folder = expanded(path)
    names = sorted(file.name for file in folder.glob(f"*{COMPACT}") if "." not in file.name.removesuffix(COMPACT))
    return f" Compact records lie there: name one of {', '.join(names)}." if names else ""


def _opened(games: GameFiles) -> GameFiles:
    """The games that can be played: a file can be JSON, marked as solvable, and hold no problem all the same."""
    broken = {}
    for path in games.paths:
        try:
            games.open(path)
        except GameError as error:
            broken[path] = PassedOver("broken", str(error))
    kept = tuple(path for path in games.paths if path not in broken)
    return replace(games, paths=kept, passed_over={**games.passed_over, **broken})


def _of_folder(folder: Path, task_types: Sequence[TaskType], *, skip_broken: bool) -> GameFiles:
    if not folder.is_dir():
        raise GameError(f"there is no folder {folder} with ALFWorld's games. Set $ALFWORLD_DATA, or name another.")
    paths: list[str] = []
    passed_over: dict[str, PassedOver] = {}
    # alfworld's order, which is that of the file system: a seed must choose the same games on the same machine.
    for root, _, files in os.walk(folder, topdown=False):
        if "traj_data.json" not in files and "game.tw-pddl" not in files:
            continue
        path = os.path.join(root, "game.tw-pddl")  # noqa: PTH118 (a string as alfworld makes it)
        try:
            reason = _reason_to_skip(Path(root), task_types) if "traj_data.json" in files else "no traj_data.json"
        except GameError as error:
            if not skip_broken:
                raise
            passed_over[path] = PassedOver("broken", str(error))
            continue
        if reason:
            passed_over[path] = PassedOver(reason)
        else:
            paths.append(path)
    return GameFiles(tuple(paths), passed_over, _read_file)


def _reason_to_skip(trial: Path, task_types: Sequence[TaskType]) -> Reason | None:
    """Reason why alfworld passes over a game; None if it plays it."""
    if "movable" in str(trial) or "Sliced" in str(trial):
        return "movable or sliced"
    if _object(trial / "traj_data.json").get("task_type") not in task_types:
        return "other task type"
    file = trial / "game.tw-pddl"
    if not file.exists():
        return "missing"
    game = _object(file)
    # alfworld takes any value that counts as true.
    return None if game.get("solvable") else "unsolvable"


def _object(file: Path) -> dict[str, object]:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise GameError(f"{file} cannot be read: {error.strerror}. {REMEDY}") from None
    except (ValueError, RecursionError) as error:
        raise GameError(f"{file} is not JSON ({error}). {REMEDY}") from None
    if not isinstance(value, dict):
        raise GameError(f"{file} holds {type(value).__name__}, not a JSON object. {REMEDY}")
    return value


def _read_file(path: str) -> GameText:
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise GameError(f"the game {path} cannot be read: {error.strerror}. {REMEDY}") from None
    return parse_game_file(raw, path)


def _of_records(
    folder: str,
    lines: Iterable[RecordLine],
    task_types: Sequence[TaskType],
    *,
    skip_broken: bool,
) -> GameFiles:
    found: dict[str, GameRecord] = {}
    places: dict[str, str] = {}
    passed_over: dict[str, PassedOver] = {}
    for line in lines:
        if line.error:
            if not skip_broken:
                raise line.error
            passed_over[line.where] = PassedOver("broken", str(line.error))
        elif line.record is None:
            passed_over[line.where] = PassedOver("unsolvable")
        elif line.record.task_type not in task_types:
            passed_over[line.where] = PassedOver("other task type")
        else:
            path = f"{folder}/{official_key(line.record)}/game.tw-pddl"
            found[path], places[path] = line.record, line.where

    def read(path: str) -> GameText:
        return GameText(found[path].problem, found[path].goal, "2.1.1")

    return GameFiles(tuple(found), passed_over, read, places.__getitem__)
