"""GRPO: group-relative policy optimisation (Shao et al. 2024, "DeepSeekMath", eq. 3, outcome supervision 4.1.2).

Options: `scale_by_std = false` is the advantage of Dr. GRPO (Liu et al. 2025), `clip_ratio_high` the clip-higher
of DAPO (Yu et al. 2025, section 3.1).

Differs from the paper: (1) the unit is a turn and the loss a mean over all turns, as in DAPO's section 3.3, where the
paper averages within an output first; (2) the KL term is the exact divergence over the admissible actions, where the
paper's eq. 4 estimates it from the sampled tokens, and it is off by default (the paper's β is 0.04); (3) a task played
once is compared with all episodes of the update; (4) two passes over each batch by default, the paper makes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from reflect_rl.algorithms._batch import Advantages, Trajectory
from reflect_rl.algorithms._common import (
    Clipped,
    ClippedConfig,
    per_turn,
    returns_of,
    total_reward_std,
)
from reflect_rl.algorithms._returns import group_relative


class GRPOConfig(ClippedConfig):
    """GRPO."""

    name: Literal["grpo"] = "grpo"
    """Algorithm."""
    scale_by_std: bool = True
    """Divide by the standard deviation of the group's returns (false: Dr. GRPO)."""

    @property
    def credits_episodes(self) -> bool:
        """True: whole episodes are compared."""
        return True


class GRPO(Clipped):
    """The episodes of the same task are each other's baseline and scale."""

    Config = GRPOConfig
    config: GRPOConfig

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """(G_0 - mean of the group) / standard deviation of the group, at every turn."""
        returns = [returns_of(self.config, trajectory) for trajectory in trajectories]
        scaled = self.config.scale_by_std
        groups = [trajectory.group for trajectory in trajectories]
        totals = group_relative(groups, [row[0] for row in returns], scaled=scaled, pool_singles=True)
        scale = total_reward_std(trajectories) if scaled else 1.0
        # Outcome supervision: all turns of an episode get the same credit.
        return Advantages(per_turn(totals, trajectories), returns, partial(returns_of, self.config), scale)
