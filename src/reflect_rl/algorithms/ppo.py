"""PPO with a clipped ratio (Schulman et al. 2017, eq. 7), as in Reflect-RL, section 5.

Differs from the paper: (1) the ratio is over the renormalised admissible actions, exact at one position; (2) the
default baseline is leave-one-out over the episodes of the same start (the paper's critic is `baseline = "value"`);
(3) the ratio of a replayed turn is its importance weight, so replay is off-policy corrected by the same clip; (4) the
critic reads detached hidden states, because its gradient destroyed small policies in our trials.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field

from reflect_rl.algorithms._batch import Batch, Loss, Outputs
from reflect_rl.algorithms._common import PolicyGradientConfig, regularisers, value_loss

__all__ = ["Algorithm", "Config"]


class Config(PolicyGradientConfig):
    """PPO."""

    name: Literal["ppo"] = "ppo"
    """Algorithm."""
    clip_ratio: float = Field(0.2, gt=0, lt=1)
    """Half-width of the trust region on π_new/π_old (Reflect-RL: 0.1)."""
    epochs: int = Field(2, ge=1, le=100)
    """Passes over each batch (Reflect-RL: 3)."""


class Algorithm:
    """Several passes over each batch, inside a trust region."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.epochs = config.epochs

    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """-mean_t min(ρ_t Â_t, clip(ρ_t, 1-ε, 1+ε) Â_t) + regularisers + critic loss, ρ = π_new/π_behaviour."""
        low, high = 1 - self.config.clip_ratio, 1 + self.config.clip_ratio
        log_ratio = outputs.chosen(batch) - batch.behaviour_log_probs
        ratio = log_ratio.exp()
        clipped = ratio.clamp(low, high)
        policy = -torch.minimum(ratio * batch.advantages, clipped * batch.advantages).mean()
        penalty, metrics = regularisers(self.config, batch, outputs)
        critic, critic_metrics = value_loss(self.config, batch, outputs)
        metrics |= critic_metrics | {
            "policy/loss": float(policy.detach()),
            "policy/clip_fraction": float((ratio != clipped).float().mean()),
            "policy/kl_to_behaviour": float((ratio - 1 - log_ratio).detach().mean()),
        }
        return Loss(policy + penalty + critic, metrics)
