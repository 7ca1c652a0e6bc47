"""The goal sentence of a household game, read: what is to be done with what, and where."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from alfworld_native.errors import GameError
from alfworld_native.problem import Goal
from alfworld_native.record import TaskType

TREATMENTS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "pick_clean_then_place_in_recep": ("clean", "clean", ("sinkbasin", "sink")),
    "pick_heat_then_place_in_recep": ("heat", "hot", ("microwave",)),
    "pick_cool_then_place_in_recep": ("cool", "cool", ("fridge",)),
}
"""Task type -> the command that treats a thing, what the thing is then, and where it is done."""

PATTERNS: Final[tuple[tuple[TaskType, str], ...]] = (
    ("pick_two_obj_and_place", r"(?:put|find) two (\S+) (?:in|and put them in) (\S+)"),
    ("pick_clean_then_place_in_recep", r"clean some (\S+) and put it in (\S+)|put a clean (\S+) in (\S+)"),
    ("pick_heat_then_place_in_recep", r"heat some (\S+) and put it in (\S+)|put a hot (\S+) in (\S+)"),
    ("pick_cool_then_place_in_recep", r"cool some (\S+) and put it in (\S+)|put a cool (\S+) in (\S+)"),
    ("look_at_obj_in_light", r"(?:look at|examine the) (\S+) (?:under|with) the (\S+)"),
    ("pick_and_place_simple", r"put (?:a|some) (\S+) (?:in|on) (\S+)"),
)
"""The two sentences of each kind of task that ALFWorld writes."""


@lru_cache(4096)
def read_sentence(sentence: str) -> Goal:
    """The goal that a sentence states.

    >>> read_sentence("put a clean soapbar in drawer.")
    Goal(task_type='pick_clean_then_place_in_recep', object_kind='soapbar', target_kind='drawer')

    Raises:
        GameError: the sentence is none of ALFWorld's twelve.
    """
    words = sentence.strip().removesuffix(".")
    # The patterns exclude each other, so their order does not matter.
    for task_type, pattern in PATTERNS:
        match = re.fullmatch(pattern, words)
        if match:
            # Each pattern has two ways of saying it, so half of the groups are empty.
            kind, target = (group for group in match.groups() if group)
            return Goal(task_type, kind, target)
    raise GameError(f"the goal {sentence!r} is none of ALFWorld's sentences. An example: put some tomato on shelf.")


@lru_cache(65_536)
def kind_of(name: str) -> str:
    """The kind of a thing or receptacle.

    >>> kind_of("soapbar 2")
    'soapbar'
    """
    # A name without a number is its own kind.
    return name.rpartition(" ")[0] or name


@lru_cache(65_536)
def number_of(name: str) -> int:
    """Number in a name, among those of its kind; 0 when there is none.

    >>> number_of("soapbar 2")
    2
    """
    last = name.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0
