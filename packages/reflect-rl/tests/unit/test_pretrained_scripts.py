"""scripts/pretrained_*.py: which players are trained, once only, and what is printed."""

from __future__ import annotations

import json
import sys

import pytest

import reflect_rl as rrl
from a_script import load_script
from guess import Guess


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    texts = [turn.observation.text for episode in rrl.collect(Guess, "random", episodes=8) for turn in episode.turns]
    rrl.load_model("embedded", texts=texts, hidden_size=16, layers=1, device="cpu", context_tokens=512).save(folder)
    return folder


@pytest.fixture
def call(model, tmp_path, monkeypatch):
    """Run a script with short trainings and give the rows of its file."""
    methods = load_script("pretrained_methods")
    monkeypatch.setitem(methods.SFT, "steps", 2)
    monkeypatch.setitem(methods.ADAPTER, "precision", "float32")

    def run(name: str, *words: str) -> list[dict]:
        monkeypatch.setattr(sys, "argv", [name, "--model", str(model), "--seeds", "0", "--out", str(tmp_path), *words])
        load_script(name).main()
        return [json.loads(line) for line in (tmp_path / "tiny.jsonl").read_text().splitlines()]

    return run


def test_each_method_is_trained_and_measured_once(call, capsys):
    rows = call("pretrained_methods", "--demonstrations", "2", "--noise", "0", "--turns", "30")
    methods = {(row["demonstrations"], row["method"]) for row in rows}
    assert methods == {
        *((0, name) for name in ("untuned", "rlft")),
        *((2, name) for name in ("sft", "sft_rlft", "sft_reflect", "reflect_rl", "sft_won")),
    }
    assert len(rows) == len(methods)
    assert all(row["greedy"][1] == 32 and row["sampled"][1] == 96 for row in rows)
    capsys.readouterr()
    assert call("pretrained_methods", "--demonstrations", "2", "--noise", "0", "--turns", "30") == rows
    assert not capsys.readouterr().out


def test_demonstrated_games_are_counted_up(call, monkeypatch):
    monkeypatch.setattr(load_script("pretrained_demonstrations"), "COUNTS", (0, 1))
    rows = call("pretrained_demonstrations")
    assert [row["demonstrations"] for row in rows] == [0, 1]


def test_online_training_alone_prints_before_and_after(model, monkeypatch, capsys):
    words = ["pretrained_guess", "--model", str(model), "--turns", "30"]
    monkeypatch.setattr(sys, "argv", words)
    load_script("pretrained_guess").main()
    printed = capsys.readouterr().out
    assert printed.index("before: ") < printed.index("after: ") < printed.index("CPU minutes")
