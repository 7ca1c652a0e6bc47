"""Optimiser steps on batches of numbered rows, from the last checkpoint where there is one.

The same seed gives the same weights, bit for bit on one kind of machine, with or without interruptions. The global
random number generators are afterwards as they were before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from reflect_rl.errors import ModelError, TrainingError
from reflect_rl.launch import release
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.network import Network
from reflect_rl.models.score import check_fits, token_budget
from reflect_rl.store import write_jsonl
from reflect_rl.training.checkpoint import Checkpoints, restore_weights
from reflect_rl.training.config import OptimiserConfig
from reflect_rl.training.distributed import Engine, make_whole, not_finite
from reflect_rl.training.loop import (
    Beginnings,
    ExplosionError,
    OptimiserStep,
    PartialLoss,
    cosine_factor,
    dropout_stream,
    weighted_means,
)
from reflect_rl.training.metrics import Meter, MetricsLog
from reflect_rl.types import Progress, stream

STEPS_BETWEEN_RELEASES = 10
"""Optimiser steps after which freed memory goes back to the system."""


class Rows(Protocol):
    """Rows to train on, by number."""

    def length(self, number: int) -> int:
        """Padded tokens that a row needs."""

    def loss(self, numbers: Sequence[int], batch: Sequence[int], network: nn.Module) -> PartialLoss:
        """Forward pass over the rows with these numbers, a part of the batch, through `network`."""

    def record(self, number: int) -> dict[str, Any]:
        """A row for the file that shows a batch which could not be trained on."""

    def beginnings(self, batch: Sequence[int]) -> Beginnings | None:
        """Tokens of the rows of a batch, where those that begin alike are read together; None = each by itself."""
        return None


class RowTrainer:
    """Loop of one training, on one set of rows after another.

    Args:
        model: changed in place; the caller says whether it drops anything.
        config: hyperparameters.
        folder: place of metrics and checkpoints; checkpoints found there are continued.
        seed: of dropout.
        head: a critic's or reward's head that is trained with the model.
        metrics: place of the rows of metrics (unset: `folder/metrics.jsonl` alone).
        settings: place of the hyperparameters, for messages.

    Raises:
        ConfigError: the training cannot be distributed as it was launched.
        RunFolderError: there are checkpoints, and all are corrupt.
    """

    def __init__(
        self,
        model: LanguageModel,
        config: OptimiserConfig,
        folder: Path,
        seed: int,
        *,
        head: nn.Module | None = None,
        metrics: MetricsLog | None = None,
        settings: str = "the settings of this training",
    ) -> None:
        self.model, self.config, self.folder, self.seed, self.head = model, config, folder, seed, head
        self.settings = settings
        self.engine = Engine(model.device)
        folder.mkdir(parents=True, exist_ok=True)
        self.checkpoints = checkpoints_in(folder)
        self.meter = Meter(model, config.steps)
        # About a hundred rows, however long the training is.
        self.every = max(1, config.steps // 100)
        """Steps between two rows of metrics."""
        self.done = 0
        self.recent: list[dict[str, float]] = []
        """Metrics of the steps since the last row of metrics."""
        with self.engine.first():
            saved = self.checkpoints.load()
        tensors, state = saved or ({}, {})
        # Weights are put back while they are whole; sharding follows.
        if saved is not None:
            restore_weights(model.model, tensors["weights"])
            if head is not None:
                head.load_state_dict(tensors["head"])
            self.done, self.meter.seconds = state["step"], state["seconds"]
            # Checkpoints of earlier versions have no rows.
            self.recent = state.get("rows", [])
        network = self.engine.trainable(Network(model, head), plays=False)
        trained = [weight for weight in network.parameters() if weight.requires_grad]
        # AdamW (Loshchilov and Hutter 2019); norms and biases, which have one dimension, do not decay. The order of
        # the groups numbers the parameters in checkpoints.
        groups: list[dict[str, Any]] = [
            {"params": [weight for weight in trained if weight.ndim > 1], "weight_decay": config.weight_decay},
            {"params": [weight for weight in trained if weight.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
        limits = {"max_grad_norm": config.max_grad_norm, "stop_grad_norm": config.stop_grad_norm}
        self.step = OptimiserStep(self.engine, network, self.optimizer, fits=partial(check_fits, model), **limits)
        if saved is not None:
            self.engine.restore_optimizer(self.optimizer, tensors.get("optimizer", {}))
        self.log = metrics or MetricsLog(folder, main=self.engine.main)
        # Rows of metrics of steps that were done after the checkpoint will be written again.
        self.log.keep_until(state.get("step", -1), state.get("metrics"))

    def run(self, rows: Rows, order: Sequence[int], progress: Progress, until: int | None = None) -> None:
        """Train until this step (None: to the end); nothing where a checkpoint is past it.

        Args:
            rows: what is trained on.
            order: numbers of the rows of all batches since the first step.
            progress: called after each row of metrics, in the main process.
            until: number of optimiser steps.

        Raises:
            ModelError: the weights were not finite before the first step.
            TrainingError: before the step that would have spoilt the weights; the batch is in `offending_batch.jsonl`.
        """
        until, size = self.config.steps if until is None else until, self.config.batch_size
        self.meter.begin(self.done)
        try:
            while self.done < until:
                self.recent.append(self._one_step(rows, order[self.done * size : (self.done + 1) * size]))
                self.done += 1
                last = self.done == until
                if self.done % STEPS_BETWEEN_RELEASES == 0:
                    release()
                if self.done % self.every == 0 or last:
                    self._report(progress)
                if self.done % self.config.save_steps == 0 or last:
                    self._save()
        except BaseException:
            self.log.close()
            raise

    def close(self) -> None:
        """End the training: close the log, and put together the weights that were sharded."""
        self.log.close()
        make_whole(self.model.model)
        self.model.model.eval()

    def _one_step(self, rows: Rows, batch: Sequence[int]) -> dict[str, float]:
        """Metrics of the batch before the step, gradient norm before clipping, and the learning rate."""
        # A short training would end before its warm-up.
        warmup = min(self.config.warmup_steps, self.config.steps // 4)
        rate = self.config.learning_rate * cosine_factor(self.done, warmup, self.config.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

        def loss(part: list[int]) -> PartialLoss:
            # Rows of a single pass keep the order in which they were drawn.
            places = sorted(part) if len(part) == len(batch) else part
            return rows.loss([batch[k] for k in places], batch, self.step.network)

        lengths = [rows.length(number) for number in batch]
        with dropout_stream(self.model.device, self.seed, self.done, self.engine.rank):
            means = self.step.accumulate(lengths, token_budget(self.model), loss, rows.beginnings(batch))
        means.setdefault("loss", 0.0)  # a batch of empty completions has no target
        try:
            norm = self.step.clip(self.step.network.parameters(), means["loss"])
        except ExplosionError as error:
            failure = self._explained(error, rows, batch)
            self.engine.wait()  # a launcher ends the others when one process ends
            raise failure from None
        self.step.apply()
        return {**means, "gradient_norm": norm, "learning_rate": rate}

    def _report(self, progress: Progress) -> None:
        means = weighted_means([(1, metrics) for metrics in self.recent])
        self.recent = []
        row = {"step": self.done, **means}
        row |= self.meter.measure(self.done, self.step.tokens)
        # Sizes never change, so the first row says them for all.
        self.log.append(row | (self.meter.sizes() if self.done <= self.every else {}), "step")
        if self.engine.main:
            progress(self.done, self.config.steps, f"loss {row['loss']:.4f}, {self.meter.note()}")

    def _save(self) -> None:
        # All processes ask: where weights are sharded, each holds a part.
        weights = self.engine.whole_weights(self.model.model)
        tensors = {"weights": weights, "optimizer": self.engine.optimizer_state(self.optimizer)}
        if self.head is not None:
            tensors["head"] = self.head.state_dict()
        if self.engine.main:
            seconds, mark = self.meter.elapsed(), self.log.mark()
            state = {"step": self.done, "rows": self.recent, "seconds": seconds, "metrics": mark}
            self.checkpoints.save(self.done, tensors, state)

    def _explained(self, error: ExplosionError, rows: Rows, batch: Sequence[int]) -> ModelError | TrainingError:
        """Write the batch to a file of the folder; the error that says so, or that the weights were spoilt before."""
        # Here and not where models are loaded, which would look at all weights of sound models, too.
        if not self.done and (odd := not_finite(self.model.model)):
            return ModelError(
                f"the weights of {self.model.title} are not finite before any step: {odd} holds nan or inf. Nothing "
                "was trained. Save or download the model again, or use another one."
            )
        path = self.folder / "offending_batch.jsonl"
        if self.engine.main:
            write_jsonl(path, [{"row": number, **rows.record(number)} for number in batch])
        kept = f"checkpoints in {self.checkpoints.folder} are kept, " if self.checkpoints.exist else ""
        return TrainingError(
            f"the loss is {error.loss} at step {self.done + 1}, the gradient norm {error.norm}. Nothing was "
            f"changed by it: {kept}the {len(batch)} rows are in {path}. Lower learning_rate in {self.settings}; if "
            "such norms are usual there, raise stop_grad_norm."
        )


def checkpoints_in(folder: Path) -> Checkpoints:
    """The checkpoints of the training in `folder`."""
    return Checkpoints(folder / "checkpoints")


def passes(seed: int, name: str, rows: int, count: int) -> list[int]:
    """`count` row numbers: all in a random order, and again in another, from the stream of this name."""
    # Each pass has a stream of its own: more steps prolong the order and change nothing before.
    orders = (stream(seed, name, number).permutation(rows) for number in range(math.ceil(count / rows)))
    return [int(row) for order in orders for row in order][:count]
