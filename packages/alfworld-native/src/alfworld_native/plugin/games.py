"""Choice of household games: real ones of a folder, generated ones, and their tasks.

A set of games is loaded once and a game parsed once in a process; all episodes share them.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
from functools import lru_cache
from typing import Any, Final, Literal, cast

from pydantic import Field

from alfworld_native.engine import Game
from alfworld_native.errors import GameError
from alfworld_native.games import GameSet
from alfworld_native.generate import GameSplit, Mix, game_seed, numbered_game
from alfworld_native.plugin.errors import translated_errors
from alfworld_native.record import GameRecord, TaskType, Wording
from alfworld_native.sentence import read_sentence
from alfworld_native.sources import data_folder, load_games
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, require_known
from reflect_rl.errors import ReflectRLWarning, UserError
from reflect_rl.types import Task, stream

TYPES: Final[dict[str, TaskType]] = {
    "pick": "pick_and_place_simple",
    "look": "look_at_obj_in_light",
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
    "two": "pick_two_obj_and_place",
}
"""Mode -> ALFWorld's name of the kind of task."""
MODES: Final = (*TYPES, "all")
"""Modes: a kind of task each, easiest first, and all kinds together."""
Mode = Literal["pick", "look", "clean", "heat", "cool", "two", "all"]

PAPER_TESTS: Final = "valid_seen+valid_unseen+valid_train"
"""Splits that Reflect-RL's test games come from."""


class HouseholdConfig(EnvironmentConfig):
    """Choice of games."""

    games: str = ""
    """Folder with ALFWorld's games: what `alfworld-download` made, or compact records; `$ALFWORLD_DATA` may stand in it
    (empty: generated games, which need no data)."""
    modes: tuple[Mode, ...] = Field(("all",), min_length=1)
    """Variants to train and evaluate: one kind of task (`pick`, `look`, `clean`, `heat`, `cool`, `two`), or `all`."""
    subset: Literal["", "paper"] = ""
    """Games that are used: all, or the ones of Reflect-RL's paper (a tomato into the microwave: 7 for training, 4 for
    the test; validated on generated games, as none are left)."""
    test_games: Literal["valid_seen", "valid_unseen", "valid_train"] = "valid_seen"
    """Split of the data that is the test (`valid_train` cannot be, as long as one validates on it)."""
    validation_games: Literal["valid_train", "generated"] = "valid_train"
    """Validation games; without a folder, and for the paper's games, generated ones."""
    most_validation_games: int = Field(64, ge=1)
    """Validation games of each mode, drawn by `split_seed`."""
    generated_games: int = Field(200, ge=1)
    """Generated training games of each mode where there is no folder; half as many for the test."""
    additional_games: int = Field(0, ge=0)
    """Generated training games of each mode on top of those of the folder."""
    room_size: float = Field(1.0, gt=0, le=1.5)
    """Factor on the numbers of receptacles and things in generated games; larger rooms have too many commands."""
    split_seed: int = Field(0, ge=0)
    """Seed of the generated games and of the choice of validation games."""
    wording: Wording = "2.1.1"
    """Version of ALFWorld's text that is played, whatever the game files have: `2.1.1` (`put X in/on Y`), or `2.1.2`
    and later (`move X to Y`, `help`)."""


@translated_errors()
def household_tasks(config: HouseholdConfig, mode: str, split: str) -> tuple[Task, ...]:
    """The games of one split that are of the mode's kind.

    Raises:
        UserError: the folder, or what should be in it, is missing or corrupt.
        UnknownNameError: no such mode or split.
    """
    return _tasks(config, _folder(config), *_known(mode, split))


def _known(mode: str, split: str) -> tuple[str, GameSplit]:
    require_known("mode of alfworld", mode, MODES)
    require_known("split", split, SPLITS)
    return mode, cast(GameSplit, split)


def _folder(config: HouseholdConfig) -> str:
    """The folder of games, with the present values of its variables: what is cached must not be known by `$NAME`."""
    return os.path.expandvars(config.games)


@lru_cache(256)
def _tasks(config: HouseholdConfig, folder: str, mode: str, split: GameSplit) -> tuple[Task, ...]:
    # Generated games need no data, so they are also the default.
    if not config.games or (split == "validation" and _validates_on_generated(config)):
        return _generated(config, mode, split, _count(config, split))
    real = _real(config, folder, mode, split)
    if split == "train":
        return (*real, *_generated(config, mode, split, config.additional_games))
    if split == "validation":
        # Drawn once for all runs with this seed, so that runs are selected on the same games.
        chosen = stream(config.split_seed, "alfworld", mode, split).permutation(len(real))[
            : config.most_validation_games
        ]
        # Sorted back into the order of the games, so that the seed decides which, not in what order.
        return tuple(real[index] for index in sorted(chosen))
    return tuple(real)


def _validates_on_generated(config: HouseholdConfig) -> bool:
    return config.validation_games == "generated" or config.subset == "paper"


def _count(config: HouseholdConfig, split: GameSplit) -> int:
    if split == "validation":
        return config.most_validation_games
    return config.generated_games if split == "train" else max(1, config.generated_games // 2)


def _origin(config: HouseholdConfig, split: GameSplit) -> str:
    """Splits of the data that a split of ours consists of, joined by `+`."""
    # Only the test can be another split; training and validation have one each.
    if split == "test":
        return PAPER_TESTS if config.subset == "paper" else config.test_games
    return {"train": "train", "validation": "valid_train"}[split]


def _real(config: HouseholdConfig, folder: str, mode: str, split: GameSplit) -> list[Task]:
    origin = _origin(config, split)
    return [
        _task(mode, split, {"game": key, "from": origin, "sha256": digest[:12]})
        for key, task_type, digest in _contents(folder, origin, config.subset)
        # The same games serve each mode and `all`, so a game is loaded once.
        if mode == "all" or TYPES[mode] == task_type
    ]


def _generated(config: HouseholdConfig, mode: str, split: GameSplit, count: int) -> tuple[Task, ...]:
    kind = mode
    if config.subset == "paper":  # whose games are all of one kind
        kind, count = "pick", count if mode in ("pick", "all") else 0
    # The origin carries what is needed to make the game again.
    seed, origin = game_seed(split, config.split_seed), f"generated {kind} {config.room_size:g}"
    return tuple(_task(mode, split, {"game": f"generated/{seed}/{n}", "from": origin}) for n in range(count))


def _task(mode: str, split: str, data: dict[str, Any]) -> Task:
    return Task(f"{mode}/{data['game']}", mode, split, data)


@lru_cache(16)
def _set(folder: str, origin: str, subset: str) -> GameSet:
    return load_games(data_folder(folder), origin.split("+"), name=subset, tell=_tell)


def _tell(sentence: str) -> None:
    # A worker reads the games that its parent has read, and told of.
    if multiprocessing.parent_process() is None:
        # Warnings of other kinds are not shown by the command line.
        warnings.warn(sentence, ReflectRLWarning, stacklevel=2)


@lru_cache(16)
def _contents(folder: str, origin: str, subset: str) -> tuple[tuple[str, TaskType, str], ...]:
    """Key, kind of task and digest of each game."""
    return tuple((record.key, record.task_type, record.sha256) for record in _set(folder, origin, subset))


@translated_errors()
def record_of(config: HouseholdConfig, data: dict[str, Any]) -> GameRecord:
    """The game that a task's data name.

    Raises:
        UserError: there is no such game.
        UserError: the data name none.
    """
    return _record(_folder(config), config.subset, data)


def _record(folder: str, subset: str, data: dict[str, Any]) -> GameRecord:
    origin, key = str(data["from"]), str(data["game"])
    # Tasks travel as JSON, so a game is named by origin and key, and found or made again.
    if not origin.startswith("generated "):
        return _set(folder, origin, subset).find(key)
    try:
        _, mode, size = origin.split(" ")
        _, seed, number = key.split("/")
        return _numbered(int(seed), int(number), mode, float(size))
    except (KeyError, ValueError):
        raise UserError(f"{key!r} from {origin!r} names no generated game. Take tasks from tasks().") from None


@translated_errors()
def content_of(config: HouseholdConfig, mode: str, split: str) -> tuple[str, str]:
    """Origin of the games of a split, and a digest of all their texts.

    Raises:
        UserError: they cannot be read.
        UnknownNameError: no such mode or split.
    """
    return _content(config, _folder(config), *_known(mode, split))


@lru_cache(64)
def _content(config: HouseholdConfig, folder: str, mode: str, split: GameSplit) -> tuple[str, str]:
    chosen = _tasks(config, folder, mode, split)
    origins = dict.fromkeys(str(task.data["from"]).partition(" ")[0] for task in chosen)
    records = (_record(folder, config.subset, dict(task.data)) for task in chosen)
    return "+".join(origins), GameSet(records).fingerprint[:16]


@lru_cache(512)
def _numbered(seed: int, number: int, mode: str, size: float) -> GameRecord:
    return numbered_game(seed, number, Mix(size=size) if mode == "all" else Mix((TYPES[mode],), size=size))


def mode_of(record: GameRecord) -> str:
    """The mode of a game's kind of task."""
    return next(mode for mode, task_type in TYPES.items() if task_type == record.task_type)


@lru_cache(512)
def _parsed(problem: str, goal: str, wording: Wording) -> Game:
    # Players are told the sentence alone, so one that nobody can read is no game either.
    read_sentence(goal)
    return Game(problem, goal, wording)


@translated_errors()
def game_of(config: HouseholdConfig, record: GameRecord) -> Game:
    """A game, parsed once.

    Raises:
        UserError: its problem is not one of this domain, or its goal none of ALFWorld's sentences.
    """
    try:
        return _parsed(record.problem, record.goal, config.wording)
    except GameError as error:
        raise GameError(
            f"the game {record.key!r} cannot be played: {error} Copy its file again, or leave it out."
        ) from None


def forget_parsed_games() -> None:
    """Drop the games that this process keeps parsed, so that opening one can be timed."""
    _parsed.cache_clear()


def forget_generated_games() -> None:
    """Drop the generated records that this process keeps, so that making them counts."""
    _numbered.cache_clear()
