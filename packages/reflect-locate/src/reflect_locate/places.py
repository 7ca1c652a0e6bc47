"""Figures of a ranking: place of the first right file, its mean over questions, and discounted gain."""

from __future__ import annotations

import math
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


def ndcg(is_right: Iterable[bool], most: int, right: int) -> float:
    """Normalised discounted cumulative gain of the first files (Järvelin and Kekäläinen 2002), in [0, 1].

    >>> ndcg([False, True], most=10, right=1), ndcg([True, True], most=1, right=2), ndcg([False], most=10, right=3)
    (0.6309297535714575, 1.0, 0.0)

    Args:
        is_right: whether each file is right, the best first.
        most: number of files that count, such as ten.
        right: number of right files that there are, in the ranking or not; at least one.
    """
    gained = sum(_discount(place) for place, is_one in enumerate(is_right, start=1) if is_one and place <= most)
    return gained / sum(_discount(place) for place in range(1, min(right, most) + 1))


def _discount(place: int) -> float:
    return 1 / math.log2(place + 1)
