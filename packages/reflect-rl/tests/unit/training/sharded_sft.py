"""One supervised training, by as many processes as were launched: `sharded_sft.py FOLDER [--shard] [--parts] [--stop]`.

With `--parts` a batch goes through the model in groups of rows, whose number differs between two processes. With
`--stop` it ends after its fourth step, as if it had been interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from distributed_training import allow_sharding

from process_group import leave
from reflect_rl.launch import process_rank
from reflect_rl.training import sft
from reflect_rl.training.metrics import MetricsLog
from reflect_rl.training.sft import SFTConfig, train_sft
from toy import tiny_player

EXAMPLES = [(f"I begin. {'The goal is to the left. ' * (number % 5)}{number}", " Next: left.") for number in range(24)]


class StopError(Exception):
    pass


def main(folder: Path, *, stop: bool) -> None:
    torch.set_num_threads(1)
    model, _ = tiny_player()
    settings = SFTConfig(steps=6, batch_size=8, save_steps=3)

    def append(self: MetricsLog, row: Mapping[str, Any], step_key: str) -> None:
        if row["step"] == 4:
            raise StopError

    if stop:
        MetricsLog.append = append
    try:
        train_sft(model, EXAMPLES, settings, folder, 0, ends=True, progress=lambda *_: None)
    except StopError:
        return
    if process_rank() == 0:
        model.save(folder / "model")
    (folder / f"hash-{process_rank()}").write_text(model.hash())


if __name__ == "__main__":
    if "--shard" in sys.argv:
        allow_sharding()
    if "--parts" in sys.argv:
        sft.token_budget = lambda _: 60
    main(Path(sys.argv[1]), stop="--stop" in sys.argv)
    leave()
