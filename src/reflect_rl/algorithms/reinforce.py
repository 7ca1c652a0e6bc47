"""REINFORCE with a baseline (Williams 1992; Reflect-RL, section 3: ∇J = Σ_t E[Q_t ∇ log π(a_t|s_t)]).

Differs from the paper: (1) a baseline is on by default, as it changes no expectation and removes most of the variance;
(2) replayed episodes carry truncated importance weights, where the public reference code uses none.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reflect_rl.algorithms._batch import Batch, Loss, Outputs
from reflect_rl.algorithms._common import PolicyGradientConfig, regularisers, value_loss

__all__ = ["Algorithm", "Config"]


class Config(PolicyGradientConfig):
    """REINFORCE."""

    name: Literal["reinforce"] = "reinforce"
    """Algorithm."""
    max_importance_weight: float = Field(2.0, gt=0)
    """Upper bound on π/π_behaviour of replayed turns (fresh turns have weight one)."""


class Algorithm:
    """One pass over each batch."""

    epochs = 1

    def __init__(self, config: Config) -> None:
        self.config = config

    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """-mean_t w_t Â_t log π(a_t|s_t) + regularisers + critic loss; w_t is constant."""
        chosen = outputs.chosen(batch)
        ratio = (chosen - batch.behaviour_log_probs).exp().detach()
        weight = ratio.clamp(max=self.config.max_importance_weight).where(batch.replayed, ratio.new_ones(()))
        policy = -(weight * batch.advantages * chosen).mean()
        penalty, metrics = regularisers(self.config, batch, outputs)
        critic, critic_metrics = value_loss(self.config, batch, outputs)
        metrics |= critic_metrics | {"policy/loss": float(policy.detach())}
        return Loss(policy + penalty + critic, metrics)
