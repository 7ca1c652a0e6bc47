"""Rules of `.gitignore` files, and names of secrets."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
import warnings
from pathlib import Path

import pytest

from reflect_locate.repositories.ignore import NO_RULES, SECRETS, IgnoreRules, is_bounded, names_pattern
from reflect_locate.repositories.ingest import ingest
from reflect_locate.repositories.ingest_config import IngestConfig
from reflect_locate.repositories.snapshot import SnapshotError

RULES = [
    ("*.log", "a/b.log", True),
    ("/top.md", "top.md", True),
    ("/top.md", "a/top.md", False),
    ("build/", "build", False),  # a file of this name
    ("a/*.md", "a/x.md", True),
    ("a/*.md", "b/a/x.md", False),
    ("**/x.md", "b/a/x.md", True),
    ("a/**/x.md", "a/x.md", True),
    ("*.md\n!keep.md", "keep.md", False),
    ("!keep.md\n*.md", "keep.md", True),
    ("# comment", "# comment", False),
    ("\\#x.md", "#x.md", True),
    ("[ab].md", "b.md", True),
    ("*.md\r", "x.md", True),
    ("x.md  ", "x.md", True),
    ("X.md", "x.md", False),
    ("core.[[:digit:]]*", "core.12", True),
    ("core.[[:digit:]]*", "core.py", False),
    ("[![:alpha:]_]x", "1x", True),
    ("[![:alpha:]_]x", "ax", False),
    ("a[[:punct:]]", "a]", True),
    ("a[[:graph:][:space:]]", "a ", True),
    ("[:digit:]", "d", True),  # six letters
    ("\\[[:digit:]]", "[d]", True),
    ("a[b[]", "a[", True),
]


@pytest.mark.parametrize(("text", "path", "ignored"), RULES)
def test_one_file_of_rules(text: str, path: str, ignored: bool) -> None:
    assert NO_RULES.under("", text).ignores(path) is ignored


def test_a_rule_for_folders() -> None:
    rules = NO_RULES.under("", "build/")
    assert rules.ignores("a/build", is_folder=True)


def test_the_nearest_file_decides() -> None:
    top = NO_RULES.under("", "*.md\n")
    below = top.under("docs/", "!keep.md\n")
    assert top.ignores("docs/keep.md")
    assert not below.ignores("docs/keep.md")
    assert below.ignores("docs/other.md")


def test_rules_of_a_folder_are_relative_to_it() -> None:
    rules = NO_RULES.under("a/", "/x.md")
    assert rules.ignores("a/x.md")
    assert not rules.ignores("a/b/x.md")


@pytest.mark.parametrize("rule", ["*a*a*a*b", "**/a/**/b/**/c/**/d/**/e/*f*", "x" * 1001, "!", "\\", "[[:word:]]"])
def test_rules_that_take_long_or_make_no_sense_are_not_used(rule: str) -> None:
    assert not is_bounded(rule)
    rules = IgnoreRules("", [rule, "*.log"])
    assert rules.skipped == 1
    assert rules.ignores("x.log")


def test_signs_in_brackets_are_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rules = IgnoreRules("", ["[[a]", "a[[:digit:]]", "[a&&b]", "[a||b]", "[b~~c]"])
    assert rules.skipped == 0
    assert rules.ignores("[")


def test_the_slowest_rule_that_is_used(tmp_path: Path) -> None:
    """Forty stars would take centuries on a name of 250 letters; three take some hundredths of a second."""
    rules = NO_RULES.under("", "*a*a*b\n" + "*a" * 40 + "b\n")
    start = time.process_time()
    assert not rules.ignores("a" * 250 + ".c")
    assert time.process_time() - start < 60


def test_nested_files_of_rules_on_disk(tmp_path: Path) -> None:
    (tmp_path / "docs" / "gen").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for path in ("a.md", "docs/a.md", "docs/b.md", "docs/gen/c.md", "out/d.md"):
        (tmp_path / path).write_text("x")
    (tmp_path / ".gitignore").write_text("a.md\nout/\n")
    (tmp_path / "docs" / ".gitignore").write_text("!a.md\ngen\n")
    snapshot = ingest(tmp_path)
    assert list(snapshot.files) == ["docs/a.md", "docs/b.md"]
    ignored = [entry.path for entry in snapshot.left_out if entry.reason == "ignored"]
    assert ignored == ["a.md", "docs/gen/", "out/"]
    everything = ingest(tmp_path, IngestConfig(use_gitignore=False))
    assert list(everything.files) == ["a.md", "docs/a.md", "docs/b.md", "docs/gen/c.md", "out/d.md"]


@pytest.mark.parametrize("content", [b"\xff\x00*", b"!\n"])
def test_a_file_of_rules_that_makes_no_sense_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.md").write_text("x")
    (tmp_path / ".gitignore").write_bytes(content)
    snapshot = ingest(tmp_path)
    assert list(snapshot.files) == ["a.md"]
    assert (".gitignore", "rule not used") in [(entry.path, entry.reason) for entry in snapshot.left_out]


def test_a_file_of_rules_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "rules").write_text("*.md\n")
    (tmp_path / "tree" / "a.md").write_text("x")
    (tmp_path / "tree" / ".gitignore").symlink_to(tmp_path / "rules")
    assert list(ingest(tmp_path / "tree").files) == ["a.md"]


SEGMENTS = ["*", "a", "b", "build", "x.py", "*.py", "**", "?oo", "[ab]", "*.md", "fo*", "foo", "y.md", "[!a]", "*o*"]


def a_rule(rng: random.Random) -> str:
    rule = "/".join(rng.choice(SEGMENTS) for _ in range(rng.choice([1, 1, 2, 3])))
    rule = ("/" if rng.random() < 0.25 else "") + rule + ("/" if rng.random() < 0.3 else "")
    return ("!" if rng.random() < 0.3 else "") + rule


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("seed", range(20))
def test_random_rules_mean_what_they_mean_to_git(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(15):
        folder = tmp_path.joinpath(*(rng.choice(["a", "b", "foo", "build"]) for _ in range(rng.randint(0, 3))))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / rng.choice(["x.py", "y.md", "foo.md", "boo.py", "z z.py"])).write_text("x")
        if rng.random() < 0.5:
            (folder / ".gitignore").write_text("\n".join(a_rule(rng) for _ in range(3)) + "\n")
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=environment, check=True)
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True).stdout.decode()
    expected = {path for path in listed.split("\0") if path and not path.endswith(".gitignore")}
    try:
        found = set(ingest(tmp_path).files)
    except SnapshotError:  # everything is ignored
        found = set()
    assert found == expected


NAMES = [
    ".env",
    ".env.local",
    "prod.env",
    "server.PEM",
    "tls.key",
    "id_rsa",
    "id_ed25519.pub",
    ".netrc",
    ".npmrc",
    ".pypirc",
]
NAMES += [
    "credentials",
    "credentials.json",
    "Secrets.yaml",
    "vault.kdbx",
    "cert.p12",
    ".ssh",
    ".aws",
    "client_secret_1.json",
    *("env.production", "vault.yml", "nuget.config", "appsettings.Production.json", "local.settings.json"),
    "kettle-firebase-adminsdk-x1.json",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_usually_hold_secrets(name: str) -> None:
    assert names_pattern(SECRETS).match(name.lower())


@pytest.mark.parametrize(
    "name",
    [
        "environment.py",
        "keyboard.py",
        "monkey.py",
        "secretary.md",
        "token.py",
        "ssh.py",
        "env.d.ts",
        "env.py",
        "appsettings.json",
        "appsettings.Development.json",
    ],
)
def test_names_that_only_sound_alike(name: str) -> None:
    assert not names_pattern(SECRETS).match(name)
