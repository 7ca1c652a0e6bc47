"""Where a run says that its code comes from."""

import subprocess

import pytest

from reflect_rl.runs import card

GIT = (
    "git",
    "-c",
    "user.name=a",
    "-c",
    "user.email=a@b",
    "-c",
    "init.defaultBranch=main",
    "-c",
    "commit.gpgsign=false",
)


def git(place, *words):
    return subprocess.check_output([*GIT, "-C", str(place), *words], text=True).strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout that holds a package `reflect_rl`, of which `card` believes to be a part."""
    file = tmp_path / "src" / "reflect_rl" / "runs" / "card.py"
    file.parent.mkdir(parents=True)
    file.write_text("x = 1\n")
    (tmp_path / "notes.txt").write_text("a\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "notes.txt")
    git(tmp_path, "commit", "-qm", "notes")
    monkeypatch.setattr(card, "__file__", str(file))
    return tmp_path, file


def test_a_package_inside_somebody_elses_checkout_has_no_commit(checkout):
    assert card._git_commit() is None


def test_a_tracked_package_has_the_commit_of_its_checkout_and_a_plus_after_a_change(checkout):
    place, file = checkout
    git(place, "add", ".")
    git(place, "commit", "-qm", "package")
    head = git(place, "rev-parse", "HEAD")
    assert card._git_commit() == head
    (place / "notes.txt").write_text("no part of the package\n")
    assert card._git_commit() == head
    file.write_text("x = 2\n")
    assert card._git_commit() == head + "+"


def test_without_git_there_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert card._git_commit() is None
