"""Trainings from Python under a launcher: all processes train, and one of them writes the run folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import reflect_rl as rrl

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(sys.platform != "linux", reason="gloo over fork")
def test_two_processes_leave_one_whole_run_folder(tmp_path):
    words = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    words += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    words += [str(TESTS / "two_process_api.py"), str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]

    unit = tmp_path / "run/starts-6/seed-0"
    trained = rrl.load_model(unit / "rlft/sft_rlft/model", device="cpu").hash()
    assert trained == (tmp_path / "hash-0").read_text() == (tmp_path / "hash-1").read_text()
    assert rrl.load_model(unit / "models/policy_plain", device="cpu").hash() != trained
    assert not (unit / "sft/policy_plain/settings.json").exists()
    assert len(json.loads((tmp_path / "run/results.json").read_text())) == len(rrl.make_env("corridor").modes)
