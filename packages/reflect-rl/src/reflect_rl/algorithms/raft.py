"""RAFT: reward-ranked fine-tuning (Dong et al. 2023, algorithm 1): sample N per task, keep the best, imitate it.

Differs from the paper: (1) all of the best are kept when several episodes of a task are equally good; (2) the best one
is kept only when it succeeded, as a game says so; (3) the mean of the loss is over all turns, kept or not, so that a
batch in which little was kept moves the policy less; (4) one pass over each batch by default, then new samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from pydantic import Field

from reflect_rl.algorithms._batch import Advantages, Batch, Loss, Outputs, Trajectory
from reflect_rl.algorithms._common import (
    Grouped,
    PolicyGradientConfig,
    moved_by_advantages,
    per_turn,
    returns_of,
    weighted_loss,
)


class RAFTConfig(PolicyGradientConfig):
    """RAFT."""

    name: Literal["raft"] = "raft"
    """Algorithm."""
    entropy_coef: float = Field(0.0, ge=0)
    """Weight of the exact entropy bonus (paper: none)."""
    epochs: int = Field(1, ge=1, le=100)
    """Passes over each batch."""

    @property
    def credits_episodes(self) -> bool:
        """True: whole episodes are compared."""
        return True


class RAFT(Grouped):
    """Supervised learning on the best episode of each task."""

    Config = RAFTConfig
    config: RAFTConfig

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """Give one to every turn of a kept episode, zero to the others."""
        returns = [returns_of(self.config, trajectory) for trajectory in trajectories]
        best: dict[str, float] = {}
        for trajectory, row in zip(trajectories, returns, strict=True):
            # No zero to begin with: returns can be negative.
            best[trajectory.group] = max(row[0], best.get(trajectory.group, row[0]))
        kept = [
            # Equal to the last bit: episodes with the same rewards have the same sum.
            float(row[0] == best[trajectory.group] and trajectory.success)
            for trajectory, row in zip(trajectories, returns, strict=True)
        ]
        return Advantages(per_turn(kept, trajectories), returns, partial(returns_of, self.config))

    @moved_by_advantages
    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """-mean_t 1{kept} log π(a_t|s_t) + regularisers; a replayed success with a gain counts as kept."""
        # The size of a replayed gain does not matter: an episode is imitated or not.
        kept = (batch.advantages > 0).to(outputs.log_probs.dtype)
        return weighted_loss(self.config, kept, batch, outputs)
