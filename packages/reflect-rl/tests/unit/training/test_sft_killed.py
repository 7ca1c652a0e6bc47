"""A supervised training that was killed ends like one that was not: the same bytes of weights, the same metrics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from killed_sft import VARIANTS, interruptions
from reflect_rl.training.checkpoint import Checkpoints

TESTS = Path(__file__).parents[2]
SCRIPT = TESTS / "killed_sft.py"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, dict[str, list[bool]]]:
    """The folder of all trainings, and which starts of each came to their end."""
    folder = tmp_path_factory.mktemp("killed")
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false"}
    words = [sys.executable, str(SCRIPT), str(folder)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def left(folder: Path) -> tuple[bytes, list[dict]]:
    """The file of the final weights, and the metrics without times."""
    (weights,) = folder.glob("model/*.safetensors")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return weights.read_bytes(), [
        {k: v for k, v in row.items() if not k.startswith(("time/", "memory/"))} for row in rows
    ]


CASES = [(variant, name) for variant in VARIANTS for name, _ in interruptions(variant) if name != "uninterrupted"]


@pytest.mark.parametrize(("variant", "name"), CASES)
def test_it_ends_like_an_uninterrupted_one(trained, variant, name):
    folder, ends = trained
    *killed, last = ends[f"{variant}/{name}"]
    assert last
    if name != "any-time":
        assert not any(killed)
    expected = left(folder / variant / "uninterrupted")
    assert [row["step"] for row in expected[1]] == list(range(1, 9))
    assert left(folder / variant / name) == expected


@pytest.mark.parametrize(("variant", "name"), CASES)
def test_nothing_half_written_is_left(trained, variant, name):
    folder = trained[0] / variant / name / "checkpoints"
    saved = Checkpoints(folder).load()
    assert saved is not None
    assert saved[1]["step"] == 8
    assert all(path.name.partition("-")[2].isdigit() for path in folder.iterdir())
