"""REINFORCE with a baseline (Williams 1992; Reflect-RL, section 3: ∇J = Σ_t E[Q_t ∇ log π(a_t|s_t)]).

Differs from the paper: (1) a baseline is on by default, as it changes no expectation and removes most of the variance;
(2) replayed episodes carry truncated importance weights, where the public reference code uses none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from reflect_rl.algorithms._batch import Advantages, Batch, Critic, Loss, Outputs, Trajectory
from reflect_rl.algorithms._common import (
    BaselineConfig,
    baseline_advantages,
    critic_loss,
    importance_weights,
    moved_by_advantages,
    weighted_loss,
)


class ReinforceConfig(BaselineConfig):
    """REINFORCE."""

    name: Literal["reinforce"] = "reinforce"
    """Algorithm."""
    max_importance_weight: float = Field(2.0, gt=0)
    """Upper bound on π/π_behaviour of replayed turns (fresh turns have weight one)."""


class Reinforce:
    """REINFORCE: one pass over each batch."""

    Config = ReinforceConfig

    # A second pass would be off-policy, and fresh turns have no ratio here that would correct it.
    epochs = 1

    def __init__(self, config: ReinforceConfig) -> None:
        self.config = config
        self.critic: Critic = "state" if config.baseline == "value" else "none"

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """Returns over the configured baseline."""
        return baseline_advantages(self.config, trajectories, values)

    @moved_by_advantages
    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """-mean_t w_t Â_t log π(a_t|s_t) + regularisers + critic loss; w_t is constant."""
        weight = importance_weights(batch, outputs, self.config.max_importance_weight)
        # Fresh turns weigh one, also after the first minibatch of the update has moved the policy.
        weight = weight.where(batch.replayed, weight.new_ones(()))
        policy = weighted_loss(self.config, weight * batch.advantages, batch, outputs)
        critic, metrics = critic_loss(self.config.value_coef, outputs.values, batch.returns)
        return Loss(policy.value + critic, policy.metrics | metrics)
