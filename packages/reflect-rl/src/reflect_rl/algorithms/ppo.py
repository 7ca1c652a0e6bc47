"""PPO with a clipped ratio (Schulman et al. 2017, eq. 7), as in Reflect-RL, section 5.

Differs from the paper: (1) the ratio is over the renormalised admissible actions, exact at one position; (2) the
default baseline is leave-one-out over the episodes of the same start (the paper's critic is `baseline = "value"`);
(3) the ratio of a replayed turn is its importance weight, so replay is off-policy corrected by the same clip; (4) the
critic reads detached hidden states, because its gradient destroyed small policies in our trials.

The stabilisers of PPO-max (Zheng et al. 2023, "Secrets of RLHF in Large Language Models, Part I", section 5) are
options, off by default. They differ from that paper: (5) rewards are divided by the standard deviation of the update's
returns, and no mean is subtracted, since a constant per turn would pay for longer or shorter episodes; the running
statistics of the paper are those of one update, so nothing has to be remembered; (6) advantages are divided by their
standard deviation and clipped, again without a mean; (7) the KL penalty is the exact divergence, in the loss
(`kl_coef`), where the paper subtracts log π/π_SFT of the sampled tokens from the reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from reflect_rl.algorithms._batch import Advantages, Batch, Critic, Loss, Outputs, Trajectory
from reflect_rl.algorithms._common import (
    BaselineConfig,
    ClippedConfig,
    baseline_advantages,
    clipped_loss,
    critic_loss,
    regularisers,
    total_spread,
)
from reflect_rl.algorithms._returns import deviation, rewards_to_go

__all__ = ["Algorithm", "Config"]


class Config(BaselineConfig, ClippedConfig):
    """PPO."""

    name: Literal["ppo"] = "ppo"
    """Algorithm."""
    normalise_rewards: bool = False
    """Divide the rewards of an update by the standard deviation of its returns."""
    reward_clip: float | None = Field(None, gt=0)
    """Largest absolute reward of a turn, after normalisation."""
    advantage_clip: float | None = Field(None, gt=0)
    """Largest absolute advantage of a turn, after normalisation."""
    value_clip: float | None = Field(None, gt=0)
    """Largest change of V(s) within an update that the critic's error rewards, with the `value` baseline."""

    @model_validator(mode="after")
    def _clips_a_critic_that_exists(self) -> Config:
        if self.value_clip is not None and self.baseline != "value":
            raise ValueError(
                f"value_clip = {self.value_clip} limits a critic, and baseline = {self.baseline!r} has none; "
                "set baseline = 'value' or leave value_clip unset"
            )
        return self


class Algorithm:
    """Several passes over each batch, inside a trust region."""

    Config = Config

    def __init__(self, config: Config) -> None:
        self.config = config
        self.epochs = config.epochs
        self.critic: Critic = "state" if config.baseline == "value" else "none"

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """Returns over the configured baseline, of rewards that may be rescaled and clipped."""
        scale = self._reward_scale(trajectories)

        def shaped(trajectory: Trajectory) -> Trajectory:
            return replace(trajectory, rewards=self._bounded([reward / scale for reward in trajectory.rewards]))

        result = baseline_advantages(self.config, [shaped(trajectory) for trajectory in trajectories], values)
        # A replayed episode's gain is in unscaled rewards.
        gain_scale = total_spread(trajectories) if self.config.normalise_advantages else scale
        return replace(result, target=lambda other: result.target(shaped(other)), gain_scale=gain_scale)

    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """-mean_t min(ρ_t Â_t, clip(ρ_t, 1-ε, 1+ε) Â_t) + regularisers + critic loss, ρ = π_new/π_behaviour."""
        advantages, metrics = self._clipped_advantages(batch)
        policy, policy_metrics = clipped_loss(self.config, batch, outputs, advantages)
        penalty, penalty_metrics = regularisers(self.config, batch, outputs)
        critic, critic_metrics = self._critic_loss(batch, outputs)
        return Loss(policy + penalty + critic, metrics | policy_metrics | penalty_metrics | critic_metrics)

    def _reward_scale(self, trajectories: Sequence[Trajectory]) -> float:
        if not self.config.normalise_rewards:
            return 1.0
        returns = [rewards_to_go(trajectory.rewards, self.config.gamma) for trajectory in trajectories]
        return deviation([value for row in returns for value in row])

    def _bounded(self, rewards: list[float]) -> list[float]:
        limit = self.config.reward_clip
        return rewards if limit is None else [max(-limit, min(limit, reward)) for reward in rewards]

    def _clipped_advantages(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        limit = self.config.advantage_clip
        if limit is None:
            return batch.advantages, {}
        share = (batch.advantages.abs() > limit).float().mean()
        return batch.advantages.clamp(-limit, limit), {"policy/advantage_clip_fraction": float(share)}

    def _critic_loss(self, batch: Batch, outputs: Outputs) -> tuple[Tensor, dict[str, float]]:
        """The larger of the errors of V and of V clipped to old V ± value_clip (Zheng et al. 2023, section 5)."""
        limit = self.config.value_clip
        if limit is None or outputs.values is None:
            return critic_loss(self.config.value_coef, outputs.values, batch.returns)
        if batch.old_values is None:
            raise ValueError("value_clip needs the values at the time of collection")
        clipped = batch.old_values + (outputs.values - batch.old_values).clamp(-limit, limit)
        free, bound = (outputs.values - batch.returns).square(), (clipped - batch.returns).square()
        loss = torch.maximum(free, bound).mean()
        share = (clipped != outputs.values).float().mean()
        metrics = {"value/loss": float(free.detach().mean()), "value/clip_fraction": float(share)}
        return self.config.value_coef * loss, metrics
