"""Text environments as Gymnasium environments, for loops that are written for Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from reflect_rl.config import EnvironmentConfig, parse
from reflect_rl.envs.base import EnvSpec, Renders, idle_step, spec_of
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, Step, Task


class ObservationSpace(gymnasium.Space[Observation]):
    """All observations with between one and `max_actions` admissible actions."""

    def __init__(self, max_actions: int) -> None:
        super().__init__(shape=None, dtype=None)
        self.max_actions = max_actions

    def contains(self, x: Any) -> bool:
        """Tell whether `x` is an observation with text and distinct admissible actions."""
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
    # Gymnasium's flattening functions ask this, and the base class raises NotImplementedError.
    def is_np_flattenable(self) -> bool:
        """False: text cannot be flattened into an array."""
        return False

    # Gymnasium compares the spaces of the environments that it puts into one vector.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObservationSpace) and other.max_actions == self.max_actions

    def __hash__(self) -> int:
        return hash(("ObservationSpace", self.max_actions))


class ActionIndices(gymnasium.spaces.Discrete):
    """Indices of actions, of which the first `admissible` are listed in the current state; the game keeps the count."""

    def __init__(self, max_actions: int) -> None:
        super().__init__(max_actions)
        self.admissible = max_actions

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Draw an admissible index, uniformly (or under Gymnasium's `mask` or `probability`)."""
        # Gymnasium calls `sample()` without arguments, and the space alone would draw actions that are not listed.
        if mask is None and probability is None:
            return np.int64(self.np_random.integers(self.admissible))
        return super().sample(mask, probability)

    def contains(self, x: Any) -> bool:
        """Tell whether `x` is the index of an action that is admissible now."""
        return super().contains(x) and int(x) < self.admissible


class GymnasiumEnv(gymnasium.Env[Observation, np.int64]):
    """A text environment behind Gymnasium's five values.

    `reset(seed=..., options={"task": task})` starts a task; without one, a training task of the configured modes is
    drawn with the seeded generator. `info["success"]` is the game's own verdict. The episode is truncated after the
    `max_episode_steps` of the game's settings.

    Args:
        spec: the environment.
        render_mode: None, or `ansi` for `render()` to return the current text.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (declared so by Gymnasium)

    def __init__(self, spec: EnvSpec, render_mode: str | None = None) -> None:
        self.env_spec, self.game, self.render_mode = spec, spec.make(), render_mode
        self.action_space: ActionIndices = ActionIndices(self.game.max_actions)
        self.observation_space = ObservationSpace(self.game.max_actions)
        self.success, self.turns = False, 0
        self._observation: Observation | None = None
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start `options["task"]`, or a training task drawn with the seeded generator.

        Raises:
            UserError: an unknown option, or `options["task"]` is no `Task`, or not one of this game.
        """
        # Gymnasium passes `options` on unchecked, and an option that is passed over would start another game.
        for name in options or ():
            if name != "task":
                raise UserError(
                    f"reset() has no option {name!r}; it knows 'task', a Task of the environment's tasks()."
                )
        # Gymnasium's contract: this seeds `np_random`; without a seed the generator goes on.
        super().reset(seed=seed)
        task = (options or {}).get("task")
        if task is None:
            candidates = [task for mode in self.env_spec.modes for task in self.env_spec.tasks(mode, "train")]
            task = candidates[int(self.np_random.integers(len(candidates)))]
        if not isinstance(task, Task):
            raise UserError(f"options['task'] must be a Task, got {task!r}. Take one from the environment's tasks().")
        self.success, self.turns = False, 0
        self._show(self.game.reset(task, self.np_random), running=True)
        return self.current(), {"success": False}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take the admissible action of this index.

        Raises:
            RuntimeError: the game is over or has not begun.
            ValueError: the current state lists no action of this index.
        """
        count, index = len(self.current().actions), int(action)
        # Checked here, as a negative index would silently choose from the end of the list.
        if not 0 <= index < count:
            raise ValueError(f"no action {index}: the current state lists actions 0 to {count - 1}.")
        return self._answer(self.game.step(index))

    def let_pass(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Let a turn pass without an action; the values of `step`.

        Raises:
            RuntimeError: the game is over or has not begun.
        """
        return self._answer(idle_step(self.game, self.current()))

    def current(self) -> Observation:
        """The current observation of a game that goes on.

        Raises:
            RuntimeError: the game is over or has not begun.
        """
        if self._observation is None or not self._running:
            raise RuntimeError("the game is over or has not begun; call reset().")
        return self._observation

    def render(self) -> str | None:
        """The current drawing, or the text where the game draws nothing, under `render_mode="ansi"`."""
        if self.render_mode is None or self._observation is None:
            return None
        return self.game.render(self._observation) if isinstance(self.game, Renders) else self._observation.text

    def _answer(self, step: Step) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.success, self.turns = step.success, self.turns + 1
        truncated = step.is_cut_off(self.turns, self.env_spec.max_episode_steps)
        self._show(step.observation, running=not (step.terminated or truncated))
        return step.observation, step.reward, step.terminated, truncated, {"success": step.success}

    def _show(self, observation: Observation, *, running: bool) -> None:
        self._observation = observation
        self._running = running
        # Gymnasium's spaces are fixed, and the number of actions is not, so the space is told at every turn.
        self.action_space.admissible = len(observation.actions)


def make_gym(
    name: str, config: EnvironmentConfig | None = None, render_mode: str | None = None, **settings: Any
) -> GymnasiumEnv:
    """The Gymnasium environment of a name, for `gymnasium.make`.

    Args:
        name: of an installed environment.
        config: its settings; unset: their defaults, changed by `settings`.
        render_mode: None or `ansi`.
        **settings: fields of the environment's `Config`.

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        UnknownNameError: no environment has this name.
    """
    if config is None:
        env_class = spec_of(EnvironmentConfig(name=name)).env_class
        return GymnasiumEnv(EnvSpec(env_class, parse(env_class.Config, settings)), render_mode)
    return GymnasiumEnv(spec_of(config), render_mode)
