"""RRHF (Yuan et al. 2023, "Rank responses to align language models with human feedback without tears").

The policy's own length-normalised log-probability ranks the two sides, and the better one is imitated:

    p = Σ_t log π(a_t|s_t) / turns,   loss = mean max(0, p_worse - p_better) - λ · mean p_better

These are the ranking loss and the supervised loss of section 3.1 there; the log-probabilities are normalised in both,
as in the authors' code (GanjinZero/RRHF), which was read. The paper's own text could not be read here, so no equation
is numbered.

Differs from the paper: (1) there are two answers to rank and not more; (2) an answer is an action of a list, or an
episode of such actions, and its length is counted in turns; (3) losses are means over the pairs of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from torch import Tensor

from reflect_algorithms.preferences.objective import RankedAndImitated, measure, needed, with_steps
from reflect_algorithms.preferences.settings import RRHFConfig, preferences_config
from reflect_algorithms.training import Trainer, Training, chosen, frozen_scores
from reflect_rl.algorithms import Loss, Outputs
from reflect_rl.training.config import OptimiserConfig
from reflect_rl.types import View

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig


class RankedResponses(RankedAndImitated):
    """The objective of RRHF."""

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """Mean of the hinge, plus λ times the mean of -p of the better side."""
        own = chosen(outputs.log_probs, self.actions[self.rows(examples)])
        means = self.sums(examples, own) / self.lengths[examples].to(own.device)
        ranking = (means[:, 1] - means[:, 0]).clamp(min=0).mean()
        imitation = -means[:, 0].mean()
        return self.total(means, ranking, imitation)


class RRHF:
    """Ranking by the policy's own probabilities.

    Args:
        config: weight of the imitation.
        steps: optimiser steps (None: those of the training).
    """

    def __init__(self, config: RRHFConfig | None = None, steps: OptimiserConfig | None = None) -> None:
        self.config, self.steps = config or RRHFConfig(), steps

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[preferences.rrhf]`."""
        settings = preferences_config(run)
        return cls(settings.rrhf, settings.training)

    def train(self, training: Training) -> None:
        """Train on the pairs.

        Raises:
            UserError: there are no pairs.
        """
        training = with_steps(training, self.steps)
        comparisons = needed(training, "rrhf")

        def own(views: Sequence[View], actions: Tensor) -> Tensor:
            return chosen(frozen_scores(training.model, training.labels, views, training.rule).log_probs, actions)

        trainer = Trainer(training)
        trainer.fit(RankedResponses(comparisons, self.config.imitation_coef))
        measure(trainer, own, mean=True)
        trainer.close()
