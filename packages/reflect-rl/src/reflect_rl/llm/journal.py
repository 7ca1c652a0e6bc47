"""A JSONL file that several threads and processes add to, and that a killed writer cannot spoil."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from reflect_rl.errors import RunFolderError

__all__ = ["Journal"]


class Journal:
    """Rows in the order in which they were added, those of other processes included.

    A row that was added outlives this process. What a killed writer has left of its last row is removed by the next
    one. Only the user may read the file.

    Args:
        path: the file; it is made with its first row.
        remedy: end of the message where the file is corrupt.
        is_synced: whether rows outlive a loss of power, which takes milliseconds each.
    """

    def __init__(self, path: Path, remedy: str, is_synced: bool = True) -> None:
        self.path, self.remedy, self.is_synced = path, remedy, is_synced
        self._lock = threading.RLock()
        self._read = 0
        """Bytes that have been handed out."""

    def fresh(self) -> list[dict[str, Any]]:
        """The rows that were not handed out before.

        Raises:
            RunFolderError: the file cannot be read, or holds something else.
        """
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    return self._rows(file)
            except FileNotFoundError:
                return []
            except OSError as error:
                raise RunFolderError(f"{self.path} cannot be read ({error}). {self.remedy}") from None

    def add(self, row: dict[str, Any]) -> None:
        """One more row.

        Raises:
            RunFolderError: the file cannot be written.
        """
        with self.exclusive():
            self.write(row)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """No other thread or process adds a row inside of this block; `write` does."""
        with self._lock, self._opened() as file:
            _lock(file)
            self._file = file
            _heal(file)
            yield

    def write(self, row: dict[str, Any]) -> None:
        """One more row, inside of `exclusive`."""
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        if self.is_synced:
            os.fsync(self._file.fileno())

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+b", opener=_private) as file:
                yield file
        except OSError as error:
            raise RunFolderError(
                f"{self.path} cannot be written ({error}). Make room, or choose another folder."
            ) from None

    def _rows(self, file: BinaryIO) -> list[dict[str, Any]]:
        """Whole lines from where the last reading ended."""
        if os.fstat(file.fileno()).st_size <= self._read:
            return []
        file.seek(self._read)
        written = file.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._read += len(whole)
        return [self._row(line) for line in whole.split(b"\n") if line.strip()]

    def _row(self, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except ValueError as error:
            raise RunFolderError(f"{self.path} holds a line that is no JSON ({error}). {self.remedy}") from None
        if not isinstance(row, dict):
            raise RunFolderError(f"{self.path} holds a line of another kind. {self.remedy}")
        return row


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _lock(file: BinaryIO) -> None:
    """Wait for other processes; the lock goes with the file's closing."""
    try:
        import fcntl
    except ImportError:  # Windows: one process at a time
        return
    fcntl.flock(file, fcntl.LOCK_EX)


def _heal(file: BinaryIO) -> None:
    """Remove what a killed writer has left of its last row."""
    size = file.seek(0, os.SEEK_END)
    whole, step = size, 1 << 16
    while whole:
        start = max(whole - step, 0)
        file.seek(start)
        place = file.read(whole - start).rfind(b"\n")
        if place >= 0:
            whole = start + place + 1
            break
        whole = start
    if whole < size:
        file.truncate(whole)
