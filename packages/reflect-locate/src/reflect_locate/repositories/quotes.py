"""Strings of the code that hold the words of a question as they stand in it, such as those of an error message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

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
COMMENTS = ("#", "//", "/*", "*", "--", "! ", "% ", ";;", "rem ", "REM ", "Rem ", ":: ", "<!--")
"""Beginnings of a line that is a comment: it may repeat what is asked about, and raises nothing."""

GOES_ON = re.compile(r"[ \t+.&|<>]*[A-Za-z$@]{0,2}[\"'`]")
"""Beginning of a line that goes on with the string of the line before it, perhaps behind a sign that joins the two."""
SEAM = re.compile(r"[\"'`][ \t+.&|<>_\\]*\r?\n[ \t+.&|<>]*[A-Za-z$@]{0,2}[\"'`]")
"""End of a string, and the beginning of its next piece in the next line."""


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


@lru_cache(4096)
def is_enough(question: str, places: int) -> bool:
    """Tell whether some parts of a question make a quote: half of its words, and two that mean something.

    >>> is_enough("no tea is left for the cup", 0b0001), is_enough("no tea is left for the cup", 0b0100)
    (True, False)

    Args:
        question: in words.
        places: of the parts among its `quotes`, a bit for each.
    """
    said = question.split()
    held = {place + word for place in range(len(said)) if places >> place & 1 for word in range(LEAST)}
    content = set(words(" ".join(said[word] for word in held)))
    return len(held) >= SHARE * len(said) and len(content) >= LEAST_CONTENT


def may_quote(text: str, question: str, parts: Sequence[str], places: int) -> bool:
    """Tell, in a fraction of the time of `quoted`, that a file does not hold enough of a question.

    Args:
        text: of a file.
        question: in words.
        parts: its `quotes`.
        places: of the parts that may stand in the file, a bit for each.
    """
    for place, part in enumerate(parts):
        if places >> place & 1 and part not in text:
            places ^= 1 << place
            if not is_enough(question, places):
                return False
    return True


def quoted_over_lines(
    lines: Sequence[str], numbers: Collection[int], question: str, parts: Sequence[str]
) -> tuple[float, int]:
    """`quoted` of the strings that are written in several pieces, a line each: the best share, and the first line.

    Args:
        lines: of a file.
        numbers: of the lines (from 0) that hold words of the question.
        question: in words.
        parts: its `quotes`.
    """
    best, last = (0.0, 0), -1
    for number in sorted(numbers):
        if number <= last:
            continue
        first = last = number
        while first > 0 and GOES_ON.match(lines[first]):
            first -= 1
        while last + 1 < len(lines) and GOES_ON.match(lines[last + 1]):
            last += 1
        for start, text in _joined(lines, first, last):
            share, line = quoted(text, question, parts)
            best = max(best, (share, line and start + 1), key=lambda row: row[0])
    return best


def _joined(lines: Sequence[str], first: int, last: int) -> Iterator[tuple[int, str]]:
    """The strings of several pieces in these lines, each as one text, and the number of its first line."""
    start, begin, pieces = first, 0, list[str]()
    for number in range(first, last + 1):
        line = lines[number]
        after = lines[number + 1] if number < last else ""
        if seam := SEAM.search(f"{line}\n{after}"):
            pieces.append(line[begin : seam.start()])
            begin = seam.end() - len(line) - 1
            continue
        if pieces:
            yield start, "".join((*pieces, line[begin:]))
        start, begin, pieces = number + 1, 0, []
