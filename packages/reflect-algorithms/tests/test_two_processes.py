"""Two processes that share every batch train what one process trains, up to rounding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

SCRIPT = Path(__file__).parent / "two_process_offline.py"
LAUNCH = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
LAUNCH += ["--mixed_precision", "no", "--dynamo_backend", "no"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    for name, launch in (("one", []), ("two", LAUNCH)):
        words = [sys.executable, *launch, str(SCRIPT), str(folder / name)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("learner", ["a_lol", "archer", "dagger", "gail", "rcrl", "reward"])
def test_the_weights_are_those_of_one_process(folder: Path, learner):
    one, *two = (
        load_file(folder / place / learner / f"model-{rank}.safetensors")
        for place, rank in (("one", 0), ("two", 0), ("two", 1))
    )
    assert all(torch.equal(two[0][name], weight) for name, weight in two[1].items())
    for name, weight in one.items():
        torch.testing.assert_close(two[0][name], weight, rtol=1e-3, atol=1e-5)


def test_one_of_them_writes_the_rounds_and_the_metrics(folder: Path):
    for name in ("round-0.jsonl", "round-1.jsonl"):
        texts = [(folder / place / "dagger" / name).read_text() for place in ("one", "two")]
        assert len(texts[0].splitlines()) == len(texts[1].splitlines()) == 6
    rows = [(folder / place / "a_lol" / "metrics.jsonl").read_text().splitlines() for place in ("one", "two")]
    assert len(rows[0]) == len(rows[1]) == 6
