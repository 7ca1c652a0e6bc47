"""GiGPO: group-in-group policy optimisation (Feng et al. 2025, arXiv 2505.10978, eqs. 3 and 6 to 9).

A turn's advantage has two parts: how its episode ended against the other episodes of the task (eq. 3), and how things
went on from its state against every other visit to the same state (eqs. 6, 7), found afterwards and for free.

Differs from the paper: (1) two states are the same when `Observation.state` is, which leaves out the reflection and
what the text says about the past; where the environment gives no state, the whole text takes its place; (2) the KL
term is the exact divergence over the admissible actions; (3) deviations are taken over n, where the public code takes
n - 1, and a group whose returns are all equal gives zero; (4) a task played once is compared with all episodes of the
update; (5) two passes over each batch by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from pydantic import Field

from reflect_rl.algorithms._batch import Advantages, Trajectory
from reflect_rl.algorithms._common import (
    Clipped,
    ClippedConfig,
    returns_of,
    shaped_rewards,
    total_reward_std,
)
from reflect_rl.algorithms._returns import group_relative


class GiGPOConfig(ClippedConfig):
    """GiGPO."""

    name: Literal["gigpo"] = "gigpo"
    """Algorithm."""
    gamma: float = Field(0.95, gt=0, le=1)
    """γ of the return-to-go inside a step group (paper: 0.95); the return of a whole episode is not discounted."""
    step_weight: float = Field(1.0, ge=0)
    """ω, weight of the step-relative advantage (paper: 1)."""
    scale_by_std: bool = True
    """Divide by the standard deviation of the group's returns (false: F_norm = 1)."""

    @property
    def credits_episodes(self) -> bool:
        """True: whole episodes are compared."""
        return True


class GiGPO(Clipped):
    """Episodes compete within their task, turns within their state."""

    Config = GiGPOConfig
    config: GiGPOConfig

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """Â = A^E + ω A^S (eq. 8)."""
        returns = [returns_of(self.config, trajectory) for trajectory in trajectories]
        steps = iter(self._step_advantages(trajectories, returns))
        # Not the discounted returns: eq. 3 compares whole episodes.
        episodes = self._episode_advantages(trajectories)
        table = [
            [whole + self.config.step_weight * next(steps) for _ in trajectory.rewards]
            for whole, trajectory in zip(episodes, trajectories, strict=True)
        ]
        scale = total_reward_std(trajectories) if self.config.scale_by_std else 1.0
        return Advantages(table, returns, partial(returns_of, self.config), scale)

    def _episode_advantages(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """A^E (eq. 3), one per episode."""
        totals = [sum(shaped_rewards(self.config, trajectory)) for trajectory in trajectories]
        groups = [trajectory.group for trajectory in trajectories]
        return group_relative(groups, totals, scaled=self.config.scale_by_std, pool_singles=True)

    def _step_advantages(self, trajectories: Sequence[Trajectory], returns: list[list[float]]) -> list[float]:
        """A^S (eqs. 6, 7) of all turns in order; zero in a state that was visited once."""
        # A turn without a known state gets a key that no other has, so it is in a group of one.
        keys = [
            # With the task, because the same state of another task can have another goal.
            f"{trajectory.group}\n{state or f'unknown {episode} {turn}'}"
            for episode, trajectory in enumerate(trajectories)
            for turn, state in enumerate(trajectory.states)
        ]
        # Not pooled: a state that was visited once has nothing to be compared with.
        return group_relative(keys, [g for row in returns for g in row], scaled=self.config.scale_by_std)
