"""No project, file or moment is on both sides of a split."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reflect_locate.questions.splits import by_files, by_lists, by_projects, by_time, without_held_out
from reflect_locate.questions.task_set import Question
from reflect_locate.repositories.snapshot import Snapshot
from reflect_rl.errors import ConfigError


def question(number: int, target: str = "a.py", time: int | None = None, split: str = "train") -> Question:
    return Question(f"s/git1/{number}", f"text {number}", "p", "s", (target,), "git1", time=time, split=split)


def test_lists_say_the_split_of_a_project():
    projects = {"a@1": "a", "a@2": "a", "b": "b", "c": "c"}
    lists = {"train": ["a@1", "a@2"], "validation": ["b"], "test": ["c"]}
    assert by_lists(lists, projects) == {"a": "train", "b": "validation", "c": "test"}


def test_two_corpora_of_a_project_in_two_lists_are_refused():
    projects = {"sdist:flask==3.1.0": "flask", "src/flask": "flask"}
    lists = {"train": ["sdist:flask==3.1.0"], "validation": [], "test": ["src/flask"]}
    with pytest.raises(ConfigError, match=r"'sdist:flask==3\.1\.0' \(train\) and 'src/flask' \(test\)"):
        by_lists(lists, projects)


@pytest.mark.parametrize(
    ("number", "fractions", "expected"),
    [
        (10, (0.7, 0.1, 0.2), (7, 1, 2)),
        (3, (0.7, 0.1, 0.2), (1, 1, 1)),
        (2, (0.7, 0.1, 0.2), (1, 0, 1)),
        (1, (0.7, 0.1, 0.2), (1, 0, 0)),
        (4, (0.0, 0.0, 1.0), (0, 0, 4)),
        (4, (1.0, 0.0, 0.0), (4, 0, 0)),
        (5, (0.0, 0.5, 0.5), (0, 2, 3)),
        (100, (0.5, 0.25, 0.25), (50, 25, 25)),
    ],
)
def test_projects_are_divided_by_number(number, fractions, expected):
    names = [f"project{n}" for n in range(number)]
    splits = list(by_projects(names, fractions, seed=0).values())
    assert tuple(splits.count(split) for split in ("train", "validation", "test")) == expected


def test_the_seed_draws_and_the_order_of_names_does_not_matter():
    names = [f"project{n}" for n in range(20)]
    one = by_projects(names, (0.5, 0.25, 0.25), seed=1)
    assert by_projects(names[::-1], (0.5, 0.25, 0.25), seed=1) == one
    assert by_projects(names, (0.5, 0.25, 0.25), seed=2) != one


def test_files_are_not_parted_and_equal_files_count_as_one():
    files = {f"f{n}.py": f"text {n // 2}" for n in range(40)}  # pairs of equal files
    questions = [question(n, f"f{n % 40}.py") for n in range(120)]
    divided = by_files(questions, {"s": Snapshot("s", files)}, (0.5, 0.25, 0.25), seed=0)
    splits: dict[str, set[str]] = {}
    for entry in divided:
        splits.setdefault(files[entry.targets[0]], set()).add(entry.split)
    assert all(len(found) == 1 for found in splits.values())
    counts = [sum(found == {split} for found in splits.values()) for split in ("train", "validation", "test")]
    assert counts == [10, 5, 5]
    assert [replace(q, split="train") for q in divided] == questions


def test_time_parts_past_and_future():
    questions = [question(n, time=n) for n in range(1, 13)] + [question(99, time=None)]
    divided = by_time(questions, now=10, validation_share=0.2)
    splits = {q.time: q.split for q in divided}
    # Of ten earlier commits the last two are validation; what has no time describes the tree of the moment.
    assert [splits[n] for n in range(1, 13)] == ["train"] * 8 + ["validation"] * 2 + ["test"] * 2
    assert splits[None] == "train"
    assert {q.split for q in by_time(questions, 10, 0.0)} == {"train", "test"}


def test_what_a_later_split_asks_is_not_asked_before():
    asked = [question(1), question(2), question(2, split="validation"), question(3, split="validation")]
    asked += [question(1, split="test"), question(3, split="test"), question(4, split="test")]
    kept = without_held_out(asked)
    assert [(q.text, q.split) for q in kept] == [
        ("text 2", "validation"),
        ("text 1", "test"),
        ("text 3", "test"),
        ("text 4", "test"),
    ]
