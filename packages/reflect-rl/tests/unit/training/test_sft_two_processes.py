"""Two processes that share every batch train what one process trains, up to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from reflect_rl.training.sft import train_sft
from two_process_sft import EXAMPLES, SETTINGS, player

TESTS = Path(__file__).parents[2]
SCRIPT = TESTS / "two_process_sft.py"


NAMES = ["fresh", "resumed", "parts", "shared"]


class InterruptedRunError(Exception):
    pass


def alone(folder: Path, until: int = 0) -> list[dict]:
    """One process trains, to the end or until it is interrupted after a step."""

    def progress(done: int, *_) -> None:
        if done == until:
            raise InterruptedRunError

    model = player(folder.parent)
    try:
        train_sft(model, EXAMPLES, SETTINGS, folder, 0, ends=True, progress=progress)
    except InterruptedRunError:
        pass
    else:
        save_file(model.model.state_dict(), folder / "model-0.safetensors")
    return metrics(folder)


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    alone(folder / "alone")
    alone(folder / "resumed", until=3)
    assert [path.name for path in (folder / "resumed" / "checkpoints").iterdir()] == ["step-00000002"]
    words = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    words += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    words = [sys.executable, *words, str(SCRIPT), str(folder)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_metrics_are_those_of_one_process(folder, name):
    expected, found = metrics(folder / "alone"), metrics(folder / name)
    assert [row["step"] for row in found] == list(range(1, 7))
    for one, two in zip(expected, found, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
        assert two["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=1e-3)
        assert two["learning_rate"] == one["learning_rate"]
    assert found[-1]["loss"] < 0.9 * found[0]["loss"]


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_those_of_one_process(folder, name):
    """Six steps of up to 0.01 each move the weights by 0.03 and more; the two ways differ by less than 1e-4."""
    expected = load_file(folder / "alone" / "model-0.safetensors")
    start = dict(player(folder).model.named_parameters())
    moved = max(float((weight - start[key].detach()).abs().max()) for key, weight in expected.items())
    assert moved > 0.03
    for rank in (0, 1):
        found = load_file(folder / name / f"model-{rank}.safetensors")
        assert found.keys() == expected.keys()
        for key, weight in expected.items():
            torch.testing.assert_close(found[key], weight, rtol=0, atol=1e-4)


def test_both_processes_end_with_the_same_bits(folder):
    first, second = (folder / "fresh" / f"model-{rank}.safetensors" for rank in (0, 1))
    assert first.read_bytes() == second.read_bytes()
