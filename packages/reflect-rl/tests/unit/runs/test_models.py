"""Models of a run: they are saved whole, and on the disk before what they were made from may go."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest

from reflect_rl.runs.models import save_whole


def model_of(text, error=None):
    """What saves a file, and may find the disk full behind it."""

    def save(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_text(text)
        if error is not None:
            raise error

    return SimpleNamespace(save=save)


@pytest.mark.skipif(os.name == "nt", reason="Windows flushes only what is open for writing")
def test_a_saved_model_is_on_the_disk(tmp_path, monkeypatch):
    seen, fsync = set(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (seen.add(os.fstat(number).st_ino), fsync(number)))
    save_whole(model_of("weights"), tmp_path / "models" / "base", "a card")
    folder = tmp_path / "models" / "base"
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "README.md"}
    assert {path.stat().st_ino for path in (*folder.iterdir(), folder, folder.parent)} <= seen


def test_a_full_disk_leaves_the_model_that_was_there_and_no_half(tmp_path):
    save_whole(model_of("old"), tmp_path / "model")
    with pytest.raises(OSError, match="No space left"):
        save_whole(model_of("ne", OSError(errno.ENOSPC, "No space left")), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "model.safetensors").read_text() == "old"
