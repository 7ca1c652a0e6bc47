"""DPO (Rafailov et al. 2023, "Direct preference optimization", eq. 7): the policy is trained on the pairs themselves.

    loss = -mean log σ(β log π(y_w|x)/π_ref(y_w|x) - β log π(y_l|x)/π_ref(y_l|x))

y_w is the better side, y_l the worse one, π_ref the frozen supervised policy. Of two actions in one state, log π(y|x)
is log π(a|s); of two episodes, it is the sum over their turns, because the game's own probabilities are in both terms
and cancel where they do not depend on who plays.

The loss was checked against several explanations of the paper; its own text could not be read here.

Differs from the paper: (1) an answer is an action of a list, or an episode of such actions, and its probabilities are
over the list; (2) in a game that draws, the states of an episode are taken as given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from reflect_algorithms.comparisons import Comparison
from reflect_algorithms.preferences.objective import Compared, measure, needed, ranked_right, with_steps
from reflect_algorithms.preferences.settings import DPOConfig, preferences_config
from reflect_algorithms.training import Trainer, Training, chosen, frozen_scores
from reflect_rl.algorithms import Loss, Outputs
from reflect_rl.training.config import OptimiserConfig
from reflect_rl.types import View

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig


class DirectPreferences(Compared):
    """The objective of DPO.

    Args:
        comparisons: the pairs.
        reference: (N,) log π_ref of the action of each turn.
        beta: β.
    """

    def __init__(self, comparisons: Sequence[Comparison], reference: Tensor, beta: float) -> None:
        super().__init__(comparisons)
        self.reference, self.beta = reference, beta

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """-mean log σ(β (log-ratio of the better side - log-ratio of the worse one))."""
        rows = self.rows(examples)
        own = chosen(outputs.log_probs, self.actions[rows])
        rewards = self.beta * self.sums(examples, own - self.reference[rows].to(own.device))
        value = -torch.nn.functional.logsigmoid(rewards[:, 0] - rewards[:, 1]).mean()
        seen = rewards.detach()
        return Loss(
            value,
            {
                "pair_accuracy": ranked_right(seen),
                "better_reward": float(seen[:, 0].mean()),
                "worse_reward": float(seen[:, 1].mean()),
            },
        )


class DPO:
    """Direct preference optimisation.

    Args:
        config: β.
        steps: optimiser steps (None: those of the training).
    """

    def __init__(self, config: DPOConfig | None = None, steps: OptimiserConfig | None = None) -> None:
        self.config, self.steps = config or DPOConfig(), steps

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[preferences.dpo]`."""
        settings = preferences_config(run)
        return cls(settings.dpo, settings.training)

    def train(self, training: Training) -> None:
        """Train on the pairs.

        Raises:
            UserError: there are no pairs.
        """
        training = with_steps(training, self.steps)
        comparisons = needed(training, "dpo")
        start = training.start()

        def reference(views: Sequence[View], actions: Tensor) -> Tensor:
            return chosen(frozen_scores(start, training.labels, views, training.rule).log_probs, actions)

        def implicit_reward(views: Sequence[View], actions: Tensor) -> Tensor:
            now = frozen_scores(training.model, training.labels, views, training.rule).log_probs
            return chosen(now, actions) - reference(views, actions)

        pairs = Compared(comparisons)
        trainer = Trainer(training)
        trainer.fit(DirectPreferences(comparisons, reference(pairs.views, pairs.actions), self.config.beta))
        measure(trainer, implicit_reward)
        trainer.close()
