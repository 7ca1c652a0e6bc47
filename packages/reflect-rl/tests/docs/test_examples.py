"""The examples run as they stand, with small settings, and stay short."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import reflect_rl as rrl
from installing import output

EXAMPLES = Path(__file__).parents[4] / "examples"

ARGUMENTS = {
    "gymnasium_loop.py": ("--episodes", "2"),
    "own_algorithm.py": ("--turns", "20"),
    "own_env.py": ("--turns", "20"),
    "own_model.py": ("MODEL", "--turns", "10", "--rank", "2", "--out", "adapter"),
    "taxi.py": ("--scale", "0.001", "--out", "run"),
    "trl_side_by_side.py": (
        *("--model", "MODEL", "--precision", "float32", "--rank", "2", "--out", "run"),
        *("--minutes", "0.005", "--test-every", "0.001"),
    ),
}

PRINTED = {
    "gymnasium_loop.py": "episode 1: return ",
    "own_algorithm.py": "sft_rlft on corridor-v1 (test, greedy, horizon 20)",
    "own_env.py": "sft_rlft on guess-v1 (test, greedy, horizon 6)",
    "own_model.py": "adapter",
    "taxi.py": "report.html",
    "trl_side_by_side.py": "'success': ",
}

LONG = ("trl_side_by_side.py",)
"""Comparisons with another library, which have two sides and a figure."""


def test_every_example_is_tested_and_short():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(ARGUMENTS)
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= (400 if path.name in LONG else 60), path.name


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_an_example(name, tmp_path):
    words = ARGUMENTS[name]
    if name == "trl_side_by_side.py":
        pytest.importorskip("trl", reason="TRL is not installed: pip install trl==1.16.0 datasets")
    if "MODEL" in words:
        texts = [turn.observation.text for episode in rrl.collect("corridor", "oracle") for turn in episode.turns]
        # A whole game as one conversation has to fit.
        model = rrl.load_model("embedded", texts=texts, hidden_size=16, layers=1, device="cpu", context_tokens=2048)
        model.save(tmp_path / "model")
        words = tuple(str(tmp_path / "model") if word == "MODEL" else word for word in words)
    printed = output((sys.executable, "-W", "ignore", str(EXAMPLES / name), *words), tmp_path)
    assert PRINTED[name] in printed
    if name in LONG:
        for side in ("ours", "trl"):
            rows = [json.loads(line) for line in (tmp_path / "run" / f"{side}.jsonl").read_text().splitlines()]
            assert rows[0]["settings"]["side"] == side
            assert [rows[1]["turns"], rows[1]["rollout"]] == [0, None]
            assert rows[-1]["turns"] >= 16
            assert 0 <= rows[-1]["success"] <= 1
        assert (tmp_path / "run" / "trl.svg").read_text().count("<path") > 10
