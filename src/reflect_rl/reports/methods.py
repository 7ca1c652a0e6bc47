"""The methods that are compared: their order, their names for readers, and one look for each in every figure.

Colours are from Okabe & Ito's palette (2008), which colour-blind readers can tell apart. A method trained without
negative examples has the colour of its full version, dashed or hatched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["DECODINGS", "METHODS", "REFERENCE", "Method", "decoding_rank", "describe", "in_order"]


@dataclass(frozen=True, slots=True)
class Method:
    """How one method is shown."""

    name: str
    """As in the files of a run folder."""
    label: str
    colour: str
    dashed: bool = False


METHODS = (
    Method("random", "Random", "#999999"),
    Method("oracle", "Oracle", "#777777"),
    Method("base", "Untuned", "#000000"),
    Method("sft", "SFT", "#56B4E9"),
    Method("rlft", "RLFT", "#E69F00"),
    Method("sft_rlft", "SFT + RLFT", "#CC79A7"),
    Method("sft_reflect", "SFT, reflection", "#009E73"),
    Method("sft_reflect_no_negatives", "SFT, reflection, no negatives", "#009E73", dashed=True),
    Method("reflect_rl_no_negatives", "Reflect-RL, no negatives", "#D55E00", dashed=True),
    Method("reflect_rl", "Reflect-RL", "#D55E00"),
)
"""In the order in which tables list them: from no learning to all of it."""

REFERENCE = "reflect_rl"
"""The method that the others are compared with."""

DECODINGS = ("sampled", "greedy")
"""In the order in which tables list them."""

_BY_NAME = {method.name: method for method in METHODS}
_RANK = {method.name: rank for rank, method in enumerate(METHODS)}


def describe(name: str) -> Method:
    """The look of a method; one that is not listed is shown under its own name, in blue.

    >>> describe("sft_rlft").label, describe("mine").label
    ('SFT + RLFT', 'mine')
    """
    return _BY_NAME.get(name) or Method(name, name, "#0072B2")


def in_order(names: Iterable[str]) -> list[str]:
    """Distinct names in listing order; unlisted ones last, by alphabet.

    >>> in_order(["reflect_rl", "mine", "sft", "sft"])
    ['sft', 'reflect_rl', 'mine']
    """
    return sorted(set(names), key=lambda name: (_RANK.get(name, len(METHODS)), name))


def decoding_rank(decoding: str) -> tuple[int, str]:
    """Sort key of a decoding; an unlisted one comes last.

    >>> sorted(["beam", "greedy", "sampled"], key=decoding_rank)
    ['sampled', 'greedy', 'beam']
    """
    return DECODINGS.index(decoding) if decoding in DECODINGS else len(DECODINGS), decoding
