"""scripts/measure_commits.py: places with the names of files, without them, and after a model has read."""

from __future__ import annotations

from dataclasses import replace

from a_script import load_script
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
