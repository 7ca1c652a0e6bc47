"""RLOO: REINFORCE with a leave-one-out baseline (Ahmadian et al. 2024, eq. 9; Kool et al. 2019).

Like the paper it treats the whole episode as one action, so every turn carries the same advantage; there is no clip.

Differs from the paper: (1) several optimiser steps may follow one collection, so turns carry truncated importance
weights π/π_behaviour (one at the first step), which also correct replay; (2) the KL penalty is the exact divergence in
the loss (`kl_coef`), where the paper subtracts log π/π_SFT from the reward; (3) advantages are divided by their
standard deviation by default, so that a learning rate fits rewards of any size; (4) the loss is a mean over turns, so a
long episode weighs more than a short one; (5) a task played once is compared with all episodes of the update.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from pydantic import Field

from reflect_rl.algorithms import (
    Advantages,
    Batch,
    Grouped,
    Loss,
    Outputs,
    PolicyGradientConfig,
    Trajectory,
    importance_weights,
    leave_one_out,
    moved_by_advantages,
    normalised,
    per_turn,
    returns_of,
    total_reward_std,
    weighted_loss,
)


class RLOOConfig(PolicyGradientConfig):
    """RLOO."""

    name: Literal["rloo"] = "rloo"
    """Algorithm."""
    normalise_advantages: bool = True
    """Divide the advantages of an update by their standard deviation."""
    max_importance_weight: float = Field(2.0, gt=0)
    """Upper bound on π/π_behaviour."""
    epochs: int = Field(1, ge=1, le=100)
    """Passes over each batch."""

    @property
    def credits_episodes(self) -> bool:
        """True: whole episodes are compared."""
        return True


class RLOO(Grouped):
    """The other episodes of the same task are the baseline."""

    Config = RLOOConfig
    config: RLOOConfig

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """G_0 minus the mean G_0 of the other episodes of the task, at every turn."""
        returns = [returns_of(self.config, trajectory) for trajectory in trajectories]
        totals = leave_one_out([t.group for t in trajectories], [row[0] for row in returns])
        table, scale = per_turn(totals, trajectories), 1.0
        if self.config.normalise_advantages:
            # A replayed gain is in reward, so its scale is that of rewards and not of advantages.
            table, scale = normalised(table), total_reward_std(trajectories)
        return Advantages(table, returns, partial(returns_of, self.config), scale)

    @moved_by_advantages
    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """-mean_t w_t Â_t log π(a_t|s_t) + regularisers; w_t = min(ρ_t, limit) is constant."""
        # Truncated, so that one action that was unlikely then cannot outweigh the whole batch.
        weight = importance_weights(batch, outputs, self.config.max_importance_weight)
        return weighted_loss(self.config, weight * batch.advantages, batch, outputs)
