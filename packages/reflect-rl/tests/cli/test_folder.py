"""Where a run says that its code comes from."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from reflect_rl.runs import folder as card

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
    """A checkout that this package was installed from, as `pip install -e` notes it."""
    (tmp_path / "notes.txt").write_text("a\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "notes.txt")
    git(tmp_path, "commit", "-qm", "notes")
    note = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr(card, "distribution", lambda name: SimpleNamespace(read_text=lambda file: json.dumps(note)))
    return tmp_path, note


def test_a_package_inside_somebody_elses_checkout_has_no_commit(checkout):
    checkout[1]["dir_info"] = {}
    assert card._git_commit() is None


@pytest.mark.parametrize("packed", [False, True])
def test_a_package_installed_from_a_checkout_has_its_commit(checkout, packed):
    place, note = checkout
    if packed:
        git(place, "pack-refs", "--all")
    head = git(place, "rev-parse", "HEAD")
    assert card._git_commit() == head
    git(place, "worktree", "add", "-q", "tree", "-b", "other")
    note["url"] = (place / "tree").as_uri()
    assert card._git_commit() == head


def test_no_program_is_started_for_the_card(checkout, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: pytest.fail(f"{args} was started"))
    (checkout[0] / ".git" / "HEAD").write_text("ref: ../../../etc/passwd\n")
    assert card._git_commit() is None
    assert card.provenance().git_commit is None


def test_the_hash_of_the_code_follows_the_code(tmp_path, monkeypatch):
    file = tmp_path / "reflect_rl" / "runs" / "folder.py"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(card, "__file__", str(file))
    found = []
    for text in ("x = 1\n", "x = 2\n", "x = 1\n"):
        file.write_text(text)
        found.append(card.code_sha256())
    assert found[0] == found[2] != found[1]
