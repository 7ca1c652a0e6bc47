"""Place of the first right file of a ranking, and its mean over questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def first_place(is_right: Iterable[bool]) -> int:
    """Place of the first right file, counted from 1; 0 where none is right.

    >>> first_place([False, True, True]), first_place([False])
    (2, 0)

    Args:
        is_right: whether each file is right, the best first.
    """
    return next((place for place, right in enumerate(is_right, start=1) if right), 0)


def mean_reciprocal_rank(places: Sequence[int]) -> float:
    """Mean of 1 / place of the first right file, 0 where none is among the candidates (Voorhees 1999).

    >>> mean_reciprocal_rank([1, 2, 0])
    0.5

    Args:
        places: of at least one question, as `first_place` counts them.
    """
    return sum(1 / place for place in places if place) / len(places)
