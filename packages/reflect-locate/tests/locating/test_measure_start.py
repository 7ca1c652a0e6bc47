"""scripts/measure_start.py: the files are the same each time, and the question is about one of them."""

from __future__ import annotations

import sys

import pytest

from a_script import load_script


@pytest.fixture(scope="module")
def script():
    return load_script("measure_start")


def test_generated_files_are_equal_each_time(script, tmp_path):
    question = script.made(tmp_path / "a", 42)
    assert script.made(tmp_path / "b", 42) == question
    texts = [{path.name: path.read_text() for path in (tmp_path / top).rglob("*.py")} for top in "ab"]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 42
    assert len(list((tmp_path / "a").iterdir())) == script.FOLDERS
    assert all(script.CHARACTERS <= len(text) < script.CHARACTERS + 2_000 for text in texts[0].values())
    assert len(question.split()) == 5
    (last,) = (text for name, text in texts[0].items() if name.endswith("_41.py"))
    assert question in last.lower()


def test_a_command_that_fails_is_not_measured(script):
    assert script.of_process([sys.executable, "-c", "sum(range(10**6))"], {}) > 0
    with pytest.raises(RuntimeError, match="ended with 2"):
        script.of_process([sys.executable, "-c", "raise SystemExit(2)"], {})
