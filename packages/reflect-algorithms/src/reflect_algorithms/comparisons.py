"""Comparisons that methods learn from: which of two episodes, or of two actions in one state, is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reflect_rl.errors import UserError
from reflect_rl.types import View, stream

Played = tuple[tuple[View, int], ...]
"""States of a side, each with the action that was chosen in it."""


@dataclass(frozen=True)
class Comparison:
    """A pair with its answer. A pair of actions has one state on each side, the same."""

    start: str
    """Key of the task at which both sides begin."""
    better: Played
    worse: Played
    agrees: bool | None = None
    """True = the side with the higher true value was chosen; None where it is not known."""

    @property
    def of_actions(self) -> bool:
        """True = two actions in one state."""
        return len(self.better) == len(self.worse) == 1 and self.better[0][0] == self.worse[0][0]


def split_by_start(
    comparisons: Sequence[Comparison], held_out: float, seed: int, left_out: str = ""
) -> tuple[list[Comparison], list[Comparison]]:
    """Divide comparisons by their starts into those to learn from and those to be measured with.

    Args:
        comparisons: of training starts.
        held_out: share of the starts to measure with.
        seed: of the draw.
        left_out: sentence on answers that are not among them, for the message.

    Raises:
        UserError: there are fewer than two starts.
    """
    starts = sorted({one.start for one in comparisons})
    if len(starts) < 2:
        raise UserError(
            f"preferences: {len(comparisons)} pairs of {len(starts)} starts cannot be divided into pairs to learn from "
            f"and pairs to measure with, which takes two starts. {left_out + ' ' if left_out else ''}Collect more with "
            "`reflect-rl prefer`, or raise preferences.pairs.count."
        )
    # At least one start on each side, however small the share.
    count = min(max(1, round(held_out * len(starts))), len(starts) - 1)
    order = stream(seed, "held-out starts").permutation(len(starts))
    chosen = {starts[int(k)] for k in order[:count]}
    kept = [one for one in comparisons if one.start not in chosen]
    return kept, [one for one in comparisons if one.start in chosen]
