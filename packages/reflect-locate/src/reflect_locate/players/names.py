"""Overlap of file names with a question, for the policies that compare words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reflect_locate.envs.state_text import FileNote, name_overlap


def path_overlap(path: str, asked: Iterable[str]) -> int:
    """Number of words of the question in the last part of a path, its ending left out.

    >>> path_overlap("tools/rate_limits.py", ("rat", "limit", "tool"))
    2
    """
    return len(name_overlap(path.rpartition("/")[2], asked))


def best_note(notes: Sequence[FileNote], asked: Sequence[str]) -> FileNote | None:
    """The file whose nearest passage holds most words of the question; then the best name, then the one read first."""
    # The name decides between equal passages only: what stands in a file is better evidence than what it is called.
    return max(notes, key=lambda note: (len(note[1]), path_overlap(note[0], asked)), default=None)
