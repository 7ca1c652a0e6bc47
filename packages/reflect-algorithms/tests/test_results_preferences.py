"""scripts/results_preferences.py: tables and figures from runs on several numbers of pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a_script import load_script
from a_summary import row


@pytest.fixture
def script():
    return load_script("results_preferences")


def written(place: Path, count: int, noise: float = 0.0, cards: dict[str, dict] | None = None) -> Path:
    place.mkdir()
    (place / "config.json").write_text(json.dumps({"preferences": {"pairs": {"count": count, "noise": noise}}}))
    for name, card in (cards or {}).items():
        (place / f"{name}.json").write_text(json.dumps(card))
    return place


def test_runs_are_pooled_by_their_pairs_and_those_without_are_the_reference(script, tmp_path: Path):
    pairs = {"pairs": {"learned": 80}}
    names = (("a", 400, 0.1, pairs), ("b", 400, 0.0, pairs), ("c", 100, 0.0, pairs), ("d", 400, 0.0, pairs))
    copies = [written(tmp_path / name, *rest) for name, *rest in names]
    true = written(tmp_path / "true", 400)
    settings, reference = script.grouped([*copies, true])
    assert {key: [copy.name for copy in group] for key, group in settings.items()} == {
        (0.0, 100): ["c"],
        (0.0, 400): ["b", "d"],
        (0.1, 400): ["a"],
    }
    assert reference == [true]
    assert [setting.label for setting in settings] == ["100 pairs", "400 pairs", "400 pairs, 10% wrong"]


def test_success_has_a_column_for_each_setting_and_the_reference(script):
    few, many = script.Setting(0.0, 100), script.Setting(0.0, 1600)
    rows = {few: [row("dpo", "sampled", 10), row("sft", "sampled", 4)], many: [row("dpo", "sampled", 30)]}
    true = [row("sft_rlft", "sampled", 20)]
    lines = script.success(rows, true).splitlines()
    assert lines[0] == "| method | play | 100 pairs | 1,600 pairs |"
    assert lines[2] == "| SFT | sampled | 10.0 [4, 23] | - |"
    assert lines[3] == "| DPO | sampled | 25.0 [14, 40] | 75.0 [60, 86] |"
    assert lines[4] == "| online RL on the true reward | sampled | 50.0 [35, 65] |  |"
    svg = script.picture(rows, true)
    assert "1,600 pairs" in svg
    assert "online RL on the true reward" in svg


def test_accuracy_is_that_of_all_held_out_pairs(script, tmp_path: Path):
    # By hand: 9 of 10 and 15 of 30 are 24 of 40.
    cards = [{"true_pair_accuracy": 0.9, "held_out_pairs": 10}, {"true_pair_accuracy": 0.5, "held_out_pairs": 30}]
    copies = [
        written(tmp_path / str(k), 100, cards=dict.fromkeys(script.CARDS, card) | {"pairs": {"learned": 60 + 20 * k}})
        for k, card in enumerate(cards)
    ]
    lines = script.accuracies({script.Setting(0.0, 100): copies}).splitlines()
    assert lines[2] == "| learned from | 70 |"
    assert lines[3] == "| reward | 60.0 [45, 74] |"


def test_a_curve_is_the_mean_of_equal_parts_of_the_trainings(script, tmp_path: Path):
    for name, values in (("a", (0, 2, 4, 6)), ("b", (10, 10))):
        (tmp_path / name).mkdir()
        rows = [dict.fromkeys(script.NUMBERS, float(value)) for value in values]
        (tmp_path / name / "rlhf.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = script.curve([tmp_path / "a", tmp_path / "b"], "rlhf", parts=2)
    # By hand: (0 + 2 + 10) / 3 and (4 + 6 + 10) / 3.
    assert [row["turns"] for row in found] == pytest.approx([4.0, 20 / 3])
    curves = {script.Setting(0.0, 100): {"rlhf": found, "ppo_max": script.curve([tmp_path / "a"], "ppo_max")}}
    assert script.ends(curves).splitlines()[3].split("|")[2:5] == [" 100 pairs ", " last ", " 6.67 "]
    assert "100 pairs" in script.optimisation(curves)
