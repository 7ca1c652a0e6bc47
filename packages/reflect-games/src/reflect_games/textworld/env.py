"""Any game that TextWorld opens and whose admissible commands it knows: its own, Inform 7's, and Jericho's.

A folder holds the game files of each split in `train`, `validation` and `test`. The specification is
`docs/guides/textworld.md`.
"""

from __future__ import annotations

import re
import shutil
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, TextEnv, require_known
from reflect_rl.errors import UserError
from reflect_rl.paths import expanded
from reflect_rl.types import Observation, Step, Task

KINDS: Final = (".ulx", ".z3", ".z5", ".z8", ".tw-pddl")
"""Ends of the names of game files. A `.json` beside one describes it to TextWorld, and cannot be played alone."""
PROMPT: Final = re.compile(r"\s*^>(?:[ ]+-= .* =-\d+/\d+)?\s*\Z", re.MULTILINE)
"""The end of what games of Inform print: a prompt, and a line with the room, the points and the turns."""
STORIES: Final = (".z3", ".z5", ".z8")
"""Ends of the names of story files for the Z-machine."""
SEED: Final = 1
"""Seed of what games draw: the same for all episodes, as a state is known by its commands. Zero would be the clock."""
STORY_HEADER: Final = 64
"""Bytes of a story file's header."""
STORY_SCALE: Final = {1: 2, 2: 2, 3: 2, 4: 4, 5: 4, 6: 8, 7: 8, 8: 8}
"""Bytes in which the header counts the length of the file, by the version of the Z-machine."""
MISSING: Final = (
    "these games are played by the package textworld, which is not installed. Install it: "
    "pip install 'reflect-games[textworld]'"
)


class TextWorldConfig(EnvironmentConfig):
    """TextWorld: games of one's own, in which a state names its admissible commands."""

    name: Literal["textworld"] = "textworld"
    """Environment."""
    max_episode_steps: int = Field(50, ge=1, le=10_000)
    """Turns after which an episode is truncated."""
    games: str = ""
    """Folder with the game files of each split, at any depth, in `train`, `validation` and `test`."""
    most_actions: int = Field(100, ge=2, le=1000)
    """Admissible commands that a state may have."""
    history: int = Field(5, ge=1, le=100)
    """Answers of the game that a state shows, each behind its command."""


class TextWorld(TextEnv):
    """The games.

    Args:
        config: their settings.
    """

    Config = TextWorldConfig
    name, version, modes = "textworld", 3, ("games",)
    config: TextWorldConfig
    _observation: Observation

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        super().__init__(config)
        self.max_actions = self.config.most_actions
        self._game: Any = None

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The game files of one split, by name and content.

        Raises:
            UserError: the folder is missing or has no game, or has a game in two splits, or a file cannot be read.
        """
        require_known("mode of textworld", mode, self.modes)
        require_known("split", split, SPLITS)
        return _tasks(self.config.games, split)

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Open a game file.

        Raises:
            UserError: it is missing or has changed since it was listed, or TextWorld cannot open it.
        """
        path = _folder(self.config.games) / str(task.data.get("file", ""))
        if not path.is_file():
            raise UserError(f"task {task.key!r} names no game file ({path}). Take tasks from tasks().")
        self._close()
        self._content, fault = _read(path)
        # The interpreter is a program in C, which ends this process where a story makes no sense to it.
        if fault:
            raise UserError(f"TextWorld cannot open {path} ({fault}). Remove it.")
        if self._content != task.data.get("digest"):
            raise UserError(
                f"{path} has not the content that task {task.key!r} names. Put the file back that the task was made "
                "of, or begin anew, so that tasks() reads this one."
            )
        try:
            self._game = _start(path)
            state = self._game.reset()
        except UserError:
            raise
        # Each backend has errors of its own, some of them plain exceptions.
        except Exception as error:
            raise UserError(f"TextWorld cannot open {path} ({type(error).__name__}: {error}). Remove it.") from None
        self._key, self._said, self._score = task.key, [_told(state)], 0.0
        self._given: list[str] = []
        return self._observe(state)

    def step(self, action: int) -> Step:
        """Give a command; the reward is the share of the points that it brings, or 1 where a game has none."""
        command = self._observation.actions[action]
        state, _, done = self._game.step(command)
        self._given.append(command)
        self._said.append(f"> {command}\n{_told(state)}")
        won = bool(state.won)
        score = float(state.score or 0) / float(state.max_score) if state.max_score else float(won)
        reward, self._score = score - self._score, score
        over = bool(done) or won or bool(state.lost)
        return Step(self._observe(state, over=over), float(np.clip(reward, -1, 1)), over, won)

    def _observe(self, state: Any, *, over: bool = False) -> Observation:
        # Commands after the end do not matter, and some games then name none.
        actions = self._observation.actions if over else tuple(sorted(set(state.admissible_commands or ())))
        if not actions:
            raise UserError(f"{self._key!r} names no admissible commands, so it cannot be played. Remove it.")
        # The opening holds the task, so it stays.
        said = [self._said[0], *self._said[1:][-self.config.history :]]
        identity = blake2b(repr((self._content, self._given)).encode(), digest_size=8).hexdigest()
        self._observation = Observation("\n".join(said), actions, identity)
        return self._observation

    def _close(self) -> None:
        if self._game is not None:
            self._game.close()
            self._game = None


def _start(path: Path) -> Any:
    try:
        import textworld
    except ImportError:
        raise UserError(MISSING) from None
    wanted = textworld.EnvInfos(admissible_commands=True, won=True, lost=True, score=True, max_score=True)
    game = textworld.start(str(_in_small_letters(path)), wanted)
    # Before `reset`, where it takes effect. Unseeded, a story draws from the clock, and no episode could be repeated.
    game.seed(SEED)
    return game


def _in_small_letters(path: Path) -> Path:
    """A copy of a file whose name ends in capitals, which TextWorld does not know; other files are returned as such."""
    if path.suffix == path.suffix.lower():
        return path
    # One copy of a game for all episodes, as Jericho keeps each file that it has opened.
    folder = Path(_copies().name) / blake2b(repr((str(path), _read(path)[0])).encode(), digest_size=8).hexdigest()
    if not folder.is_dir():
        folder.mkdir()
        for beside in path.parent.iterdir():
            # Not `a.z8` beside `a.Z8`: that is another game.
            if beside == path or (beside.stem == path.stem and beside.suffix.lower() == ".json"):
                shutil.copyfile(beside, folder / f"{path.stem}{beside.suffix.lower()}")
    return folder / f"{path.stem}{path.suffix.lower()}"


@cache
def _copies() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="textworld-")


def _read(path: Path) -> tuple[str, str]:
    """A fingerprint of a file's content, and what is wrong with it; empty: nothing that is seen without playing it.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        found = path.stat()
        return _read_once(path, found.st_mtime_ns, found.st_size)
    except OSError as error:
        raise UserError(f"TextWorld cannot open {path} ({error.strerror}). Remove it.") from None


@lru_cache(100_000)
def _read_once(path: Path, changed: int, size: int) -> tuple[str, str]:
    # When it was changed and its size are a part of the key, so that another content is read again.
    content = path.read_bytes()
    fault = story_fault(content) if path.suffix.lower() in STORIES else ""
    return blake2b(content, digest_size=16).hexdigest(), fault


def story_fault(story: bytes) -> str:
    """Tell what is wrong with a story file of the Z-machine; empty where its header fits it.

    Args:
        story: its content. Old stories, up to version 3, may give neither their length nor a checksum.
    """
    if len(story) < STORY_HEADER:
        return f"it has {len(story)} bytes, and the header of a story alone has {STORY_HEADER}"
    if story[0] not in STORY_SCALE:
        return f"it begins with {story[0]}, which is no version of the Z-machine"
    return _header_fault(story)


def _header_fault(story: bytes) -> str:
    def word(place: int) -> int:
        return int.from_bytes(story[place : place + 2], "big")

    version = story[0]
    length = word(0x1A) * STORY_SCALE[version]
    if length > len(story):
        return f"it is cut off: its header says {length} bytes, and it has {len(story)}"
    # Places of the dictionary, the objects, the variables and the end of what the game can change.
    if not all(STORY_HEADER <= word(place) < len(story) for place in (0x08, 0x0A, 0x0C, 0x0E)):
        return "its header names places that it does not have"
    if not length:
        return "" if version <= 3 else "its header gives no length"
    if length < STORY_HEADER or sum(story[STORY_HEADER:length]) % 65_536 != word(0x1C):
        return "its checksum is not that of its content"
    return ""


def _told(state: Any) -> str:
    return PROMPT.sub("", str(state.feedback)).strip()


def _folder(games: str) -> Path:
    # A shell expands `~` on the command line, and nobody does in a file of settings.
    return expanded(games)


@lru_cache(16)
def _tasks(games: str, split: str) -> tuple[Task, ...]:
    folder = _folder(games)
    if not games or not (folder / split).is_dir():
        raise UserError(
            f"environment.games: {games!r} has no folder {split!r}. Name a folder with game files in train, validation "
            "and test."
        )
    files = {name: _files(folder / name) for name in SPLITS}
    if not files[split]:
        raise UserError(f"{folder / split} has no game file ({', '.join(KINDS)}).")
    _require_apart(files)
    # With the content, so that results on other games under the same names are told apart.
    return tuple(_task(path.relative_to(folder).as_posix(), split, _read(path)[0]) for path in files[split])


def _task(name: str, split: str, digest: str) -> Task:
    return Task(f"games/{name}", "games", split, {"file": name, "digest": digest})


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in KINDS and path.is_file())


def _require_apart(files: dict[str, list[Path]]) -> None:
    """Refuse a game that is in two splits under whatever name: a test would ask for what was learned by heart.

    Args:
        files: of each split.
    """
    splits_of: dict[int, set[str]] = {}
    for split, paths in files.items():
        for path in paths:
            splits_of.setdefault(path.stat().st_size, set()).add(split)
    first: dict[str, tuple[str, Path]] = {}
    for split, paths in files.items():
        for path in paths:
            # Files of different sizes differ, so that few are read.
            if len(splits_of[path.stat().st_size]) == 1:
                continue
            before, same = first.setdefault(_read(path)[0], (split, path))
            if before != split:
                raise UserError(
                    f"{same} and {path} are the same game, which would be played in {before} and in {split}. "
                    "Remove one of them."
                )
