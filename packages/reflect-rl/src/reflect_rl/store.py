"""The only reader and writer of JSON and JSONL files in run folders, and the checksum of a file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reflect_rl.errors import RunFolderError

__all__ = ["append_jsonl", "read_json", "read_jsonl", "sha256_of", "write_json", "write_jsonl"]


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all (written beside its place, flushed, renamed)."""
    _replace(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Write a JSONL file whole or not at all."""
    _replace(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def append_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Add rows to a JSONL file, and see them to the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        file.flush()
        # A training that is killed right after must find these rows again when it goes on.
        os.fsync(file.fileno())


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, as a rename is atomic within one file system only.
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    # Renaming is atomic, so a reader sees the old file or the new one and never a part.
    fresh.replace(path)


def read_json(path: Path, remedy: str) -> Any:
    """The value in a JSON file.

    Raises:
        RunFolderError: the file is missing or no JSON; the message ends with `remedy`.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing. {remedy}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RunFolderError(f"{path} is not readable ({error}). {remedy}") from None


def read_jsonl(path: Path, remedy: str) -> list[Any]:
    """The rows of a JSONL file; a half-written last line (of an interrupted writer) is left out.

    Raises:
        RunFolderError: the file is missing, or a line other than the last is no JSON; the message ends with `remedy`.
    """
    try:
        # `splitlines` would also cut at U+2028 and other breaks, which JSON strings may contain.
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing. {remedy}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path} is not readable ({error}). {remedy}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            # Only the last line can be cut short by a kill; any other broken line means a damaged file.
            if number == len(lines):
                break
            raise RunFolderError(f"{path}, line {number} is no JSON ({error}). {remedy}") from None
    return rows


def sha256_of(path: Path) -> str:
    """SHA-256 of a file as hexadecimal digits; the file is read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
