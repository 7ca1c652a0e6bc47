"""Reader and writer of files and folders that are there whole or not at all, and the checksums of files.

Checkpoints have a writer of their own.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from reflect_rl.errors import RunFolderError
from reflect_rl.registry import is_deep

RIGHTS = "Check its rights, and give the same command again."
"""Remedy for a file that may not be read: one for damage would delete what is good."""


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all (written beside its place, flushed, renamed)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Write a JSONL file whole or not at all."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def append_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Add rows to a JSONL file, and see them to the disk."""
    if path.is_file():
        _end_last_line(path)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        file.flush()
        # A training that is killed right after must find these rows again when it goes on.
        os.fsync(file.fileno())


def _end_last_line(path: Path) -> None:
    """Give the last line its end, as some editors leave it out; the rest of a killed write goes, as readers skip it."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read() in (b"", b"\n"):
            return
        file.seek(0)
        start = file.read().rfind(b"\n") + 1
        file.seek(start)
        try:
            json.loads(file.read())
        except ValueError:
            file.truncate(start)
        else:
            file.write(b"\n")


def may_be_cut(line: bytes, begins: bytes) -> bool:
    """Tell whether a line can be what a kill leaves of the first row of a file, which may be nothing.

    >>> may_be_cut(b'{"ta', b'{"task": '), may_be_cut(b"a note", b'{"task": ')
    (True, False)
    """
    length = min(len(line), len(begins))
    return line[:length] == begins[:length]


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8 whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, as a rename is atomic within one file system only.
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # Renaming is atomic, so a reader sees the old file or the new one and never a part.
        fresh.replace(path)
    except BaseException as error:
        fresh.unlink(missing_ok=True)
        _name(error, path)
        raise


def _name(error: BaseException, path: Path) -> None:
    # Where a write fails the system names no file, and a message must say which disk is full.
    if isinstance(error, OSError) and error.errno and not error.filename:
        error.filename = str(path)


@contextmanager
def whole_folder(target: Path, scratch: Path | None = None, *, replaces: bool = True) -> Iterator[Path]:
    """Write a folder whole or not at all: the block fills a scratch folder, which is flushed and takes the place.

    Args:
        target: the place.
        scratch: see `scratch_folder`.
        replaces: what is at the place goes; else a rename that finds a file or a full folder there fails.

    Yields:
        The scratch folder, empty.
    """
    with scratch_folder(target, scratch) as fresh:
        yield fresh
        flush_all(fresh)
        # A folder that holds files cannot be replaced by a rename; a kill between the two calls leaves none.
        if replaces:
            shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.rename(target)
        # Only now is the name on the disk, so that what the folder was made from may be removed.
        flush(target.parent)


@contextmanager
def scratch_folder(place: Path, scratch: Path | None = None) -> Iterator[Path]:
    """Make an empty folder beside a place, so on the same file system, and remove what is left of it in the end.

    Args:
        place: where its content will go.
        scratch: the folder (None: the name of the place with `.new`); what is in it goes.

    Yields:
        The folder.
    """
    fresh = place.with_name(place.name + ".new") if scratch is None else scratch
    # A kill during an earlier writing has left files there that may not belong together.
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
    except OSError as error:
        _name(error, place)
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def flush_all(folder: Path) -> None:
    """See the files of a folder and of those below it to the disk, with their names."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            flush(Path(place, name))
        flush(Path(place))


def flush(path: Path) -> None:
    """See the content of a file, or the names in a folder, to the disk."""
    # Windows opens no folder, and flushes only what is open for writing.
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot flush a folder.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(handle)


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        RunFolderError: the file is missing, no JSON, or holds something else; the message ends with `remedy`.
    """
    value = read_json_value(path, remedy)
    if not isinstance(value, dict):
        raise RunFolderError(f"{path} holds no JSON object. {remedy}")
    return value


def read_json_value(path: Path, remedy: str) -> Any:
    """The value in a JSON file, of whatever kind.

    Raises:
        RunFolderError: the file is missing or no JSON, or nested too deeply; the message ends with `remedy`.
    """
    try:
        value = json.loads(text := path.read_text(encoding="utf-8"))
        if is_deep(value):
            raise RecursionError("its values are nested too deeply")
        # JSON can spell half a character, which no page or file can hold; only by this sign.
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing. {remedy}") from None
    except PermissionError as error:
        raise RunFolderError(f"{path} may not be read ({error.strerror}). {RIGHTS}") from None
    # No UTF-8, no JSON, or a number of thousands of digits; and brackets that are nested a thousand deep exhaust the
    # stack of Python's reader.
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} is not readable ({error}). {remedy}") from None


def read_jsonl(path: Path, remedy: str, *, appended: bool = False) -> list[dict[str, Any]]:
    """The rows of a JSONL file.

    Args:
        path: the file.
        remedy: end of the message where the file is of no use.
        appended: the file grows line by line, so that a kill can cut its last line short, which is left out then.

    Raises:
        RunFolderError: the file is missing, or a line is no JSON object.
    """
    try:
        # `splitlines` would also cut at U+2028 and other breaks, which JSON strings may contain.
        lines = _text(path, appended).split("\n")
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing. {remedy}") from None
    except PermissionError as error:
        raise RunFolderError(f"{path} may not be read ({error.strerror}). {RIGHTS}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path} is not readable ({error}). {remedy}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            # Any other broken line means a damaged file, and so does this one where files are written whole.
            if appended and number == len(lines):
                break
            raise RunFolderError(f"{path}, line {number} is no JSON ({error}). {remedy}") from None
        if not isinstance(row, dict):
            raise RunFolderError(f"{path}, line {number} is no JSON object. {remedy}")
        rows.append(row)
    return rows


def _text(path: Path, appended: bool) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A kill may also cut a character in two; its line is lost as any other half one.
        if not appended or error.start < (end := data.rfind(b"\n") + 1):
            raise
        return data[:end].decode("utf-8")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file as hexadecimal digits; the file is read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(mark: Path, files: Iterable[Path]) -> None:
    """Write the mark of a finished job: SHA-256 sums of the files that it made, by their paths relative to the mark."""
    write_json(mark, {os.path.relpath(file, mark.parent): sha256_of(file) for file in sorted(files)})


def check_seal(mark: Path, remedy: str, skipped: str = "") -> None:
    """Compare the files of a finished job with the sums in its mark.

    A folder that is gone as a whole is left to its reader: people delete models to save space.

    Args:
        mark: of the job; an empty one, of an earlier version of this program, tells nothing.
        remedy: end of the message.
        skipped: ending of names of files that are not compared, such as large ones that nobody reads now.

    Raises:
        RunFolderError: a file differs or is missing, or the mark is not readable.
    """
    if not mark.exists() or not mark.stat().st_size:
        return
    sums = read_json(mark, remedy)
    for name, wanted in sums.items():
        path = mark.parent / name
        if (skipped and name.endswith(skipped)) or not path.parent.is_dir():
            continue
        if not path.is_file():
            raise RunFolderError(f"{path.resolve()} is missing. {remedy}")
        state = path.stat()
        if _known_sum(path, state.st_size, state.st_mtime_ns) != wanted:
            raise RunFolderError(f"{path.resolve()} has changed since it was made (by its SHA-256 sum). {remedy}")


@lru_cache(4096)
def _known_sum(path: Path, size: int, time: int) -> str:
    """SHA-256 of a file; several jobs of one process need the same files."""
    return sha256_of(path)
