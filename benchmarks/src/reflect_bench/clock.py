"""Time, memory, and the peak of this machine."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D


def now(device: torch.device) -> float:
    """Wall time in seconds, after the GPU has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def matmul_peak(device: torch.device, dtype: torch.dtype, size: int, repeats: int = 6) -> float:
    """Best rate of the product of two square matrices, in GFLOP/s (2 · size³ operations each)."""
    left, right = (torch.ones(size, size, device=device, dtype=dtype) for _ in range(2))
    best = float("inf")
    for _ in range(repeats):
        started = now(device)
        left @ right
        best = min(best, now(device) - started)
    return 2 * size**3 / best / 1e9


def peak_memory_mb(device: torch.device) -> float:
    """Most memory so far, in MB: of the GPU's allocator, or of this process.

    Linux keeps the maximum of `getrusage` over the start of a program, so that a child would report its parent's; the
    high-water mark in /proc is the process's own.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    status = Path("/proc/self/status")
    if status.exists():
        words = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()
        return int(words[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


class ArithmeticMeter:
    """Seconds inside the forward passes of some modules and inside all backward passes, while the block runs.

    Hooks on the outermost modules only: they cost microseconds, where a profiler would slow down small models. On a GPU
    each of them waits for its queue.
    """

    def __init__(self, modules: Iterable[nn.Module], device: torch.device) -> None:
        self.modules, self.device = list(modules), device
        self.seconds = 0.0
        self._depth = 0
        self._started = 0.0
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> ArithmeticMeter:
        for module in self.modules:
            self._undo.append(module.register_forward_pre_hook(lambda *_: self._begin()).remove)
            self._undo.append(module.register_forward_hook(lambda *_: self._end(), always_call=True).remove)
        backward: Any = torch.autograd.backward

        def timed(*arguments: Any, **options: Any) -> None:
            self._begin()
            try:
                backward(*arguments, **options)
            finally:
                self._end()

        # `Tensor.backward` looks the function up at each call.
        torch.autograd.backward = timed
        self._undo.append(lambda: setattr(torch.autograd, "backward", backward))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _begin(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._started = now(self.device)

    def _end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += now(self.device) - self._started


class ProductCounter:
    """Floating-point operations in the linear layers of a module that is trained, while the block runs.

    Two for each weight and token forward. The backward pass that follows costs two more, and again two where the weight
    is trained. Attention's own products and the few rows of the vocabulary that are projected onto are left out.
    PyTorch's `FlopCounterMode` leaves attention out on processors too, and keeps all activations alive while it counts.
    """

    def __init__(self, module: nn.Module) -> None:
        self.layers = [part for part in module.modules() if isinstance(part, (nn.Linear, Conv1D))]
        self.operations = 0
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> ProductCounter:
        self._undo = [layer.register_forward_hook(self._count).remove for layer in self.layers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in self._undo:
            undo()

    def _count(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        width = output.shape[-1]
        per_token = 2 * inputs[0].shape[-1] * width
        trained: Any = layer.weight
        passes = (3 if trained.requires_grad else 2) if torch.is_grad_enabled() else 1
        self.operations += passes * per_token * (output.numel() // width)
