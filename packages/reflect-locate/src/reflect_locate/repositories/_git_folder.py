"""The files of a repository that git may see, and the folder of ours in which it sees them.

A repository's own folder can hold settings, hooks and attributes that start programs, and links that lead to private
files. So git is never pointed at it. It gets a new folder with settings of ours and links to the references, the packs
and the loose objects; all of them must lie inside the folder that the user opened.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reflect_locate.repositories.budget import Budget, SnapshotError

SMALL_BYTES = 100_000
"""Largest of the small files (`HEAD`, `.git`, `commondir`, `config`, `alternates`) that are read here."""
SHARED = ("refs", "packed-refs", "shallow")
"""Parts of a repository besides objects: names of commits, and where a shallow history ends."""
LOOSE = re.compile("[0-9a-f]{2}")
SHA256 = re.compile(r"^\s*objectformat\s*=\s*\"?sha256", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class GitPlaces:
    """The parts of a repository, all inside the folder that was opened."""

    head: str
    """Content of the file `HEAD`."""
    common: Path
    """Folder of the references."""
    objects: tuple[Path, ...]
    """Folders of objects: its own, then those that it borrows from."""
    sha256: bool
    """Objects are named by SHA-256 instead of SHA-1."""


def git_places(folder: Path, budget: Budget) -> GitPlaces:
    """Find the parts of a repository.

    Args:
        folder: top folder of a working tree, or a bare repository; no link.
        budget: of the reading.

    Raises:
        SnapshotError: it is none, a part lies outside of the folder, or the time is up.
    """
    own = folder / ".git" if os.path.lexists(folder / ".git") else folder
    if own.is_file():
        own = own.parent / _small(own, folder).removeprefix("gitdir:").strip()
    own = _inside(own, folder)
    common = own
    if os.path.lexists(own / "commondir"):
        common = _inside(own / _small(own / "commondir", folder).strip(), folder)
    objects = _inside(common / "objects", folder)
    if not (own / "HEAD").is_file() or not objects.is_dir() or not (common / "refs").is_dir():
        raise SnapshotError(f"{str(folder)!r} is not a git repository. Give its top folder.")
    if (common / "reftable").exists():
        raise SnapshotError(f"{str(folder)!r} keeps its references in a reftable, which is not read. Convert it.")
    stores = tuple(_object_folders(objects, folder))
    for place in (*(common / name for name in SHARED), *stores):
        _check_below(place, folder, budget)
    config = _small(common / "config", folder) if os.path.lexists(common / "config") else ""
    return GitPlaces(_small(own / "HEAD", folder), common, stores, SHA256.search(config) is not None)


@contextmanager
def borrowed(places: GitPlaces) -> Iterator[Path]:
    """Make a git folder with settings of ours, around the references of a repository."""
    with tempfile.TemporaryDirectory(prefix="reflect-git-") as name:
        folder = Path(name)
        extension = "[extensions]\n\tobjectFormat = sha256\n" if places.sha256 else ""
        (folder / "config").write_text(
            f"[core]\n\trepositoryFormatVersion = {int(places.sha256)}\n\tbare = true\n"
            f"\tquotePath = false\n\thooksPath = {os.devnull}\n\tfsmonitor = false\n"
            f"[protocol]\n\tallow = never\n{extension}",
            encoding="utf-8",
        )
        (folder / "HEAD").write_bytes(os.fsencode(places.head))
        for shared in SHARED:
            if (places.common / shared).exists():
                (folder / shared).symlink_to(places.common / shared)
        for number, store in enumerate(places.objects):
            (mirror := folder / f"objects-{number}").mkdir()
            # Without `info`: git would read there where else to look for objects, and what their history is.
            for part in store.iterdir():
                if part.name == "pack" or LOOSE.fullmatch(part.name):
                    (mirror / part.name).symlink_to(part)
        yield folder


def _object_folders(first: Path, top: Path) -> Iterator[Path]:
    """The folder of objects, and those that it borrows from, in turn."""
    found = [first]
    # The list grows while it is walked.
    for place in found:
        yield place
        names = place / "info" / "alternates"
        lines = _small(names, top).splitlines() if os.path.lexists(names) else []
        others = [_inside(place / line, top) for line in lines if line and not line.startswith("#")]
        found += [other for other in dict.fromkeys(others) if other.is_dir() and other not in found]


def _check_below(place: Path, top: Path, budget: Budget) -> None:
    """Refuse links that lead out of the opened folder, and files that would block their reader, at any depth."""
    waiting, seen = [place] if os.path.lexists(place) else [], set[Path]()
    while waiting:
        real = _inside(waiting.pop(), top)
        if real in seen or not real.is_dir():
            _check(real)
            continue
        seen.add(real)
        budget.check_time()
        with os.scandir(real) as entries:
            # Plain files are most of what there is, and need no second look.
            waiting += [Path(entry.path) for entry in entries if not entry.is_file(follow_symlinks=False)]


def _check(real: Path) -> None:
    if real.exists() and not (real.is_file() or real.is_dir()):
        raise SnapshotError(f"{str(real)!r} is a special file, which a git repository does not have. It is not read.")


def _inside(path: Path, top: Path) -> Path:
    """The place that a path leads to.

    Raises:
        SnapshotError: it lies outside of the opened folder.
    """
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a ring of links, a zero byte
        raise SnapshotError(f"{str(path)!r} cannot be followed: {error}.") from None
    if real != top and top not in real.parents:
        raise SnapshotError(
            f"the repository of {str(top)!r} leads out of that folder, to {str(real)!r}. If it is a worktree, a "
            "submodule or a shared clone of yours, name the repository that holds the objects instead."
        )
    return real


def _small(path: Path, top: Path) -> str:
    """The text of a small file inside the opened folder, without ever waiting for one."""
    _check(real := _inside(path, top))
    try:
        # The flag opens a FIFO, which may have taken the file's place, at once instead of never.
        with os.fdopen(os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            data = file.read(SMALL_BYTES + 1)
    except OSError as error:
        raise SnapshotError(f"cannot read {str(real)!r}: {error}. Check its rights.") from None
    if len(data) > SMALL_BYTES:
        raise SnapshotError(f"{str(real)!r} is larger than {SMALL_BYTES} bytes, which no repository needs.")
    return os.fsdecode(data)
