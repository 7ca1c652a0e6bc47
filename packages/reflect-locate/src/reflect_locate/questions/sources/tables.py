"""Questions from tables: `csvhead`, the list of the columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from reflect_locate.questions.candidate import CandidateQuestion
from reflect_locate.repositories.snapshot import Snapshot

NAME = "tables"

DELIMITERS = {".csv": ",;", ".tsv": "\t"}
LONGEST_HEADER = 2000


def candidates(snapshot: Snapshot) -> Iterator[CandidateQuestion]:
    """A candidate for each table that begins with the names of its columns, in the order of the files."""
    for path, text in snapshot.files.items():
        delimiters = DELIMITERS.get(path[-4:].lower())
        header = text.partition("\n")[0].rstrip("\r")
        if delimiters is None or not header or len(header) > LONGEST_HEADER:
            continue
        # Some countries' spreadsheets write semicolons; the right delimiter finds most columns.
        columns = max((_columns(header, delimiter) for delimiter in delimiters), key=len)
        if _are_names(columns):
            yield CandidateQuestion(f"table with the columns {', '.join(columns)}", path, "csvhead", (0, len(header)))


def _columns(header: str, delimiter: str) -> list[str]:
    try:
        return [" ".join(cell.split()) for cell in next(csv.reader([header], delimiter=delimiter))]
    except csv.Error:
        return []


def _are_names(columns: list[str]) -> bool:
    """Tell whether cells are different names, and not the first row of values."""
    # A first row with a number in it is data, and a question made of it would ask for values.
    named = all(any(letter.isalpha() for letter in column) for column in columns)
    return len(columns) > 1 and named and len(set(columns)) == len(columns)
