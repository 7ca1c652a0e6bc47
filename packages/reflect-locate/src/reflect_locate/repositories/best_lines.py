"""The part of a file that answers a question best: its lines, and the function, class or section that they lie in.

Each line belongs to the innermost symbol around it; lines outside of all symbols form windows, which end where a symbol
begins. These parts are ranked as BM25 ranks files, with the rarity of words in the whole tree and in the file. A symbol
whose whole name is asked for counts twice, and words of the question that stand close together count once more. A
function that does nothing counts half where the file has another of its name, and tests that Rust has beside the code
count for less unless the question asks for tests.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from reflect_locate.repositories.definitions import JOINT, definition
from reflect_locate.repositories.index import SATURATION, inverse_frequency
from reflect_locate.repositories.passages import INVISIBLE
from reflect_locate.repositories.roles import TEST_SHARE, is_test
from reflect_locate.repositories.symbols import Symbol, symbols
from reflect_locate.repositories.text_lines import TextLines, lines_of, may_hold
from reflect_locate.repositories.words import words

WINDOW = 20
"""Lines of a part outside of all symbols."""
LONGEST = 60
"""Lines of a part that are named; of a longer one those around the best line."""
EXCERPT = 3
LONGEST_LINE = 200
"""Characters of a line of an excerpt."""
PART_LENGTH_SHARE = 0.5
"""BM25's b, below that of files: functions differ more in length than files do."""
ASKED_FOR = 9.0
"""`named` of a part that defines the very name that is asked for."""
EMPTY_SHARE = 0.5
"""Share of the score that is left to a function that does nothing, where the file has one of its name that does."""
GENERICS = re.compile(r"[ ]*<[^<>]*>")
"""Types that a type is about, those inside of which are none."""
NAME_LINES = 2
"""Lines that a word in the own name of a symbol counts for; one in the names around it counts for one."""


@dataclass(frozen=True, slots=True)
class BestLines:
    """Lines of a file."""

    first: int
    """Number of the first line, from 1."""
    last: int
    symbol: str
    """Name of the function, class or section around them; empty = none."""
    kind: str
    """`function`, `class`, `heading`, or empty."""
    excerpt_line: int
    """Number of the first line of the excerpt."""
    excerpt: tuple[str, ...]
    """Up to three lines: those with most words of the question."""
    score: float
    """Score within the file; comparable between files of one question."""

    def to_json(self) -> dict[str, Any]:
        """JSON form, for example `{"first_line": 3, "last_line": 9, "symbol": "parse", "kind": "function", ...}`."""
        return {
            "first_line": self.first,
            "last_line": self.last,
            "symbol": self.symbol,
            "kind": self.kind,
            "excerpt_line": self.excerpt_line,
            "excerpt": list(self.excerpt),
        }


@dataclass(slots=True)
class _Part:
    """A symbol without the symbols inside it, or a window."""

    symbol: Symbol | None
    counts: dict[str, int] = field(default_factory=dict)
    """Word of the question -> lines that hold it."""
    numbers: list[int] = field(default_factory=list)
    """Numbers of its lines that are not blank."""
    named: float = 0.0
    """Share of the words of its own name that the question holds; more where it is the very name that is asked for."""
    defines: int = 0
    """Number of the line that defines a name of the question; 0 = none does."""
    share: float = 1.0
    """Share of the score that counts."""


def best_lines(
    path: str,
    text: str,
    rarity: Mapping[str, float],
    most: int = 1,
    names: Sequence[str] = (),
    *,
    wants_tests: bool = False,
    line: int = 0,
) -> list[BestLines]:
    """The best parts of a file, best first; the beginning of the file where no word of the question stands.

    Args:
        path: its ending decides how the file is read.
        text: of the file; the first million characters are looked at.
        rarity: of each word of the question (as `words` gives them).
        most: number of parts.
        names: of code in the question, as they are written there; their definitions come first.
        wants_tests: tests beside the code that they test count in full.
        line: number of the line that is asked for; the part around it comes first (0 = none, and so is one that the
            file does not have).
    """
    # Parsed whole: a file that is cut anywhere is none that a parser takes.
    found = symbols(path, text)
    read = lines_of(text)
    lines = read.lines
    # Lines are numbered from 1 from here on, as people count them.
    held = {number + 1: shared for number, shared in read.holding(rarity).items()}
    parts = _parts(read, found, rarity, held)
    _name(parts, lines, names)
    _mark(parts, lines, line)
    _lower_empty(parts, names)
    # A file of tests alone has been lowered as a whole.
    _lower_tests(() if wants_tests or is_test(path) else parts)
    mean = sum(len(part.numbers) for part in parts) / max(len(parts), 1)
    near = [_together(part, held, rarity) for part in parts]
    weights = _weights(parts, rarity)
    scored = [
        (part.share * (_score(part, weights, mean) + close), close, part)
        for part, close in zip(parts, near, strict=True)
    ]
    # The first of equal parts, so that an answer does not depend on chance.
    ranked = [(part, close) for score, close, part in sorted(scored, key=lambda row: -row[0])[:most] if score]
    # Nothing is known of it: a reader begins at the top.
    if not ranked:
        ranked = [(_Part(None, numbers=list(range(1, min(WINDOW, len(lines)) + 1))), 0.0)]
    # Files are compared by the rarity in the tree alone: in a long file a word is rarer among the parts.
    return [
        _shown(part, part.share * (_score(part, rarity, mean) + close), lines, held, rarity) for part, close in ranked
    ]


def _parts(
    read: TextLines, found: Sequence[Symbol], rarity: Mapping[str, float], held: Mapping[int, frozenset[str]]
) -> list[_Part]:
    parts = [_Part(symbol) for symbol in found]
    count = len(read.lines)
    owners: list[int | None] = [None] * (count + 1)
    # Outer symbols come first, so that the innermost one has the last word.
    for place, symbol in enumerate(found):
        owners[symbol.first : symbol.last + 1] = [place] * (min(symbol.last, count) + 1 - symbol.first)
    written = [number + 1 for number in read.written]
    # From each of these lines to the one before the next, all belong to one symbol or to none.
    begins = {1, *(line for symbol in found for line in (symbol.first, symbol.last + 1) if line <= count)}
    windows: dict[int, _Part] = {}
    for begin, end in pairwise([*sorted(begins), count + 1]):
        numbers = written[bisect_left(written, begin) : bisect_left(written, end)]
        if (owner := owners[begin]) is not None:
            parts[owner].numbers += numbers
            continue
        # Blank lines between functions begin no window.
        for first in range(numbers[0], end, WINDOW) if numbers else ():
            inside = slice(bisect_left(numbers, first), bisect_left(numbers, first + WINDOW))
            windows[first] = _Part(None, numbers=numbers[inside])
    firsts = list(windows)
    for number, shared in held.items():
        owner = owners[number]
        part = windows[firsts[bisect_right(firsts, number) - 1]] if owner is None else parts[owner]
        for word in shared:
            part.counts[word] = part.counts.get(word, 0) + 1
    for part in parts:
        if not part.symbol or not may_hold(part.symbol.name, rarity):
            continue
        *around, own = part.symbol.name.split(".")
        for names, worth in ((own, NAME_LINES), (".".join(around), 1)):
            for word in rarity.keys() & words(names):
                part.counts[word] = part.counts.get(word, 0) + worth
        if named := frozenset(words(own)):
            part.named = len(named & rarity.keys()) / len(named)
    return [*parts, *windows.values()]


def _lower_empty(parts: Sequence[_Part], names: Sequence[str]) -> None:
    """Lower the functions that do nothing where another of their name does something.

    Of a class that is named only where the other one is its own, as behind `@overload`: `Handler.check` asks for no
    other class's.
    """
    functions = [(part, part.symbol) for part in parts if part.symbol and part.symbol.kind == "function"]
    whole = {symbol.name for _, symbol in functions if not symbol.is_empty}
    written = {name.rpartition(".")[2] for name in whole}
    for part, symbol in functions:
        around, _, own = symbol.name.rpartition(".")
        is_other = own in written and not set(around.split(".")) & set(names)
        if symbol.is_empty and (is_other or symbol.name in whole):
            part.share = EMPTY_SHARE


def _lower_tests(parts: Sequence[_Part]) -> None:
    """Lower the tests in a file of code, as files of tests are lowered among files."""
    for part in parts:
        if part.symbol and part.symbol.is_test:
            part.share *= TEST_SHARE


def _name(parts: Sequence[_Part], lines: Sequence[str], names: Sequence[str]) -> None:
    """Mark the parts that define one of these names."""
    places = {name: definition(lines, name) for name in names}
    types: set[str] = set()
    # The own name of each part is the last one, behind those around it.
    own = [_names(part.symbol.name) if part.symbol and names else [""] for part in parts]
    functions = {
        tuple(around[-2:])
        for part, around in zip(parts, own, strict=True)
        if part.symbol and part.symbol.kind == "function"
    }
    for part, around in zip(parts, own, strict=True) if names else ():
        if part.symbol and around[-1] in names:
            number, _ = definition(lines[part.symbol.first - 1 : part.symbol.last], around[-1])
            part.defines = part.symbol.first + max(number, 0)
            # `get` of `Session.get` and not that of another class.
            part.named = ASKED_FOR * sum(name in around for name in names)
            # A class before its constructor, which has the same name in most languages.
            part.named -= ASKED_FOR / 2 * (part.symbol.kind == "function" and around[-2:-1] == around[-1:])
            if part.symbol.kind == "class":
                # A function of the same name in the same type is more than the field.
                others = [name for name in names if name != around[-1] and (around[-1], name) not in functions]
                if (field := _field(lines, part.symbol, others)) and field in part.numbers:
                    part.named, part.defines = part.named + ASKED_FOR, field
                # A type before the blocks of code about it, as `impl` of Rust.
                part.named -= ASKED_FOR / 2 * (around[-1] in types)
                types.add(around[-1])
            continue
        for number, worth in places.values():
            if worth and number + 1 in part.numbers and (worth < 1 or not part.symbol):
                part.named, part.defines = ASKED_FOR, number + 1


def _mark(parts: Sequence[_Part], lines: Sequence[str], line: int) -> None:
    """Mark the part around a line; one that is blank belongs to what stands before it."""
    if not 0 < line <= len(lines):
        return
    places = [(bisect_right(part.numbers, line), part) for part in parts]
    before = [(part.numbers[place - 1], part) for place, part in places if place]
    if before:
        number, part = max(before, key=lambda row: row[0])
        part.defines, part.named = number, 2 * ASKED_FOR


def _names(symbol: str) -> list[str]:
    """The names in that of a symbol, without the types that it is about.

    >>> _names("Kettle<'a, Cup<T>>.boil"), _names("&'a mut Kettle.boil"), _names("tea::Kettle::boil")
    (['Kettle', 'boil'], ['Kettle', 'boil'], ['tea', 'Kettle', 'boil'])
    """
    before, name = "", symbol.replace("->", "")
    while name != before:
        before, name = name, GENERICS.sub("", name)
    return [part.rpartition(" ")[2].lstrip("&*") for part in JOINT.split(name.strip())]


def _field(lines: Sequence[str], symbol: Symbol, names: Sequence[str]) -> int:
    """Number of the line in which a class assigns one of these names; 0 = none does."""
    found = (definition(lines[symbol.first - 1 : symbol.last], name)[0] for name in names)
    return next((symbol.first + number for number in found if number > 0), 0)


def _weights(parts: Sequence[_Part], rarity: Mapping[str, float]) -> dict[str, float]:
    """Weight of each word of the question: its rarity in the tree, and among the parts of the file."""
    # All parts of a file are about one subject, whose words are rare in the tree and do not tell the parts apart.
    holders = Counter(word for part in parts for word in part.counts)
    return {word: value + inverse_frequency(holders[word], len(parts)) for word, value in rarity.items()}


def _score(part: _Part, weights: Mapping[str, float], mean: float) -> float:
    """BM25 score of a part, doubled where its whole name is asked for."""
    # Most parts of a file hold no word of the question.
    if not part.counts and not part.defines:
        return 0.0
    half = SATURATION * (1 - PART_LENGTH_SHARE + PART_LENGTH_SHARE * len(part.numbers) / max(mean, 1e-9))
    shares = (weights[word] * count / (count + half) for word, count in sorted(part.counts.items()))
    # A name of words that stand in every file has no share of its own.
    return (sum(shares) + bool(part.defines)) * (SATURATION + 1) * (1 + part.named)


def _together(part: _Part, held: Mapping[int, frozenset[str]], rarity: Mapping[str, float]) -> float:
    """Sum of the rarities of the words that stand close together: in a line and the one after it, the best pair."""
    numbers = part.numbers if part.counts else []
    near = [place for place, number in enumerate(numbers) if number in held]
    # A pair begins with such a line, or with the one before it in the part.
    begins = {*near, *(place - 1 for place in near if place)}
    none = frozenset[str]()
    pairs = (none.union(*(held.get(number, none) for number in numbers[place : place + 2])) for place in begins)
    return max((sum(sorted(rarity[word] for word in shared)) for shared in pairs), default=0.0)


def _shown(
    part: _Part, score: float, lines: Sequence[str], held: Mapping[int, frozenset[str]], rarity: Mapping[str, float]
) -> BestLines:
    numbers = part.numbers or [part.symbol.first if part.symbol else 1]

    def worth(start: int) -> tuple[float, bool]:
        shared = frozenset[str]().union(*(held.get(number, frozenset()) for number in range(start, start + EXCERPT)))
        # Lines behind a hit tell more than lines before it.
        return sum(sorted(rarity[word] for word in shared)), start in held

    first, last = (part.symbol.first, part.symbol.last) if part.symbol else (numbers[0], numbers[-1])
    last = min(last, len(lines))
    # Excerpts begin at the best place inside the part, the first of several.
    # The last one may be short: where a blank line stands three lines before the end, a hit behind it would be missed.
    latest = next((number for number in numbers if number > last - EXCERPT), first)
    places = [number for number in numbers if number <= max(latest, first)]
    near = (number for number in places[1:] if not held.keys().isdisjoint(range(number, number + EXCERPT)))
    start = max((*places[:1], *near), key=worth, default=first)
    start = part.defines if first <= part.defines <= last else start
    # An agent opens these lines: a function whole, a class of a thousand lines not.
    if last - first >= LONGEST and (part.symbol is None or part.symbol.kind != "function"):
        first = max(first, start - LONGEST // 2)
        last = min(last, first + LONGEST - 1)
    excerpt = tuple(_line(line) for line in lines[start - 1 : min(start - 1 + EXCERPT, last)])
    symbol = part.symbol
    return BestLines(
        first, last, _line(symbol.name) if symbol else "", symbol.kind if symbol else "", start, excerpt, score
    )


def _line(text: str) -> str:
    """A line that can be printed: no control characters, no endless text."""
    return INVISIBLE.sub(" ", text[:LONGEST_LINE].expandtabs(4)).rstrip()
