"""Supervised fine-tuning through TRL's SFTTrainer, loss on the completion tokens only.

L(φ) = -1/N Σ_i Σ_j log R_φ(R_ij | s_i, R_i,<j) for the reflection player (Reflect-RL, eq. 1); the policy's loss is the
same on its one choice token. Rows are tokenised here, prompt and completion apart, exactly as rollouts do it.

The same seed gives the same weights, bit for bit on one kind of machine, with or without interruptions. The global
random number generators, which the library seeds, are afterwards as they were before.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field

from reflect_rl.config import Frozen
from reflect_rl.errors import ConfigError, TrainingError
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import check_context
from reflect_rl.seeding import stream
from reflect_rl.store import write_jsonl
from reflect_rl.training.checkpoint import Checkpoints
from reflect_rl.training.engine import make_whole, process_count, process_rank
from reflect_rl.training.metrics import MetricsLog

if TYPE_CHECKING:
    from reflect_rl.training.completion_trainer import Step

__all__ = ["SFTConfig", "sft_checkpoints", "train_sft"]

Progress = Callable[[int, int, str], None]
"""Called with (done, total, note)."""


class SFTConfig(Frozen):
    """Supervised training of one model."""

    steps: int = Field(1000, ge=1)
    """Optimiser steps."""
    batch_size: int = Field(32, ge=1)
    """Rows per step."""
    learning_rate: float = Field(3e-3, gt=0)
    """Peak learning rate (for a pretrained model with LoRA: 2e-4, as in the paper)."""
    warmup_steps: int = Field(50, ge=0)
    """Steps of linear warm-up; a cosine to a tenth of the peak follows."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradient norm above which gradients are scaled down."""
    stop_grad_norm: float = Field(1e4, ge=0)
    """Gradient norm above which training stops and the batch is saved, 0 = at none that is finite."""
    balance: float = Field(0, ge=0, le=1)
    """How much rows with rare completions are favoured: a row is drawn with the weight n^-balance, n = rows with its
    completion; 0 = every row once per pass. For policies whose labels are mostly the same few numbers."""
    save_steps: int = Field(100, ge=1)
    """Steps between two checkpoints; an interrupted training goes on from the last one."""
    keep_checkpoints: int = Field(2, ge=1)
    """Newest checkpoints that stay while training is under way."""


def sft_checkpoints(folder: Path, config: SFTConfig) -> Checkpoints:
    """The checkpoints of the training in `folder`."""
    return Checkpoints(folder / "checkpoints", config.keep_checkpoints)


def train_sft(
    model: LanguageModel,
    examples: Sequence[tuple[str, str]],
    config: SFTConfig,
    folder: Path,
    seed: int,
    *,
    ends: bool,
    progress: Progress,
    metrics: MetricsLog | None = None,
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

    Raises:
        ConfigError: the batch cannot be shared equally by the processes.
        ModelError: a row is longer than the model's context.
        TrainingError: the loss or the gradient is not finite or too large; the batch is in `offending_batch.jsonl`.
        RunFolderError: there are checkpoints, and all are corrupt.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chosen = _order(seed, [completion for _, completion in examples], config.steps * config.batch_size, config.balance)
    number = {row: place for place, row in enumerate(dict.fromkeys(chosen))}  # of the rows that are trained on
    rows = _rows(model, [examples[row] for row in number], ends=ends)
    order = [number[row] for row in chosen]
    meter = _Meter(metrics or MetricsLog(folder, main=process_rank() == 0), config.steps, progress)
    checkpoints = sft_checkpoints(folder, config)
    with _kept_random_states(model.device), _kept_forward(model):
        from datasets import Dataset  # here, because importing draws random numbers, too

        from reflect_rl.training.completion_trainer import CompletionTrainer, ExplosionError

        arguments = _arguments(model, config, folder)
        with arguments.main_process_first(local=False):
            saved = checkpoints.load()
        meter.begin(None if saved is None else saved[1])
        table = Dataset.from_list([{name: row[name] for name in ("input_ids", "completion_mask")} for row in rows])
        trainer = CompletionTrainer(
            model,
            arguments,
            table,
            order=order,
            seed=seed,
            stop_grad_norm=config.stop_grad_norm,
            checkpoints=checkpoints,
            extra_state=meter.state,
            on_step=meter.step,
        )
        try:
            trainer.run(saved)
        except ExplosionError as error:
            last = error.step.number * config.batch_size
            batch = [{"row": row, **rows[number[row]]} for row in chosen[last - config.batch_size : last]]
            failure = _explained(error, folder, batch)
            trainer.accelerator.wait_for_everyone()  # a launcher ends the others when one process ends
            raise failure from None
        finally:
            meter.metrics.close()
        make_whole(model.model)


def _order(seed: int, completions: Sequence[str], count: int, balance: float) -> list[int]:
    """`count` row numbers: all rows in a random order, and again in another; or drawn by the weights of `balance`."""
    rows = len(completions)
    if balance:
        often = Counter(completions)
        weights = np.array([often[completion] ** -balance for completion in completions])
        return stream(seed, "balanced rows").choice(rows, count, p=weights / weights.sum()).tolist()
    passes = (stream(seed, "rows", number).permutation(rows) for number in range(math.ceil(count / rows)))
    return [int(row) for order in passes for row in order][:count]


def _rows(model: LanguageModel, examples: Sequence[tuple[str, str]], *, ends: bool) -> list[dict[str, Any]]:
    tail = [model.end_id] if ends else []
    rows = []
    for prompt, completion in examples:
        head, body = model.encode_prompt(prompt), [*model.encode_after(prompt, completion), *tail]
        row = {"prompt": prompt, "completion": completion, "input_ids": [*head, *body]}
        rows.append(row | {"completion_mask": [0] * len(head) + [1] * len(body)})
    check_context(model, max(len(row["input_ids"]) for row in rows))
    return rows


def _arguments(model: LanguageModel, config: SFTConfig, folder: Path) -> Any:
    from trl import SFTConfig as Arguments

    on_cpu = model.device.type == "cpu"
    arguments = Arguments(
        output_dir=str(folder),
        max_steps=config.steps,
        per_device_train_batch_size=_own_rows(config.batch_size),
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.1},
        warmup_steps=min(config.warmup_steps, config.steps // 4),
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        logging_strategy="no",
        save_steps=config.save_steps,
        report_to="none",
        use_cpu=on_cpu,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        max_length=None,
        completion_only_loss=True,
        dataloader_pin_memory=not on_cpu,
        logging_nan_inf_filter=False,
        eval_strategy="no",
    )
    # One process would otherwise copy the model to all GPUs at every step; several processes are the way to use them.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def _own_rows(batch_size: int) -> int:
    """Rows of a batch that each process takes."""
    if batch_size % process_count():
        raise ConfigError(
            f"an SFT batch_size of {batch_size} cannot be shared equally by {process_count()} processes. "
            f"Set it to a multiple of {process_count()}."
        )
    return batch_size // process_count()


class _Meter:
    """Rows of metrics; what is between two rows, and the time, go on after an interruption.

    A row depends on the configuration and the seed alone, but for `seconds`: the time spent training so far, without
    what was lost in interruptions.
    """

    def __init__(self, metrics: MetricsLog, total: int, progress: Progress) -> None:
        self.metrics, self.total, self.progress = metrics, total, progress
        self.every = max(1, total // 100)
        self.losses: list[float] = []
        self.started = time.perf_counter()

    def begin(self, state: dict[str, Any] | None) -> None:
        """Go on from a checkpoint's state; the rows of steps that were done after it will be written again."""
        if state is None:
            self.metrics.keep_until("step", -1)
            return
        self.losses = list(state["losses"])
        self.started = time.perf_counter() - state["seconds"]
        self.metrics.keep_until("step", state["trainer"]["global_step"])

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"losses": self.losses, "seconds": time.perf_counter() - self.started}

    def step(self, step: Step) -> None:
        """Write a row, if it is time."""
        self.losses.append(step.loss)
        if step.number % self.every and step.number != self.total:
            return
        loss = sum(self.losses) / len(self.losses)
        self.losses = []
        row = {"step": step.number, "loss": loss, "gradient_norm": step.gradient_norm}
        row |= {"learning_rate": step.learning_rate, "seconds": round(time.perf_counter() - self.started, 3)}
        self.metrics.append(row, "step")
        if self.metrics.main:
            self.progress(step.number, self.total, f"loss {loss:.4f}")


def _explained(error: TrainingError, folder: Path, batch: Sequence[dict[str, Any]]) -> TrainingError:
    """Write the batch to a file of the folder; the error that says so."""
    path = folder / "offending_batch.jsonl"
    if process_rank() == 0:
        write_jsonl(path, batch)
    return TrainingError(
        f"{error}. Nothing was changed by it: checkpoints in {folder / 'checkpoints'} are kept, the {len(batch)} rows "
        f"are in {path}. Lower the learning_rate of this model in [sft]; if such norms are usual with it, raise "
        "stop_grad_norm there."
    )


@contextmanager
def _kept_random_states(device: torch.device) -> Iterator[None]:
    """The global random number generators are afterwards as they were before, whatever is seeded inside."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (it is the global one that is kept)
    devices = list(range(torch.cuda.device_count())) if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@contextmanager
def _kept_forward(model: LanguageModel) -> Iterator[None]:
    """The trainers replace the model's `forward`; afterwards it is the class's again."""
    outer: Any = model.model
    modules = {outer, outer.get_base_model()} if hasattr(outer, "get_base_model") else {outer}
    before = {module: vars(module)["forward"] for module in modules if "forward" in vars(module)}
    try:
        yield
    finally:
        for module in modules:
            vars(module).pop("forward", None)
            vars(module).update({"forward": before[module]} if module in before else {})
