"""What a text environment is: a gymnasium.Env whose observation is text plus the admissible actions, acted on by index.

A file of this folder must hold:

- `Config(EnvironmentConfig)`: its settings;
- `NAME`, `VERSION`: together they name the rules in every result; a change of text, rules or rewards raises VERSION;
- `MODES`: the variants of the game, easiest first;
- `tasks(config, mode, split) -> tuple[Task, ...]`: the tasks of one split (`train`, `validation`, `test`), in a fixed order;
- `Environment(TextEnvironment)`: the game, constructed as `Environment(config)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from reflect_rl.core import catalog
from reflect_rl.core.config import EnvironmentConfig
from reflect_rl.core.types import Observation, Oracle, Task

__all__ = ["SPLITS", "ObservationSpace", "TextEnvironment", "make"]

SPLITS = ("train", "validation", "test")


class ObservationSpace(gymnasium.Space[Observation]):
    """All observations with between one and `max_actions` admissible actions."""

    def __init__(self, max_actions: int) -> None:
        super().__init__(shape=None, dtype=None)
        self.max_actions = max_actions

    def contains(self, x: Any) -> bool:
        """Whether `x` is an observation with text and distinct admissible actions."""
        return (
            isinstance(x, Observation)
            and bool(x.text)
            and 1 <= len(x.actions) <= self.max_actions
            and len(set(x.actions)) == len(x.actions)
        )

    def sample(self, mask: Any = None, probability: Any = None) -> Observation:
        """A placeholder observation; texts have no meaningful distribution."""
        count = int(self.np_random.integers(1, self.max_actions + 1))
        return Observation("sample", tuple(f"action {i}" for i in range(count)))

    @property
    def is_np_flattenable(self) -> bool:
        """Text cannot be flattened into an array."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObservationSpace) and other.max_actions == self.max_actions

    def __hash__(self) -> int:
        return hash(("ObservationSpace", self.max_actions))


class TextEnvironment(gymnasium.Env[Observation, np.int64], ABC):
    """Base of all text environments.

    `reset(seed=..., options={"task": task})` starts a task; without a task, one is drawn from all tasks of the configured
    modes with the seeded generator. `info["success"]` is the game's own verdict. Subclasses set `action_space`,
    `observation_space` and, while a game runs, `success`.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
    success: bool = False

    @abstractmethod
    def oracle(self) -> Oracle:
        """What the solver knows about the current state.

        Raises:
            RuntimeError: the game is over or has not begun.
        """

    @abstractmethod
    def start(self, task: Task) -> Observation:
        """Put the game at the start of a task."""


def make(config: EnvironmentConfig, horizon_turns: int | None = None) -> gymnasium.Env[Observation, np.int64]:
    """The environment of a configuration; after `horizon_turns` turns it truncates (default: the configured horizon).

    Raises:
        UnknownNameError: no environment has the configured name.
    """
    module = catalog.find("environments", config.name)
    return TimeLimit(module.Environment(config), max_episode_steps=horizon_turns or config.horizon_turns)
