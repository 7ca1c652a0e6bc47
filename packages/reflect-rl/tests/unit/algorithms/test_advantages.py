"""What each algorithm says that episodes are worth: numbers by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from reflect_rl import registry
from reflect_rl.algorithms import expected, gigpo, grpo, ppo, raft
from reflect_rl.algorithms._batch import Trajectory

PLAIN = {"normalise_advantages": False}


def made(module: Any, **settings: Any) -> Any:
    """The algorithm of a module, by its name in the registry."""
    algorithm = registry.find("algorithms", module.__name__.rpartition(".")[2])
    return algorithm(algorithm.Config(**settings))


def episode(group: str, rewards: list[float], states: str = "", success: bool = False) -> Trajectory:
    return Trajectory(group, rewards, [0.0] * len(rewards), list(states or "?" * len(rewards)), success)


def worth(module: Any, episodes: list[Trajectory], **settings: Any) -> Any:
    return made(module, **settings).advantages(episodes, None)


def approx(table: list[list[float]]) -> Any:
    return [pytest.approx(row) for row in table]


EPISODES = [episode("a", [0.0, 3.0]), episode("a", [1.0]), episode("b", [5.0])]


def test_grpo_divides_by_the_deviation_of_the_task():
    result = worth(grpo, EPISODES)
    # a: 3 and 1 have mean 2 and deviation 1; b is alone: (5 - 3) / √(8/3), over all episodes.
    assert approx([[1.0, 1.0], [-1.0], [2 / math.sqrt(8 / 3)]]) == result.values
    assert result.gain_scale == pytest.approx(math.sqrt(8 / 3))


def test_dr_grpo_only_subtracts_the_mean_of_the_task():
    result = worth(grpo, [*EPISODES, episode("a", [-1.0])], scale_by_std=False)
    # a: 3, 1, -1 have mean 1; b: 5 - 8/4.
    assert approx([[2.0, 2.0], [0.0], [3.0], [-2.0]]) == result.values
    assert result.gain_scale == 1.0


@pytest.mark.parametrize("module", [grpo, gigpo])
def test_a_task_whose_episodes_are_all_alike_teaches_nothing(module):
    alike = [episode("a", [0.1, 0.2], "xy"), episode("a", [0.1, 0.2], "xy")]
    assert worth(module, alike).values == [[0.0, 0.0], [0.0, 0.0]]


def test_gigpo_adds_what_a_turn_was_worth_in_its_state():
    # Both begin in x; the first goes by y and wins 1, the second comes back to x and wins nothing.
    episodes = [episode("a", [0.0, 1.0], "xy"), episode("a", [0.0, 0.0], "xx")]
    result = worth(gigpo, episodes, gamma=0.5, scale_by_std=False, step_weight=2.0)
    # Episodes: ±½. Returns from x: ½, 0, 0, mean 1/6; from y alone: 0.
    assert approx([[0.5 + 2 / 3, 0.5], [-0.5 - 1 / 3, -0.5 - 1 / 3]]) == result.values


def test_gigpo_scales_each_group_by_its_own_deviation():
    episodes = [episode("a", [0.0, 1.0], "xy"), episode("a", [0.0, 0.0], "xx")]
    result = worth(gigpo, episodes, gamma=0.5)
    # Episodes 1, 0: ±1. From x: ½, 0, 0 have deviation √(1/12 - 1/36) = √2/6, so √2 and -√2/2 twice.
    root = math.sqrt(2)
    assert approx([[1 + root, 1.0], [-1 - root / 2, -1 - root / 2]]) == result.values


def test_gigpo_groups_states_of_one_task_only_and_no_unknown_ones():
    apart = [episode("a", [1.0], "x"), episode("a", [1.0], "y"), episode("b", [0.0], "x"), episode("b", [0.0], "y")]
    assert worth(gigpo, apart).values == [[0.0], [0.0], [0.0], [0.0]]
    unknown = [replace(e, states=[""]) for e in (episode("a", [1.0]), episode("a", [0.0]))]
    # Only the episodes are compared: ±1.
    assert worth(gigpo, unknown).values == [[1.0], [-1.0]]


def test_gigpo_does_not_discount_the_return_of_an_episode():
    episodes = [episode("a", [0.0, 1.0], "xy"), episode("a", [0.5], "z")]
    # 1 and 0.5 have mean ¾; discounted by ½ they would be equal.
    result = worth(gigpo, episodes, gamma=0.5, scale_by_std=False)
    assert result.values == [[0.25, 0.25], [-0.25]]


def test_raft_keeps_the_best_of_each_task_and_all_that_tie():
    episodes = [
        episode("a", [0.0, 1.0], success=True),
        episode("a", [0.5], success=True),
        episode("a", [1.0], success=True),
        episode("b", [-1.0]),
        episode("b", [-2.0]),
        episode("c", [0.2], success=True),
        episode("c", [0.4]),
    ]
    # In b nothing succeeded; in c the best did not.
    assert worth(raft, episodes).values == [[1.0, 1.0], [0.0], [1.0], [0.0], [0.0], [0.0], [0.0]]


def test_the_expected_gradient_centres_on_the_other_episodes():
    episodes = [episode("a", [1.0, 2.0]), episode("b", [5.0])]
    result = worth(expected, episodes, **PLAIN)
    # Returns 3, 2 and 5: the first episode is compared with 5, the second with 2.5.
    assert result.values == result.returns == [[-2.0, -3.0], [2.5]]
    # Another episode's targets are over the mean of all turns, 10/3.
    assert result.target(episode("c", [4.0])) == pytest.approx([4 - 10 / 3])


def test_the_expected_gradient_has_one_scale_for_advantages_and_critic():
    episodes = [episode("a", [1.0, 2.0]), episode("b", [5.0])]
    result = worth(expected, episodes)
    scale = float(torch.tensor([-2.0, -3.0, 2.5]).std(correction=0))
    assert approx([[-2 / scale, -3 / scale], [2.5 / scale]]) == result.values
    assert result.returns == result.values
    assert result.target(episode("c", [4.0])) == pytest.approx([(4 - 10 / 3) / scale])
    # The totals are 3 and 5.
    assert result.gain_scale == 1.0
    # An episode alone has nothing to be compared with.
    assert worth(expected, [episode("a", [2.0])]).values == [[2.0]]


def test_the_units_of_rewards_do_not_matter_to_normalised_advantages():
    large = [replace(e, rewards=[10 * r for r in e.rewards]) for e in EPISODES]
    for module in (grpo, gigpo, ppo, expected):
        small, big = worth(module, EPISODES), worth(module, large)
        assert approx(small.values) == big.values
        assert big.gain_scale == pytest.approx(10 * small.gain_scale)
