"""scripts/make_commit_tasks.py: commits of a repository, each asked about the tree before them."""

from __future__ import annotations

import pytest

from a_script import load_script
from git_repository import Repository, told
from reflect_locate.adapt import eras_of
from reflect_locate.questions.task_set import TaskSet


def test_commits_are_asked_about_the_tree_before_them(tmp_path, capsys):
    learned, held = (told(Repository(tmp_path / name)).folder for name in ("learned", "held"))
    load_script("make_commit_tasks").main([str(tmp_path / "tasks"), str(learned), "--validation", str(held)])
    assert len(capsys.readouterr().out.splitlines()) == 3
    tasks = TaskSet.load(tmp_path / "tasks")
    earlier, later = eras_of(learned)
    train = tasks.draw("train", 99, 0, commits=True)
    assert {question.text for question in train} == {asked.text for asked in (*earlier.commits, *later.commits)}
    assert {question.repository for question in tasks.draw("validation", 99, 0, commits=True)} == {"held"}
    assert len(tasks.draw("validation", 99, 0, commits=True)) == len(later.commits)
    # Without a sentence to mask they are no questions of other measurements.
    assert tasks.draw("train", 99, 0) == []
    first = next(question for question in train if question.text == later.commits[0].text)
    assert tasks.snapshot(first.snapshot).files == later.tree.snapshot.files
    assert first.targets == later.commits[0].targets


def test_a_folder_without_a_history_is_told_in_a_sentence(tmp_path, capsys):
    short = Repository(tmp_path / "short")
    short.commit("Begin with one file only", {"core.py": "1"})
    with pytest.raises(SystemExit, match="2"):
        load_script("make_commit_tasks").main([str(tmp_path / "tasks"), str(short.folder)])
    assert "Adapting needs" in capsys.readouterr().err
