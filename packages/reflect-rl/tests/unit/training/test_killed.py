"""kill -9 at any moment, inside the writing of a checkpoint too, and the same command again: nothing differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def rows(path: Path) -> list[dict]:
    table = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith(("time/", "memory/"))} for row in table]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_online_training_that_is_killed_again_and_again_ends_bitwise_like_one_that_never_was(tmp_path):
    # A process that is killed leaves its report about what hung.
    place = {"TMPDIR": str(tmp_path)}
    environment = os.environ | place | {"PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), *sys.path])}
    command = [sys.executable, str(HERE / "killed_training.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("11 killed"), done.stdout  # every moment lies inside the training
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert (parts / "result").read_text() == (whole / "result").read_text()
    assert rows(parts / "metrics.jsonl") == rows(whole / "metrics.jsonl") != []
    last = [sorted((folder / "checkpoints").glob("step-*"))[-1] for folder in (whole, parts)]
    assert last[0].name == last[1].name
    for path in last[0].glob("*.safetensors"):
        assert path.read_bytes() == (last[1] / path.name).read_bytes(), path.name
