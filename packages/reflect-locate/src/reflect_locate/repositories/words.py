"""Content words of names, sentences and files: the one way in which questions and files are compared.

A text is cut at everything that is no letter or digit, and inside names (`camelCase`, `snake_case`, `HTTPServer`);
words that carry nothing are dropped, and endings are cut so that `opening` meets `opened`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
"""A run of capitals, a word, a number, or a run of letters of another script."""

STOP_WORDS = frozenset(
    (  # noqa: SIM905 (one word to a line would be two pages)
        "a about above after again all also an and another any are as at be because been before being below between "
        "both but by can cannot could did do does doing done down each else etc ever every few file files find "
        "following for from get gets give given gives had has have having he her here hers him his how i if in into is "
        "it its itself just let like made make makes many may me might more most much must my need needs no none nor "
        "not now of off on once one only onto or other our out over own per same see self set shall she should show so "
        "some such than that the their them then there these they this those through thus to too two under until up "
        "upon us use used useful user uses using via want was way we were what when where whether which while who whom "
        "whose why will with within without would yet you your "
    ).split()
)

# Shorter stems meet by chance: without it `red` would become `r`.
SHORTEST_STEM = 3


def words(text: str) -> list[str]:
    """Content words in order, with repeats.

    >>> words("Opens the HTTPServer of `rate_limits`")
    ['open', 'http', 'serv', 'rat', 'limit']
    """
    return [word for piece in PIECE.findall(text) if (word := _word(piece)) is not None]


@lru_cache(200_000)
def _word(piece: str) -> str | None:
    lower = piece.lower()
    # A single ASCII letter is a loop variable; a single letter of another script can be a whole word.
    if lower in STOP_WORDS or (len(lower) == 1 and lower.isascii()):
        return None
    return stem(lower)


ENDINGS = (
    "ations",
    "ation",
    "ingly",
    "edly",
    "ings",
    "ment",
    "ing",
    "ies",
    "ers",
    "ed",
    "er",
    "es",
    "ly",
    "s",
    "e",
    "y",
)
"""Endings that are cut, the longest first."""


def stem(word: str) -> str:
    """A lower-case word without its ending, so that its forms are equal; no dictionary is used.

    >>> [stem(word) for word in ("parse", "parsing", "parsed", "parser", "parsers")]
    ['pars', 'pars', 'pars', 'pars', 'pars']
    """
    # Words in `ss` have no ending to cut: `class` and `process` are no plurals.
    if word.endswith("ss") or not word.endswith(ENDINGS):
        return word
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            rest = word[: -len(ending)]
            # A doubled consonant comes from the ending: running, stopped.
            doubled = len(rest) > SHORTEST_STEM and rest[-1] == rest[-2] and rest[-1] not in "lsz"
            return rest[:-1] if doubled else rest
    return word


MOST_ASKED = 12
"""Content words of a question that files are compared with; more would let the notes on files grow without bound."""


@lru_cache(4096)
def question_words(question: str) -> tuple[str, ...]:
    """The distinct content words of a question, in order, as many as are looked for."""
    return tuple(dict.fromkeys(words(question)))[:MOST_ASKED]


def surface(question: str, found: Sequence[str]) -> tuple[str, ...]:
    """Words of a question as they are written in it, in lower case.

    >>> surface("Parsing rate limits", ("pars", "limit"))
    ('parsing', 'limits')
    """
    written = _written(question)
    return tuple(dict.fromkeys(written[word] for word in found))


@lru_cache(4096)
def _written(question: str) -> dict[str, str]:
    """Content word -> the piece of the question that it comes from, in lower case."""
    written: dict[str, str] = {}
    for piece in re.findall(r"[^\W_]+", question):
        for word in words(piece):
            written.setdefault(word, piece.lower())
    return written
