"""What the policy-gradient algorithms share: their settings, advantages of episodes, and the regularising terms.

The baseline, the entropy in the return, and the regularisers mean the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor

from reflect_rl.algorithms._batch import Batch, Outputs
from reflect_rl.algorithms._returns import (
    generalised_advantages,
    leave_one_out,
    normalise,
    rewards_to_go,
    turn_baseline,
)
from reflect_rl.core.config import AlgorithmConfig

__all__ = [
    "Advantages",
    "PolicyGradientConfig",
    "Trajectory",
    "advantages",
    "entropy",
    "kl_divergence",
    "regularisers",
    "value_loss",
]


class PolicyGradientConfig(AlgorithmConfig):
    """Settings that every policy-gradient algorithm has."""

    baseline: Literal["none", "batch", "leave_one_out", "value"] = "leave_one_out"
    """What is subtracted from returns: nothing; the batch mean at the same turn; the mean return of the other episodes
    of the same start; or a learned critic with GAE."""
    discount: float = Field(1.0, gt=0, le=1)
    """γ. The paper's objective is undiscounted."""
    trace: float = Field(0.95, ge=0, le=1)
    """λ of GAE, used with the `value` baseline."""
    normalise_advantages: bool = True
    """Divide the advantages of an update by their standard deviation."""
    entropy_coef: float = Field(0.01, ge=0)
    """Weight of the exact entropy bonus."""
    return_entropy_coef: float = Field(0.0, ge=0)
    """Weight of the entropy added to the rewards, as in the paper's Q_t = Σ (r_k + c·H_k)."""
    kl_coef: float = Field(0.0, ge=0)
    """Weight of the exact KL(π ‖ π_SFT) penalty."""
    value_coef: float = Field(0.5, ge=0)
    """Weight of the critic's squared error."""


class Trajectory:
    """An episode as numbers."""

    def __init__(self, group: str, rewards: Sequence[float], entropies: Sequence[float]) -> None:
        self.group, self.rewards, self.entropies = group, list(rewards), list(entropies)


class Advantages:
    """Per-turn advantages and value targets, one list per trajectory."""

    def __init__(self, values: list[list[float]], returns: list[list[float]]) -> None:
        self.values, self.returns = values, returns


def advantages(
    config: PolicyGradientConfig, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None
) -> Advantages:
    """Advantages of fresh episodes under the configured baseline.

    Args:
        config: the baseline and its settings.
        trajectories: the episodes.
        values: V(s_t) per turn, needed by the `value` baseline.

    Raises:
        ValueError: the `value` baseline without values.
    """
    rewards = [
        [r + config.return_entropy_coef * h for r, h in zip(t.rewards, t.entropies, strict=True)] for t in trajectories
    ]
    returns = [rewards_to_go(row, config.discount) for row in rewards]
    if config.baseline == "value":
        if values is None:
            raise ValueError("the 'value' baseline needs a critic's values")
        pairs = zip(rewards, values, strict=True)
        table = [generalised_advantages(row, v, config.discount, config.trace) for row, v in pairs]
    elif config.baseline == "leave_one_out":
        totals = leave_one_out([t.group for t in trajectories], [row[0] for row in returns])
        table = [[total] * len(row) for total, row in zip(totals, returns, strict=True)]
    elif config.baseline == "batch":
        table = turn_baseline(returns)
    else:
        table = returns
    if config.normalise_advantages:
        flat = iter(normalise([value for row in table for value in row]))
        table = [[next(flat) for _ in row] for row in table]
    return Advantages(table, returns)


def entropy(log_probs: Tensor) -> Tensor:
    """Exact entropy H(π) = -Σ_a π(a) log π(a) in nats, (N,); 0·log 0 = 0, and its gradient is finite.

    >>> import torch
    >>> round(float(entropy(torch.tensor([[0.5, 0.5, 0.0]]).log())[0]), 4)
    0.6931
    """
    return -(log_probs.exp() * _finite(log_probs)).sum(-1)


def kl_divergence(log_probs: Tensor, reference: Tensor) -> Tensor:
    """Exact KL(π ‖ π_ref) = Σ_a π(a) (log π(a) - log π_ref(a)) in nats, (N,), over the same admissible actions.

    >>> import torch
    >>> p, q = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.75, 0.25]]).log()
    >>> round(float(kl_divergence(p, q)[0]), 4)
    0.1438
    """
    difference = _finite(log_probs) - reference.masked_fill(log_probs.isneginf(), 0.0)
    return (log_probs.exp() * difference).sum(-1)


def _finite(log_probs: Tensor) -> Tensor:
    """-inf marks missing actions; in a product its gradient would be nan (0 · inf), so it becomes 0."""
    return log_probs.masked_fill(log_probs.isneginf(), 0.0)


def regularisers(config: PolicyGradientConfig, batch: Batch, outputs: Outputs) -> tuple[Tensor, dict[str, float]]:
    """kl_coef · KL(π ‖ π_SFT) - entropy_coef · H(π), the mean over the turns, and both quantities for the log."""
    bonus = entropy(outputs.log_probs).mean()
    total = -config.entropy_coef * bonus
    metrics = {"policy/entropy": float(bonus.detach())}
    if batch.reference_log_probs is not None:
        # The reference is as wide as the widest state of the update, a minibatch may hold none with that many actions.
        reference = batch.reference_log_probs[:, : outputs.log_probs.shape[1]]
        kl = kl_divergence(outputs.log_probs, reference).mean()
        total = total + config.kl_coef * kl
        metrics["policy/kl"] = float(kl.detach())
    return total, metrics


def value_loss(config: PolicyGradientConfig, batch: Batch, outputs: Outputs) -> tuple[Tensor, dict[str, float]]:
    """value_coef · mean (V(s_t) - G_t)²; zero without a critic."""
    if outputs.values is None:
        return batch.returns.new_zeros(()), {}
    loss = (outputs.values - batch.returns).square().mean()
    return config.value_coef * loss, {"value/loss": float(loss.detach())}
