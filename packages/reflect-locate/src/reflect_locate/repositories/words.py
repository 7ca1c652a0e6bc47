"""Content words of names, sentences and files: the one way in which questions and files are compared.

A text is cut at everything that is no letter or digit, and inside names (`camelCase`, `snake_case`, `HTTPServer`);
words that carry nothing are dropped, and endings are cut so that `opening` meets `opened`. Letters with accents belong
to their word. Chinese, Japanese and Korean have few blanks: their runs are cut into pairs of letters (bigrams).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""A run of capitals, a word or a number, in a text of ASCII."""
# Python counts no mark as a letter; without them, words of Hindi or Thai would be torn at each vowel.
# Texts of ASCII need none of these, and to compile them takes as long as an answer: `re` does it at first use.
MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0e7f\u0e80-\u109f"
RUN = rf"(?:[^\W_²³¹¼-¾⁰-₎①-⓿]|[{MARKS}])+"
"""A run of letters, marks and digits of any script; no exponents, which stand behind words."""
PAIRED = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff々"
KATAKANA, HANGUL, HIRAGANA = r"\u30a1-\u30ff", r"\u1100-\u11ff\uac00-\ud7af", r"\u3041-\u309f"
SCRIPT = rf"[{PAIRED}]+|[{KATAKANA}]+|[{HANGUL}]+|[{HIRAGANA}]+|[0-9]+|[^{PAIRED}{KATAKANA}{HANGUL}{HIRAGANA}0-9]+"
"""Part of a run in one script."""
BIGRAMS = rf"[{PAIRED}{KATAKANA}{HANGUL}]"
"""A letter of the scripts that are cut into pairs. Hiragana, which writes endings and particles, stays in one piece."""
LETTERS = rf"[{PAIRED}{HANGUL}]"
"""A letter that is a word of its own."""

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
    return [word for piece in pieces(text) if (word := _word(piece)) is not None]


def composed(text: str) -> str:
    """The text, in which a letter with an accent is one character: it can be written as two, too."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def pieces(text: str) -> list[str]:
    """The pieces of a text that may be a word each, as they are written.

    >>> pieces("parseHTTPHeader(x2)"), pieces("où est l'écriture"), pieces("速率限制")
    (['parse', 'HTTP', 'Header', 'x', '2'], ['où', 'est', 'l', 'écriture'], ['速率', '率限', '限制'])
    """
    if text.isascii():
        return PIECE.findall(text)
    found: list[str] = []
    for run in re.findall(RUN, composed(text)):
        if run.isascii():
            found += PIECE.findall(run)
        else:
            for part in re.findall(SCRIPT, run):
                found += _pieces_of_script(part)
    return found


@lru_cache(100_000)
def _pieces_of_script(part: str) -> tuple[str, ...]:
    if part.isascii():
        return tuple(PIECE.findall(part))
    if re.match(BIGRAMS, part):
        return tuple(part[place : place + 2] for place in range(max(len(part) - 1, 1)))
    # As in ASCII: a new word begins at a capital after a small letter, and at the last capital before a small one.
    cuts = [
        place
        for place in range(1, len(part))
        if part[place].isupper() and (part[place - 1].islower() or part[place + 1 : place + 2].islower())
    ]
    return tuple(part[start:stop] for start, stop in pairwise([0, *cuts, len(part)]))


@lru_cache(200_000)
def _word(piece: str) -> str | None:
    lower = piece.lower()
    # A single letter is a loop variable, or what an apostrophe has cut off; in Chinese it can be a whole word.
    if lower in STOP_WORDS or (len(lower) == 1 and (lower.isascii() or not re.match(LETTERS, lower))):
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
    for run in re.findall(r"[^\W_]+" if question.isascii() else RUN, composed(question)):
        for word in words(run):
            written.setdefault(word, word if not word.isascii() and re.match(BIGRAMS, word) else run.lower())
    return written
