"""Questions from git history: the subject of a commit describes the files that the commit changed.

`git1`: the commit touches one file. `gitN`: it touches several, of which one to three are neither tests nor change
logs; any of these is right. Targets bear the names they have in the snapshot, however they were called at the time of
the commit. `past_commits` and `later_commits` give what commits say of any files, without the filters of questions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reflect_locate.questions.candidate import CandidateQuestion
from reflect_locate.questions.commit_subjects import is_bot, is_cosmetic, subject
from reflect_locate.questions.commits import (
    Change,
    Commit,
    HistoryError,
    commit_time,
    commits,
    is_shallow,
    paths_at,
    revision_before,
)
from reflect_locate.repositories.roles import is_test
from reflect_locate.repositories.snapshot import Snapshot

NAME = "history"

CHANGE_LOG = re.compile(
    r"^(?:change(?:s|log)?|changelog[._-].*|history|news|releases?|release[ _-]?notes?|whats_?new|authors|contributors)"
    r"(?:\.\w+)?$",
    re.IGNORECASE,
)
CHANGE_LOG_FOLDERS = frozenset(
    ("changelog", "changelogs", "changes", "changelog.d", "news", "newsfragments", "releasenotes")
)

WIDEST_QUESTION = 3
"""Files of a commit that is asked about; any of them is right."""

MOST_COMMITS = 50_000
"""Commits of a history that are read."""


@dataclass(frozen=True, slots=True)
class FileCommit:
    """Words of a commit about files of a snapshot."""

    time: int
    """Time of the commit, in seconds since 1970."""
    subject: str
    """First line of its message, as it stands."""
    paths: tuple[str, ...]
    """Files that it changed and that the snapshot has, by their names there."""
    main: tuple[str, ...]
    """Those of them that it modified and that are neither tests nor change logs."""


def past_commits(
    repository: Path, revision: str, files: Collection[str], widest: int, most: int = MOST_COMMITS
) -> Iterator[FileCommit]:
    """Words of the commits up to a revision about its files, newest first; merges and programs say nothing.

    Args:
        repository: top folder of a checkout, or a bare repository.
        revision: where to begin.
        files: paths of that revision.
        widest: changed paths of a commit that is read; one that changes a hundred files says little about each.
        most: read no more than this number of commits.

    Raises:
        SnapshotError: git cannot read the history.
    """
    for commit, names in _backwards(commits(repository, revision, most=most), files):
        if found := _file_commit(commit, {change: names.get(change.path) for change in commit.changes}, widest):
            yield found


def later_commits(repository: Path, revision: str, until: str, files: Collection[str], widest: int) -> list[FileCommit]:
    """The same of the commits after a revision, up to a later one, oldest first; files by their names before.

    Raises:
        SnapshotError: git cannot read the history.
    """
    now, found = commit_time(repository, revision), list[FileCommit]()
    for commit, names in _forwards(commits(repository, until, without=revision), files):
        meant = {change: names.get(change.before) if change.kind != "A" else None for change in commit.changes}
        entry = _file_commit(commit, meant, widest)
        # A branch that was merged later can hold older commits.
        if entry and entry.time > now:
            found.append(entry)
    return found


def _file_commit(commit: Commit, meant: Mapping[Change, str | None], widest: int) -> FileCommit | None:
    if commit.parents != 1 or len(commit.changes) > widest or is_bot(commit.author):
        return None
    paths = {change: path for change, path in meant.items() if path is not None}
    main = [
        path for change, path in paths.items() if change.kind in "MR" and not change.same_content and _is_main(change)
    ]
    return FileCommit(commit.time, commit.subject, tuple(paths.values()), tuple(main)) if paths else None


def candidates(
    repository: Path, revision: str, snapshot: Snapshot, until: str, most: int = MOST_COMMITS
) -> Iterator[CandidateQuestion]:
    """Subjects of the usable commits after a snapshot, newest first, as questions about its files.

    So nothing that a commit did can be seen in the tree that is asked about. Each candidate bears the time of its
    commit. Commits that are not dated after the snapshot's, or are after the last one's, are left out, so that parts
    of a history are apart in time.

    Args:
        repository: top folder of a checkout, or a bare repository.
        revision: of the snapshot.
        snapshot: the files of that revision.
        until: a later revision; the commits that it has and the snapshot's has not are read.
        most: read no more than this number of commits.

    Raises:
        SnapshotError: git cannot read the history.
    """
    start, end = commit_time(repository, revision), commit_time(repository, until)
    later = commits(repository, until, without=revision, most=most)
    # A branch that was merged later can hold older commits.
    found = [entry for entry in _later_candidates(later, snapshot.files.keys()) if start < (entry.time or 0) <= end]
    yield from reversed(found)


def earlier_revisions(
    repository: Path, shares: Sequence[float], revision: str = "HEAD", most: int = MOST_COMMITS
) -> list[str]:
    """The commits before the newest usable ones: whose trees are asked about in the words of what came next.

    A commit is usable if it is about one to three files, as `candidates` asks about it, and the end of the history has
    one of them.

    Args:
        repository: top folder of a checkout, or a bare repository.
        shares: for each wanted commit the share of the usable commits that come after it, growing, in (0, 1).
        revision: the end of the history.
        most: read no more than this number of commits.

    Returns:
        For each share the name of the newest commit on the main line that is older than all of these, newest first;
        none twice, and none for a share that reaches beyond the beginning.

    Raises:
        HistoryError: there is no such commit for the first share.
        SnapshotError: git cannot read the history.
        ValueError: a share is not between 0 and 1.
    """
    if wrong := [share for share in shares if not 0 < share < 1]:
        raise ValueError(f"a share is {wrong[0]}, and must be above 0 and below 1")
    usable = _past_candidates(commits(repository, revision, most=most), paths_at(repository, revision))
    times = sorted((entry.time or 0 for entry in usable), reverse=True)
    # Rounded up, so that a short history still has one commit to ask about.
    firsts = [times[math.ceil(share * len(times)) - 1] for share in shares if times]
    found = dict.fromkeys(revision_before(repository, revision, first) for first in firsts)
    if not found or not next(iter(found)):
        rest = " It is a shallow clone: `git fetch --unshallow` fetches the rest." if is_shallow(repository) else ""
        raise HistoryError(
            f"the history of {repository} is too short to ask about earlier trees ({len(times)} usable commits).{rest}"
        )
    return [name for name in found if name]


def _past_candidates(history: Iterable[Commit], files: Collection[str]) -> Iterator[CandidateQuestion]:
    for commit, names in _backwards(history, files):
        yield from _candidate(commit, [names.get(change.path) for change in _chosen(commit)])


def _later_candidates(history: Sequence[Commit], files: Collection[str]) -> Iterator[CandidateQuestion]:
    for commit, names in _forwards(history, files):
        changes = [change for change in _chosen(commit) if change.kind != "A"]
        yield from _candidate(commit, [names.get(change.before) for change in changes])


def _backwards(history: Iterable[Commit], files: Collection[str]) -> Iterator[tuple[Commit, Mapping[str, str]]]:
    """Walk from the snapshot into its past; with each commit, path after it -> path in the snapshot."""
    names = {path: path for path in files}
    for commit in history:
        yield commit, names
        # Before it was added or renamed, a path was absent, or another file.
        # Read out before any name is removed: a commit can swap the names of two files.
        left = {change.before: names.get(change.path) for change in commit.changes if change.kind == "R"}
        for change in commit.changes:
            if change.kind in "AR":
                names.pop(change.path, None)
        names |= {path: meant for path, meant in left.items() if meant is not None}


def _forwards(history: Sequence[Commit], files: Collection[str]) -> Iterator[tuple[Commit, Mapping[str, str]]]:
    """Walk from the snapshot into its future; with each commit, path before it -> path in the snapshot.

    What was added since has no path in the snapshot.
    """
    names = {path: path for path in files}
    # The history is newest first, and renames are followed in the order in which they happened.
    for commit in reversed(history):
        yield commit, names
        left = {change.path: names.get(change.before) for change in commit.changes if change.kind == "R"}
        for change in commit.changes:
            if change.kind in "ADR":
                names.pop(change.before, None)
        names |= {path: meant for path, meant in left.items() if meant is not None}


def _candidate(commit: Commit, meant: Iterable[str | None]) -> Iterator[CandidateQuestion]:
    # Sorted, since git lists the changes of a commit by the names that they had then.
    targets = sorted({path for path in meant if path is not None})
    if targets and (text := subject(commit.subject)):
        source = "git1" if len(commit.changes) == 1 else "gitN"
        yield CandidateQuestion(text, targets[0], source, None, commit.time, tuple(targets[1:]))


def _chosen(commit: Commit) -> list[Change]:
    """The files that a commit is about; none if it is unusable."""
    if commit.parents != 1 or is_bot(commit.author):
        return []
    # Tests and change logs follow a change in many commits, and would hide the files that it is about.
    main = [change for change in commit.changes if _is_main(change)]
    if len(main) > WIDEST_QUESTION:
        return []
    names = [PurePosixPath(change.path).name.lower() for change in main]
    # Words such as `links` or `minor` are noise in commits to a README; elsewhere they can be the subject.
    if all(name.startswith("readme") for name in names) and is_cosmetic(commit.subject):
        return []
    return [change for change in main if change.kind in "AMR" and not change.same_content]


def _is_main(change: Change) -> bool:
    return not (is_test(change.path) or _is_change_log(change.path))


def _is_change_log(path: str) -> bool:
    *folders, name = path.split("/")
    return not CHANGE_LOG_FOLDERS.isdisjoint(folder.lower() for folder in folders) or bool(CHANGE_LOG.match(name))
