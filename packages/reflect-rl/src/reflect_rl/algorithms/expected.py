"""Expected (all-action) policy gradient, with an unbiased correction.

The closed set of actions makes Σ_a π(a|s) q(s,a) exact, so an update raises every action by what the critic q says of
it, and not only the sampled one (Sutton & Barto 2018, eq. 13.7; Allen, Asadi et al. 2017, "Mean Actor-Critic"; Ciosek &
Whiteson 2018, "Expected Policy Gradients"). What q got wrong is corrected on the sampled action:

    loss = -Σ_a π(a|s) q(s,a) - w (Â_t - q(s,a_t)) log π(a_t|s_t)          q, w, Â constants

At w = 1 its expected gradient is that of REINFORCE for every q, since E[q(s,a_t) ∇ log π(a_t|s)] = Σ_a q(s,a) ∇π(a|s);
its variance falls as q improves.

Differs from the papers: (1) the correction, on by default, which they lack (their gradient is as biased as q is);
(2) q is trained on returns of whole episodes, not by bootstrapping; (3) Â_t is the return G_t minus the mean return of
the other episodes' turns, over their standard deviation, and q predicts Â_t, not G_t: a constant offset changes no
gradient of the first term, an untrained q = 0 then has the variance of a baseline, and q has one unit whatever the
rewards; (4) turns of a second pass and replayed turns carry truncated importance weights w = min(π/π_behaviour, limit);
(5) a replayed success has the second term only, with its gain in place of Â_t - q (self-imitation).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from reflect_rl.algorithms._batch import Advantages, Batch, Critic, Loss, Outputs, Trajectory
from reflect_rl.algorithms._common import (
    PolicyGradientConfig,
    critic_loss,
    importance_weights,
    regularisers,
    returns_of,
    total_reward_std,
)
from reflect_rl.algorithms._returns import std

if TYPE_CHECKING:  # settings are read without torch, which takes seconds to import
    from torch import Tensor


class ExpectedConfig(PolicyGradientConfig):
    """Expected (all-action) policy gradient."""

    name: Literal["expected"] = "expected"
    """Algorithm."""
    normalise_advantages: bool = True
    """Divide the advantages of an update, which are also the critic's targets, by their standard deviation."""
    correct: bool = True
    """Correct the critic's error on the sampled action, which makes the gradient unbiased."""
    value_coef: float = Field(0.5, ge=0)
    """Weight of the critic's squared error."""
    max_importance_weight: float = Field(2.0, gt=0)
    """Upper bound on π/π_behaviour."""
    epochs: int = Field(2, ge=1, le=100)
    """Passes over each batch; the critic needs them most."""


class Expected:
    """Learning from every admissible action at every turn."""

    Config = ExpectedConfig

    critic: Critic = "action"

    def __init__(self, config: ExpectedConfig) -> None:
        self.config = config
        self.epochs = config.epochs

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """G_t minus the mean over the turns of all other episodes, scaled; the critic's targets are the same."""
        returns = [returns_of(self.config, trajectory) for trajectory in trajectories]
        table = _above_the_others(returns)
        normalises = self.config.normalise_advantages
        scale = std([value for row in table for value in row]) if normalises else 1.0
        table = [[value / scale for value in row] for row in table]
        # Counted over all turns: a replayed episode is none of them, so there is none to leave out.
        middle = float(np.mean([value for row in returns for value in row]))

        def target(other: Trajectory) -> list[float]:
            return [(value - middle) / scale for value in returns_of(self.config, other)]

        return Advantages(table, table, target, total_reward_std(trajectories) if normalises else 1.0)

    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """The loss above, plus regularisers, plus value_coef · mean (q(s_t,a_t) - Â_t)².

        Raises:
            ValueError: the outputs have no action values.
        """
        if outputs.action_values is None:
            raise ValueError("the expected policy gradient needs a critic of actions")
        chosen_value = outputs.action_values.gather(1, batch.actions[:, None])[:, 0]
        # Detached, or the policy's loss would train the critic to call every action good.
        policy = self._policy_loss(batch, outputs, outputs.action_values.detach(), chosen_value.detach())
        penalty, metrics = regularisers(self.config, batch, outputs)
        critic, critic_metrics = critic_loss(self.config.value_coef, chosen_value, batch.returns)
        own = {"policy/loss": float(policy.detach())}
        return Loss(policy + penalty + critic, metrics | critic_metrics | own)

    def _policy_loss(self, batch: Batch, outputs: Outputs, values: Tensor, chosen_value: Tensor) -> Tensor:
        # A replayed success says that its action was good, and nothing about the others.
        fresh = (~batch.replayed).to(values.dtype)
        every_action = fresh * (outputs.log_probs.exp() * values).sum(-1)
        weight = importance_weights(batch, outputs, self.config.max_importance_weight)
        # Replayed turns keep their term: they have no other.
        weight = weight if self.config.correct else weight * (1 - fresh)
        error = batch.advantages - fresh * chosen_value
        return -(every_action + weight * error * outputs.chosen(batch)).mean()


def _above_the_others(returns: list[list[float]]) -> list[list[float]]:
    """Subtract from each number the mean of all other rows' numbers (of nothing: zero).

    >>> _above_the_others([[1.0, 3.0], [5.0]])
    [[-4.0, -2.0], [3.0]]
    """
    total, count = sum(sum(row) for row in returns), sum(len(row) for row in returns)
    rows = []
    for row in returns:
        others = count - len(row)
        middle = (total - sum(row)) / others if others else 0.0
        rows.append([value - middle for value in row])
    return rows
