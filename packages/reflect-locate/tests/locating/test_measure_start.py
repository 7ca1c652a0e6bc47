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
    spent = script.of_process([sys.executable, "-c", "sum(range(10**6))"], {})
    assert spent.seconds > 0
    with pytest.raises(RuntimeError, match="ended with 2"):
        script.of_process([sys.executable, "-c", "raise SystemExit(2)"], {})


def test_memory_is_that_of_the_command_and_not_of_the_caller(script):
    held = bytearray(300_000_000)
    held[::4096] = b"x" * len(held[::4096])
    small, large = (script.of_process([sys.executable, "-c", f"print(len(b'x' * {size}))"], {}) for size in (1, 10**8))
    assert 5_000_000 < small.memory < 100_000_000 < large.memory < 300_000_000
    assert held


def test_generated_files_are_asked_about(script, capsys):
    script.main(["--files", "3", "--characters", "200", "--repeat", "1"])
    rows = {line[:24].strip(): line[24:].split() for line in capsys.readouterr().out.splitlines()}
    assert list(rows)[:4] == ["first call", "later calls", "most memory of a call", "one file"]
    number, unit = rows["most memory of a call"]
    assert unit == "MB"
    # A process of Python alone takes some ten.
    assert 10 < int(number) < 2_000


def test_a_folder_is_asked_twice_about_names_in_it(script, tmp_path, capsys):
    for number in range(3):
        (tmp_path / f"pot{number}.py").write_text(f"def boil_water{number}x():\n    return {number}\n")
    (tmp_path / "test_pot.py").write_text("def test_all_pots():\n    return 1\n")
    assert sorted(script.names_in(tmp_path, 5)) == ["boil water 0 x", "boil water 1 x", "boil water 2 x"]
    assert len(script.names_in(tmp_path, 2)) == 2
    script.main(["--folder", str(tmp_path), "--repeat", "2"])
    rows = [line[:24].strip() for line in capsys.readouterr().out.splitlines()]
    ways = ("first", "asked once", "once more")
    assert rows == [f"{name}, {way}" for name in ("find_file", "find_passage") for way in ways]
