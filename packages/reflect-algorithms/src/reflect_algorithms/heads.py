"""A head on a language model that scores the listed actions of a state; training it trains the model, too."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reflect_algorithms.training import computed_once
from reflect_rl.batch import by_action
from reflect_rl.config import Rule
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.network import Network
from reflect_rl.models.score import score, token_budget
from reflect_rl.players.language_model import tokenize
from reflect_rl.types import View


class ActionHead(nn.Module):
    """Linear head with one output for each listed action. It starts at zero."""

    def __init__(self, hidden_size: int, outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(hidden_size, outputs)
        nn.init.zeros_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    @classmethod
    def on(cls, model: LanguageModel, labels: Labels) -> ActionHead:
        """A new head that fits a model, on its device."""
        return cls(model.model.get_output_embeddings().weight.shape[1], len(labels.ids)).to(model.device)

    def forward(self, hidden: Tensor) -> Tensor:
        """Scores (N, outputs) of hidden states (N, H), in float32."""
        scores: Tensor = self.layer(hidden.to(torch.float32))
        return scores


def head_scores(
    model: LanguageModel, labels: Labels, views: Sequence[View], rule: Rule, network: nn.Module | None
) -> Tensor:
    """Scores (N, A) of all actions of N states, 0 where there is no action.

    Args:
        model: the model under the head.
        labels: of its actions.
        views: the states.
        rule: by which it reads prompts.
        network: model and head as one module, which may be wrapped.
    """
    pairs = [tokenize(model, labels, view, rule) for view in views]
    prompts, actions = [prompt for prompt, _ in pairs], [texts for _, texts in pairs]
    # Examples that are trained on were cut to the budget before, and several processes must need as many passes.
    most = sys.maxsize if torch.is_grad_enabled() else token_budget(model)
    scores = score(model, prompts, actions, rule, most, network)
    assert scores.values is not None  # noqa: S101 (the network has a head)
    return by_action(scores.values, views)


@torch.no_grad()
def frozen_head_scores(
    model: LanguageModel, labels: Labels, head: ActionHead, views: Sequence[View], rule: Rule
) -> Tensor:
    """`head_scores` of any number of states, on the CPU; equal ones are computed once."""
    model.model.eval()
    network = Network(model, head)
    (table,) = computed_once(views, lambda part: [head_scores(model, labels, part, rule, network)], 0.0)
    return table
