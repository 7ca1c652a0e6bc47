"""Fields of a configuration that a sweep varies, and the values that they take.

>>> parse_axis("rlft.learning_rate=1e-4,3e-4")
Axis(field='rlft.learning_rate', values=('1e-4', '3e-4'))
>>> parse_axis("seed=0..2").values
('0', '1', '2')
>>> parse_axis("rlft.learning_rate=1e-5..1e-3:log", searches=True)
Span(field='rlft.learning_rate', low=1e-05, high=0.001, is_whole=False, is_log=True)
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from reflect_rl.errors import ConfigError

MOST_CELLS = 1000
"""Largest number of cells of a sweep; more is most often a slip in a range."""
SEEDS = "seeds"
"""Field of the root seeds: cells that differ in it alone are repetitions of one setting."""
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"(?P<low>(?:{NUMBER})?)\.\.(?P<high>(?:{NUMBER})?)(?P<log>:log)?")
WHOLE = re.compile(r"[+-]?\d+")
LONGEST_NAME = 100
"""Characters of the name of a cell, which is that of its folder."""

Values = tuple[tuple[str, str], ...]
"""Field and value, as they would be written on a command line, in the order of the axes."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A field and the values that it takes in turn."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A field and the interval that a search draws its values from, both ends included."""

    field: str
    low: float
    high: float
    is_whole: bool
    """True where both ends are whole numbers; then only whole numbers are drawn."""
    is_log: bool
    """True where the logarithm of the value is drawn uniformly, and not the value."""

    @property
    def spelling(self) -> str:
        """The interval as it is written on a command line."""
        ends = (f"{end:.0f}" if self.is_whole else repr(end) for end in (self.low, self.high))
        return "..".join(ends) + ":log" * self.is_log

    def whole_numbers(self) -> Axis:
        """All values of a range of whole numbers, both ends included.

        Raises:
            ConfigError: it is no range of whole numbers, or a very long one.
        """
        if not self.is_whole or self.is_log:
            raise ConfigError(
                f"--over {self.field}={self.spelling}: only a range of whole numbers, such as 0..2, has a list of "
                "values. Name the values, or add --search N to draw them."
            )
        count = int(self.high) - int(self.low) + 1
        if count > MOST_CELLS:
            raise ConfigError(
                f"--over {self.field}={self.spelling}: {count:,} values are more than the {MOST_CELLS:,} cells that a "
                "sweep may have."
            )
        return Axis(self.field, tuple(str(int(self.low) + k) for k in range(count)))


def parse_axis(text: str, *, searches: bool = False) -> Axis | Span:
    """The field and the values of one `--over`.

    Args:
        text: `FIELD=VALUE,VALUE,...` or `FIELD=LOW..HIGH`, both ends included. A value with a comma stands in double
            quotes.
        searches: whether values are drawn. Then a range stays one, except that of the seeds.

    Raises:
        ConfigError: there is no field, no value, an empty range, or a value twice.
    """
    field, equals, words = text.partition("=")
    field = field.strip().removeprefix("--").replace("-", "_")
    field = SEEDS if field == "seed" else field
    if not field or not equals:
        raise ConfigError(f"--over {text!r} names no values. Write FIELD=VALUE,VALUE, such as seed=0..2.")
    match = RANGE.fullmatch(words.strip())
    # Two dots alone are the folder above.
    if match and (match["low"] or match["high"]):
        span = _span(text, field, match)
        return span if searches and field != SEEDS else span.whole_numbers()
    # The reader of CSV knows quotes, for the rare value that holds a comma.
    values = tuple(word.strip() for word in next(csv.reader([words], skipinitialspace=True), []))
    if not all(values) or not values:
        raise ConfigError(f"--over {text}: a value is missing. Write FIELD=VALUE,VALUE, such as seed=0..2.")
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(f"--over {text}: {value!r} is there twice. Leave one out.")
    return Axis(field, values)


def _span(text: str, field: str, match: re.Match[str]) -> Span:
    low, high = match["low"], match["high"]
    if not low or not high:
        raise ConfigError(f"--over {text}: the range lacks an end. Write both, such as 0..2.")
    span = Span(
        field, float(low), float(high), bool(WHOLE.fullmatch(low) and WHOLE.fullmatch(high)), match["log"] is not None
    )
    if not math.isfinite(span.low) or not math.isfinite(span.high):
        raise ConfigError(f"--over {text}: an end of the range is too large for a number.")
    if span.low > span.high:
        raise ConfigError(f"--over {text}: the range is empty, since {low} is above {high}. Write {high}..{low}.")
    if span.is_log and span.low <= 0:
        raise ConfigError(f"--over {text}: a logarithm needs ends above 0. Leave :log out, or raise {low}.")
    return span


def parse_axes(texts: Sequence[str], *, searches: bool = False) -> tuple[Axis | Span, ...]:
    """All axes of a sweep, in their order.

    Raises:
        ConfigError: there is none, one is wrong, or a field is named twice.
    """
    if not texts:
        raise ConfigError("--over is missing. Name what is varied: --over rlft.learning_rate=1e-4,3e-4.")
    axes = tuple(parse_axis(text, searches=searches) for text in texts)
    fields = [axis.field for axis in axes]
    for field in fields:
        if fields.count(field) > 1:
            raise ConfigError(f"--over {field} is given twice. Name all its values in one.")
    return axes


def combinations(axes: Sequence[Axis]) -> Iterator[Values]:
    """The values of each cell, the last axis varied fastest.

    Raises:
        ConfigError: there are too many.
    """
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_CELLS:
        raise ConfigError(f"the sweep has {count:,} cells, and at most {MOST_CELLS:,} are allowed. Name fewer values.")
    for words in product(*(axis.values for axis in axes)):
        yield tuple(zip((axis.field for axis in axes), words, strict=True))


def setting_of(values: Values) -> Values:
    """The values without the seed, which repetitions of one setting share."""
    return tuple((field, value) for field, value in values if field != SEEDS)


def name_of(values: Values) -> str:
    """Name of a cell, which is that of its folder.

    >>> name_of((("rlft.learning_rate", "1e-4"), ("seeds", "0")))
    'learning_rate=1e-4,seed=0'
    """
    leaves = [field.rpartition(".")[2] for field, _ in values]
    # Two fields with the same last word, such as two learning rates, keep their whole names.
    shown = [leaf if leaves.count(leaf) == 1 else field for leaf, (field, _) in zip(leaves, values, strict=True)]
    text = ",".join(
        f"{'seed' if name == SEEDS else name}={value}" for name, (_, value) in zip(shown, values, strict=True)
    )
    name = re.sub(r"[^A-Za-z0-9._=,+-]", "_", text)
    if name == text and len(name) <= LONGEST_NAME:
        return name
    # Values that differ only in what a folder's name cannot hold still get folders of their own.
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
