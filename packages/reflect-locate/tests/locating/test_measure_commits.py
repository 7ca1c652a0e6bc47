"""scripts/measure_commits.py: places with the names of files, without them, and after a model has read."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from a_script import load_script
from git_repository import Repository, told
from reflect_locate.questions.task_set import Question
from reflect_locate.ranking import find
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree


def test_a_row_has_the_place_with_names_and_without():
    uses = "def refill(cup):\n    return boil_water(cup)  # boil water\n"
    defines = "def boil_water(cup):\n    return cup\n" + "x = cup\n" * 20
    tree = Tree(Snapshot("kitchen", {"a/cup.py": uses, "b/main.py": defines}))
    asked = Question("commit/0", "boil water", "kitchen", "kitchen", ("b/main.py",), "git")
    row = load_script("measure_commits").row_of("kitchen", "commit", asked, find(tree, asked.text))
    assert (row.rank, row.without_names, row.sureness, row.deep) == (1, 2, "likely", None)


def test_a_row_has_the_place_after_the_reading():
    tree = Tree(Snapshot("kitchen", {"a.py": "# boil water\n", "b.py": "# boil water\n"}))
    asked = Question("commit/0", "boil water", "kitchen", "kitchen", ("a.py",), "git")
    answer = find(tree, asked.text)
    deep = replace(answer, files=answer.files[::-1])
    row = load_script("measure_commits").row_of("kitchen", "commit", asked, answer, deep)
    assert (row.rank, row.deep) == (1, 2)
    assert row.deep_sureness == deep.sureness


def test_all_right_files_count_for_the_gain():
    texts = {f"{name}.py": "# boil water\n" for name in "abc"}
    tree = Tree(Snapshot("kitchen", texts))
    asked = Question("commit/0", "boil water", "kitchen", "kitchen", ("a.py", "c.py"), "git")
    answer = find(tree, asked.text)
    deep = replace(answer, files=[answer.files[i] for i in (0, 2, 1)])
    row = load_script("measure_commits").row_of("kitchen", "commit", asked, answer, deep, 0.25)
    assert [file.path for file in answer.files] == ["a.py", "b.py", "c.py"]
    # Places one and three, of the best that two can have, one and two.
    assert row.ndcg == round((1 + 0.5) / (1 + 1 / math.log2(3)), 4)
    assert (row.deep_ndcg, row.deep_seconds, row.key) == (1, 0.25, "commit/0")


def test_an_interrupted_measurement_goes_on(tmp_path, monkeypatch, capsys):
    folder = told(Repository(tmp_path / "mine")).folder
    out = tmp_path / "rows.jsonl"
    script = load_script("measure_commits")
    script.main([str(folder), "--out", str(out), "--reader", "small"])
    said, lines = capsys.readouterr().out, out.read_text().splitlines(keepends=True)
    assert "CPU s a question" in said
    # A kill has cut the last line.
    out.write_text("".join(lines[:-1]) + lines[-1][:20])
    asked, ask = [], script.Asker.ask
    monkeypatch.setattr(script.Asker, "ask", lambda *given: asked.append(given[1].key) or ask(*given))
    script.main([str(folder), "--out", str(out), "--reader", "small"])
    assert len(asked) == 1
    with pytest.raises(SystemExit):
        script.main([str(folder), "--out", str(out)])
    assert "has rows of another reader, small" in capsys.readouterr().err
    assert [{**json.loads(line), "deep_seconds": 0} for line in out.read_text().splitlines()] == [
        {**json.loads(line), "deep_seconds": 0} for line in lines
    ]
