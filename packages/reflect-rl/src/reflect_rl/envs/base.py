"""What a text environment is: a gymnasium.Env whose observation is text plus the admissible actions, acted on by index.

A file of this folder must hold:

- `Config(EnvironmentConfig)`: its settings, among them `modes`, the variants to train and evaluate;
- `NAME`, `VERSION`: together they name the rules in every result; a change of text, rules or rewards raises VERSION;
- `MODES`: the variants of the game, easiest first;
- `tasks(config, mode, split) -> tuple[Task, ...]`: the tasks of a split (train, validation, test), in fixed order;
- `task_at(mode, state) -> Task`: the training task that begins in a state (`Observation.state`) met while playing;
- `Environment(TextEnvironment)`: the game, constructed as `Environment(config)`.

It may hold `RULES`: the game in words (what one sees, what each action does, what wins and what loses), for players
that are told what they play. A game that shows or counts its turns overrides `idle`.

It may hold:

- `EVALUATION_ONLY: tuple[str, ...]`: settings of `Config` that may differ between training and an evaluation of its
  players, such as which games are the test;
- `games_tested(config, mode, split) -> dict[str, str]`: what a result must name beside the split, to be told from one
  on other games;
- `trained_on(trained, tested, modes, split) -> tuple[str, ...]`: names of what the games of an evaluation share with
  those that its players were trained on, which is refused (without it: keys of tasks);
- `advise(state) -> str`: the reflection of someone who knows no more than a state text; without it there is no lexical
  reflection player (`players.reflectors.lexical`);
- `numbered(config) -> bool`: whether states give the numbers of actions, so that labels cannot be shuffled;
- `measures(config, episode)`, `strata(config, task)`: see `evaluation.measures`;
- `unseen_names(config, task) -> tuple[str, ...]`: names that only the solver knows until a state shows them; an
  annotator's text that mentions one too early is dropped (`data.annotate`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from reflect_rl import registry
from reflect_rl.config import EnvironmentConfig
from reflect_rl.errors import UnknownNameError, UserError, suggestion
from reflect_rl.types import Observation, Oracle, Task

__all__ = ["SPLITS", "AdmissibleActions", "ObservationSpace", "TextEnvironment", "make", "require_known"]

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


class AdmissibleActions(gymnasium.spaces.Discrete):
    """Indices of actions, of which the first `admissible` are listed in the current state; the game keeps the count."""

    def __init__(self, max_actions: int) -> None:
        super().__init__(max_actions)
        self.admissible = max_actions

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """One admissible index, uniformly (or under Gymnasium's `mask` or `probability`)."""
        if mask is None and probability is None:
            return np.int64(self.np_random.integers(self.admissible))
        return super().sample(mask, probability)

    def contains(self, x: Any) -> bool:
        """Whether `x` is the index of an action that is admissible now."""
        return super().contains(x) and int(x) < self.admissible


class TextEnvironment(gymnasium.Env[Observation, np.int64], ABC):
    """Base of all text environments.

    `reset(seed=..., options={"task": task})` starts a task; without a task, one is drawn from the training tasks of the
    configured modes with the seeded generator. `info["success"]` is the game's own verdict. Subclasses set `success` in
    `advance`, and hold nothing of the previous game after `start`.

    Args:
        max_actions: largest number of admissible actions of any state.
        render_mode: None, or `ansi` for `render()` to return the current text.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (declared so by Gymnasium)
    success: bool = False
    idle_reward: float = 0.0
    """Reward of a turn that passes without an action: that of an ordinary step."""

    def __init__(self, max_actions: int, render_mode: str | None = None) -> None:
        self.action_space: AdmissibleActions = AdmissibleActions(max_actions)
        self.observation_space = ObservationSpace(max_actions)
        self.render_mode = render_mode
        self._observation: Observation | None = None
        self._running = False

    @abstractmethod
    def training_tasks(self) -> Sequence[Task]:
        """The tasks that `reset` draws from when it is given none."""

    @abstractmethod
    def start(self, task: Task) -> Observation:
        """Put the game at the start of a task."""

    @abstractmethod
    def advance(self, index: int) -> tuple[Observation, float, bool]:
        """Take the admissible action `index`: next observation, reward in [-1, 1], terminated."""

    @abstractmethod
    def oracle(self) -> Oracle:
        """What the solver knows about the current state.

        Raises:
            RuntimeError: the game is over or has not begun.
        """

    def idle(self) -> tuple[Observation, float, bool]:
        """A turn passes without an action, because a player named none: next observation, reward, terminated.

        Nothing changes, unless a game shows or counts its turns.
        """
        return self.running(), self.idle_reward, False

    def hear(self, reflection: str) -> Observation:
        """The current state once the reflection on it is written; a game may list further actions because of it.

        Raises:
            RuntimeError: the game is over or has not begun.
        """
        return self.running()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start `options["task"]`, or a training task drawn with the seeded generator.

        Raises:
            UserError: `options["task"]` is no `Task`, or not one of this game.
        """
        super().reset(seed=seed)
        task = (options or {}).get("task")
        if task is None:
            candidates = self.training_tasks()
            task = candidates[int(self.np_random.integers(len(candidates)))]
        if not isinstance(task, Task):
            raise UserError(f"options['task'] must be a Task, got {task!r}. Take one from the environment's tasks().")
        self.success = False
        self._show(self.start(task), running=True)
        return self.running(), {"success": False}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take the admissible action of this index; truncation is left to a wrapper.

        Raises:
            RuntimeError: the game is over or has not begun.
            ValueError: the current state lists no action of this index.
        """
        count, index = len(self.running().actions), int(action)
        if not 0 <= index < count:
            raise ValueError(f"no action {index}: the current state lists actions 0 to {count - 1}.")
        return self._ended(*self.advance(index))

    def let_pass(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """A turn without an action; what `step` returns. A wrapper that counts turns does not see it.

        Raises:
            RuntimeError: the game is over or has not begun.
        """
        self.running()
        return self._ended(*self.idle())

    def _ended(
        self, observation: Observation, reward: float, terminated: bool
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._show(observation, running=not terminated)
        return observation, reward, terminated, False, {"success": self.success}

    def running(self) -> Observation:
        """The current observation of a game that goes on.

        Raises:
            RuntimeError: the game is over or has not begun.
        """
        if self._observation is None or not self._running:
            raise RuntimeError("the game is over or has not begun; call reset().")
        return self._observation

    def render(self) -> str | None:
        """The current text under `render_mode="ansi"`."""
        if self.render_mode is None or self._observation is None:
            return None
        return self._observation.text

    def _show(self, observation: Observation, *, running: bool) -> None:
        self._observation = observation
        self._running = running
        self.action_space.admissible = len(observation.actions)


def make(config: EnvironmentConfig, max_episode_steps: int | None = None) -> gymnasium.Env[Observation, np.int64]:
    """The environment of a configuration, truncated after `max_episode_steps` turns (default: the configured number).

    Raises:
        UnknownNameError: no environment has the configured name.
    """
    module = registry.find("environments", config.name)
    game, limit = module.Environment(config), max_episode_steps or config.max_episode_steps
    if getattr(module, "FIXED_HORIZON", False) and limit >= config.max_episode_steps:
        return game  # which ends itself when its turns are used up
    return TimeLimit(game, max_episode_steps=limit)


def require_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known.

    >>> require_known("split", "test", SPLITS)

    Raises:
        UnknownNameError: names the kind, the name and the nearest known one.
    """
    names = list(known)
    if name not in names:
        raise UnknownNameError(f"no {kind} named {name!r}. {suggestion(name, names)}")
