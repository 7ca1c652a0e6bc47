"""Settings of the language model that reads candidates (`locate --deep`), and of its training."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from reflect_locate.evidence import LIKELY
from reflect_rl.config import Frozen, parse
from reflect_rl.store import read_json
from reflect_rl.training.config import OptimiserConfig

READER = "small"
"""The reader that comes with this package: 2.6 million parameters, trained by `train_reader`."""
PRETRAINED = "smollm2-135m"
"""Model that a training of a reader begins with, by its name in `reflect-rl model list`."""
SETTINGS = "reader.json"
"""Name of the file of a reader's settings, beside its weights."""
MOST_WEIGHTS = 16_000_000
"""Weights of a model up to which numpy is quick enough; larger ones are for torch."""
Objective = Literal["sft", "rl"]
"""Name of an objective of a reader's training."""


class ReaderSettings(Frozen):
    """Amount that is read, in characters and not in tokens, so that passages depend on no model.

    The defaults are those of a model that was not trained for this (`docs/results/log.md`, "Readers that learn from
    ninety projects").
    """

    version: Literal[3] = 3
    """Version of this file."""
    candidates: int = Field(5, ge=2)
    """Best files of the index that are read."""
    lines: int = Field(8, ge=1)
    """Lines that are read of each."""
    lines_before: int = Field(2, ge=0)
    """Lines of these that stand before the best line."""
    longest: int = Field(600, ge=100)
    """Characters that are read of each, about a quarter as many tokens of code; a question has to fit behind them."""
    weight: float = Field(2.0, gt=0)
    """Weight of what the model makes of a file, beside the evidence of the index."""
    likely: float = Field(LIKELY, gt=0, le=1)
    """Confidence from which an answer is likely; what a reader says moves the confidence of right and wrong files."""
    small_share: float = Field(0.6, ge=0, lt=1)
    """Share of the packaged reader in the likelihood, which is read, too; the rest is the model's own (0 = all)."""


def read_settings(folder: Path) -> ReaderSettings:
    """The settings beside a reader's weights; the defaults where there are none.

    Raises:
        ConfigError: they are of another version, or damaged.
    """
    kept = folder / SETTINGS
    return parse(ReaderSettings, read_json(kept, "Train it again.")) if kept.is_file() else ReaderSettings()


def is_small(folder: Path) -> bool:
    """Tell whether a folder holds a model that `SmallReader` computes, such as `train_reader` makes of a player.

    All others are for torch, also damaged ones, of which it tells what is wrong.
    """
    described = [folder / name for name in ("config.json", "tokenizer_config.json")]
    weights = folder / "model.safetensors"
    # A chat template or an adapter makes it another model, which torch's path knows.
    others = [*folder.glob("chat_template*"), *folder.glob("adapter_config.json")]
    if others or not all(path.is_file() for path in (*described, weights, folder / "tokenizer.json")):
        return False
    try:
        config, tokenizer = (json.loads(path.read_text(encoding="utf-8")) for path in described)
        with weights.open("rb") as file:
            header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        header.pop("__metadata__", None)
        count = sum(math.prod(entry["shape"]) for entry in header.values())
        # numpy knows no bfloat16.
        formats = {entry["dtype"] for entry in header.values()}
        expected: dict[str, Any] = {
            "model_type": "llama",
            "num_key_value_heads": config["num_attention_heads"],
            "bos_token_id": None,
            "tie_word_embeddings": True,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
        }
        return (
            count <= MOST_WEIGHTS
            and formats <= {"F16", "F32"}
            and all(config[key] == value for key, value in expected.items())
            and config["rope_parameters"].keys() == {"rope_type", "rope_theta"}
            and config["rope_parameters"]["rope_type"] == "default"
            and {"rms_norm_eps", "max_position_embeddings", "num_hidden_layers"} <= config.keys()
            and "quantization_config" not in config
            and not {"chat_template", "add_bos_token"} & tokenizer.keys()
        )
    except (AttributeError, KeyError, MemoryError, OSError, TypeError, ValueError):
        return False


class ReaderTraining(OptimiserConfig):
    """Optimiser steps of a reader; a row of a batch is a question with its candidates."""

    objective: Objective = "sft"
    """`sft` = likelihood of the right file; `rl` = expected share of right choices."""
    steps: int = Field(200, ge=1)
    batch_size: int = Field(8, ge=1)
    """Questions per step, each with all its candidates."""
    learning_rate: float = Field(2e-4, gt=0, le=1)
    warmup_steps: int = Field(10, ge=0)
    save_steps: int = Field(10, ge=1)
