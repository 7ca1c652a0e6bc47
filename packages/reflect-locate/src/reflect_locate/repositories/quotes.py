"""Strings of the code that hold the words of a question as they stand in it, such as those of an error message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reflect_locate.repositories.words import words

LEAST = 4
"""Words one after another that make a quote; fewer meet by chance."""
LEAST_CONTENT = 2
"""Content words of a quote: `is not a valid` stands in many files."""
SHARE = 0.5
"""Least share of a question's words that are quoted. The others may be values, which a message is written around."""
MARKS = "\"'`()[]{}<>.,:;!?"
"""Marks at an end of a quote, which the code may have elsewhere."""
OPENS = ('"', "'", "`")
"""Marks that begin a string of the code."""
COMMENTS = ("#", "//", "/*", "*", "--")
"""Beginnings of a line that is a comment: it may repeat what is asked about, and raises nothing."""


def quotes(question: str) -> tuple[str, ...]:
    """The parts of a question that may stand in a line as they are, each of `LEAST` words.

    >>> quotes("KeyError: 'no tea is left'")
    ("KeyError: 'no tea is", 'no tea is left')
    >>> quotes("no tea left")
    ()
    """
    said = question.split()
    return tuple(" ".join(said[start : start + LEAST]).strip(MARKS) for start in range(len(said) - LEAST + 1))


def quoted(text: str, question: str, parts: Sequence[str]) -> tuple[float, int]:
    r"""Share of the words of a question that strings of a file hold as they stand, and the line with most of them.

    (0, 0) if there is no quote.

    >>> question = "error: no tea is left"
    >>> quoted("x = 1\nraise TeaError('no tea is left')\n", question, quotes(question))
    (0.8, 2)

    Args:
        text: of a file.
        question: in words.
        parts: its `quotes`.
    """
    places = [_place(text, part) for part in parts]
    held = {word for start, place in enumerate(places) if place >= 0 for word in range(start, start + LEAST)}
    said = question.split()
    share = len(held) / max(len(said), 1)
    if share < SHARE or len(set(words(" ".join(said[word] for word in held)))) < LEAST_CONTENT:
        return 0.0, 0
    lines = Counter(text.count("\n", 0, place) + 1 for place in places if place >= 0)
    return share, max(lines, key=lambda line: (lines[line], -line))


def _place(text: str, part: str) -> int:
    """The first place of a part in a string of the code, as far as its line tells; -1 for none."""
    place = text.find(part)
    while place >= 0:
        before = text[text.rfind("\n", 0, place) + 1 : place]
        if any(mark in before for mark in OPENS) and not before.lstrip().startswith(COMMENTS):
            break
        place = text.find(part, place + 1)
    return place
