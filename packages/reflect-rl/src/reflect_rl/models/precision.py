"""Choice of the number format: a short measurement tells whether bfloat16 is worth it here.

It matters most on processors without instructions for bfloat16: there its products take several times as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

WORTH_IT = 1.3
"""Least ratio of speeds; below, rounding is not worth the gain."""
REPEATS = 7
FEW_ROWS = 64
LONGEST = 0.02
"""Seconds of a product of few rows from which the large one is not tried, since it would take seconds."""
ROWS, INNER, COLUMNS = 1024, 576, 1536
"""A matrix product of a small language model's feed-forward layer, for a micro-batch of about four prompts."""


Precision = Literal["float32", "mixed", "bfloat16"]


@dataclass(frozen=True)
class Choice:
    """Format that `precision = "auto"` stands for here, and a sentence that says why."""

    precision: Precision
    sentence: str
    ratio: float
    """Time of a matrix product in float32 over that in bfloat16."""
    measured: str
    """The measurement in words, without the choice."""

    @property
    def is_slower(self) -> bool:
        """True where bfloat16 is clearly slower than float32."""
        return self.ratio * WORTH_IT < 1


@cache
def choose(
    device: torch.device, *, adapters: bool, seconds: Callable[[torch.device, torch.dtype], float] | None = None
) -> Choice:
    """The number format for training on a device.

    Weights that are trained themselves stay in float32 (`mixed`): small steps are lost in bfloat16.

    Args:
        device: where the model goes.
        adapters: whether only adapters are trained, which are in float32 anyway.
        seconds: time of a matrix product in a format (default: measured; one measurement for each process).
    """
    import torch

    measure = seconds or _seconds
    slow, fast = measure(device, torch.float32), measure(device, torch.bfloat16)
    ratio = slow / fast
    told = f"is {ratio:.1f} times as fast as" if ratio >= 1 else f"takes {1 / ratio:.1f} times as long as"
    measured = f"on {device.type} a matrix product in bfloat16 {told} in float32"
    # Weights are cast around each product, which eats a small gain (docs/reference/speed.md).
    if ratio < WORTH_IT:
        precision: Precision = "float32"
    else:
        precision = "bfloat16" if adapters else "mixed"
    return Choice(precision, f"precision: {precision} ({measured})", ratio, measured)


def _seconds(device: torch.device, dtype: torch.dtype) -> float:
    """The shortest of several products; other programs can only make one longer."""
    # The first product of a format may load kernels, so it is not counted.
    _shortest(device, dtype, FEW_ROWS, 1)
    few = _shortest(device, dtype, FEW_ROWS, 3)
    return few * ROWS / FEW_ROWS if few > LONGEST else _shortest(device, dtype, ROWS, REPEATS)


def _shortest(device: torch.device, dtype: torch.dtype, rows: int, repeats: int) -> float:
    import torch

    left = torch.ones(rows, INNER, device=device, dtype=dtype)
    right = torch.ones(INNER, COLUMNS, device=device, dtype=dtype)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        # Reading one number waits for the device.
        float((left @ right)[0, 0])
        times.append(time.perf_counter() - started)
    return min(times)
