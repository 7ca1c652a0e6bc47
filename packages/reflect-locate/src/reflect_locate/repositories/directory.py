"""Files of a folder on disk. No symbolic link is followed, nothing but regular files is opened, nothing is written.

Each folder is opened relative to the open folder above it (`openat` with `O_NOFOLLOW`), so nobody can lead the walk out
of the tree by renaming or linking while it runs; what was opened is checked again on the open file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from reflect_locate.repositories.gate import Gate, Reason, is_repository
from reflect_locate.repositories.ignore import NO_RULES, IgnoreRules
from reflect_locate.repositories.snapshot import SnapshotError
from reflect_locate.repositories.text import decode

# `O_NOCTTY` keeps a terminal device in the tree from becoming the terminal of this process.
OPEN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags that never block: a FIFO without a writer is opened at once instead of never."""
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FOLDER = getattr(os, "O_DIRECTORY", 0)
IGNORE_BYTES = 200_000
"""Largest `.gitignore` that is read."""
START_BYTES = 1000
"""Bytes by which a text is told from an archive: the header of one holds zeros or other bytes that are no text."""
# An editor that saves during the walk is over at the second try; a log that grows never is.
ATTEMPTS = 2
"""Readings of a file that changes while it is read."""

Entry = tuple[str, str]
"""Name, and one of "folder", "file", "symlink", "special"."""


def read_directory(root: Path, gate: Gate) -> None:
    """Pass the files below a folder through the gate, in the order of their names.

    Raises:
        SnapshotError: the folder itself cannot be read, or the time is up.
    """
    with _root(root) as number:
        # The device number of the root: mounted network folders and `/proc` below it are not entered.
        _read_folder(number, "", NO_RULES, gate, os.fstat(number).st_dev)


def read_listed(root: Path, paths: Iterable[str], gate: Gate) -> None:
    """Pass only these files below a folder through the gate.

    Raises:
        SnapshotError: the folder itself cannot be read, or the time is up.
    """
    with _root(root) as number:
        # A distribution's list may name a file twice and has no fixed order.
        for path in sorted(set(paths)):
            gate.budget.check_time()
            if gate.admits_file(path):
                gate.take(path, _read_below(number, path.split("/"), gate.config.max_file_bytes))


def read_text(path: Path, gate: Gate) -> bool:
    """Pass a single file through the gate; tell whether it is a text, else nothing is noted.

    Raises:
        SnapshotError: its folder cannot be read, or it is a text that is too large.
    """
    # The user has named it, so it may be reached over a link, as a folder may.
    place = path.resolve()
    data = read_one(place.parent, place.name, gate.config.max_file_bytes)
    if data is Reason.TOO_LARGE and _begins_as_text(place):
        raise SnapshotError(
            f"the text {str(path)!r} has {place.stat().st_size} bytes, more than the {gate.config.max_file_bytes} of a "
            "file that is read. Split it, or use grep."
        )
    if not isinstance(data, bytes) or decode(data) is None:
        return False
    if gate.admits_file(place.name):
        gate.take(place.name, data)
    return True


def _begins_as_text(path: Path) -> bool:
    """Tell whether the first bytes of a file are text, as those of no archive are."""
    with path.open("rb") as file:
        start = file.read(START_BYTES)
    # The last letter may be cut.
    return any(decode(start[: len(start) - cut]) is not None for cut in range(4))


def read_one(root: Path, path: str, largest: int) -> bytes | Reason:
    """The bytes of one file below a folder, or why they cannot be had.

    Raises:
        SnapshotError: the folder itself cannot be read.
    """
    with _root(root) as number:
        return _read_below(number, path.split("/"), largest)


@contextmanager
def _root(root: Path) -> Iterator[int]:
    """The open folder; the user named it, so this one may be reached over a link."""
    # Without `openat` a path could be swapped for a link between check and use, so it is refused, not tried.
    if os.open not in os.supports_dir_fd or not NO_LINK:
        raise SnapshotError(f"cannot read the folder {str(root)!r} safely on this system. Use an archive of it.")
    try:
        # No `O_NOFOLLOW` here: people link their project folders, and the user has named this one.
        number = os.open(root, OPEN | FOLDER)
    except (OSError, ValueError) as error:
        raise SnapshotError(f"cannot read the folder {str(root)!r}: {error}. Check its path and rights.") from None
    try:
        yield number
    finally:
        os.close(number)


def _read_folder(number: int, folder: str, above: IgnoreRules, gate: Gate, device: int) -> None:
    """Read the open folder `number`, whose path is `folder` ("" or "a/b/")."""
    entries = _entries(number, gate.config.max_entries)
    if isinstance(entries, Reason):
        gate.leave(folder or "./", entries)
        return
    # The folder that the user named is judged by what reads it.
    if folder and is_repository({name for name, _ in entries}):
        gate.leave(folder, Reason.HIDDEN)
        return
    # Before the entries, since rules of a folder hold for all of them, whatever the order of names.
    rules = _rules(number, folder, entries, above, gate)
    for name, kind in entries:
        gate.budget.check_time()
        path = folder + name
        if kind == "symlink":
            gate.leave(path, Reason.SYMLINK)
        elif kind == "special":
            gate.leave(path, Reason.SPECIAL)
        elif kind == "folder":
            _enter(number, path, rules, gate, device)
        # Cheap checks of the name come first; matching rules costs most and opening changes nothing then.
        elif gate.admits_file(path):
            data = Reason.IGNORED if rules.ignores(path) else _read_file(number, name, gate.config.max_file_bytes)
            gate.take(path, data)


def _enter(parent: int, path: str, rules: IgnoreRules, gate: Gate, device: int) -> None:
    if not gate.admits_folder(path):
        return
    if rules.ignores(path, is_folder=True):
        gate.leave(path + "/", Reason.IGNORED)
        return
    # Opened by its last name inside the open parent: renaming a folder above cannot redirect it.
    number = _open(parent, path.rpartition("/")[2], FOLDER)
    if isinstance(number, Reason):
        gate.leave(path + "/", number)
        return
    try:
        # Asked of the open folder, because something may have been mounted there since the listing.
        if os.fstat(number).st_dev != device:
            gate.leave(path + "/", Reason.OTHER_SYSTEM)
        else:
            _read_folder(number, path + "/", rules, gate, device)
    finally:
        os.close(number)


def _entries(number: int, most: int) -> list[Entry] | Reason:
    """Names and kinds, sorted; none when there are too many of them."""
    try:
        with os.scandir(number) as scan:
            # Stops one past the limit: a folder with millions of entries costs no more than the limit.
            entries = [(entry.name, _kind(entry)) for entry in islice(scan, most + 1)]
    except OSError:
        return Reason.UNREADABLE
    return Reason.TOO_MANY if len(entries) > most else sorted(entries)


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        # First, so that a link is reported as one whatever it leads to.
        if entry.is_symlink():
            return "symlink"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "special"
    except OSError:
        return "file"  # opening it tells more


def _rules(number: int, folder: str, entries: list[Entry], above: IgnoreRules, gate: Gate) -> IgnoreRules:
    """The rules of this folder; a `.gitignore` that cannot be used is reported."""
    # A `.gitignore` that is a link is not followed: a file outside the tree would decide what is read.
    if not gate.config.use_gitignore or (".gitignore", "file") not in entries:
        return above
    data = _read_file(number, ".gitignore", IGNORE_BYTES)
    text = decode(data) if isinstance(data, bytes) else None
    rules = above if text is None else above.under(folder, text)
    if text is None or rules.skipped:
        gate.leave(folder + ".gitignore", Reason.RULE)
    return rules


def _read_file(folder: int, name: str, largest: int) -> bytes | Reason:
    """The bytes of one regular file of an open folder, or why they cannot be had.

    A file that changes while it is read is read once more, then given up.
    """
    result: bytes | Reason = Reason.CHANGED
    for _ in range(ATTEMPTS):
        result = _read_once(folder, name, largest)
        if result is not Reason.CHANGED:
            break
    return result


def _read_once(folder: int, name: str, largest: int) -> bytes | Reason:
    number = _open(folder, name)
    if isinstance(number, Reason):
        return number
    try:
        # Facts of the open file, not of its name: the name may already mean another file.
        before = os.fstat(number)
        # A file can have become a FIFO or a device after the listing.
        if not stat.S_ISREG(before.st_mode):
            return Reason.SPECIAL
        if before.st_size > largest:
            return Reason.TOO_LARGE
        # One byte more than it had shows growth; reading to the end could follow a log for ever.
        data = _bytes(number, before.st_size + 1)
        is_same = len(data) == before.st_size and _stamp(os.fstat(number)) == _stamp(before)
        return data if is_same else Reason.CHANGED
    except OSError:
        return Reason.UNREADABLE
    finally:
        os.close(number)


def _read_below(root: int, parts: list[str], largest: int) -> bytes | Reason:
    """The bytes of a file some folders below an open one; no part of the way may be a link."""
    if len(parts) == 1:
        return _read_file(root, parts[0], largest)
    number = _open(root, parts[0], FOLDER)
    if isinstance(number, Reason):
        return number
    try:
        return _read_below(number, parts[1:], largest)
    finally:
        os.close(number)


def _open(folder: int, name: str, kind: int = 0) -> int | Reason:
    """An open file (or folder) of an open folder, or why it cannot be opened."""
    try:
        return os.open(name, OPEN | NO_LINK | kind, dir_fd=folder)
    except OSError as error:
        return _why(error, is_folder=bool(kind))


def _why(error: OSError, *, is_folder: bool) -> Reason:
    # The errors of `O_NOFOLLOW` at a link: ELOOP on Linux and macOS, EMLINK on FreeBSD.
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return Reason.SYMLINK
    if error.errno == errno.ENOTDIR and is_folder:  # it was a folder when it was listed
        return Reason.CHANGED
    if error.errno == errno.ENOENT:
        return Reason.CHANGED
    # Opening a socket, or a device without a driver, fails with one of these.
    return Reason.SPECIAL if error.errno in (errno.ENXIO, errno.ENODEV) else Reason.UNREADABLE


def _bytes(number: int, most: int) -> bytes:
    """Read up to `most` bytes from the start of an open file."""
    parts: list[bytes] = []
    # `read` may return less than it was asked for, also before the end.
    while most > 0 and (part := os.read(number, min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Facts that differ when a file was written, renamed over or removed."""
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_nlink)
