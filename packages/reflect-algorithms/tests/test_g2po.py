"""G2PO: advantages of its graph, by hand, and a training with it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from reflect_algorithms.g2po import G2PO, G2POConfig
from reflect_rl.algorithms import Advantages, Trajectory
from toy import rlft, tiny_player, trainer


def episode(group: str, rewards: list[float], states: str) -> Trajectory:
    return Trajectory(group, rewards, [0.0] * len(rewards), list(states), success=False)


def worth(episodes: list[Trajectory], **settings: Any) -> Advantages:
    return G2PO(G2POConfig(**settings)).advantages(episodes, None)


def approx(table: list[list[float]]) -> Any:
    return [pytest.approx(row) for row in table]


def test_g2po_credits_the_step_where_the_ways_part():
    # Both begin in x; the first goes by y and wins 1, the second comes back to x and wins nothing.
    episodes = [episode("a", [0.0, 1.0], "xy"), episode("a", [0.0, 0.0], "xx")]
    result = worth(episodes, gamma=0.5)
    # V(x) is the mean of ½, 0 and 0, V(y) is 1. Differences ½ - 1/6, 1 - 1, 1/12 - 1/6, -1/6, in twelfths:
    deltas = [4.0, 0.0, -1.0, -2.0]
    scale = math.sqrt(sum((d - 0.25) ** 2 for d in deltas) / 4)
    first, last, back, end = [(d - 0.25) / scale for d in deltas]
    assert approx([[first, last], [back, end]]) == result.values
    assert result.returns == [[0.5, 1.0], [0.0, 0.0]]


def test_g2po_joins_states_of_one_task_only_and_no_unknown_ones():
    apart = [episode("a", [0.0, 1.0], "xy"), episode("b", [0.0, 0.0], "xy")]
    unknown = [replace(e, states=["", ""]) for e in (episode("a", [0.0, 1.0], "xy"), episode("a", [0.0, 0.0], "xy"))]
    for episodes in (apart, unknown):
        # Along a chain each difference is zero: nothing is known but what the episode itself returned.
        assert approx([[0.0, 0.0], [0.0, 0.0]]) == worth(episodes, gamma=0.5).values


def test_g2po_has_one_scale_for_all_tasks():
    episodes = [
        episode("a", [1.0], "x"),
        episode("a", [0.0], "x"),
        episode("b", [30.0], "x"),
        episode("b", [10.0], "x"),
    ]
    # Differences ±½ and ±10.
    scale = math.sqrt((0.25 + 100) / 2)
    assert approx([[0.5 / scale], [-0.5 / scale], [10 / scale], [-10 / scale]]) == worth(episodes).values


def test_a_training_by_its_name_changes_the_weights(tmp_path):
    training = trainer(tmp_path, rlft(algorithm={"name": "g2po"}))
    training.train(lambda *_: None)
    assert training.model.hash() != tiny_player()[0].hash()
