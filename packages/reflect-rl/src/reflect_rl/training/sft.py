"""Supervised fine-tuning, loss on the completion tokens only.

L(φ) = -1/N Σ_i Σ_j log R_φ(R_ij | s_i, R_i,<j) for the reflection player (Reflect-RL, eq. 1); the policy's loss is the
same on its one choice token. Rows are tokenised here, prompt and completion apart, exactly as rollouts do it.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reflect_rl.config import Rule
from reflect_rl.errors import ConfigError
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.network import shares
from reflect_rl.models.score import check_context, check_fits, completion_losses, least_shared, score
from reflect_rl.prompts import parts_of, state_in
from reflect_rl.training.config import SFTConfig
from reflect_rl.training.loop import Beginnings, PartialLoss, side_by_side
from reflect_rl.training.metrics import MetricsLog
from reflect_rl.training.trainer import Rows, RowTrainer, passes
from reflect_rl.types import Progress, stream


@dataclass(frozen=True)
class Row:
    """Tokens of one example."""

    prompt: str
    completion: str
    input_ids: list[int]
    completion_mask: list[int]
    """1 where a token is a target, one entry per token."""
    line_ends: list[int] = field(default_factory=list)
    """Places in `input_ids` where the lines of listed actions end, if one of them is to be chosen."""
    chosen: int = 0
    """Which of these lines."""


def train_sft(  # noqa: PLR0913 (what differs between the trainings of a run)
    model: LanguageModel,
    examples: Sequence[tuple[str, str]],
    config: SFTConfig,
    folder: Path,
    seed: int,
    *,
    ends: bool,
    progress: Progress,
    metrics: MetricsLog | None = None,
    rule: Rule = "choice_token",
) -> None:
    """Train `model` in place on (prompt, completion) pairs; metrics go to `folder/metrics.jsonl`.

    With several processes (`accelerate launch`), each trains on its part of every batch; the main one writes.

    Args:
        model: a trainable language model.
        examples: the pairs.
        config: hyperparameters.
        folder: where metrics and checkpoints go; checkpoints found there are continued.
        seed: of the data order and dropout.
        ends: append the end token to each completion (reflections, not choices).
        progress: called after each logged step, in the main process.
        metrics: where the rows go (unset: to `folder/metrics.jsonl` alone).
        rule: how the actions of the completions are scored; only `line_end` makes another loss.

    Raises:
        ConfigError: training cannot be distributed as it was launched, or nothing in the model can be dropped.
        ModelError: a row is longer than the model's context, or the memory does not hold its activations.
        TrainingError: the loss or the gradient is not finite or too large; the batch is in `offending_batch.jsonl`.
        RunFolderError: there are checkpoints, and all are corrupt.
    """
    order = _order(seed, examples, config)
    # Only rows that will be trained on are tokenised; large data sets have many more.
    rows = _rows(model, {number: examples[number] for number in dict.fromkeys(order)}, ends=ends, rule=rule)
    with _dropout(model.model, config.dropout):
        trainer = RowTrainer(model, config, folder, seed, metrics=metrics, settings="the part of this model in [sft]")
        model.model.train()
        trainer.run(_Rows(model, rows, shared=config.rows_together > 1), order, progress)
        trainer.close()


@contextmanager
def _dropout(model: nn.Module, share: float) -> Iterator[None]:
    """Drop this share inside, and what the model dropped before outside; 0 changes nothing."""
    layers = {module: module.p for module in model.modules() if share and isinstance(module, nn.Dropout)}
    if share and not layers:
        raise ConfigError(f"dropout is {share}, and this model has no layer that drops. Set it to 0 in [sft].")
    for layer in layers:
        layer.p = share
    try:
        yield
    finally:
        for layer, own in layers.items():
            layer.p = own


class _Rows(Rows):
    """Tokens of the examples, and their loss."""

    def __init__(self, model: LanguageModel, rows: dict[int, Row], *, shared: bool) -> None:
        # Where rows are drawn one by one too little is alike to pay (docs/reference/speed.md).
        self.model, self.rows, self.together = model, rows, shared

    def length(self, number: int) -> int:
        return len(self.rows[number].input_ids)

    def loss(self, numbers: Sequence[int], batch: Sequence[int], network: nn.Module) -> PartialLoss:
        # Over the whole batch, so that the loss is one mean however it is cut. A row's first token is never predicted.
        targets = max(1, sum(sum(self.rows[number].completion_mask[1:]) for number in batch))
        losses = self._losses([self.rows[number] for number in numbers], network)
        return PartialLoss(losses.sum() * (1 / targets), len(losses), {"loss": float(losses.detach().mean())})

    def record(self, number: int) -> dict[str, Any]:
        return asdict(self.rows[number])

    def beginnings(self, batch: Sequence[int]) -> Beginnings | None:
        if not (self.together and shares(self.model.model, together=True)):
            return None
        own = [tuple(self.rows[number].input_ids) for number in batch]
        return own, least_shared(self.model, own, [len(ids) + 1 for ids in own], together=True)

    def _losses(self, rows: Sequence[Row], network: nn.Module) -> Tensor:
        """-log p of every target, (M,): tokens of completions, or chosen lines."""
        if not rows[0].line_ends:
            ids, masks = [row.input_ids for row in rows], [row.completion_mask for row in rows]
            return completion_losses(self.model, ids, masks, network, together=self.together)
        lines = [[(place,) for place in row.line_ends] for row in rows]
        # One pass: the rows were cut to the budget before.
        prompts = [row.input_ids for row in rows]
        scores = score(self.model, prompts, lines, "line_end", sys.maxsize, network, together=self.together)
        chosen = torch.tensor([row.chosen for row in rows], device=self.model.device)
        return -scores.log_probs.gather(1, chosen[:, None])[:, 0]


def _order(seed: int, examples: Sequence[tuple[str, str]], config: SFTConfig) -> list[int]:
    """Row numbers of all batches: every row in a random order, and again in another; or drawn by `balance`."""
    rows, count = len(examples), config.steps * config.batch_size
    if config.balance:
        often = Counter(completion for _, completion in examples)
        weights = np.array([often[completion] ** -config.balance for _, completion in examples])
        return stream(seed, "balanced rows").choice(rows, count, p=weights / weights.sum()).tolist()
    if config.rows_together == 1:
        return passes(seed, "rows", rows, count)
    # Sorted, rows that begin alike are neighbours.
    alike = sorted(range(rows), key=examples.__getitem__)
    draws = (stream(seed, "rows together", number) for number in range(math.ceil(count / rows)))
    order = [alike[place] for rng in draws for place in side_by_side(rows, config.rows_together, rng)]
    return order[:count]


def _rows(model: LanguageModel, examples: dict[int, tuple[str, str]], *, ends: bool, rule: Rule) -> dict[int, Row]:
    """Tokens of the examples, by number."""
    tail = [model.end_id] if ends else []
    rows = {}
    for number, (prompt, completion) in examples.items():
        if rule == "line_end":
            text, lines, after = parts_of(prompt)
            ids, places = model.encode_lines(text, lines, after)
            # One target a row, as the loss counts them.
            rows[number] = Row(prompt, completion, ids, [0] * (len(ids) - 1) + [1], places, lines.index(completion))
        else:
            head, (answer,) = model.encode_answers(prompt, [completion])
            body = [*answer, *tail]
            rows[number] = Row(prompt, completion, [*head, *body], [0] * len(head) + [1] * len(body))
    longest = max(rows.values(), key=lambda row: len(row.input_ids))
    # The lines are counted; labels could be any words.
    actions = None if rule == "choice_token" and not ends else len(longest.line_ends)
    check_context(model, len(longest.input_ids), state_in(longest.prompt), actions=actions)
    check_fits(model, len(longest.input_ids))
    return rows
