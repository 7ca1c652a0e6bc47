"""Overlap of file names with a question, for the policies that compare words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reflect_locate.envs.state_text import FileNote
from reflect_locate.repositories.words import words

__all__ = ["best_note", "name_overlap"]


def name_overlap(path: str, asked: Iterable[str]) -> int:
    """Number of words of the question in the last part of a path, its ending left out.

    >>> name_overlap("tools/rate_limits.py", ("rat", "limit", "tool"))
    2
    """
    name = path.rpartition("/")[2]
    # The ending says what kind of file it is, which no question is about.
    own = set(words(name.rpartition(".")[0] or name))
    return sum(word in own for word in asked)


def best_note(notes: Sequence[FileNote], asked: Sequence[str]) -> FileNote | None:
    """The file whose nearest passage holds most words of the question; then the best name, then the one read first."""
    return max(notes, key=lambda note: (len(note[1]), name_overlap(note[0], asked)), default=None)
