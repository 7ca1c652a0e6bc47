"""Gymnasium vector environment of household games: many games in one process, without workers or pipes.

    import gymnasium
    import alfworld_native.environment  # registers the id

    envs = gymnasium.make_vec("alfworld_native/Household-v0", num_envs=1024)
    texts, infos = envs.reset(seed=0)
    texts, rewards, terminated, truncated, infos = envs.step([listed[0] for listed in infos["admissible_commands"]])

It gives what `gymnasium.vector.SyncVectorEnv` of the same environments gives, in its three autoreset modes. A vector
environment belongs to one thread; any number of them can be used in threads at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from alfworld_native.commands import check_commands
from alfworld_native.environment import MAX_EPISODE_STEPS, HouseholdEnv, check_options, drawn_from
from alfworld_native.errors import GameError, suggestion
from alfworld_native.record import GameRecord, Wording

Answer = tuple[str, dict[str, Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MODES: Final = {mode.value: mode for mode in AutoresetMode}


class HouseholdVectorEnv(gymnasium.vector.VectorEnv[tuple[str, ...], Sequence[str], NDArray[Any]]):
    """Household games side by side, each with draws of its own.

    Args:
        num_envs: number of games.
        max_episode_steps: commands after which a game is cut off (`truncated`); None = no limit.
        games: as in `HouseholdEnv`, for all of them.
        wording: as in `HouseholdEnv`.
        render_mode: None, or `ansi`.
        autoreset_mode: when a game that is over begins anew: with the next command, at once, or by `reset` with
            `options={"reset_mask": ...}`.
        split: as in `HouseholdEnv`.

    Raises:
        GameError: no whole number of games from one on, an unknown mode or split, a limit below 1, or `games` that
            cannot be used.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = MAX_EPISODE_STEPS,
        games: Sequence[GameRecord] | str | Path | None = None,
        wording: Wording = "2.1.1",
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        split: str | None = None,
    ) -> None:
        given: object = num_envs  # as it comes from a program that no type checker has seen
        if not isinstance(given, Integral) or num_envs < 1:
            raise GameError(f"num_envs must be a whole number from 1 on, not {num_envs!r:.60}.")
        if max_episode_steps is not None and max_episode_steps < 1:
            raise GameError(f"max_episode_steps must be 1 or more, or None for no limit, not {max_episode_steps}.")
        self.num_envs = num_envs
        self.render_mode = render_mode
        # Read once, for all of them.
        found = drawn_from(games, split)
        self.envs = [HouseholdEnv(found, wording, render_mode) for _ in range(num_envs)]
        self._mode = _mode(autoreset_mode)
        self._most = max_episode_steps
        # The class's own dictionary is shared by all vector environments.
        self.metadata = {**self.metadata, "autoreset_mode": self._mode}
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._texts = [""] * num_envs
        self._steps = np.full(num_envs, -1)  # before the first game
        self._over = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Begin games.

        Args:
            seed: of the draws: game i gets `seed + i`, or the i-th of a list.
            options: as in `HouseholdEnv.reset`, one game for all; `reset_mask`, a Boolean array of shape (num_envs,),
                begins only some.

        Raises:
            GameError: not one seed for each game, an option that cannot be used, or a mask of another shape or type.
        """
        check_options(options, ("game", "reset_mask"))
        options = dict(options or {})
        mask = _mask(options.pop("reset_mask", None), self.num_envs)
        infos: list[dict[str, Any] | None] = [None] * self.num_envs
        for at, one in enumerate(_seeds(seed, self.num_envs)):
            if mask[at]:
                infos[at] = self._begin(at, one, options)
        self._over = self._over & ~mask
        return tuple(self._texts), self._batched(infos)

    def step(self, actions: Sequence[str]) -> tuple[tuple[str, ...], Floats, Bools, Bools, dict[str, Any]]:
        """Give one command to each game.

        Raises:
            GameError: not one text for each game, no game has begun, or a game is over and the mode leaves `reset` to
                the caller. No game has moved then.
        """
        commands = check_commands(actions, self.num_envs)
        if (self._steps < 0).any():
            raise GameError("no game has begun; call reset() first.")
        if self._mode == AutoresetMode.DISABLED and self._over.any():
            over = np.flatnonzero(self._over).tolist()[:5]
            raise GameError(f"games {over} are over; reset them with options={{'reset_mask': …}} first.")
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        infos: list[dict[str, Any] | None] = [None] * self.num_envs
        finals: list[dict[str, Any] | None] = [None] * self.num_envs
        for at, command in enumerate(commands):
            # The command of a game that is over is not given to anyone, as Gymnasium has it.
            if self._mode == AutoresetMode.NEXT_STEP and self._over[at]:
                infos[at] = self._begin(at)
                continue
            self._texts[at], rewards[at], terminated[at], _, infos[at] = self.envs[at].step(command)
            self._steps[at] += 1
            truncated[at] = self._most is not None and self._steps[at] >= self._most
            if self._mode == AutoresetMode.SAME_STEP and (terminated[at] or truncated[at]):
                finals[at] = {"final_obs": self._texts[at], "final_info": infos[at]}
                infos[at] = self._begin(at)
        self._over = terminated | truncated
        told = self._batched(infos)
        return tuple(self._texts), rewards, terminated, truncated, {**self._batched(finals), **told}

    def render(self) -> tuple[str, ...] | None:
        """The last text of each game, in mode `ansi`."""
        return tuple(self._texts) if self.render_mode == "ansi" else None

    def _begin(self, at: int, seed: int | None = None, options: dict[str, Any] | None = None) -> dict[str, Any]:
        self._texts[at], info = self.envs[at].reset(seed=seed, options=options)
        self._steps[at] = 0
        return info

    def _batched(self, infos: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
        batched: dict[str, Any] = {}
        for at, info in enumerate(infos):
            if info is not None:
                batched = self._add_info(batched, info, at)
        return batched


def _mode(mode: AutoresetMode | str) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    if mode not in MODES:
        raise GameError(f"no autoreset mode {mode!r}. {suggestion(str(mode), MODES)}")
    return MODES[mode]


def _seeds(seed: object, count: int) -> Sequence[int | None]:
    if seed is None:
        return [None] * count
    # NumPy's integers are numbers, too, but Gymnasium takes none but Python's.
    if isinstance(seed, Integral):
        return [int(seed) + at for at in range(count)]
    listed = [_seed(one) for one in (seed if isinstance(seed, Iterable) and not isinstance(seed, str) else [seed])]
    if len(listed) != count:
        raise GameError(f"reset() needs one seed for each of {count} games, not {len(listed)}.")
    return listed


def _seed(seed: object) -> int | None:
    if seed is None or isinstance(seed, Integral):
        return None if seed is None else int(seed)
    raise GameError(f"a seed is a whole number or None, not {seed!r:.60}.")


def _mask(mask: object, count: int) -> Bools:
    if mask is None:
        return np.ones(count, dtype=np.bool_)
    if not isinstance(mask, np.ndarray) or mask.shape != (count,) or mask.dtype != np.bool_ or not mask.any():
        raise GameError(f"reset_mask must be a Boolean array of shape ({count},) with at least one True.")
    return mask
