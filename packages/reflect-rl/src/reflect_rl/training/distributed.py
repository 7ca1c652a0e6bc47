"""The processes that train one policy together; Accelerate owns all that is distributed.

One process and several do the same: they draw the same tasks, each plays and learns from its share, and gradients are
averaged. `accelerate launch` starts the processes; without it there is one.

Every process plays at its own pace, so each needs all weights. Where the training shards them (FSDP), it shards a copy,
and the weights that play are refreshed from it after each update.
"""

from __future__ import annotations

import copy
import gc
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedType, InitProcessGroupKwargs, gather_object
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from reflect_rl.errors import ConfigError
from reflect_rl.launch import process_count
from reflect_rl.training.checkpoint import optimizer_state, restore_optimizer

T = TypeVar("T")

TIMEOUT = timedelta(minutes=30)
"""Longest wait for the others in a collective operation: one process may have longer episodes than another."""

REPLICATED = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)
"""Ways to distribute in which every process trains all weights."""


def join(on_cpu: bool, timeout: timedelta = TIMEOUT) -> PartialState:
    """Join the other processes of the launch; the first call in a process sets how long it waits for them."""
    # Ranks above zero would load empty weights, which they could not play with.
    os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
    return PartialState(cpu=on_cpu, **({"timeout": timeout} if process_count() > 1 else {}))


def leave() -> None:
    """Wait for the others and end the group; a thread of it would abort an interpreter that ends before it."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        gc.collect()  # cycles of wrapped models hold the group, and so its threads


def refuse_launch(on_cpu: bool) -> None:
    """Check that training can be done as it was launched, before the work begins.

    Raises:
        ConfigError: it cannot; the message names the remedy.
    """
    if _asked("DEEPSPEED"):
        raise ConfigError(
            "training does not run under DeepSpeed, whose engine steps inside the backward pass, before a "
            "gradient that is not finite can be refused. Launch with --multi_gpu (DDP) or --use_fsdp --fsdp_version 2 "
            "(docs/guides/distributed.md)."
        )
    if _asked("MEGATRON_LM"):
        raise ConfigError("training does not run under Megatron-LM. Launch with --multi_gpu (DDP) or FSDP.")
    if not _asked("FSDP"):
        return
    if on_cpu:
        raise ConfigError("Accelerate shards weights on GPUs only. On CPUs launch with --multi_gpu, without FSDP.")
    if os.environ.get("FSDP_VERSION", "1") != "2":
        raise ConfigError("training shards by FSDP 2 only. Add --fsdp_version 2 to the launch.")


def _asked(way: str) -> bool:
    """Tell whether the launcher was asked to distribute the training in this way."""
    return os.environ.get(f"ACCELERATE_USE_{way}", "false").lower() == "true"


def was_lost(error: BaseException) -> bool:
    """Tell whether an error means that another process has ended or does not answer."""
    # gloo raises plain RuntimeErrors; only their text names it.
    return isinstance(error, torch.distributed.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


class Engine:
    """Operations of this process with the others of its launch; alone, they do nothing or act on its own data.

    Raises:
        ConfigError: the training cannot be distributed as it was launched.
    """

    def __init__(self, device: torch.device) -> None:
        on_cpu = device.type == "cpu"
        join(on_cpu)
        self.accelerator: Any = Accelerator(
            # Models come placed by `load_model`, and batches by whoever makes them.
            cpu=on_cpu,
            device_placement=False,
            kwargs_handlers=[InitProcessGroupKwargs(timeout=TIMEOUT)],
        )
        self.sharded = self.accelerator.distributed_type == DistributedType.FSDP
        """True = no process trains all weights."""
        refuse_launch(on_cpu and not self.sharded)
        if not self.sharded and self.accelerator.distributed_type not in REPLICATED:
            raise ConfigError(f"training does not run under {self.accelerator.distributed_type}.")
        self.rank: int = self.accelerator.process_index
        self.count: int = self.accelerator.num_processes

    @property
    def main(self) -> bool:
        """True = this process writes the files."""
        return self.rank == 0

    def trainable(self, network: nn.Module, *, plays: bool) -> nn.Module:
        """The module to be trained: this one, or a copy of it if it will be sharded.

        Args:
            network: the module.
            plays: it is needed whole while it is trained.
        """
        if not self.sharded:
            return network
        trained: Any = copy.deepcopy(network) if plays else network
        # Accelerate shards the modules of these classes one by one; it looks for their names at the outermost module.
        trained._no_split_modules = getattr(trained.language_model, "_no_split_modules", None)
        return cast(nn.Module, trained)

    def prepare(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
        """The module and optimiser as all processes use them together; sharded, the parameters are other ones."""
        # Alone there is nothing to wrap, and a plain module keeps its names in checkpoints.
        if self.count == 1:
            return network, optimizer
        prepared: tuple[Any, Any] = self.accelerator.prepare(network, optimizer)
        return prepared

    @torch.no_grad()
    def refresh(self, playing: nn.Module, trained: nn.Module) -> None:
        """Give the weights that were trained to the module that plays."""
        if self.sharded:
            own = dict(playing.named_parameters())
            for name, weight in trained.named_parameters():
                if own[name].requires_grad:
                    own[name].copy_(_whole(weight))

    @torch.no_grad()
    def broadcast(self, playing: nn.Module, trained: nn.Module) -> None:
        """Give the weights of the module that plays to the one that is trained."""
        if self.sharded:
            own = dict(playing.named_parameters())
            for name, weight in trained.named_parameters():
                weight.copy_(_like(own[name].detach(), weight))

    def whole_weights(self, module: nn.Module) -> dict[str, Tensor]:
        """Trained weights by name, the same for any number of processes; all of them must ask."""
        return {name: _whole(weight.detach()) for name, weight in module.named_parameters() if weight.requires_grad}

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        """The whole state, the same for any number of processes; all of them must ask."""
        return {key: _whole(value) for key, value in optimizer_state(optimizer).items()}

    def restore_optimizer(self, optimizer: torch.optim.Optimizer, table: Mapping[str, Tensor]) -> None:
        """Put back what `optimizer_state` gave."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        parts = {key: _like(value, parameters[int(key.partition(".")[0])]) for key, value in table.items()}
        restore_optimizer(optimizer, parts)

    def clip(self, parameters: Iterable[Tensor], limit: float) -> float:
        """Scale gradients down to an L2 norm of at most `limit`; return their norm before."""
        # With sharded weights the norm itself is a sharded number.
        return float(_whole(nn.utils.clip_grad_norm_(parameters, limit)))

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Take every n-th item, for n processes: this one's part of the work."""
        return items[self.rank :: self.count]

    def all_gather(self, items: Sequence[T]) -> list[T]:
        """The items of all processes, those of the first process first."""
        return list(gather_object(list(items))) if self.count > 1 else list(items)

    def local_only(self, network: nn.Module) -> AbstractContextManager[None]:
        """Gradients of backward passes in this context stay here until a pass outside it."""
        return cast(AbstractContextManager[None], self.accelerator.no_sync(network))

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss whose sum over all processes is to be minimised."""
        self.accelerator.backward(loss * self.count)  # processes average their gradients

    def first(self) -> AbstractContextManager[None]:
        """The main process goes through this context before the others."""
        return cast(AbstractContextManager[None], self.accelerator.main_process_first())

    def wait(self) -> None:
        """Block until all processes are here."""
        self.accelerator.wait_for_everyone()


@torch.no_grad()
def make_whole(module: nn.Module) -> None:
    """Put together the weights of a module whose training has left them in parts; all processes ask for it."""
    whole: dict[Tensor, nn.Parameter] = {}
    for part in module.modules():
        for name, weight in part.named_parameters(recurse=False):
            if isinstance(weight, DTensor):
                if weight not in whole:  # tied weights stay tied
                    whole[weight] = nn.Parameter(weight.full_tensor(), weight.requires_grad)
                part._parameters[name] = whole[weight]


@torch.no_grad()
def not_finite(module: nn.Module) -> str:
    """Name of a weight that holds nan or inf, empty where none does; all processes ask for it."""
    found = [name for name, weight in module.named_parameters() if not _whole(weight).isfinite().all()]
    return found[0] if found else ""


def _whole(tensor: Tensor) -> Tensor:
    """A tensor that the processes hold in parts; they all ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Cut this process's part from a tensor, if the parameter of its shape is held in parts."""
    # An optimiser's step counter has another shape than its parameter; every process holds it whole.
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor.to(parameter.device), parameter.device_mesh, parameter.placements)
