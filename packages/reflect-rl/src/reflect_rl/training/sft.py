"""Supervised fine-tuning, loss on the completion tokens only.

L(φ) = -1/N Σ_i Σ_j log R_φ(R_ij | s_i, R_i,<j) for the reflection player (Reflect-RL, eq. 1); the policy's loss is the
same on its one choice token. Rows are tokenised here, prompt and completion apart, exactly as rollouts do it.

The same seed gives the same weights, bit for bit on one kind of machine, with or without interruptions. The global
random number generators are afterwards as they were before.
"""

from __future__ import annotations

import math
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
from reflect_rl.errors import ConfigError, TrainingError
from reflect_rl.launch import release
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.network import Network
from reflect_rl.models.score import check_context, completion_losses, score, token_budget
from reflect_rl.prompts import parts_of
from reflect_rl.store import write_jsonl
from reflect_rl.training.checkpoint import Checkpoints, Saved, restore_weights
from reflect_rl.training.config import SFTConfig
from reflect_rl.training.distributed import Engine, make_whole
from reflect_rl.training.loop import ExplosionError, OptimiserStep, PartialLoss, cosine_factor, dropout_stream
from reflect_rl.training.metrics import Meter, MetricsLog
from reflect_rl.types import Progress, stream

STEPS_BETWEEN_RELEASES = 10
"""Optimiser steps after which freed memory goes back to the system."""


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


def sft_checkpoints(folder: Path) -> Checkpoints:
    """The checkpoints of the training in `folder`."""
    return Checkpoints(folder / "checkpoints")


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
        ModelError: a row is longer than the model's context.
        TrainingError: the loss or the gradient is not finite or too large; the batch is in `offending_batch.jsonl`.
        RunFolderError: there are checkpoints, and all are corrupt.
    """
    folder.mkdir(parents=True, exist_ok=True)
    order = _order(seed, [completion for _, completion in examples], config.steps * config.batch_size, config.balance)
    # Only rows that will be trained on are tokenised; large data sets have many more.
    rows = _rows(model, {number: examples[number] for number in dict.fromkeys(order)}, ends=ends, rule=rule)
    engine = Engine(model.device)
    log = metrics or MetricsLog(folder, main=engine.main)
    try:
        with _dropout(model.model, config.dropout):
            _Training(model, rows, order, config, folder, seed, engine, log).run(progress)
    finally:
        log.close()
    make_whole(model.model)
    model.model.eval()


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


class _Training:
    """Loop of one supervised training, from its last checkpoint where there is one."""

    def __init__(
        self,
        model: LanguageModel,
        rows: dict[int, Row],
        order: list[int],
        config: SFTConfig,
        folder: Path,
        seed: int,
        engine: Engine,
        log: MetricsLog,
    ) -> None:
        self.model, self.rows, self.order, self.config = model, rows, order, config
        self.folder, self.seed, self.engine, self.log = folder, seed, engine, log
        self.checkpoints = sft_checkpoints(folder)
        self.meter = Meter(model, config.steps)
        # About a hundred rows, however long the training is.
        self.every = max(1, config.steps // 100)
        """Steps between two rows of metrics."""
        self.done = 0
        self.losses: list[float] = []
        """Losses of the steps since the last row of metrics."""
        with engine.first():
            saved = self.checkpoints.load()
        # Weights are put back while they are whole; sharding follows.
        self._restore(saved)
        trained = engine.trainable(Network(model), plays=False)
        self.optimizer = _optimizer(model, config)
        limits = {"max_grad_norm": config.max_grad_norm, "stop_grad_norm": config.stop_grad_norm}
        self.step = OptimiserStep(engine, trained, self.optimizer, **limits)
        if saved is not None:
            engine.restore_optimizer(self.optimizer, saved[0]["optimizer"])

    def run(self, progress: Progress) -> None:
        """Train to the end.

        Raises:
            TrainingError: before the step that would have spoilt the weights.
        """
        config = self.config
        self.model.model.train()
        self.meter.begin(self.done)
        while self.done < config.steps:
            metrics = self._one_step()
            self.done += 1
            self.losses.append(metrics.pop("loss"))
            last = self.done == config.steps
            if self.done % STEPS_BETWEEN_RELEASES == 0:
                release()
            if self.done % self.every == 0 or last:
                row = self._row(metrics)
                self.log.append(row, "step")
                if self.engine.main:
                    progress(self.done, config.steps, f"loss {row['loss']:.4f}, {self.meter.note()}")
            if self.done % config.save_steps == 0 or last:
                self._save()

    def _one_step(self) -> dict[str, float]:
        """Loss of the batch before the step, gradient norm before clipping, and the learning rate."""
        config, rank = self.config, self.engine.rank
        numbers = self.order[self.done * config.batch_size : (self.done + 1) * config.batch_size]
        batch = [self.rows[number] for number in numbers]
        # Of the whole batch, so that the loss is one mean however it is cut. A row's first token is never predicted.
        targets = max(1, sum(sum(row.completion_mask[1:]) for row in batch))
        # A short training would end before its warm-up.
        warmup = min(config.warmup_steps, config.steps // 4)
        rate = config.learning_rate * cosine_factor(self.done, warmup, config.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

        def loss(part: list[int]) -> PartialLoss:
            # Rows of a single pass keep the order in which they were drawn.
            places = sorted(part) if len(part) == len(batch) else part
            losses = self._losses([batch[k] for k in places])
            total = losses.sum() * (1 / targets)
            return PartialLoss(total, len(losses), {"loss": float(losses.detach().mean())})

        lengths = [len(row.input_ids) for row in batch]
        with dropout_stream(self.model.device, self.seed, self.done, rank):
            means = self.step.accumulate(lengths, token_budget(self.model), loss)
        value = means.get("loss", 0.0)  # a batch of empty completions has no target
        try:
            norm = self.step.clip(self.model.model.parameters(), value)
        except ExplosionError as error:
            failure = self._explained(error, numbers)
            self.engine.wait()  # a launcher ends the others when one process ends
            raise failure from None
        self.step.apply()
        return {"loss": value, "gradient_norm": norm, "learning_rate": rate}

    def _losses(self, rows: Sequence[Row]) -> Tensor:
        """-log p of every target, (M,): tokens of completions, or chosen lines."""
        if not rows[0].line_ends:
            ids, masks = [row.input_ids for row in rows], [row.completion_mask for row in rows]
            return completion_losses(self.model, ids, masks, self.step.network)
        lines = [[(place,) for place in row.line_ends] for row in rows]
        # One pass: the rows were cut to the budget before.
        longest = max(len(row.input_ids) for row in rows) * len(rows)
        scores = score(self.model, [row.input_ids for row in rows], lines, "line_end", longest, self.step.network)
        chosen = torch.tensor([row.chosen for row in rows], device=self.model.device)
        return -scores.log_probs.gather(1, chosen[:, None])[:, 0]

    def _row(self, metrics: dict[str, float]) -> dict[str, Any]:
        row = {"step": self.done, "loss": sum(self.losses) / len(self.losses), **metrics}
        self.losses = []
        row |= self.meter.measure(self.done, self.step.tokens)
        # Sizes never change, so the first row says them for all.
        return row | (self.meter.sizes() if self.done <= self.every else {})

    def _save(self) -> None:
        # All processes ask: where weights are sharded, each holds a part.
        weights = self.engine.whole_weights(self.model.model)
        optimizer = self.engine.optimizer_state(self.optimizer)
        if self.engine.main:
            state = {
                "step": self.done,
                "losses": self.losses,
                "seconds": self.meter.elapsed(),
                "metrics": self.log.mark(),
            }
            self.checkpoints.save(self.done, {"weights": weights, "optimizer": optimizer}, state)

    def _restore(self, saved: Saved | None) -> None:
        """Go on from a checkpoint; rows of metrics of steps that were done after it will be written again."""
        if saved is None:
            self.log.keep_until(-1)
            return
        tensors, state = saved
        self.log.keep_until(state["step"], state["metrics"])
        self.done, self.losses, self.meter.seconds = state["step"], list(state["losses"]), state["seconds"]
        restore_weights(self.model.model, tensors["weights"])

    def _explained(self, error: ExplosionError, numbers: Sequence[int]) -> TrainingError:
        """Write the batch to a file of the folder; the error that says so."""
        path = self.folder / "offending_batch.jsonl"
        if self.engine.main:
            write_jsonl(path, [{"row": number, **asdict(self.rows[number])} for number in numbers])
        return TrainingError(
            f"the supervised loss is {error.loss} at step {self.done + 1}, the gradient norm {error.norm}. Nothing was "
            f"changed by it: checkpoints in {self.folder / 'checkpoints'} are kept, the {len(numbers)} rows are in "
            f"{path}. Lower the learning_rate of this model in [sft]; if such norms are usual with it, raise "
            "stop_grad_norm there."
        )


def _order(seed: int, completions: Sequence[str], count: int, balance: float) -> list[int]:
    """`count` row numbers: all rows in a random order, and again in another; or drawn by the weights of `balance`."""
    rows = len(completions)
    if balance:
        often = Counter(completions)
        weights = np.array([often[completion] ** -balance for completion in completions])
        return stream(seed, "balanced rows").choice(rows, count, p=weights / weights.sum()).tolist()
    # Each pass has a stream of its own: more steps prolong the order and change nothing before.
    passes = (stream(seed, "rows", number).permutation(rows) for number in range(math.ceil(count / rows)))
    return [int(row) for order in passes for row in order][:count]


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
            head, body = model.encode_prompt(prompt), [*model.encode_after(prompt, completion), *tail]
            rows[number] = Row(prompt, completion, [*head, *body], [0] * len(head) + [1] * len(body))
    longest = max(rows.values(), key=lambda row: len(row.input_ids))
    check_context(model, len(longest.input_ids), longest.prompt)
    return rows


def _optimizer(model: LanguageModel, config: SFTConfig) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019); norms and biases, which have one dimension, do not decay."""
    trained = [weight for weight in model.model.parameters() if weight.requires_grad]
    groups = [
        # The order of the groups numbers the parameters in checkpoints.
        {"params": [weight for weight in trained if weight.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [weight for weight in trained if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
