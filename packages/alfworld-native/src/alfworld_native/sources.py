"""Games from files: ALFWorld's own layout, or compact records with one JSON line per game.

Layout of `alfworld-download`, under `$ALFWORLD_DATA` or any folder:

    json_2.1.1/<split>/<kind of game>/<trial>/{game.tw-pddl,traj_data.json}

Compact records, in any folder: `<split>.jsonl.xz`, one game per line with the fields `id`, `task_type`, `pddl_params`,
`scene`, `goal`, `anns`, `solvable`, `sha256` and `pddl_problem`. Both give equal records, in the order of their keys.
Of the official layout those games count that ALFWorld's own environment plays: marked as solvable, of the six kinds of
task, nothing movable or sliced. A split with fewer of them than ALFWorld's authors name is told in a warning.

Where one text names the games, it is a folder, a file of compact records, or `generated:<split>:<count>[:<seed>]`.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

from alfworld_native.errors import GameError, IncompleteSplitWarning, suggestion
from alfworld_native.game_file import GOAL
from alfworld_native.games import NAMED, GameSet
from alfworld_native.generate import GameSplit, GeneratedGames, game_seed
from alfworld_native.record import TASK_TYPES, GameRecord, TaskType

COMPACT: Final = ".jsonl.xz"
"""End of the name of a file of compact records."""

GENERATED: Final = "generated:"
"""Beginning of the source of generated games."""

OfficialSplit = Literal["train", "valid_seen", "valid_unseen", "valid_train"]

OFFICIAL_SPLITS: Final[tuple[OfficialSplit, ...]] = get_args(OfficialSplit)

OFFICIAL_COUNTS: Final[Mapping[str, int]] = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
"""Games of a split that can be played, as ALFWorld's authors count them; they name no number for `valid_train`."""

OFFICIAL_KEY: Final = re.compile(r"[^/]+/trial_T\d{8}_\d{6}_\d{6}")
"""Key of a game of ALFWorld's data; games that people make themselves are named otherwise."""

VERSIONS: Final = ("json_2.1.1", "json_2.1.2", "json_2.1.3")
"""Folders that ALFWorld's data may have; the first one that there is counts."""

PAPER_FILE: Final = "tomato_microwave.jsonl.xz"
"""The games of all splits that the named filter `paper` keeps; enough where the larger files are missing."""

MOST_BYTES: Final = 32 * 2**20
"""Limit on one game file or one line of records; real ones are far smaller."""

REMEDY: Final = (
    "Set the folder to where `alfworld-download` put its data ($ALFWORLD_DATA), or to one of compact records."
)

Value = TypeVar("Value")


def expanded(path: str | Path) -> Path:
    """The path with the home folder in place of `~`; as it is written where there is no such user or home."""
    # `Path.expanduser` raises RuntimeError there.
    return Path(os.path.expanduser(path))  # noqa: PTH111


def data_folder(configured: str = "") -> Path:
    """The folder with the games: the configured one, else `$ALFWORLD_DATA`.

    Raises:
        GameError: none is named, or it does not exist.
    """
    named = configured or os.environ.get("ALFWORLD_DATA", "")
    if not named:
        raise GameError(f"no folder with ALFWorld's games is named. {REMEDY}")
    folder = expanded(named)
    if not folder.is_dir():
        raise GameError(f"there is no folder {folder} with ALFWorld's games. {REMEDY}")
    return folder


def games_of(games: Sequence[GameRecord] | str | Path, split: str | None = None) -> Sequence[GameRecord]:
    """The games that a program names.

    Args:
        games: records, or a source: a folder; a file of compact records; or `generated:<split>:<count>[:<seed>]`, of
            which each game is made when it is asked for.
        split: of a folder that holds several; None = the training games, or all of a folder that holds one split only.

    Raises:
        GameError: no such source or split, a split of what has none, corrupt files, something that is no `GameRecord`,
            or no game.
    """
    if isinstance(games, str | Path):
        return _of_source(os.path.expandvars(games), split)
    if split is not None:
        raise GameError(
            f"split is {split!r}, but records have no splits. Load them with `load_games(FOLDER, {split!r})`."
        )
    named: object = games  # as it comes from a program that no type checker has seen
    # Arrays and data sets of torch are sequences, too, though they do not say so.
    if isinstance(named, Mapping) or not (hasattr(named, "__len__") and hasattr(named, "__getitem__")):
        raise GameError(
            f"games are a list of GameRecord, or a source such as 'generated:train:1000', not {games!r:.60}."
        )
    # Other sequences may make their games when they are asked for.
    odd = [game for game in games if not isinstance(game, GameRecord)] if isinstance(games, list | tuple) else []
    if odd:
        raise GameError(f"games holds {odd[0]!r:.60}, no GameRecord; `load_games` and `generate_games` give them.")
    if not len(games):
        raise GameError("there are no games to play; give at least one, or None for generated games.")
    return games


def _of_source(source: str, split: str | None) -> Sequence[GameRecord]:
    path = expanded(source)
    is_one = source.startswith(GENERATED) or source.endswith(COMPACT) or any(path.glob("*/*/game.tw-pddl"))
    if not is_one:
        return load_games(path, "train" if split is None else split)
    if split is not None:
        raise GameError(f"split is {split!r}, but {source} holds one split only. Leave `split` out.")
    if source.startswith(GENERATED):
        return generated_games(source)
    games = GameSet(
        _solvable(read_records(path)) if source.endswith(COMPACT) else _official(path.resolve(), path.resolve())
    )
    if not games:
        raise GameError(f"{path} has no game that can be played.")
    tell_of_missing(path.resolve().name.removesuffix(COMPACT), path, games.keys)
    return games


def generated_games(source: str) -> GeneratedGames:
    """The games of `generated:<split>:<count>[:<seed>]`.

    Raises:
        GameError: the source has another form.
    """
    name, *numbers = source.removeprefix(GENERATED).split(":")
    splits: tuple[GameSplit, ...] = get_args(GameSplit)
    split = next((each for each in splits if each == name), None)
    if split is None:
        raise GameError(f"generated games have no split {name!r}. {suggestion(name, splits)}")
    if not 1 <= len(numbers) <= 2 or not all(number.isdecimal() for number in numbers) or int(numbers[0]) < 1:
        raise GameError(f"{source!r} is not of the form generated:{name}:<count from 1>[:<seed>].")
    return GeneratedGames(game_seed(split, int(numbers[1]) if len(numbers) == 2 else 0), int(numbers[0]))


def load_games(
    folder: str | Path,
    splits: str | Sequence[str],
    *,
    task_types: Sequence[TaskType] = (),
    name: str = "",
    distinct: bool = False,
    tell: Callable[[str], None] | None = None,
) -> GameSet:
    """The games of one or more splits, split by split, each in the order of its keys.

    Where a folder has both, compact records are read rather than the official layout.

    Args:
        folder: see the top of this file; also a `json_2.1.1` itself.
        splits: names out of `OFFICIAL_SPLITS`. Reflect-RL's test games are those of all three that begin with `valid`.
        task_types: kinds of task to keep; none = all.
        name: kind of game to keep, see `GameSet.select`; `paper` = Reflect-RL's.
        distinct: drop games that equal an earlier one in all but their name.
        tell: gets the sentence on a split that lacks games of ALFWorld's; None = an `IncompleteSplitWarning` has it.

    Raises:
        GameError: unknown split, missing or corrupt files, or no game is left.
    """
    named = (splits,) if isinstance(splits, str) else tuple(splits)
    for split in named:
        if split not in OFFICIAL_SPLITS:
            raise GameError(f"ALFWorld has no split {split!r}. {suggestion(split, OFFICIAL_SPLITS)}")
    folder = expanded(os.path.expandvars(folder))
    if not folder.is_dir():
        raise GameError(f"there is no folder {folder} with ALFWorld's games. {REMEDY}")
    keys: dict[str, list[str]] = {split: [] for split in named}
    kind = NAMED.get(name, name)
    # One game at a time goes through the set, which keeps it compressed.
    games = GameSet(chain.from_iterable(_noted(_split(folder.resolve(), split, kind), keys[split]) for split in named))
    if not games:
        raise GameError(f"{folder} has no game of {', '.join(named)} that can be played.")
    # The paper's small file holds a few games of each split, and is whole.
    if not (kind == NAMED["paper"] and (folder / PAPER_FILE).is_file()):
        for split in named:
            tell_of_missing(split, folder, keys[split], tell)
    return games.select(task_types, name, distinct)


def tell_of_missing(
    split: str, where: str | Path, keys: Collection[str], tell: Callable[[str], None] | None = None
) -> None:
    """Tell that a split of ALFWorld's data has fewer games than it should; games of other names are somebody's own.

    Args:
        split: its name; other names than ALFWorld's are no split of its data.
        where: place of the games, for the message.
        keys: of the games that can be played.
        tell: gets the sentence; None = an `IncompleteSplitWarning` has it.
    """
    official = OFFICIAL_COUNTS.get(split, 0)
    if not 0 < len(keys) < official or not all(map(OFFICIAL_KEY.fullmatch, keys)):
        return
    message = (
        f"{where} has {len(keys):,} of the {official:,} games of ALFWorld's {split}. Run `alfworld-download` again, or "
        "copy those that are missing."
    )
    if tell is None:
        warnings.warn(message, IncompleteSplitWarning, stacklevel=3)
    else:
        tell(message)


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A line of a file of compact records; a game that cannot be solved has neither record nor error."""

    where: str
    """Place of the line, for messages."""
    record: GameRecord | None = None
    error: GameError | None = None
    """Reason why the line holds no game: it is broken, or out of order."""


def read_records(path: Path) -> Iterator[RecordLine]:
    """Lines of one file of compact records, whatever its name.

    Raises:
        GameError: the file is missing, or breaks off.
    """
    if not path.is_file():
        raise GameError(f"there is no file {path} with compact records of games.")
    return _compact(path.parent.resolve(), path, "")


def _noted(games: Iterable[GameRecord], keys: list[str]) -> Iterator[GameRecord]:
    """The games; their keys are added to a list as they pass."""
    for game in games:
        keys.append(game.key)
        yield game


def _split(folder: Path, split: str, name: str) -> Iterator[GameRecord]:
    """The games of a split, in the order of their keys."""
    # The small file is tried first, so that the paper's games load without reading 3,553 others.
    few, compact = folder / PAPER_FILE, folder / f"{split}{COMPACT}"
    official = _official_folder(folder, split)
    if name == NAMED["paper"] and few.is_file():
        return _records(folder, few, split)
    if compact.is_file():
        return _records(folder, compact, "")
    if official is not None:
        return _official(official, folder)
    lacks = f"neither {compact.name} nor {VERSIONS[0]}/{split}"
    others = [
        name for name in OFFICIAL_SPLITS if (folder / f"{name}{COMPACT}").is_file() or _official_folder(folder, name)
    ]
    if others:
        raise GameError(
            f"{folder} has {', '.join(others)}, but {lacks}. Run `alfworld-download` again, or copy the split."
        )
    raise GameError(f"{folder} has {lacks}. {REMEDY}")


def _official_folder(folder: Path, split: str) -> Path | None:
    """The folder of a split as `alfworld-download` writes it; the named folder may be the version or what holds it."""
    roots = (*(folder / version for version in VERSIONS), folder)
    return next((root / split for root in roots if (root / split).is_dir()), None)


def _records(folder: Path, path: Path, split: str) -> Iterator[GameRecord]:
    """Games of a file of compact records that can be solved.

    Raises:
        GameError: the file is missing or corrupt.
    """
    return _solvable(_compact(folder, path, split))


def _solvable(lines: Iterable[RecordLine]) -> Iterator[GameRecord]:
    """Games of the lines; raises what is wrong with one."""
    for line in lines:
        if line.error:
            raise line.error
        if line.record:
            yield line.record


def _compact(folder: Path, path: Path, split: str) -> Iterator[RecordLine]:
    """Lines of a file of compact records, as `read_records` gives them.

    Args:
        folder: that the file must be in, links followed.
        path: of the file.
        split: to keep; empty = all.
    """
    last = ""
    for where, line in _lines(folder, path):
        try:
            row = _json(line, where)
            if split and row.get("split") != split:
                continue
            record = _record(row, where)
            # An order of its own would change which games a seed selects; that of the official layout is this one, too.
            if record is not None and record.key <= last:
                raise GameError(f"{where}: records must be sorted by `id`, each once: {record.key!r} follows {last!r}.")
        except GameError as error:
            yield RecordLine(where, error=error)
        else:
            last = record.key if record else last
            yield RecordLine(where, record)


def _record(row: Mapping[str, Any], where: str) -> GameRecord | None:
    # ALFWorld's environment plays only games that are marked as solvable.
    if not _value(row, "solvable", bool, where):
        return None
    return GameRecord(
        key=_text(row, "id", where),
        task_type=_task_type(row, where),
        goal=_text(row, "goal", where),
        problem=_text(row, "pddl_problem", where),
        scene=_text(row, "scene", where),
        subject=_subject(_value(row, "pddl_params", dict, where), where),
        annotations=_texts(row, "anns", where),
        sha256=_text(row, "sha256", where),
    )


def _official(split: Path, folder: Path) -> Iterator[GameRecord]:
    """Games of a split in ALFWorld's own layout that its environment plays.

    Raises:
        GameError: nothing there looks like a game, or a file is corrupt.
    """
    trials = [trial for kind in _folders(split) for trial in _folders(kind)]
    games = [trial for trial in trials if (trial / "game.tw-pddl").is_file() and (trial / "traj_data.json").is_file()]
    if not games:
        raise GameError(
            f"{split} has no game: none of its {len(trials)} folders two levels down has game.tw-pddl and "
            f"traj_data.json. Links to other folders are not followed. {REMEDY}"
        )
    # Sorted by key, not as the file system lists them: the order must not depend on the machine.
    keyed = {f"{trial.parent.name}/{trial.name}": trial for trial in games}
    for key in sorted(keyed):
        # ALFWorld's environment looks for these words in the whole path; they occur in these two names only.
        if not re.search("movable|Sliced", key):
            record = _official_game(key, keyed[key], folder)
            if record is not None:
                yield record


def _official_game(key: str, trial: Path, folder: Path) -> GameRecord | None:
    """A game; None where ALFWorld's environment would pass over it."""
    raw = _bytes(trial / "game.tw-pddl", folder)
    game = _json(raw, str(trial / "game.tw-pddl"))
    # A missing mark counts as not solvable, as in ALFWorld.
    if game.get("solvable") is not True:
        return None
    where = str(trial / "traj_data.json")
    story = _json(_bytes(trial / "traj_data.json", folder), where)
    # A seventh kind, with movable receptacles, exists in the data and is not played.
    if story.get("task_type") not in TASK_TYPES:
        return None
    grammar = _text(game, "grammar", str(trial / "game.tw-pddl"))
    goal = GOAL.search(grammar)
    if goal is None:
        raise GameError(f"{trial / 'game.tw-pddl'}: its grammar does not say `Your task is to: …`.")
    notes = _value(_value(story, "turk_annotations", dict, where), "anns", list, where)
    return GameRecord(
        key=key,
        task_type=_task_type(story, where),
        goal=goal[1],
        problem=_text(game, "pddl_problem", str(trial / "game.tw-pddl")),
        scene=_text(_value(story, "scene", dict, where), "floor_plan", where),
        subject=_subject(_value(story, "pddl_params", dict, where), where),
        annotations=tuple(_text(note, "task_desc", where) for note in notes),
        sha256=hashlib.sha256(raw).hexdigest(),
    )


def _folders(folder: Path) -> list[Path]:
    """Folders in a folder, without links."""
    with os.scandir(folder) as entries:
        # Links are not followed: a data folder must not lead out of itself.
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _bytes(path: Path, folder: Path) -> bytes:
    """Contents of a file, which must lie in the folder, links followed."""
    _check_inside(path, folder)
    try:
        # Checked before reading, so that a wrong folder cannot fill the memory.
        if path.stat().st_size > MOST_BYTES:
            raise GameError(f"{path} is larger than {MOST_BYTES} bytes: it is no file of a game.")
        return path.read_bytes()
    except OSError as error:
        raise GameError(f"{path} cannot be read: {error.strerror}.") from None


def _check_inside(path: Path, folder: Path) -> None:
    if not path.resolve().is_relative_to(folder):
        raise GameError(f"{path} is a link out of {folder}, which is not followed. Put the file itself there.")


def _lines(folder: Path, path: Path) -> Iterator[tuple[str, bytes]]:
    """Lines of an xz file, each with its place for messages."""
    _check_inside(path, folder)
    number = 0
    try:
        with lzma.open(path) as lines:
            # A limit a line, as a small xz file can unpack to any size.
            while line := lines.readline(MOST_BYTES):
                number += 1
                yield f"{path}, line {number}", line
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise GameError(f"{path} cannot be read after line {number}: {error}. Copy the file again.") from None


def _json(raw: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8
        raise GameError(f"{where} is not JSON ({error}). Copy the file again.") from None
    if not isinstance(value, dict):
        raise GameError(f"{where} holds {type(value).__name__}, not a JSON object.")
    return value


def _value(row: Mapping[str, Any], field: str, kind: type[Value], where: str) -> Value:
    if field not in row:
        raise GameError(f"{where} has no {field!r}.")
    value = row[field]
    if not isinstance(value, kind):
        raise GameError(f"{where}: {field!r} is {value!r:.60}, not of type {kind.__name__}.")
    return value


def _text(row: Mapping[str, Any], field: str, where: str) -> str:
    return _value(row, field, str, where)


def _texts(row: Mapping[str, Any], field: str, where: str) -> tuple[str, ...]:
    values = _value(row, field, list, where)
    if not all(isinstance(value, str) for value in values):
        raise GameError(f"{where}: {field!r} is not a list of texts.")
    return tuple(values)


def _task_type(row: Mapping[str, Any], where: str) -> TaskType:
    value = _text(row, "task_type", where)
    # A loop, so that the result has the literal type.
    for task_type in TASK_TYPES:
        if value == task_type:
            return task_type
    raise GameError(f"{where}: no kind of task is named {value!r}. {suggestion(value, TASK_TYPES)}")


def _subject(parameters: Mapping[str, Any], where: str) -> str:
    """Subject of a game as ALFWorld's folders name it: thing, movable receptacle, place."""
    thing, movable, parent, toggled = (
        _text(parameters, field, where)
        for field in ("object_target", "mrecep_target", "parent_target", "toggle_target")
    )
    return f"{thing}-{movable or 'None'}-{parent or toggled}"
