"""PPO with a clipped ratio (Schulman et al. 2017, eq. 7), as in Reflect-RL, section 5.

Differs from the paper: (1) the ratio is over the renormalised admissible actions, exact at one position; (2) the
default baseline is leave-one-out over the episodes of the same start (the paper's critic is `baseline = "value"`);
(3) the ratio of a replayed turn is its importance weight, so replay is off-policy corrected by the same clip; (4) the
critic reads detached hidden states, because its gradient destroyed small policies in our trials.

The KL penalty is the exact divergence, in the loss (`kl_coef`). PPO-max (Zheng et al. 2023) also scales and clips
rewards, clips advantages and clips the critic; that is not here. For learned rewards the package reflect-algorithms
has a part of it (`PPOMax`), with recorded runs in `docs/results/preferences.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from reflect_rl.algorithms._batch import Advantages, Batch, Critic, Loss, Outputs, Trajectory
from reflect_rl.algorithms._common import (
    BaselineConfig,
    ClippedConfig,
    baseline_advantages,
    clipped_loss,
    critic_loss,
    moved_by_advantages,
    regularisers,
)


class PPOConfig(BaselineConfig, ClippedConfig):
    """PPO."""

    name: Literal["ppo"] = "ppo"
    """Algorithm."""


class PPO:
    """Several passes over each batch, inside a trust region."""

    Config = PPOConfig

    def __init__(self, config: PPOConfig) -> None:
        self.config = config
        self.epochs = config.epochs
        # No other baseline reads values, and a head that nobody reads would still cost time and memory.
        self.critic: Critic = "state" if config.baseline == "value" else "none"

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """Returns over the configured baseline."""
        return baseline_advantages(self.config, trajectories, values)

    @moved_by_advantages
    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """-mean_t min(ρ_t Â_t, clip(ρ_t, 1-ε, 1+ε) Â_t) + regularisers + critic loss, ρ = π_new/π_behaviour."""
        # One sum: policy and critic come from the same forward pass, so one backward pass serves both.
        policy, policy_metrics = clipped_loss(self.config, batch, outputs)
        penalty, penalty_metrics = regularisers(self.config, batch, outputs)
        critic, critic_metrics = critic_loss(self.config.value_coef, outputs.values, batch.returns)
        return Loss(policy + penalty + critic, policy_metrics | penalty_metrics | critic_metrics)
