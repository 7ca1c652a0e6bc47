"""One process of two that train together: `accelerate launch two_process_sft.py FOLDER` trains in FOLDER/<name>.

`fresh` begins; `resumed` goes on from what a single process left there; `parts` begins, and its batches go through the
model one row at a time; `shared` begins, and reads once what rows begin with alike.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from reflect_rl.config import ModelConfig
from reflect_rl.launch import process_rank
from reflect_rl.models import network, score
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.network import REUSE_TOKENS, REUSE_WIDTH
from reflect_rl.training import trainer
from reflect_rl.training.config import SFTConfig
from reflect_rl.training.distributed import leave
from reflect_rl.training.sft import train_sft
from tiny_models import save_tiny

EXAMPLES = [
    ("The goal is at 4. # Analyze:\n", "I begin. Next: right."),
    ("You are at 3. # Analyze:\n", "The last action wait was a mistake. Next: left."),
    ("0 # Analyze:\n", "left."),
    ("0 1 2 # Analyze:\n", "Blocked: east."),
    ("Passenger waits at 0 4. # Analyze:\n", "I must correct it."),
    ("0 1 2 # Analyze:\n", "Blocked: west."),
    ("0 # Analyze:\n", "right."),
]
SETTINGS = SFTConfig(steps=6, save_steps=2, batch_size=7, warmup_steps=0, learning_rate=1e-2)
"""Batches of 7 rows of different lengths: two processes get unequal numbers of rows and of tokens."""


def player(folder: Path) -> LanguageModel:
    """A model without dropout, whose masks would differ, and without biases, whose gradients are all rounding."""
    path = folder / f"base-{process_rank()}"
    return load_model(ModelConfig(device="cpu"), save_tiny("llama", path, seed=3), trainable=True)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    for name in ("fresh", "resumed", "parts", "shared"):
        model = player(folder)
        trainer.token_budget = (lambda _: 1) if name == "parts" else score.token_budget
        network.REUSE_WIDTH = 1 if name == "shared" else REUSE_WIDTH
        score.REUSE_TOKENS = 1 if name == "shared" else REUSE_TOKENS
        train_sft(model, EXAMPLES, SETTINGS, folder / name, 0, ends=True, progress=lambda *_: None)
        save_file(model.model.state_dict(), folder / name / f"model-{process_rank()}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    leave()
