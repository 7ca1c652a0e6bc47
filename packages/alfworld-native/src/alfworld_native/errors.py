"""Errors of this package.

HouseholdError                  root of all errors that this package raises on purpose
├── GameError                   a game, a file or a setting that cannot be used: the input has to change
│   └── TextWorldMissingError   TextWorld, or the version of ALFWorld that it needs, is not installed
└── TextWorldError              TextWorld failed while it played a game
    └── TextWorldTimeoutError   TextWorld did not answer in time

IncompleteSplitWarning          a split of ALFWorld's data with fewer games than it has
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class HouseholdError(Exception):
    """Root of all errors that this package raises on purpose."""


class GameError(HouseholdError):
    """A household game cannot be read, made or played; the message names the thing, the value and the remedy."""


class TextWorldMissingError(GameError):
    """TextWorld, or the version of ALFWorld that it needs, is not installed."""


class TextWorldError(HouseholdError):
    """TextWorld failed while it played a game; the message names the game and the command."""


class TextWorldTimeoutError(TextWorldError):
    """TextWorld did not answer in time."""


class IncompleteSplitWarning(UserWarning):
    """A split of ALFWorld's data has fewer games than its authors name, as after half a download."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known name, or the list of all.

    >>> suggestion("valid_sen", ["valid_seen", "train"])
    "Did you mean 'valid_seen'?"
    >>> suggestion("zzz", ["valid_seen", "train"])
    'Known: train, valid_seen.'
    """
    # Sorted: of two names that are equally near, the same is suggested on every machine.
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."
