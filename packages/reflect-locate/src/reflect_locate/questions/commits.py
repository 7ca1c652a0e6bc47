"""The commits of a git repository and the paths they touch, read with plumbing commands only.

The repository is not trusted. No shell, hook, filter, pager, signature check, external diff, index or working tree
takes part, and nothing is fetched: a repository without all its objects is read as far as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reflect_locate.repositories.budget import Budget
from reflect_locate.repositories.git import GitRepository
from reflect_locate.repositories.snapshot import SnapshotError
from reflect_rl.errors import UserError

SECONDS = 300
"""Longest wait for one command of git."""

# A few crafted commits can name more paths than any memory holds.
MOST_BYTES = 64_000_000
"""Longest output of one command; of a longer history the first part, the newest, is read."""

# Two flags keep the configuration of the repository from naming a program that compares or converts.
COMPARE = ("--stdin", "-r", "-z", "--name-status", "--no-ext-diff", "--no-textconv")
# `-l` bounds the comparisons, which are quadratic in the number of files that a commit adds and deletes.
RENAMES = (("-M", "-l1000"), ("-M100%", "-l1000"), ("--no-renames",))
"""Ways to find renamed files; the first that works is taken. Equal contents (100 %) are known by their names, so that
a partial mirror, which lacks contents, is enough."""

# Zero bytes part the fields: git allows any other character in a name or subject.
FIELDS = "%P%x00%ct%x00%an%x00%ae%x00%s%x00"
COMMIT = re.compile(rb"[0-9a-f]{40,64}")


class HistoryError(UserError):
    """The history of a repository does not hold what is asked of it."""


@dataclass(frozen=True, slots=True)
class Change:
    """Change of one path by a commit."""

    kind: str
    """A added, M modified, D deleted, R renamed (and perhaps modified), T type changed."""
    path: str
    """Path after the commit (of a deleted file: before it)."""
    before: str
    """Path before the commit; differs from `path` only for a renamed file."""
    same_content: bool = False
    """A renamed file whose content did not change."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit and what it changed against its parent."""

    name: str
    parents: int
    time: int
    """Time of the commit, in seconds since 1970."""
    author: str
    """Name and address."""
    subject: str
    changes: tuple[Change, ...]
    """Changed paths; none for a merge or a commit without parents."""


def commits(repository: Path, revision: str, without: str = "", most: int = 50_000) -> list[Commit]:
    """Commits that a revision contains, a commit always before its parents.

    Args:
        repository: top folder of a checkout, or a bare repository.
        revision: where to begin.
        without: leave out this commit and all that it contains (empty: nothing).
        most: read no more than this number, the first in that order.

    Raises:
        SnapshotError: git cannot read it.
    """
    git = GitRepository(repository, Budget(str(repository), seconds=SECONDS))
    chosen = [git.commit(revision)] + ([f"^{git.commit(without)}"] if without else [])
    # Topological order, because times of commits may lie; renames are followed from commit to parent.
    words = ("--topo-order", f"--max-count={most}", "--encoding=UTF-8", f"--format={FIELDS}", *chosen)
    fields = git.run("rev-list", *words, most=MOST_BYTES).split(b"\0")
    heads = [fields[place : place + 5] for place in range(0, len(fields) - 5, 5)]
    names = [head[0].split()[1].decode() for head in heads]
    # The first field is `commit NAME` and, on its next line, the parents.
    parents = [len(head[0].split()) - 2 for head in heads]
    # A merge has a difference to each parent, and its subject says nothing about a file.
    changes = _changes(git, [name for name, count in zip(names, parents, strict=True) if count <= 1])
    return [
        Commit(
            name,
            count,
            _seconds(head[1]),
            f"{_text(head[2])} <{_text(head[3])}>",
            _text(head[4]),
            changes.get(name, ()),
        )
        for name, count, head in zip(names, parents, heads, strict=True)
    ]


def count_commits(repository: Path, revision: str, most: int = 50_000) -> int:
    """Number of the commits that `commits` reads.

    Raises:
        SnapshotError: git cannot read it.
    """
    git = GitRepository(repository, Budget(str(repository), seconds=SECONDS))
    return int(git.run("rev-list", "--count", f"--max-count={most}", git.commit(revision)))


LONGEST_TIME = 12
"""Digits of a time that can be meant; twelve are for thirty thousand years."""


def commit_time(repository: Path, revision: str) -> int:
    """Time of a commit, in seconds since 1970.

    Raises:
        SnapshotError: git cannot read it.
    """
    git = GitRepository(repository, Budget(str(repository), seconds=SECONDS))
    # The mark at the end keeps a line that would be empty.
    return _seconds(git.run("rev-list", "--max-count=1", "--format=%ct.", git.commit(revision)).split()[-1][:-1])


def _seconds(written: bytes) -> int:
    """Time of a commit; 0, as in git's own order, where it is damaged: git prints nothing or a wrong number then."""
    return int(written) if written.isdigit() and len(written) <= LONGEST_TIME else 0


def revision_before(repository: Path, revision: str, time: int) -> str:
    """The name of the newest commit on the main line of a revision that was made before a time; "" if there is none.

    Raises:
        SnapshotError: git cannot read it.
    """
    git = GitRepository(repository, Budget(str(repository), seconds=SECONDS))
    said = git.run("rev-list", "--first-parent", "--format=%ct.", git.commit(revision), most=MOST_BYTES)
    lines = said.split(b"\n")
    rows = zip(lines[::2], lines[1::2], strict=False)  # "commit NAME", time and the mark
    return next((head.split()[1].decode("ascii") for head, made in rows if _seconds(made[:-1]) < time), "")


def is_shallow(repository: Path) -> bool:
    """Tell whether a clone has the newest part of its history alone.

    Raises:
        SnapshotError: git cannot read it.
    """
    git = GitRepository(repository, Budget(str(repository), seconds=SECONDS))
    return git.run("rev-parse", "--is-shallow-repository").strip() == b"true"


def paths_at(repository: Path, revision: str) -> frozenset[str]:
    """Paths of all files of a commit; links and submodules are none.

    Raises:
        SnapshotError: git cannot read it.
    """
    git = GitRepository(repository, Budget(str(repository), seconds=SECONDS))
    said = git.run("ls-tree", "-r", "-z", "--full-tree", git.commit(revision))
    entries = (entry.partition(b"\t") for entry in said.split(b"\0") if entry)
    # Regular files have modes that begin with 100, links with 120, submodules with 160.
    return frozenset(_path(path) for head, _, path in entries if head.startswith(b"100"))


def _changes(git: GitRepository, names: Sequence[str]) -> dict[str, tuple[Change, ...]]:
    """Changes of each of these commits, by its name."""
    given = "".join(f"{name}\n" for name in names).encode()
    for renames in RENAMES[:-1]:
        try:
            return _parsed(git.run("diff-tree", *COMPARE, *renames, most=MOST_BYTES, given=given))
        except SnapshotError:  # contents are missing
            continue
    return _parsed(git.run("diff-tree", *COMPARE, *RENAMES[-1], most=MOST_BYTES, given=given))


def _parsed(said: bytes) -> dict[str, tuple[Change, ...]]:
    """Commit names, each followed by its entries: a status, and one path (of a renamed file two)."""
    found: dict[str, list[Change]] = {}
    entries: list[Change] = []
    words = iter(said.split(b"\0")[:-1])
    try:
        for word in words:
            if COMMIT.fullmatch(word):
                entries = found.setdefault(word.decode(), [])
                continue
            kind, before = word[:1].decode(), _path(next(words))
            path = _path(next(words)) if kind in "RC" else before
            entries.append(Change(kind, path, before, word == b"R100"))
    except StopIteration:  # of a history that is too long the last entry may be cut
        pass
    return {name: tuple(changes) for name, changes in found.items()}


def _path(raw: bytes) -> str:
    # Reversible, so that a name which is no UTF-8 still meets itself in another commit.
    return raw.decode("utf-8", "surrogateescape")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
