"""Advantages of RLOO: numbers by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from reflect_algorithms.rloo import RLOO, RLOOConfig
from reflect_rl.algorithms import Advantages, Trajectory

PLAIN = {"normalise_advantages": False}


def episode(group: str, rewards: list[float]) -> Trajectory:
    return Trajectory(group, rewards, [0.0] * len(rewards), ["?"] * len(rewards), success=False)


def worth(episodes: list[Trajectory], **settings: Any) -> Advantages:
    return RLOO(RLOOConfig(**settings)).advantages(episodes, None)


def approx(table: list[list[float]]) -> Any:
    return [pytest.approx(row) for row in table]


EPISODES = [episode("a", [0.0, 3.0]), episode("a", [1.0]), episode("b", [5.0])]


def test_rloo_compares_whole_episodes_with_the_others_of_their_task():
    result = worth(EPISODES, **PLAIN)
    # a: 3 - 1 and 1 - 3; b is alone: 5 - (3 + 1 + 5) / 3.
    assert approx([[2.0, 2.0], [-2.0], [2.0]]) == result.values
    assert result.gain_scale == 1.0


def test_rloo_discounts_and_scales():
    # Discounted: ½ · 3 = 1.5 against 1: ±½; b: 5 - 7.5 / 3 = 2.5.
    result = worth(EPISODES, gamma=0.5, **PLAIN)
    assert approx([[0.5, 0.5], [-0.5], [2.5]]) == result.values
    # 2, 2, -2, 2: mean 1, variance 4 - 1 = 3. The totals 3, 1, 5 have variance 8/3.
    scaled = worth(EPISODES)
    assert approx([[2 / math.sqrt(3)] * 2, [-2 / math.sqrt(3)], [2 / math.sqrt(3)]]) == scaled.values
    assert scaled.gain_scale == pytest.approx(math.sqrt(8 / 3))


def test_the_units_of_rewards_do_not_matter():
    small, big = worth(EPISODES), worth([replace(e, rewards=[10 * r for r in e.rewards]) for e in EPISODES])
    assert approx(small.values) == big.values
    assert big.gain_scale == pytest.approx(10 * small.gain_scale)
