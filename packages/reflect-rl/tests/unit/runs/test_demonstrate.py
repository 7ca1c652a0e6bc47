"""Data sets of a run: what the embedded model reads first, beside the demonstrations."""

from __future__ import annotations

import json

import pytest

from reflect_rl.config import parse
from reflect_rl.envs.dangerous_taxi import DangerousTaxi
from reflect_rl.errors import ModelError
from reflect_rl.runs.check import settle
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import demonstrate
from reflect_rl.runs.folder import Unit
from reflect_rl.store import read_jsonl
from tiny_models import save_bytes


def test_a_random_players_games_are_read_first_and_change_no_demonstration(tmp_path):
    tables = {}
    for starts in (0, 9):
        folder = tmp_path / str(starts)
        values = {"output_dir": str(folder), "environment": {"name": "corridor"}, "methods": ["sft"]}
        data = {"demonstration_starts": [2], "reading_starts": starts}
        unit = Unit(folder, 2, 0)
        demonstrate(unit, unit.folder / "data", parse(RunConfig, values | {"data": data}), lambda *_: None)
        for name in ("base", "policy_plain"):
            tables[name, starts] = list(read_jsonl(unit.dataset(name), ""))
    assert tables["policy_plain", 0] == tables["policy_plain", 9]
    assert {row["task"] for row in tables["base", 0]} == {row["task"] for row in tables["policy_plain", 0]}
    read = {row["task"] for row in tables["base", 9]}
    # One game for each of nine starts, the two demonstrated ones among them.
    assert len(read) == 9 > len(read - {row["task"] for row in tables["policy_plain", 9]}) == 7


@pytest.mark.parametrize(
    ("rule", "answer", "sentence"),
    [
        ("line_end", " south", "Actions are listed one to a line, without labels."),
        ("sum", "south", "Actions are not listed: each is scored by its own text."),
        ("token_mean", "south", "Actions are not listed: each is scored by the mean of its text's tokens."),
        ("choice_token", None, ""),
    ],
)
@pytest.mark.parametrize("path", ["bytes", "embedded"])
def test_labels_are_asked_for_and_recorded_only_where_they_are_read(
    tmp_path, monkeypatch, rule, answer, sentence, path
):
    # More than the 52 letters among bytes, and as many as the embedded model has numbers for.
    monkeypatch.setattr(DangerousTaxi, "max_actions", 60)
    folder = str(save_bytes(tmp_path / "bytes")) if path == "bytes" else path
    values = {
        "output_dir": str(tmp_path / "run"),
        "methods": ["sft"],
        "model": {"path": folder, "device": "cpu"},
        "prompt": {"scoring": rule},
        "data": {"demonstration_starts": [2]},
    }
    config, unit = parse(RunConfig, values), Unit(tmp_path / "run", 2, 0)
    if path == "bytes" and answer is None:
        with pytest.raises(ModelError, match="has 52"):
            settle(config, trains=False)
        return
    settle(config, trains=False)
    demonstrate(unit, unit.folder / "data", config, lambda *_: None)
    card = json.loads((unit.folder / "data" / "card.json").read_text())
    assert card["labels"] == (sentence or "numbers")
    completions = {row["completion"] for row in read_jsonl(unit.dataset("policy_plain"), "")}
    assert answer is None or answer in completions
