"""Data sets of a run: what the embedded model reads first, beside the demonstrations."""

from __future__ import annotations

import json
from contextlib import nullcontext

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


def test_copies_with_other_numbers_are_added_and_change_no_model(tmp_path):
    tables, models = {}, []
    names = ("policy_reflect", "policy_plain", "base", "reflector")
    for copies in (0, 2):
        folder = tmp_path / str(copies)
        values = {"output_dir": str(folder), "environment": {"name": "corridor"}, "methods": ["sft_reflect"]}
        data = {"demonstration_starts": [2], "renumbered_copies": copies}
        unit = Unit(folder, 2, 0)
        demonstrate(unit, unit.folder / "data", parse(RunConfig, values | {"data": data}), lambda *_: None)
        tables |= {(name, copies): list(read_jsonl(unit.dataset(name), "")) for name in names}
        models.append(
            [(unit.model("untrained") / file).read_bytes() for file in ("model.safetensors", "tokenizer.json")]
        )
    assert all(tables[name, 0] == tables[name, 2] for name in names[1:])
    assert models[0] == models[1]
    before, after = tables["policy_reflect", 0], tables["policy_reflect", 2]
    assert after[: len(before)] == before
    assert len(after) == 3 * len(before)
    # Corridors have three actions, so two copies of three have another label.
    assert {row["completion"] for row in after} == {"0", "1", "2"}


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


@pytest.mark.parametrize(
    ("methods", "changes", "message"),
    [
        # The longest prompt of DangerousTaxi has 175 bytes for the policy and 117 for the reflection player.
        (["sft"], {}, ""),
        (
            ["sft"],
            {"context": 150},
            r"whose state begins '(?!.*Action).*' has 175 tokens, the model's context holds 150\. Set model\.path",
        ),
        (["sft"], {"context": 150, "scoring": "line_end"}, r"has 1\d\d tokens, the model's context holds 150\. Set"),
        (["sft_reflect"], {"tokens": 8100}, r"and 8100 are to follow, .* holds 8192\. Lower reflector\.max_new_tokens"),
        # Nobody writes a reflection here.
        (["sft"], {"tokens": 8100}, ""),
    ],
)
def test_a_prompt_too_long_for_the_model_is_refused_before_any_training(tmp_path, methods, changes, message):
    folder = save_bytes(tmp_path / "bytes", changes.get("context", 8192))
    values = {
        "output_dir": str(tmp_path / "run"),
        "methods": methods,
        "model": {"path": str(folder), "device": "cpu"},
        "prompt": {"scoring": changes.get("scoring", "choice_token")},
        "reflector": {"max_new_tokens": changes.get("tokens", 10)},
        "data": {"demonstration_starts": [2]},
    }
    unit = Unit(tmp_path / "run", 2, 0)
    with pytest.raises(ModelError, match=message) if message else nullcontext():
        demonstrate(unit, unit.folder / "data", parse(RunConfig, values), lambda *_: None)
    assert unit.dataset("policy_plain").exists() is not bool(message)
