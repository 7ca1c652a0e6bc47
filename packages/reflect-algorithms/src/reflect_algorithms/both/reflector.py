"""A reflection player that writes by chance, and learns which of its texts led to good turns.

The text y = y_1 ... y_n written in state s is an action of its own. Its advantage is that of the turn, A_t, as the
policy's algorithm computes it, or ArCHer's critic (`reflect_algorithms.both.archer`), since the game pays for both
together. The loss of a minibatch of T tokens, where a text that several turns share counts once for each of them, is

    L(φ) = 1/T Σ_t Σ_j [ -A_t log R_φ(y_j | s, y_<j) + β k_j ],   k_j = ρ_j - 1 - log ρ_j,

with ρ_j = R_SFT(y_j | s, y_<j) / R_φ(y_j | s, y_<j): the policy gradient (Williams 1992), and an estimate of
KL(R_φ ‖ R_SFT) that is never negative (Schulman 2020, "k3"). One pass over the turns of an update, so that the texts
are those of the present weights, up to the steps of that pass.

Reflect-RL freezes this player; training it is this project's own experiment (docs/reference/algorithms.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from reflect_algorithms.both.settings import ReflectorTrainingConfig
from reflect_rl.algorithms import Batch
from reflect_rl.errors import ConfigError, TrainingError
from reflect_rl.models.generate import generate, text_of
from reflect_rl.models.load import LanguageModel, forked_rng
from reflect_rl.models.network import Network
from reflect_rl.models.score import check_fits, completion_losses, token_budget
from reflect_rl.players.reflectors import GreedyReflector, Numbers
from reflect_rl.prompts import reflection_prompt, with_right_number
from reflect_rl.training.checkpoint import restore_weights, trained_weights
from reflect_rl.training.distributed import Engine
from reflect_rl.training.learner import no_dropout
from reflect_rl.training.loop import ExplosionError, OptimiserStep, PartialLoss, linear_factor
from reflect_rl.types import View, seed_for, stream

Key = tuple[str, str]
"""Prompt, and the text that the policy was shown."""


class Written(NamedTuple):
    """A text to learn from."""

    prompt: list[int]
    text: list[int]
    """Tokens as they were drawn, with the end token where there is one."""
    advantage: float
    """Sum over the turns that were shown it."""
    turns: int
    """Number of these turns."""


class OnlineReflector:
    """Samples at temperature 1; equal states of one batch of games share a text, which is one row of its loss.

    Args:
        model: to be trained.
        reference: as it was at the start, frozen.
        config: how it is trained.
        max_new_tokens: length limit of a reflection.
        seed: of texts and of minibatches.
        numbers: as for `reflect_rl.players.reflectors.CachedReflector`.

    Raises:
        ConfigError: several processes train; each would know its own texts only.
    """

    name = "online"
    sees_oracle = False

    def __init__(
        self,
        model: LanguageModel,
        reference: LanguageModel,
        config: ReflectorTrainingConfig,
        max_new_tokens: int,
        seed: int,
        numbers: Numbers | None = None,
    ) -> None:
        self.model, self.reference, self.config, self.seed = model, reference, config, seed
        self.max_new_tokens, self.numbers = max_new_tokens, numbers
        self.engine = Engine(model.device)
        if self.engine.count > 1:
            raise ConfigError(f"reflect_rl_both trains in one process, and {self.engine.count} were launched.")
        # No decay, as for the policy: weights move only where a turn asks for it.
        self.optimizer = torch.optim.AdamW(self._weights(), lr=config.learning_rate, weight_decay=0.0, fused=True)
        network = self.engine.trainable(Network(model), plays=True)
        limits = {"max_grad_norm": config.max_grad_norm, "stop_grad_norm": config.stop_grad_norm}
        self.step = OptimiserStep(self.engine, network, self.optimizer, fits=partial(check_fits, model), **limits)
        self.calls = 0
        """Batches of texts so far; each has random numbers of its own."""
        self._texts: dict[Key, list[int]] = {}

    def _weights(self) -> list[torch.nn.Parameter]:
        return [weight for weight in self.model.model.parameters() if weight.requires_grad]

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """Draw a text for each different prompt."""
        drawn = self._drawn(views)
        # Kept by what the policy is shown, because a text does not tell the tokens that it was drawn as.
        self._texts.update(drawn)
        return [text for (_, text), _ in drawn]

    def draw(self, views: Sequence[View]) -> list[str]:
        """Draw a text for each different prompt, of which nothing is learned."""
        return [text for (_, text), _ in self._drawn(views)]

    def as_evaluated(self) -> GreedyReflector:
        """The player of the present weights that writes the likeliest text, of which nothing is learned."""
        return GreedyReflector(self.model, self.max_new_tokens, numbers=self.numbers)

    def _drawn(self, views: Sequence[View]) -> list[tuple[Key, list[int]]]:
        """Text that is written for each view, with its prompt, and its tokens."""
        prompts = [reflection_prompt(view) for view in views]
        unique = list(dict.fromkeys(prompts))
        # A layer that recomputes its activations keeps nothing of earlier tokens while it is in training mode.
        self.model.model.eval()
        # Whoever draws before or after is not disturbed, and a training that goes on draws the same again.
        with forked_rng(seed_for(self.seed, "reflections", self.calls), self.model.device):
            drawn = generate(
                self.model, [self.model.encode_prompt(prompt) for prompt in unique], self.max_new_tokens, sampled=True
            )
        self.calls += 1
        tokens = dict(zip(unique, drawn, strict=True))
        rows: list[tuple[Key, list[int]]] = []
        for prompt, view in zip(prompts, views, strict=True):
            text = text_of(self.model, tokens[prompt])
            if self.numbers is not None:
                text = with_right_number(text, self.numbers(view.observation.text))
            rows.append(((prompt, text), tokens[prompt]))
        return rows

    def learn(self, views: Sequence[View], batch: Batch, update: int, share: float) -> dict[str, float]:
        """One pass over the texts of these turns; replayed ones are left out.

        Args:
            views: N turns of the update.
            batch: what they are worth.
            update: its number, from 0.
            share: of the training that is done.

        Raises:
            TrainingError: a loss or gradient is not finite, or too large.
        """
        no_dropout(self.model.model)
        fresh = (~batch.replayed).nonzero()[:, 0].tolist()
        rows = self._rows([views[k] for k in fresh], batch.advantages[fresh].tolist())
        self._texts.clear()
        if not rows:
            return {}
        rate = self.config.learning_rate * linear_factor(share)
        self.optimizer.param_groups[0]["lr"] = rate
        order = stream(self.seed, "minibatches", update).permutation(len(rows))
        size = self.config.minibatch_texts
        parts = [order[start : start + size] for start in range(0, len(rows), size)]
        try:
            metrics = [self._one_step([rows[k] for k in part]) for part in parts]
        except ExplosionError as error:
            raise TrainingError(
                f"update {update}, the reflection player: {error}. The last checkpoint is kept. Lower "
                "rlft.reflector.learning_rate or raise rlft.reflector.kl_coef; if such norms are usual with this "
                "model, raise rlft.reflector.stop_grad_norm."
            ) from None
        means = {name: sum(row[name] for row in metrics) / len(metrics) for name in metrics[0]}
        return means | {"reflector/texts": len(rows), "reflector/learning_rate": rate}

    def _rows(self, views: Sequence[View], advantages: Sequence[float]) -> list[Written]:
        """Different texts, each with the number of its turns and the sum of their advantages."""
        worth: dict[Key, list[float]] = defaultdict(list)
        for view, advantage in zip(views, advantages, strict=True):
            worth[reflection_prompt(view), view.reflection or ""].append(advantage)
        return [
            Written(self.model.encode_prompt(key[0]), self._texts[key], sum(own), len(own))
            for key, own in worth.items()
            # An empty text has no token to learn from.
            if self._texts[key]
        ]

    def _one_step(self, rows: Sequence[Written]) -> dict[str, float]:
        targets = sum(row.turns * len(row.text) for row in rows)

        def loss(part: list[int]) -> PartialLoss:
            own = [rows[k] for k in part]
            ids = [[*row.prompt, *row.text] for row in own]
            masks = [[0] * len(row.prompt) + [1] * len(row.text) for row in own]
            surprise = completion_losses(self.model, ids, masks, self.step.network)
            with torch.no_grad():
                before = completion_losses(self.reference, ids, masks)
            # Targets come row by row, so each number is repeated for the tokens of its text.
            counts = torch.tensor([len(row.text) for row in own])
            worth = torch.tensor([row.advantage for row in own]).repeat_interleave(counts).to(surprise.device)
            turns = torch.tensor([row.turns for row in own]).repeat_interleave(counts).to(surprise.device)
            total, kl = reflection_loss(surprise, before, worth, turns, self.config.kl_coef)
            tokens = int(turns.sum())
            value = {"reflector/loss": float(total.detach()) / tokens, "reflector/kl": kl}
            return PartialLoss(total / targets, tokens, value)

        lengths = [len(row.prompt) + len(row.text) for row in rows]
        metrics = self.step.accumulate(lengths, token_budget(self.model), loss)
        norm = self.step.clip(self._weights(), metrics["reflector/loss"])
        self.step.apply()
        return metrics | {"reflector/gradient_norm": norm}

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Weights, the optimiser's state, and how often random numbers were drawn."""
        return {
            "reflector": trained_weights(self.model.model),
            "reflector_optimizer": self.engine.optimizer_state(self.optimizer),
            "reflector_calls": {"calls": torch.tensor([self.calls])},
        }

    def restore(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on from a checkpoint."""
        restore_weights(self.model.model, tensors["reflector"])
        self.engine.restore_optimizer(self.optimizer, tensors["reflector_optimizer"])
        self.calls = int(tensors["reflector_calls"]["calls"][0])


def reflection_loss(
    surprise: Tensor, before: Tensor, advantages: Tensor, turns: Tensor, kl_coef: float
) -> tuple[Tensor, float]:
    """Sum over turns and tokens of -A log R + β k3, and the mean of k3 for the log.

    Args:
        surprise: (M,) -log R_φ of each token of the different texts.
        before: (M,) -log R_SFT of each.
        advantages: (M,) sum of A_t over the turns that were shown the token's text.
        turns: (M,) number of these turns.
        kl_coef: β.

    >>> loss, kl = reflection_loss(*torch.tensor([[2.0], [2.0], [3.0], [1.0]]), 0.5)
    >>> float(loss), kl
    (6.0, 0.0)
    """
    log_ratio = surprise - before
    # Every turn is held near the start, as every turn has its advantage, however many share a text.
    kl = turns * (log_ratio.exp() - 1 - log_ratio)
    return (advantages * surprise + kl_coef * kl).sum(), float(kl.detach().sum() / turns.sum())
