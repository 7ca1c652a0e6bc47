"""Any game that TextWorld opens and whose admissible commands it knows: its own, Inform 7's, and Jericho's.

A folder holds the game files of each split in `train`, `validation` and `test`. The specification is
`docs/guides/textworld.md`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, TextEnv, require_known
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, Step, Task

KINDS: Final = (".ulx", ".z3", ".z5", ".z8", ".tw-pddl")
"""Ends of the names of game files. A `.json` beside one describes it to TextWorld, and cannot be played alone."""
PROMPT: Final = re.compile(r"\s*^>(?:[ ]+-= .* =-\d+/\d+)?\s*\Z", re.MULTILINE)
"""The end of what games of Inform print: a prompt, and a line with the room, the points and the turns."""
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
    name, version, modes = "textworld", 1, ("games",)
    config: TextWorldConfig
    _observation: Observation

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        super().__init__(config)
        self.max_actions = self.config.most_actions
        self._game: Any = None

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The game files of one split, by name.

        Raises:
            UserError: the folder is missing or has no game.
        """
        require_known("mode of textworld", mode, self.modes)
        require_known("split", split, SPLITS)
        return _tasks(self.config.games, split)

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Open a game file.

        Raises:
            UserError: it is missing, or TextWorld cannot open it.
        """
        path = Path(self.config.games) / str(task.data.get("file", ""))
        if not path.is_file():
            raise UserError(f"task {task.key!r} names no game file ({path}). Take tasks from tasks().")
        self._close()
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
        identity = blake2b(repr((self._key, self._given)).encode(), digest_size=8).hexdigest()
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
    return textworld.start(str(path), wanted)


def _told(state: Any) -> str:
    return PROMPT.sub("", str(state.feedback)).strip()


@lru_cache(16)
def _tasks(games: str, split: str) -> tuple[Task, ...]:
    folder = Path(games)
    if not games or not (folder / split).is_dir():
        raise UserError(
            f"environment.games: {games!r} has no folder {split!r}. Name a folder with game files in train, validation "
            "and test."
        )
    files = sorted(path.relative_to(folder) for path in (folder / split).rglob("*") if path.suffix in KINDS)
    named = [path.as_posix() for path in files]
    if not named:
        raise UserError(f"{folder / split} has no game file ({', '.join(KINDS)}).")
    return tuple(Task(f"games/{name}", "games", split, {"file": name}) for name in named)
