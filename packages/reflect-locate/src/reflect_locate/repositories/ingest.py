"""A folder, an archive or a commit -> an immutable snapshot in memory. See `docs/guides/snapshots.md`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reflect_locate.repositories.directory import read_directory, read_text
from reflect_locate.repositories.gate import Gate, IngestRules, left_out_counts
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError
from reflect_locate.repositories.text_rules import ALL_TEXT
from reflect_locate.repositories.tree import Tree
from reflect_rl.paths import expanded

DEFAULT = IngestRules()


def ingest(source: str | Path, config: IngestRules = DEFAULT, name: str = "") -> Snapshot:
    """Read a tree of text files, once, without changing or running anything.

    Args:
        source: a folder; a single text, where the rules take one; an archive (`.tar`, `.tar.gz`, `.tgz`, `.tar.xz`,
            `.tar.bz2`, `.zip`, `.whl`); or a git repository and a revision, `FOLDER@REVISION`.
        config: which files are taken, and limits.
        name: of the snapshot; by default the name of the folder or of the archive, for a commit with its first digits.

    Raises:
        SnapshotError: there is no such source, it cannot be read, or no file of it can be taken.
    """
    path, revision = split_revision(source)
    gate = Gate(str(source), config)
    # Readers of other sources are imported where one is read: most questions are about folders.
    if revision:
        from reflect_locate.repositories.git import read_commit

        commit = read_commit(path, revision, gate)
        return snapshot_of(gate, name or f"{path.resolve().name.removesuffix('.git')}@{commit[:12]}")
    kind = _kind(path)
    if kind == "folder":
        read_directory(path, gate)
        return snapshot_of(gate, name or path.resolve().name)
    # The first bytes of an archive are no text, whatever its name.
    if kind == "file" and config.takes_one_file and read_text(path, gate):
        return snapshot_of(gate, name or path.resolve().name)
    if kind == "file":
        from reflect_locate.repositories._archive import archive_stem, read_archive

        read_archive(path, gate)
        return snapshot_of(gate, name or archive_stem(path.name) or path.name)
    if kind:
        raise SnapshotError(f"{str(source)!r} is no file or folder but a device, a pipe or a socket. Give a folder.")
    raise SnapshotError(
        f"no folder or archive {str(source)!r}. Give a folder, an archive, or FOLDER@REVISION for a commit."
    )


def check_named(source: str) -> None:
    """Refuse an empty path: it comes from a variable that is not set, and would mean the current folder.

    Raises:
        SnapshotError: it is empty.
    """
    if not source.strip():
        raise SnapshotError("the path is empty. Name a folder, an archive or a file; `.` is the current folder.")


def open_repository(source: str | Path, config: IngestRules = ALL_TEXT) -> Tree:
    """Read a repository into memory: all files that `locate` may answer with.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "limits.py").write_text("rate = 3")
    >>> open_repository(folder).paths
    ('limits.py',)

    Args:
        source: a folder, an archive, or a git repository and a revision, `FOLDER@REVISION`.
        config: which files are read, and limits.

    Raises:
        SnapshotError: there is no such source, it cannot be read, or no file of it can be taken.
    """
    return Tree(ingest(source, config))


def _kind(path: Path) -> str:
    try:
        return "folder" if path.is_dir() else "file" if path.is_file() else "other" if path.exists() else ""
    except (OSError, ValueError):  # too long for a path
        return ""


def _is_bare(path: Path) -> bool:
    try:
        return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
    except (OSError, ValueError):  # too long for a path
        return False


def split_revision(source: str | Path) -> tuple[Path, str]:
    """The path of a source, and the revision after an `@` ("" without one, or when such a path exists).

    Revisions may hold an `@` themselves, as the tag `vite@5.0.0` does: the longest folder that exists is taken. A bare
    repository has no other files than those of its commits: its revision is `HEAD` where none is named.
    """
    whole = expanded(source)
    # A file that exists under the whole name wins: `@` is legal in names, as in `node_modules/@types`.
    if not _kind(whole):
        for text, revision in _cut_at_signs(str(source)):
            # A path that is missing, as `@scope/x@1`, and no revision `scope/x@1` of this folder.
            if not text and "@" in revision:
                continue
            folder = expanded(text or ".")
            if _kind(folder) == "folder":
                return folder, revision or "HEAD"
    return whole, "HEAD" if _is_bare(whole) else ""


def _cut_at_signs(text: str) -> Iterator[tuple[str, str]]:
    """Texts before and behind each `@`, the last one first.

    >>> list(_cut_at_signs("a@b@1"))
    [('a@b', '1'), ('a', 'b@1')]
    """
    for place in range(len(text) - 1, -1, -1):
        if text[place] == "@":
            yield text[:place], text[place + 1 :]


def snapshot_of(gate: Gate, name: str) -> Snapshot:
    """The snapshot of what passed the gate.

    Raises:
        SnapshotError: nothing passed.
    """
    # Files and folders of one name are known only when all entries have passed.
    gate.finish()
    left_out = gate.left_out()
    # An empty snapshot would fail much later, in a game without answers, and no longer name the cause.
    if not gate.files:
        counts = ", ".join(f"{reason} {count}" for reason, count in left_out_counts(left_out).items())
        raise SnapshotError(
            f"{gate.source!r} has no file to read. Left out: {counts or 'nothing'}. {gate.config.told_endings()}"
        )
    return Snapshot(name, gate.files, left_out, dict(gate.endings))
