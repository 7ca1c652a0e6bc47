"""Atomic checkpoints of a training: safetensors and JSON, never pickle.

A checkpoint is a folder `step-00000120`. It is written under another name, flushed to disk and renamed, so that an
interruption leaves a whole checkpoint or none. Its files' SHA-256 sums are inside; one that does not match them is put
aside and reported, and the one before it is used.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from reflect_rl.errors import ReflectRLWarning, RunFolderError
from reflect_rl.store import flush, sha256_of

KEPT = 2
"""Newest checkpoints that stay, so that one is left where the other turns out to be corrupt."""
SUMS = "sha256.json"
STATE = "state.json"
CORRUPT_LOG = "corrupt.jsonl"
NAME = re.compile(r"step-(\d+)")

Saved = tuple[dict[str, dict[str, Tensor]], dict[str, Any]]
"""The groups of tensors, and the state."""


class CheckpointWarning(ReflectRLWarning):
    """A checkpoint was found corrupt and put aside."""


class _CorruptError(Exception):
    """A checkpoint does not verify."""


class Checkpoints:
    """The checkpoints of one training, in one folder.

    With several processes, the main one alone calls `save` and `clear`, and it calls `load` before the others do.

    Args:
        folder: where they are; the first `save` makes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
        """Write a checkpoint whole or not at all, then remove all but the newest.

        Args:
            step: the number it is ordered by; a checkpoint of this step is replaced.
            tensors: groups of named tensors, each a file `<group>.safetensors`; copied to the CPU.
            state: anything JSON can hold (floats keep every bit).
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._tidy()
        place = self.folder / f"step-{step:08d}"
        fresh, old = _beside(place, "new"), _beside(place, "old")
        fresh.mkdir()
        _write(fresh, tensors, state)
        # A folder cannot replace another in one call, so the old one steps aside; `_tidy` undoes half a replacement.
        if place.exists():
            place.rename(old)
        fresh.rename(place)
        # Only now is the name on the disk; what is removed below cannot be missed.
        flush(self.folder)
        for outdated in [old, *self._places()[KEPT:]]:
            _remove(outdated)

    def load(self) -> Saved | None:
        """The newest checkpoint that verifies, or None where there is none.

        One that does not verify is renamed to `<name>.corrupt`, reported by a `CheckpointWarning` and in
        `corrupt.jsonl`; the one before it is tried.

        Raises:
            RunFolderError: checkpoints were written, and none of them verifies; or one may not be read.
        """
        self._tidy()
        for place in self._places():
            try:
                return _read(place)
            except _CorruptError as error:
                self._put_aside(place, str(error))
        if refused := sorted(path.name for path in self.folder.glob("step-*.corrupt")):
            raise RunFolderError(
                f"all checkpoints in {self.folder} are corrupt ({', '.join(refused)}). "
                "Delete them to train from the start."
            )
        return None

    @property
    def exist(self) -> bool:
        """True = there is one, whole or not."""
        return bool(self._places())

    def clear(self) -> None:
        """Remove all checkpoints, also those that were put aside."""
        self._tidy()
        for place in [*self._places(), *self.folder.glob("step-*.corrupt")]:
            _remove(place)

    def _places(self) -> list[Path]:
        """The checkpoints' folders, newest first."""
        found = [(match, path) for path in self.folder.glob("step-*") if (match := NAME.fullmatch(path.name))]
        return [path for _, path in sorted(found, key=lambda pair: int(pair[0][1]), reverse=True)]

    def _tidy(self) -> None:
        """Undo what an interrupted `save` left half done."""
        for old in self.folder.glob("step-*.old"):
            # The new one has its name already, or else the old one was never replaced.
            if old.with_suffix("").exists():
                _remove(old)
            else:
                old.rename(old.with_suffix(""))
        for pattern in ("step-*.new", "step-*.gone"):
            for rest in self.folder.glob(pattern):
                _delete(rest)

    def _put_aside(self, place: Path, fault: str) -> None:
        aside = _beside(place, "corrupt")
        _remove(aside)
        place.rename(aside)
        with (self.folder / CORRUPT_LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"checkpoint": place.name, "fault": fault}) + "\n")
        message = f"checkpoint {place} is corrupt: {fault}. It was renamed to {aside.name} and is not used."
        warnings.warn(message, CheckpointWarning, stacklevel=3)


def _beside(place: Path, suffix: str) -> Path:
    return place.with_name(f"{place.name}.{suffix}")


def _remove(place: Path) -> None:
    """Delete a folder; if that is interrupted, what is left does not look like a checkpoint."""
    if place.exists():
        # Deleting a folder takes many calls; renaming it is one.
        gone = _beside(place, "gone")
        place.rename(gone)
        _delete(gone)


def _delete(place: Path) -> None:
    # A file can have taken the place of the folder.
    shutil.rmtree(place) if place.is_dir() else place.unlink()


def _write(fresh: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
    for group, members in tensors.items():
        # Tied weights share memory, which safetensors refuses; each gets a copy.
        contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in members.items()}
        save_file(contiguous, fresh / f"{group}.safetensors")
    (fresh / STATE).write_text(json.dumps(state), encoding="utf-8")
    sums = {path.name: sha256_of(path) for path in _files(fresh)}
    # Sums are of the files as they are read back, so that they also cover the writing.
    (fresh / SUMS).write_text(json.dumps(sums), encoding="utf-8")
    for path in [*_files(fresh), fresh / SUMS, fresh]:
        flush(path)


def _read(place: Path) -> Saved:
    try:
        sums = json.loads((place / SUMS).read_text(encoding="utf-8"))
        if not isinstance(sums, dict):
            raise _CorruptError(f"{SUMS} holds no sums")
        # Both directions: a file without a sum is as wrong as a sum without a file.
        for name in sorted({path.name for path in _files(place)} | set(sums)):
            if sums.get(name) != sha256_of(place / name):
                raise _CorruptError(f"{name} does not match its SHA-256 sum")
        state = json.loads((place / STATE).read_text(encoding="utf-8"))
        if not isinstance(state, dict):
            raise _CorruptError(f"{STATE} holds no state")
        return {path.stem: load_file(path) for path in _files(place) if path.name != STATE}, state
    # A good one that may not be read is neither put aside nor replaced by training anew.
    except PermissionError as error:
        raise RunFolderError(f"{place} may not be read ({error}). Check the rights of its files.") from None
    # Whatever is wrong with this one, the one before it may be good.
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        raise _CorruptError(f"not readable ({error})") from None


def _files(place: Path) -> Iterator[Path]:
    """The files that have sums."""
    return (path for path in sorted(place.iterdir()) if path.name != SUMS)


def trained_weights(module: torch.nn.Module) -> dict[str, Tensor]:
    """Parameters that are trained, by name; they share their memory with the module."""
    return {name: weight.detach() for name, weight in module.named_parameters() if weight.requires_grad}


@torch.no_grad()
def restore_weights(module: torch.nn.Module, table: Mapping[str, Tensor]) -> None:
    """Copy tensors into the parameters of the same names; others stay as they are."""
    own = dict(module.named_parameters())
    for name, tensor in table.items():
        own[name].copy_(tensor)


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
    # Groups hold learning rates and decay; they come from the configuration and not from the checkpoint.
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
