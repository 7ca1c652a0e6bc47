"""TRL's SFTTrainer, with what makes a supervised training exact put in place of its own.

- The loss is computed at the completion's positions only. TRL projects every position onto the vocabulary, which costs
  small models a third of the step.
- A batch goes forwards and backwards in groups of rows of similar length (`models.score.room`), so memory holds the
  activations of one group, however large the batch is. Where weights are sharded, all processes make as many groups,
  because their layers are gathered by all at the same time.
- The order of the rows is given, and dropout of step s in process r comes from a stream named after s and r, so no
  state of a random number generator has to be saved.
- Checkpoints are `Checkpoints` (safetensors and JSON); the Hugging Face ones hold pickles.
- A step whose loss or gradient is not finite, or too large, is not done.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback
from trl import SFTTrainer

from reflect_rl.errors import TrainingError
from reflect_rl.memory import release
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import completion_losses, equal_groups, micro_batches, room
from reflect_rl.seeding import seed_for
from reflect_rl.training.checkpoint import Checkpoints, Saved, optimizer_state, restore_optimizer
from reflect_rl.training.engine import REPLICATED

__all__ = ["CompletionTrainer", "ExplosionError", "Step"]


NAMES = ("input_ids", "attention_mask", "labels")
"""What a batch consists of."""


STEPS_BETWEEN_RELEASES = 10


@dataclass(frozen=True)
class Step:
    """One optimiser step."""

    number: int
    """Counted from 1."""
    loss: float
    """Mean of -log p over the completion tokens of the batch, over all processes."""
    gradient_norm: float | None
    """Before clipping; None where the library that shards the gradients does not tell it."""
    learning_rate: float
    """Of this step."""


class ExplosionError(TrainingError):
    """A step whose loss or gradient is not finite or too large."""

    def __init__(self, step: Step) -> None:
        self.step = step
        super().__init__(
            f"the supervised loss is {step.loss} at step {step.number}, the gradient norm {step.gradient_norm}"
        )


class CompletionTrainer(SFTTrainer):
    """Trains `model` in place.

    Args:
        model: a trainable language model.
        arguments: of TRL.
        table: rows with `input_ids` and `completion_mask`.
        order: the rows' numbers in the order of training, as many as all steps of all processes take.
        seed: root of the random streams.
        stop_grad_norm: gradient norm at which training stops, 0 = at none that is finite.
        checkpoints: where the main process saves.
        extra_state: what else goes into a checkpoint's JSON, asked for at each.
        on_step: called after each step.
    """

    optimizer: Any
    lr_scheduler: Any

    def __init__(  # noqa: PLR0913 (what it replaces in the library, one each)
        self,
        model: LanguageModel,
        arguments: Any,
        table: Any,
        *,
        order: Sequence[int],
        seed: int,
        stop_grad_norm: float,
        checkpoints: Checkpoints,
        extra_state: Callable[[], dict[str, Any]],
        on_step: Callable[[Step], None],
    ) -> None:
        self.language_model, self.order, self.seed, self.stop_grad_norm = model, order, seed, stop_grad_norm
        self.checkpoints, self.extra_state, self.on_step = checkpoints, extra_state, on_step
        self.saved: Saved | None = None
        self.loss, self.rate, self.targets = math.nan, math.nan, math.nan
        self.norm: float | None = None
        super().__init__(
            model=model.model,
            args=arguments,
            train_dataset=table,
            processing_class=model.tokenizer,
            callbacks=[_Hooks(self)],
        )
        # Progress is ours; the trainer's own printing would tear the progress bars.
        self.remove_callback(PrinterCallback)
        accelerator: Any = self.accelerator
        self._clip = accelerator.clip_grad_norm_
        accelerator.clip_grad_norm_ = self._clip_and_note

    def run(self, saved: Saved | None) -> None:
        """Train to the end, from a checkpoint if one is given.

        Raises:
            ExplosionError: before the step that would have spoilt the weights.
        """
        self.saved = saved
        # Whatever wraps the model to exchange gradients sees calls of `forward` only.
        vars(self.language_model.model)["forward"] = self._completion_losses
        with TemporaryDirectory() as scratch:
            if saved is not None:
                (Path(scratch) / TRAINER_STATE_NAME).write_text(json.dumps(saved[1]["trainer"]), encoding="utf-8")
            self.train(resume_from_checkpoint=None if saved is None else scratch)

    def _completion_losses(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
        return completion_losses(self.language_model, input_ids, attention_mask, labels)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """Sum over this process's completion tokens, so scaled that the processes' average is the mean over all."""
        losses: Tensor = model(**{name: inputs[name] for name in NAMES})
        return losses.sum() * (self.accelerator.num_processes / self.targets)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Forward and backward pass, with random numbers that depend on nothing but the step and the process."""
        rank = self.accelerator.process_index
        set_seed(seed_for(self.seed, "dropout", self.state.global_step, rank) % 2**32)
        count = (inputs["labels"][:, 1:] != -100).sum().float().to(self.accelerator.device)
        self.targets = float(self.accelerator.reduce(count, "sum").clamp(min=1))
        parts = self._parts(inputs)
        loss = torch.zeros((), device=self.accelerator.device)
        for number, part in enumerate(parts, 1):
            waits = number < len(parts) and not self._sharded
            with self.accelerator.no_sync(model) if waits else nullcontext():
                loss += super().training_step(model, part, num_items_in_batch)
        self.loss = float(self.accelerator.reduce(loss, "mean"))
        return loss

    @property
    def _sharded(self) -> bool:
        return self.accelerator.distributed_type not in REPLICATED

    def _parts(self, inputs: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """Rows that go through the model together."""
        lengths = inputs["attention_mask"].sum(1).tolist()
        groups = list(micro_batches(lengths, room(self.language_model)))
        if self._sharded:
            counts: Tensor = self.accelerator.gather(torch.tensor([len(groups)], device=self.accelerator.device))
            groups = equal_groups(lengths, int(counts.max()))
        if len(groups) == 1:
            return [inputs]
        return [{name: inputs[name][group, : max(lengths[row] for row in group)] for name in NAMES} for group in groups]

    def _clip_and_note(self, *words: Any, **options: Any) -> Any:
        norm = self._clip(*words, **options)
        self.norm = None if norm is None else float(norm)
        return norm

    def check(self) -> None:
        """Stop before a step that would spoil the weights; all processes see the same numbers."""
        self.rate = float(self.optimizer.param_groups[0]["lr"])
        values = [self.loss] if self.norm is None else [self.loss, self.norm]
        too_large = self.stop_grad_norm and self.norm is not None and self.norm > self.stop_grad_norm
        if too_large or not all(map(math.isfinite, values)):
            raise ExplosionError(self._step(self.state.global_step + 1))

    def note(self) -> None:
        """Tell of the step that was done."""
        if self.state.global_step % STEPS_BETWEEN_RELEASES == 0:
            release()
        self.on_step(self._step(self.state.global_step))

    def _step(self, number: int) -> Step:
        return Step(number, self.loss, self.norm, self.rate)

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return self.order

    def _send_telemetry(self) -> None:
        """Nothing leaves this machine."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Where weights or optimiser are sharded, no process has them whole.
        if not self.args.should_save or self.is_fsdp_enabled or self.is_deepspeed_enabled:
            return
        tensors = {"weights": self._weights(), "optimizer": optimizer_state(self.optimizer)}
        state = {"trainer": asdict(self.state) | {"log_history": []}, "scheduler": self.lr_scheduler.state_dict()}
        self.checkpoints.save(self.state.global_step, tensors, state | self.extra_state())

    def _weights(self) -> dict[str, Tensor]:
        parameters = self.language_model.model.named_parameters()
        return {name: parameter.detach() for name, parameter in parameters if parameter.requires_grad}

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self.saved is not None:
            for name, weight in self._weights().items():
                weight.copy_(self.saved[0]["weights"][name])

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if self.saved is None:
            return
        restore_optimizer(self.optimizer, self.saved[0]["optimizer"])
        self.lr_scheduler.load_state_dict(self.saved[1]["scheduler"])
        for group, rate in zip(self.optimizer.param_groups, self.lr_scheduler.get_last_lr(), strict=True):
            group["lr"] = rate

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """There is none: see `training_step`."""


class _Hooks(TrainerCallback):
    """Calls of the library's loop, passed on."""

    def __init__(self, trainer: CompletionTrainer) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.trainer.check()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.trainer.note()
