"""Preferences about random walks in the corridors of `offline_toy`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import toy
from offline_toy import TASKS
from reflect_algorithms.comparisons import Comparison
from reflect_algorithms.preferences.pairs import Source, by_reward, comparisons_of
from reflect_algorithms.preferences.settings import Compared, PairsConfig
from reflect_report.preferences.records import Preference
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, play
from reflect_rl.types import Episode

MARK = "toy"
"""Fingerprint of the corridors."""


def walks(count: int) -> list[Episode]:
    """So many random walks of each task."""
    requests = [Request(task, 1000 * k + copy) for k, task in enumerate(TASKS) for copy in range(count)]
    return play(toy.SPEC, requests, NoReflector(), RandomPolicy())


def preferences(compare: Compared, walks_of_each: int = 8, noise: float = 0.0, count: int = 300) -> list[Preference]:
    """The preferences of the reward."""
    found = by_reward(Source(toy.SPEC, MARK, compare, 0), walks(walks_of_each), noise)
    return list(found)[:count]


def comparisons(compare: Compared, walks_of_each: int = 8) -> list[Comparison]:
    """What can be learned from them."""
    return comparisons_of(preferences(compare, walks_of_each), PairsConfig())[0]


def shuffled(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same pairs, each answered both ways, so that no answer says anything."""
    return [*comparisons, *reversed_(comparisons)]


def reversed_(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same pairs, each answered the other way."""
    return [replace(one, better=one.worse, worse=one.better) for one in comparisons]
