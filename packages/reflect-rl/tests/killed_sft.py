"""Supervised trainings that are killed with SIGKILL, each in a process of its own that shares this one's imports.

`python killed_sft.py FOLDER` leaves in FOLDER/<variant>/<how>/ what each training left: checkpoints, metrics and the
final model. It prints for each a line of JSON: the folder, and for each start whether it came to its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from reflect_rl.config import ModelConfig
from reflect_rl.models.load import load_model
from reflect_rl.runs.workers import silence
from reflect_rl.training.config import SFTConfig
from reflect_rl.training.sft import train_sft
from tiny_models import save_tiny

EXAMPLES = [
    ("The goal is at 4. # Analyze:\n", "I begin. Next: right."),
    ("You are at 3. # Analyze:\n", "The last action wait was a mistake. Next: left."),
    ("0 # Analyze:\n", "left."),
]
SETTINGS = SFTConfig(steps=8, save_steps=3, batch_size=2, warmup_steps=2, learning_rate=1e-2)
VARIANTS = {"all-weights": {}, "lora": {"lora": {"rank": 2, "dropout": 0.3}}}
EVENTS = ("fsync", "rename", "replace", "unlink", "rmdir")


def train(base: Path, folder: Path, changes: dict, at_event: Callable[[], None]) -> None:
    """One training; `at_event` is called at every step and at every call that changes what is on the disk."""
    model = load_model(ModelConfig(device="cpu", **changes), base, trainable=True, seed=1)
    for name in EVENTS:
        setattr(os, name, announced(getattr(os, name), at_event))
    train_sft(model, EXAMPLES, SETTINGS, folder, 0, ends=True, progress=lambda *_: at_event())
    model.save(folder / "model")


def announced(call: Callable, at_event: Callable[[], None]) -> Callable:
    def wrapped(*words, **options):
        at_event()
        return call(*words, **options)

    return wrapped


def killed_at(moment: int) -> Callable[[], None]:
    """Kills this process at the given event; 0 = never."""
    count = 0

    def at_event() -> None:
        nonlocal count
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    return at_event


def in_a_process(work: Callable[[], None], seconds: float = 60) -> bool:
    """Whether the work came to its end; it is killed after so many seconds."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    done, status = 0, 0
    while not done:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.002)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"a training failed with {os.WEXITSTATUS(status)}")
    return os.WIFEXITED(status)


def interruptions(variant: str) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """Name, and for each start in turn: the event and the second at which it is killed (0 = at none)."""
    yield "uninterrupted", []
    # A training has some 40 events: 8 steps, and in the 3 checkpoints flushes, renamings and removals.
    for moment in range(3 + 4 * list(VARIANTS).index(variant), 36, 11):
        yield f"event-{moment}", [(moment, 60.0)]
    if variant == "lora":
        yield "over-and-over", [(moment, 60.0) for moment in (13, 6, 15, 4, 8)]
    seconds = np.random.default_rng(len(variant)).uniform(0.1, 0.5, 2)
    yield "any-time", [(0, float(second)) for second in seconds]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    silence()
    base = save_tiny("gpt2", folder / "base")
    for variant, changes in VARIANTS.items():
        for name, kills in interruptions(variant):
            place = folder / variant / name
            ends = [
                in_a_process(partial(train, base, place, changes, killed_at(moment)), seconds)
                for moment, seconds in [*kills, (0, 60.0)]
            ]
            print(json.dumps([f"{variant}/{name}", ends]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
