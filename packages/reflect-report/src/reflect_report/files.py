"""Files that a run writes line by line, and that a reader may look at while it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")
Version = tuple[int, int, int]
"""Inode, size in bytes and time of the last change in nanoseconds."""


def version_of(path: Path) -> Version:
    """Version of a file, which tells it from its earlier contents.

    Raises:
        OSError: there is no such file.
    """
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def kept_until_changed(read: Callable[[Path], Value]) -> Callable[[Path], Value]:
    """A reader that reads a file again only when it has changed. It keeps one value for each file."""
    known: dict[Path, tuple[Version, Value]] = {}

    @wraps(read)
    def look(path: Path) -> Value:
        # Before the reading: what is appended meanwhile is another version, and is read the next time.
        version = version_of(path)
        if path not in known or known[path][0] != version:
            known[path] = (version, read(path))
        return known[path][1]

    return look


def read_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Byte offset and object of each line of a JSONL file; None for a line that is no JSON object.

    A run that was killed leaves half a line, usually the last.
    """
    for offset, line in read_bytes(path):
        yield offset, _object_or_none(line)


def read_bytes(path: Path) -> Iterator[tuple[int, bytes]]:
    """Byte offset and text of each line of a file that is not empty."""
    with path.open("rb") as lines:
        offset = 0
        for line in lines:
            # Empty lines are no episodes and no damage, but their bytes count for the offsets of later lines.
            if line.strip():
                yield offset, line
            offset += len(line)


def _object_or_none(line: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    # Brackets that are nested thousands deep exhaust the stack of Python's reader.
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
