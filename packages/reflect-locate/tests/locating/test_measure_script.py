"""scripts/measure_locate.py: one line a question, kept over an interruption, and ranks told by hand."""

from __future__ import annotations

import pytest

from a_script import load_script
from reflect_locate.calibrate import Candidates
from reflect_locate.evidence import Evidence, Weights
from reflect_rl.store import read_jsonl
from three_projects import save_three_projects
from tiny_player import save_tiny_player


@pytest.fixture(scope="module")
def script():
    return load_script("measure_locate")


@pytest.fixture
def ask(script, tmp_path):
    tasks = save_three_projects(tmp_path / "tasks", folders=2, files=3).folder
    player = save_tiny_player(tmp_path / "player", context_tokens=2048)
    log = tmp_path / "log.jsonl"
    given = [str(tasks), "--model", str(player), "--log", str(log), "--split", "validation"]

    def call(*more):
        code = script.main([*given, "--episodes", "0", *more])
        return code, read_jsonl(log, "")

    return call


def test_a_run_that_was_stopped_goes_on(ask, capsys):
    code, rows = ask("--questions", "2", "--without")
    assert code == 0
    assert [len(row["asked"]) for row in rows] == [2, 2]
    assert [[part["has_file"] for part in row["asked"]] for row in rows] == [[True, False]] * 2
    told = capsys.readouterr().out
    assert "2 questions" in told
    assert "no threshold: 0 right and 4 wrong answers" in told
    code, more = ask("--questions", "3", "--without")
    assert code == 0
    assert more[:2] == rows
    assert len(more) == 3


def test_a_log_of_other_settings_is_refused(ask, capsys):
    ask("--questions", "1")
    code, rows = ask("--questions", "2", "--seed", "1")
    assert (code, len(rows)) == (1, 1)
    assert "other settings" in capsys.readouterr().err


def test_ranks(script):
    files = (
        (Evidence(0.5, 1.0, 0.0, 0.9, is_test=True), False),
        (Evidence(0.5, 0.8, 0.0, 0.1), True),
        (Evidence(0.0, 0.0, 0.0, 0.0), False),
    )
    candidates = Candidates(True, files)
    assert script._rank(candidates, Weights(), tests_behind=True) == 1
    assert script._rank(candidates, Weights(), tests_behind=False) == 2
    assert script._rank(candidates, None, tests_behind=False) == 2
    assert script._rank(Candidates(True, files[:1]), Weights(), tests_behind=True) == 0
