"""A tree of text files at one moment: read once, never changed, shared by all episodes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reflect_locate.repositories.budget import MOST_BYTES, Budget, SnapshotError
from reflect_rl.store import write_bytes

BLOCK_BYTES = 1 << 20
DAMAGE = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error)
"""Errors of reading a file that `save` has not written."""
# A text without an end is a match, too: without that, each quote in it would be searched from once more.
STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Texts of a JSON file."""
MOST_MARKS = 5_000_000
"""Most bytes of a snapshot's file that stand outside of texts: an empty list takes two of them and 56 bytes of memory.
A snapshot has about four for each file, and six for each that it left out."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry that is not in the snapshot."""

    path: str
    reason: str


class Snapshot:
    """Relative path -> text.

    Args:
        name: of the tree, for example `flask-3.1.0`.
        files: text of each file by its path: POSIX, relative, without empty parts, `.` and `..`.
        left_out: entries that were found and not read.
        endings: number of files that were left out for each ending; it is not saved.

    Raises:
        ValueError: a path is not relative, or is a folder of another.
    """

    def __init__(
        self,
        name: str,
        files: Mapping[str, str],
        left_out: Sequence[LeftOut] = (),
        endings: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        # Checked again here, although the gate has: a snapshot is also loaded from a file that anybody may have
        # written.
        for path in files:
            if not path or any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
                raise ValueError(f"{path!r} is no relative path inside the tree")
        if both := files_that_are_folders(files):
            raise ValueError(f"{both[0]!r} is both a file and a folder")
        self.name = name
        # Sorted, because disks list files in any order; read-only, because all episodes share one snapshot.
        self.files: Mapping[str, str] = MappingProxyType(dict(sorted(files.items())))
        self.left_out = tuple(left_out)
        self.endings = dict(endings)

    @cached_property
    def identity(self) -> str:
        """SHA-256 over paths and texts; computed when it is asked for, as one question needs none."""
        return _identity(self.files)

    @cached_property
    def digests(self) -> Mapping[str, bytes]:
        """SHA-256 of the text of each file."""
        return {path: digest_of(text) for path, text in self.files.items()}

    def save(self, path: Path) -> None:
        """Write the snapshot, whole or not at all; equal snapshots give equal bytes.

        Raises:
            SnapshotError: it is larger, or names more files, than `load` would read.
        """
        value = {
            "name": self.name,
            "files": dict(self.files),
            "left_out": [[entry.path, entry.reason] for entry in self.left_out],
        }
        text = json.dumps(value, ensure_ascii=True).encode()
        if len(text) > MOST_BYTES:
            raise SnapshotError(f"the snapshot {self.name} has {len(text)} of {MOST_BYTES} bytes. Take fewer files.")
        if _marks(text) > MOST_MARKS:
            raise SnapshotError(f"the snapshot {self.name} names {len(self.left_out)} files. Exclude some folders.")
        packed = io.BytesIO()
        # No name and no time in the header: equal snapshots must give equal bytes.
        with gzip.GzipFile("", "wb", 6, packed, mtime=0) as file:
            file.write(text)
        write_bytes(path, packed.getvalue())

    @classmethod
    def load(cls, path: Path, budget: Budget | None = None) -> Snapshot:
        """The snapshot that `save` wrote.

        Args:
            path: the file.
            budget: of the reading; a few kilobytes of gzip can unfold to gigabytes.

        Raises:
            SnapshotError: the file is missing, or none that `save` wrote.
        """
        try:
            text, budget = bytearray(), budget or Budget(str(path))
            with gzip.open(path, "rb") as file:
                while block := file.read(BLOCK_BYTES):
                    budget.spend(len(block))
                    text += block
            if _marks(text) > MOST_MARKS:
                raise ValueError("it holds more values than any snapshot")
            value: Any = json.loads(text)
            name, files, left_out = value["name"], value["files"], value["left_out"]
            _check_texts((name, *files.values(), *(text for entry in left_out for text in _pair(entry))))
            return cls(name, files, [LeftOut(*entry) for entry in left_out])
        except DAMAGE as error:
            raise SnapshotError(f"cannot read the snapshot {path}: {error}. Make the task set again.") from None


def _pair(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("an entry of left_out is no path with a reason")
    return value


def _check_texts(values: Sequence[object]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{type(value).__name__} stands where a text should be")


def _marks(text: bytes | bytearray) -> int:
    """Bytes of a JSON text that stand outside of its strings."""
    # Counted one by one: all matches together would take more memory than what they are to protect.
    return len(text) - sum(found.end() - found.start() for found in STRINGS.finditer(text))


def digest_of(text: str) -> bytes:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def files_that_are_folders(paths: Collection[str]) -> list[str]:
    """Paths that are also a folder of another path, sorted.

    >>> files_that_are_folders(["a", "a/b", "c"])
    ['a']
    """
    folders = set[str]()
    for path in paths:
        folder = path.rpartition("/")[0]
        # Files lie side by side, so the way up is most often known already.
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(folders.intersection(paths))


def _identity(files: Mapping[str, str]) -> str:
    """SHA-256 over paths and texts, each with its length, in the order of the paths."""
    digest = hashlib.sha256()
    for path, text in files.items():
        for part in (path, text):
            # Lengths keep `ab`, `c` apart from `a`, `bc`; surrogates, as a loaded file may hold, still have a hash.
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(f"{len(encoded)}:".encode())
            digest.update(encoded)
    return digest.hexdigest()
