"""Lines of a text, in which the words of a question are found quickly."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from functools import cached_property, lru_cache
from itertools import accumulate

from reflect_locate.repositories.words import composed, words

LONGEST_READ = 1_000_000
"""Characters of a file that `locate` looks at."""
KEPT_TEXTS = 128
"""Texts whose lines are kept: more than most questions are ranked by, so that their passages need no second reading."""
SIGMA = ("ς", "σ")
"""Python has another letter for a sigma at the end of a word, and a word may end in the middle of a written one."""


class TextLines:
    """Lines of a text.

    Args:
        text: its first million characters are read.
    """

    def __init__(self, text: str) -> None:
        # Text behind the last line feed is no line.
        self.lines = text[:LONGEST_READ].removesuffix("\n").split("\n")
        self._last: tuple[frozenset[str], dict[int, frozenset[str]]] = frozenset(), {}

    @cached_property
    def written(self) -> list[int]:
        """Numbers of the lines that are not blank, from 0."""
        return [number for number, line in enumerate(self.lines) if line and not line.isspace()]

    @cached_property
    def _lower(self) -> str:
        return composed("\n".join(self.lines)).lower().replace(*SIGMA)

    @cached_property
    def _ends(self) -> list[int]:
        """Place behind the end of each line of `_lower`."""
        return list(accumulate(len(line) + 1 for line in self._lower.split("\n")))

    def holding(self, asked: Collection[str]) -> dict[int, frozenset[str]]:
        """Number of each line (from 0) that holds one of these words -> those that it holds.

        Args:
            asked: words, as `words` gives them; the answer for the last ones is kept.
        """
        wanted, (last, held) = frozenset(asked), self._last
        if last != wanted:
            held = self._holding(wanted)
            # One assignment: two threads may ask.
            self._last = wanted, held
        return held

    def _holding(self, asked: frozenset[str]) -> dict[int, frozenset[str]]:
        # A word is a part of the text that it was cut from, so only lines around such a part are cut into words.
        near = set[int]()
        for word in (word.replace(*SIGMA) for word in asked):
            place = self._lower.find(word)
            while place >= 0:
                number = bisect_right(self._ends, place)
                near.add(number)
                place = self._lower.find(word, self._ends[number])
        found = ((number, asked.intersection(words(self.lines[number]))) for number in sorted(near))
        return {number: shared for number, shared in found if shared}


@lru_cache(KEPT_TEXTS)
def lines_of(text: str) -> TextLines:
    """The lines of a text, kept for the texts that were asked for last."""
    return TextLines(text)


def may_hold(text: str, asked: Iterable[str]) -> bool:
    """Tell, in a fraction of the time of `words`, that a text holds none of these words (False), or that it may.

    >>> may_hold("parseHeader", ["head"]), may_hold("parseHeader", ["cup"])
    (True, False)

    Args:
        text: a short one.
        asked: words, as `words` gives them.
    """
    lower = text.lower()
    return not text.isascii() or any(word in lower for word in asked)
