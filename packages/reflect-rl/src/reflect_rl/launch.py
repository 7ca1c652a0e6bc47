"""Processes and memory: rank and number of the processes of a launch, and the memory that each gives back.

When one process of a launch fails, most of the others fail too. A user is to read one message, the first cause, so each
waits for its turn to speak. The launcher ends all processes a moment after the first one, which keeps the rest silent.

Memory that nobody uses goes back to the system. Batches of text all have other shapes, and two caches keep something
for each: glibc freed pieces of memory, oneDNN a compiled kernel (9 GB after 400 steps, `docs/results/log.md`).
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from reflect_rl.errors import TrainingError

OWN_TURN, LOST_TURN = 2.0, 6.0
"""Seconds after which the other processes tell their own error, and after which any tells that it lost another."""


class LostProcessError(TrainingError):
    """Another process of the launch has ended or does not answer."""


QUIET = {
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "error",
    "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning",  # it cleans up after workers that were ended
    "TOKENIZERS_PARALLELISM": "false",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Environment variables under which the libraries print nothing; they are read when a library is first imported."""


def process_rank() -> int:
    """Number of this process among those of a launch; 0 is the main one."""
    # From the environment and not from torch.distributed, which takes seconds to import and a group to ask.
    return int(os.environ.get("RANK", "0"))


def process_count() -> int:
    """Number of processes of the launch; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def local_process_count() -> int:
    """Number of processes of the launch on this machine; all of them where the launcher does not say."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", process_count()))


def wait_to_speak(error: Exception) -> None:
    """Return when it is this process's turn to tell the error: that of the main process comes first."""
    turn = LOST_TURN if isinstance(error, LostProcessError) else 0.0 if process_rank() == 0 else OWN_TURN
    if process_count() > 1:
        # Ranks apart by half a second: the launcher needs a moment to end the others. Eight bound the wait.
        time.sleep(turn + 0.5 * min(process_rank(), 8))


KERNELS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
"""Environment variable of oneDNN, PyTorch's kernels on CPUs; whoever sets it is obeyed."""

FEW = "64"
"""Number of kernels for all shapes of one pass through a model; a training has thousands, and most come only once."""


def keep_few_kernels() -> None:
    """Let this process and its children keep few compiled kernels; to be called before anything is computed."""
    # In the environment: oneDNN reads the variable at its first computation, and spawned workers inherit it.
    os.environ.setdefault(KERNELS, FEW)


@contextmanager
def collector_off() -> Iterator[None]:
    """Switch off the search for cycles inside."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def release() -> None:
    """Give freed memory back to the system: 25 ms; nothing happens where the C library is another one than glibc."""
    if sys.platform != "linux":
        return
    import ctypes

    # musl, the C library of Alpine, has no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def peak_bytes() -> int:
    """Peak resident set of this process in bytes; 0 on Windows, which has no such count."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # Linux counts in KiB, macOS in bytes
