"""Supervised trainings of two processes that share the weights: `sharded_sft.py FOLDER` trains in FOLDER/<variant>.

`whole` trains to its end, `parts` sends a batch through the model in groups of rows, whose number differs between the
processes, and `resumed` is interrupted after its fourth step and goes on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from distributed_training import allow_sharding

from reflect_rl.launch import process_rank
from reflect_rl.training import sft
from reflect_rl.training.config import SFTConfig
from reflect_rl.training.distributed import leave
from reflect_rl.training.metrics import MetricsLog
from reflect_rl.training.sft import train_sft
from toy import tiny_player

EXAMPLES = [(f"I begin. {'The goal is to the left. ' * (number % 5)}{number}", " Next: left.") for number in range(24)]
SETTINGS = SFTConfig(steps=6, batch_size=8, save_steps=3)


class StopError(Exception):
    pass


def train(folder: Path) -> None:
    """One training to its end; the main process writes the model."""
    model, _ = tiny_player()
    train_sft(model, EXAMPLES, SETTINGS, folder, 0, ends=True, progress=lambda *_: None)
    if process_rank() == 0:
        model.save(folder / "model")
    (folder / f"hash-{process_rank()}").write_text(model.hash())


def interrupt(folder: Path) -> None:
    """One training until its fourth step."""
    before = MetricsLog.append

    def append(self: MetricsLog, row: Mapping[str, Any], step_key: str) -> None:
        if row["step"] == 4:
            raise StopError

    MetricsLog.append = append
    with suppress(StopError):
        train(folder)
    MetricsLog.append = before
    assert not (folder / "model").exists()


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    interrupt(folder / "resumed")
    train(folder / "resumed")
    train(folder / "whole")
    sft.token_budget = lambda _: 60
    train(folder / "parts")


if __name__ == "__main__":
    allow_sharding()
    main(Path(sys.argv[1]))
    leave()
    # Sharded weights keep a group of gloo, whose threads would abort an interpreter that ends before them.
    os._exit(0)
