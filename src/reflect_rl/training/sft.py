"""Supervised fine-tuning through TRL's SFTTrainer, loss on the completion tokens only.

L(φ) = -1/N Σ_i Σ_j log R_φ(R_ij | s_i, R_i,<j) for the reflection player (Reflect-RL, eq. 1); the policy's loss is the
same on its one choice token. Rows are tokenised here, prompt and completion apart, exactly as rollouts do it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from reflect_rl.core.config import Frozen
from reflect_rl.core.errors import TrainingError
from reflect_rl.core.store import read_jsonl, write_jsonl
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import completion_losses

__all__ = ["SFTConfig", "train_sft"]

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
    save_steps: int = Field(500, ge=1)
    """Steps between two checkpoints; an interrupted training goes on from the last one."""


def train_sft(
    model: LanguageModel,
    examples: Sequence[tuple[str, str]],
    config: SFTConfig,
    folder: Path,
    seed: int,
    *,
    ends: bool,
    progress: Progress,
) -> None:
    """Train `model` in place on (prompt, completion) pairs; metrics go to `folder/metrics.jsonl`.

    Args:
        model: a trainable language model.
        examples: the pairs.
        config: hyperparameters.
        folder: where metrics and checkpoints go; checkpoints found there are continued.
        seed: of the data order and dropout.
        ends: append the end token to each completion (reflections, not choices).
        progress: called after each logged step.

    Raises:
        TrainingError: the loss is not finite.
    """
    from datasets import Dataset
    from transformers.trainer_utils import get_last_checkpoint
    from trl import SFTConfig as Arguments

    folder.mkdir(parents=True, exist_ok=True)
    last = get_last_checkpoint(str(folder))
    tail = [model.end_id] if ends else []
    table = Dataset.from_list([_tokenised(model, prompt, completion, tail) for prompt, completion in examples])
    on_cpu = model.device.type == "cpu"
    arguments = Arguments(
        output_dir=str(folder),
        max_steps=config.steps,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.1},
        warmup_steps=min(config.warmup_steps, config.steps // 4),
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        logging_steps=max(1, config.steps // 100),
        save_steps=config.save_steps,
        save_total_limit=1,
        seed=seed % 2**32,
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
    trainer = _trainer_class(model)(
        model=model.model,
        args=arguments,
        train_dataset=table,
        processing_class=model.tokenizer,
        callbacks=[_recorder(folder / "metrics.jsonl", config.steps, progress)],
    )
    _silence(trainer)
    trainer.train(resume_from_checkpoint=last)


def _tokenised(model: LanguageModel, prompt: str, completion: str, tail: list[int]) -> dict[str, list[int]]:
    head, body = model.encode(prompt), [*model.encode_after(prompt, completion), *tail]
    return {"input_ids": [*head, *body], "completion_mask": [0] * len(head) + [1] * len(body)}


def _trainer_class(language_model: LanguageModel) -> Any:
    """TRL's trainer, with the loss computed at the completion's positions only.

    TRL projects every position onto the vocabulary, which costs small models a third of the step. Where the model is
    wrapped (several processes), its own way is kept, because gradients are exchanged by the wrapper.
    """
    from trl import SFTTrainer

    class CompletionTrainer(SFTTrainer):
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            if model is not language_model.model or return_outputs:
                return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            losses = completion_losses(language_model, inputs["input_ids"], inputs["attention_mask"], inputs["labels"])
            return losses.sum() / (len(losses) if num_items_in_batch is None else num_items_in_batch)

    return CompletionTrainer


def _silence(trainer: Any) -> None:
    """Progress is ours; the trainer's own printing would tear the progress bars."""
    from transformers.trainer_callback import PrinterCallback

    trainer.remove_callback(PrinterCallback)


def _recorder(path: Path, total: int, progress: Progress) -> Any:
    """A trainer callback that writes metrics, reports progress and stops at a loss that is not finite."""
    from transformers import TrainerCallback

    started = time.perf_counter()

    class Recorder(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            _keep_metrics_until(path, state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if not logs or "loss" not in logs:
                return
            loss, step = float(logs["loss"]), state.global_step
            row = {"step": step, "loss": loss, "learning_rate": float(logs["learning_rate"])}
            row["seconds"] = round(time.perf_counter() - started, 3)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            progress(step, total, f"loss {loss:.4f}")
            if not math.isfinite(loss):
                raise TrainingError(f"the supervised loss is {loss} at step {step}; lower sft.learning_rate.")

    return Recorder()


def _keep_metrics_until(path: Path, step: int) -> None:
    """Drop the rows of steps that were done after the checkpoint; they will be written again."""
    if path.exists():
        rows = read_jsonl(path, "Delete it and run the same command again.")
        write_jsonl(path, [row for row in rows if row["step"] <= step])
