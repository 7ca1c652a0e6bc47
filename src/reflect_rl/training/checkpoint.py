"""Atomic checkpoints of online training: safetensors and JSON, never pickle.

A checkpoint is written to a folder beside its place, flushed to disk, and renamed over the old one, so that an
interruption leaves either the old or the new one. Its files' SHA-256 sums are inside; a checkpoint that does not match
them is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from reflect_rl.core.errors import RunFolderError

__all__ = ["load_checkpoint", "optimizer_state", "restore_optimizer", "save_checkpoint"]

SUMS = "sha256.json"


def save_checkpoint(folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
    """Write groups of tensors (`<group>.safetensors`) and a JSON state, replacing the checkpoint in `folder`."""
    fresh, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for group, members in tensors.items():
        contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in members.items()}
        save_file(contiguous, fresh / f"{group}.safetensors")
    (fresh / "state.json").write_text(json.dumps(state), encoding="utf-8")
    sums = {path.name: _sha256(path) for path in sorted(fresh.iterdir())}
    (fresh / SUMS).write_text(json.dumps(sums), encoding="utf-8")
    for path in fresh.iterdir():
        _flush(path)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    _flush(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None:
    """The tensors and state in `folder`, or None where no checkpoint was ever completed.

    Raises:
        RunFolderError: the checkpoint is corrupt; the message names the file.
    """
    old = folder.with_name(folder.name + ".old")
    if not folder.exists() and old.exists():
        old.rename(folder)
    if not folder.exists():
        return None
    try:
        sums = json.loads((folder / SUMS).read_text(encoding="utf-8"))
        for name, expected in sums.items():
            if _sha256(folder / name) != expected:
                raise RunFolderError(
                    f"checkpoint file {folder / name} is corrupt; delete {folder} to train from the start."
                )
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        groups = {path.stem: load_file(path) for path in sorted(folder.glob("*.safetensors"))}
    except (OSError, json.JSONDecodeError) as error:
        raise RunFolderError(
            f"checkpoint {folder} is not readable ({error}); delete it to train from the start."
        ) from None
    return groups, state


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state as a flat table of tensors, `<parameter number>.<quantity>`."""
    return {
        f"{index}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for index, entry in optimizer.state_dict()["state"].items()
        for name, value in entry.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, table: Mapping[str, Tensor]) -> None:
    """Put a state from `optimizer_state` back."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in table.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
