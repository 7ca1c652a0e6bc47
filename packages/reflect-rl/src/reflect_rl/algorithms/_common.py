"""Parts that the policy-gradient algorithms share: settings, returns of episodes, terms of their losses.

A setting that several algorithms have means the same in all of them. An algorithm has only settings that do something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from reflect_rl.algorithms._batch import Advantages, Batch, Critic, Loss, Outputs, Trajectory
from reflect_rl.algorithms._returns import generalised_advantages, leave_one_out, rewards_to_go, std, turn_baseline
from reflect_rl.config import AlgorithmConfig

if TYPE_CHECKING:  # settings are read without torch, which takes seconds to import
    from torch import Tensor


class PolicyGradientConfig(AlgorithmConfig):
    """Settings that every policy-gradient algorithm has."""

    gamma: float = Field(1.0, ge=0, le=1)
    """γ. The paper's objective is undiscounted."""
    entropy_coef: float = Field(0.01, ge=0)
    """Weight of the exact entropy bonus."""
    return_entropy_coef: float = Field(0.0, ge=0)
    """Weight of the entropy added to the rewards, as in the paper's Q_t = Σ (r_k + c·H_k)."""
    kl_coef: float = Field(0.0, ge=0)
    """Weight of the exact KL(π ‖ π_SFT) penalty."""

    @property
    def regularised(self) -> bool:
        """True = there is an entropy bonus or a KL penalty."""
        return self.entropy_coef > 0 or self.kl_coef > 0

    @property
    def needs_reference(self) -> bool:
        """True = the KL penalty is on."""
        return self.kl_coef > 0


class BaselineConfig(PolicyGradientConfig):
    """Settings of the algorithms that leave the baseline open."""

    baseline: Literal["none", "batch", "leave_one_out", "value"] = "leave_one_out"
    """Baseline subtracted from returns: nothing; the batch mean at the same turn; the mean return of the other episodes
    of the same start; or a learned critic with GAE."""
    gae_lambda: float = Field(0.95, ge=0, le=1)
    """λ of GAE, used with the `value` baseline."""
    normalise_advantages: bool = True
    """Divide the advantages of an update by their standard deviation."""
    value_coef: float = Field(0.5, ge=0)
    """Weight of the critic's squared error, used with the `value` baseline."""

    @property
    def credits_episodes(self) -> bool:
        """True = other episodes of the start are the baseline, so that whole episodes are compared."""
        return self.baseline == "leave_one_out"


class ClippedConfig(PolicyGradientConfig):
    """Settings of the algorithms with a clipped ratio."""

    clip_ratio: float = Field(0.2, gt=0, lt=1)
    """Half-width of the trust region on π_new/π_old (Reflect-RL: 0.1)."""
    clip_ratio_high: float | None = Field(None, gt=0)
    """Width above one, where it differs from the width below (DAPO, Yu et al. 2025: 0.28)."""
    epochs: int = Field(2, ge=1, le=100)
    """Passes over each batch (Reflect-RL: 3)."""


def shaped_rewards(config: PolicyGradientConfig, trajectory: Trajectory) -> list[float]:
    """r_t + c·H_t of every turn."""
    # Entropies of the policy that played: they are a part of the return that it earned.
    pairs = zip(trajectory.rewards, trajectory.entropies, strict=True)
    return [reward + config.return_entropy_coef * bonus for reward, bonus in pairs]


def returns_of(config: PolicyGradientConfig, trajectory: Trajectory) -> list[float]:
    """G_t = Σ_{k ≥ t} γ^{k-t} (r_k + c·H_k) of every turn."""
    return rewards_to_go(shaped_rewards(config, trajectory), config.gamma)


def per_turn(totals: Sequence[float], trajectories: Sequence[Trajectory]) -> list[list[float]]:
    """The number of each episode at every one of its turns."""
    return [[total] * len(t.rewards) for total, t in zip(totals, trajectories, strict=True)]


def total_reward_std(trajectories: Sequence[Trajectory]) -> float:
    """Standard deviation of the episodes' total rewards, as a divisor."""
    return std([sum(trajectory.rewards) for trajectory in trajectories])


def baseline_advantages(
    config: BaselineConfig, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None
) -> Advantages:
    """Advantages of fresh episodes under the configured baseline.

    Args:
        config: the baseline and its settings.
        trajectories: the episodes.
        values: V(s_t) per turn, needed by the `value` baseline.

    Raises:
        ValueError: the `value` baseline without values.
    """
    returns = [returns_of(config, trajectory) for trajectory in trajectories]
    if config.baseline == "value":
        if values is None:
            raise ValueError("the 'value' baseline needs a critic's values")
        pairs = zip([shaped_rewards(config, t) for t in trajectories], values, strict=True)
        table = [generalised_advantages(row, v, config.gamma, config.gae_lambda) for row, v in pairs]
    elif config.baseline == "leave_one_out":
        # The return of the whole episode at each of its turns, whatever part of it followed the turn.
        table = per_turn(leave_one_out([t.group for t in trajectories], [row[0] for row in returns]), trajectories)
    elif config.baseline == "batch":
        table = turn_baseline(returns)
    else:
        table = returns
    scale = total_reward_std(trajectories) if config.normalise_advantages else 1.0
    return Advantages(
        normalised(table) if config.normalise_advantages else table, returns, partial(returns_of, config), scale
    )


def normalised(table: list[list[float]]) -> list[list[float]]:
    """Divide the numbers of all turns by their standard deviation.

    >>> normalised([[2.0], [-2.0, 2.0, -2.0]])
    [[1.0], [-1.0, 1.0, -1.0]]
    """
    # Not centred: their sign stays, so a turn that was better than the baseline stays so.
    scale = std([value for row in table for value in row])
    return [[value / scale for value in row] for row in table]


def entropy(log_probs: Tensor) -> Tensor:
    """Exact entropy H(π) = -Σ_a π(a) log π(a) in nats, (N,); 0·log 0 = 0, and its gradient is finite.

    >>> import torch
    >>> round(float(entropy(torch.tensor([[0.5, 0.5, 0.0]]).log())[0]), 4)
    0.6931
    """
    return -(log_probs.exp() * finite(log_probs)).sum(-1)


def kl_divergence(log_probs: Tensor, reference: Tensor) -> Tensor:
    """Exact KL(π ‖ π_ref) = Σ_a π(a) (log π(a) - log π_ref(a)) in nats, (N,), over the same admissible actions.

    Args:
        log_probs: (N, A) log π, -inf where there is no action.
        reference: (N, A) log π_ref of the same actions.

    >>> import torch
    >>> p, q = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.75, 0.25]]).log()
    >>> round(float(kl_divergence(p, q)[0]), 4)
    0.1438
    """
    # Exact, since all actions are known: an estimate from the sampled one would only add noise.
    difference = finite(log_probs) - reference.masked_fill(log_probs.isneginf(), 0.0)
    return (log_probs.exp() * difference).sum(-1)


def finite(log_probs: Tensor) -> Tensor:
    """-inf marks missing actions; in a product its gradient would be nan (0 · inf), so it becomes 0."""
    return log_probs.masked_fill(log_probs.isneginf(), 0.0)


def regularisers(config: PolicyGradientConfig, batch: Batch, outputs: Outputs) -> tuple[Tensor, dict[str, float]]:
    """kl_coef · KL(π ‖ π_SFT) - entropy_coef · H(π), the mean over the turns, and both quantities for the log."""
    bonus = entropy(outputs.log_probs).mean()
    total = -config.entropy_coef * bonus
    # A number and no tensor, so that the log keeps no graph alive.
    metrics = {"policy/entropy": float(bonus.detach())}
    if batch.reference_log_probs is not None:
        # The reference is as wide as the widest state of the update, a minibatch may hold none with that many actions.
        reference = batch.reference_log_probs[:, : outputs.log_probs.shape[1]]
        kl = kl_divergence(outputs.log_probs, reference).mean()
        total = total + config.kl_coef * kl
        metrics["policy/kl"] = float(kl.detach())
    return total, metrics


def critic_loss(coefficient: float, predicted: Tensor | None, returns: Tensor) -> tuple[Tensor, dict[str, float]]:
    """Mean of (prediction - G_t)² times the coefficient, and the mean for the log; zero without a critic.

    Args:
        coefficient: weight of the critic in the whole loss.
        predicted: (N,) predictions; None without a critic.
        returns: (N,) targets, in the units of the predictions.
    """
    if predicted is None:
        # A tensor of their device and format, because it is added to others.
        return returns.new_zeros(()), {}
    loss = (predicted - returns).square().mean()
    return coefficient * loss, {"value/loss": float(loss.detach())}


def clipped_loss(config: ClippedConfig, batch: Batch, outputs: Outputs) -> tuple[Tensor, dict[str, float]]:
    """-mean_t min(ρ_t Â_t, clip(ρ_t, 1-ε, 1+ε') Â_t), ρ = π_new/π_behaviour (Schulman et al. 2017, eq. 7).

    ε' is `clip_ratio_high` where it is set, else ε.
    """
    high = config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high
    ratio = (outputs.chosen(batch) - batch.behaviour_log_probs).exp()
    clipped = ratio.clamp(1 - config.clip_ratio, 1 + high)
    # The smaller of both: a step that would help is bounded, the way back from one that went too far is not.
    loss = -(ratio * batch.advantages).minimum(clipped * batch.advantages).mean()
    return loss, {
        "policy/loss": float(loss.detach()),
        "policy/clip_fraction": float((ratio != clipped).float().mean()),
    }


LossFunction = TypeVar("LossFunction", bound=Callable[..., Loss])

MOVED_BY_ADVANTAGES: set[Callable[..., Loss]] = set()
"""Losses without a gradient at a turn whose advantage is zero, but for regularisers and critic."""


def moved_by_advantages(loss: LossFunction) -> LossFunction:
    """Mark a loss as one of `MOVED_BY_ADVANTAGES`: turns of no advantage are left out where it has no other terms."""
    MOVED_BY_ADVANTAGES.add(loss)
    return loss


class Grouped:
    """Algorithms without a critic: episodes of the same task are compared with each other."""

    critic: Critic = "none"

    def __init__(self, config: Any) -> None:
        self.config = config
        self.epochs = config.epochs


class Clipped(Grouped):
    """Grouped algorithms with a clipped ratio; they differ in their advantages."""

    @moved_by_advantages
    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """-mean_t min(ρ_t Â_t, clip(ρ_t) Â_t) + regularisers."""
        policy, metrics = clipped_loss(self.config, batch, outputs)
        penalty, penalty_metrics = regularisers(self.config, batch, outputs)
        return Loss(policy + penalty, metrics | penalty_metrics)


def weighted_loss(config: PolicyGradientConfig, weights: Tensor, batch: Batch, outputs: Outputs) -> Loss:
    """-mean_t w_t log π(a_t|s_t) + regularisers, with constant `weights` (N,)."""
    policy = -(weights * outputs.chosen(batch)).mean()
    penalty, metrics = regularisers(config, batch, outputs)
    return Loss(policy + penalty, metrics | {"policy/loss": float(policy.detach())})


def importance_weights(batch: Batch, outputs: Outputs, limit: float) -> Tensor:
    """Importance weights (N,) of the chosen actions: min(π/π_behaviour, limit), as constants."""
    # Constants: their gradient would raise probabilities only to make the weight larger.
    return (outputs.chosen(batch) - batch.behaviour_log_probs).detach().exp().clamp(max=limit)
