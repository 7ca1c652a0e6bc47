"""scripts/results_offline.py: a table and a figure from runs on logs of several qualities."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a_script import load_script
from a_summary import row


@pytest.fixture
def script():
    return load_script("results_offline")


def test_the_table_has_a_column_for_each_quality(script):
    parts = {
        "random": script.Part(0.01, [row("random", "sampled", 0), row("bc", "greedy", 4)]),
        "expert": script.Part(0.75, [row("bc", "greedy", 30)]),
    }
    lines = script.table(parts).splitlines()
    assert lines[0] == "| method | play | random log | expert log |"
    assert lines[2] == "| the log itself |  | 1.0 | 75.0 |"
    assert lines[3].startswith("| Random | sampled | 0.0 [0.0, 8.8] | - |")
    assert lines[4] == "| Behaviour cloning | greedy | 10.0 [4.0, 23.1] | 75.0 [59.8, 85.8] |"
    svg = script.figure(parts, "greedy")
    assert svg.startswith("<svg")
    assert "random log" in svg
    assert "Behaviour cloning" in svg


def test_runs_are_pooled_by_the_quality_of_their_logs(script, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(script, "_part", lambda group: [copy.name for copy in group])
    for name, quality in (("b", "expert"), ("a", "random"), ("c", "expert")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"offline": {"log": {"quality": quality}}}))
    assert script.parts_of(sorted(tmp_path.iterdir())) == {"random": ["a"], "expert": ["b", "c"]}
