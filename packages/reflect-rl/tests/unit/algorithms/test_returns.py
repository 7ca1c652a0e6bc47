"""Returns and baselines: numbers by hand, and what must hold for any rewards."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from reflect_rl.algorithms._common import BaselineConfig, Trajectory, baseline_advantages, normalised
from reflect_rl.algorithms._returns import (
    generalised_advantages,
    group_relative,
    leave_one_out,
    rewards_to_go,
    std,
    turn_baseline,
)

rewards_lists = st.lists(st.floats(-1, 1), min_size=1, max_size=12)
discounts = st.floats(0.1, 1)


def test_rewards_to_go_by_hand():
    # 1 + ½ (2 + ½ · 4) = 3; 2 + ½ · 4 = 4; 4.
    assert rewards_to_go([1.0, 2.0, 4.0], 0.5) == [3.0, 4.0, 4.0]
    assert rewards_to_go([]) == []


@given(rewards_lists, discounts)
def test_a_return_is_the_reward_and_the_discounted_next_return(rewards, gamma):
    returns = rewards_to_go(rewards, gamma)
    assert returns[-1] == rewards[-1]
    for t in range(len(rewards) - 1):
        assert returns[t] == pytest.approx(rewards[t] + gamma * returns[t + 1])


def test_gae_by_hand():
    # δ = (0 + ½·2 - 1, 3 - 2) = (0, 1); Â_1 = 1; Â_0 = 0 + ½ · ½ · 1.
    assert generalised_advantages([0.0, 3.0], [1.0, 2.0], gamma=0.5, gae_lambda=0.5) == [0.25, 1.0]


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-2, 2)), min_size=1, max_size=12), discounts)
def test_gae_between_its_two_ends(pairs, gamma):
    rewards, values = [p[0] for p in pairs], [p[1] for p in pairs]
    monte_carlo = [g - v for g, v in zip(rewards_to_go(rewards, gamma), values, strict=True)]
    assert generalised_advantages(rewards, values, gamma, 1.0) == pytest.approx(monte_carlo, abs=1e-9)
    upcoming = [*values[1:], 0.0]
    one_step = [r + gamma * u - v for r, u, v in zip(rewards, upcoming, values, strict=True)]
    assert generalised_advantages(rewards, values, gamma, 0.0) == pytest.approx(one_step, abs=1e-9)


def test_leave_one_out_of_two_groups_and_a_single_one():
    # a: 1 - 3 and 3 - 1; b is alone: 5 - mean(1, 3, 5).
    assert leave_one_out(["a", "b", "a"], [1.0, 5.0, 3.0]) == [-2.0, 2.0, 2.0]


@pytest.mark.parametrize("count", range(2, 9))
def test_equal_returns_are_worth_exactly_nothing(count):
    returns, group = [-0.7] * count, ["a"] * count
    # Their mean is rounded, and a turn with any advantage is computed.
    found = (leave_one_out(group, returns), group_relative(group, returns), turn_baseline([[-0.7]] * count))
    assert found == ([0.0] * count, [0.0] * count, [[0.0]] * count)


@given(st.integers(2, 6), st.integers(1, 4), st.data())
def test_leave_one_out_sums_to_zero_in_groups_of_equal_size(size, groups, data):
    names = [str(k) for k in range(groups) for _ in range(size)]
    returns = data.draw(st.lists(st.floats(-5, 5), min_size=len(names), max_size=len(names)))
    found = leave_one_out(names, returns)
    for k in range(groups):
        part = found[k * size : (k + 1) * size]
        assert math.fsum(part) == pytest.approx(0.0, abs=1e-9)
        # n/(n-1) times the distance from the group's mean.
        mean = math.fsum(returns[k * size : (k + 1) * size]) / size
        assert part == pytest.approx(
            [(g - mean) * size / (size - 1) for g in returns[k * size : (k + 1) * size]], abs=1e-9
        )


@given(st.lists(rewards_lists, min_size=1, max_size=6))
def test_the_turn_baseline_is_the_mean_of_those_still_running(rows):
    found = turn_baseline(rows)
    assert [len(row) for row in found] == [len(row) for row in rows]
    for t in range(max(map(len, rows))):
        assert math.fsum(row[t] for row in found if t < len(row)) == pytest.approx(0.0, abs=1e-9)
    alone = [row for row in found if len(row) == max(map(len, rows))]
    if len(alone) == 1 and len(alone[0]) > sorted(map(len, rows))[-2:][0]:
        assert alone[0][-1] == 0.0


@given(st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=1, max_size=20))
def test_normalising_keeps_signs_and_order_and_makes_the_deviation_one(values):
    found = normalised([values])[0]
    for before, after in zip(values, found, strict=True):
        assert (before > 0, before < 0) == (after > 0, after < 0)
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
    if deviation > 1e-6:
        assert found == pytest.approx([v / deviation for v in values], rel=1e-6)


def test_equal_values_are_left_alone():
    assert normalised([[0.3, 0.3]]) == [[0.3, 0.3]]
    assert normalised([[0.0]]) == [[0.0]]


def test_a_deviation_of_equal_values_is_no_divisor():
    assert std([0.1 + 0.2, 0.3]) == 1.0
    assert std([]) == 1.0
    # (1 + 1 + 4) / 3 - 0 = 2.
    assert std([1.0, 1.0, -2.0]) == pytest.approx(math.sqrt(2))


def test_groups_are_centred_and_scaled_apart():
    names, values = ["a", "b", "a", "b", "c"], [1.0, 10.0, 3.0, 30.0, 6.0]
    assert group_relative(names, values) == [-1.0, -1.0, 1.0, 1.0, 0.0]
    assert group_relative(names, values, scaled=False) == [-1.0, -10.0, 1.0, 10.0, 0.0]
    # The mean of all is 10.
    assert group_relative(names, values, scaled=False, pool_singles=True)[-1] == -4.0


def settings(**changes) -> BaselineConfig:
    return BaselineConfig(**{"normalise_advantages": False, **changes})


TRAJECTORIES = [
    Trajectory("a", [0.0, 1.0], [0.7, 0.1], ["", ""], True),
    Trajectory("a", [-1.0], [0.5], [""], False),
    Trajectory("b", [2.0], [0.0], [""], True),
]


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("none", [[1.0, 1.0], [-1.0], [2.0]]),
        # Means 2/3 at the first turn of three episodes, 1 at the second turn of one.
        ("batch", [[1 / 3, 0.0], [-5 / 3], [4 / 3]]),
        # a: 1 - (-1) and -1 - 1 at every turn; b is alone: 2 - (1 - 1 + 2) / 3.
        ("leave_one_out", [[2.0, 2.0], [-2.0], [4 / 3]]),
        # γ = λ = 1: return minus value.
        ("value", [[1.0 - 0.5, 1.0 - 0.25], [-1.5], [2.0]]),
    ],
)
def test_each_baseline_by_hand(baseline, expected):
    result = baseline_advantages(settings(baseline=baseline, gae_lambda=1.0), TRAJECTORIES, [[0.5, 0.25], [0.5], [0.0]])
    assert [pytest.approx(row) for row in expected] == result.values
    assert result.returns == [[1.0, 1.0], [-1.0], [2.0]]


def test_the_return_holds_the_entropy_of_this_and_later_turns():
    result = baseline_advantages(settings(baseline="none", return_entropy_coef=2.0), TRAJECTORIES, None)
    # Q_0 = (0 + 2·0.7) + (1 + 2·0.1) = 2.6; Q_1 = 1.2; -1 + 2·0.5 = 0.
    assert result.returns == [pytest.approx([2.6, 1.2]), pytest.approx([0.0]), [2.0]]
    assert result.values == result.returns


def test_normalisation_divides_by_the_deviation_over_all_turns():
    result = baseline_advantages(settings(baseline="none", normalise_advantages=True), TRAJECTORIES, None)
    # 1, 1, -1, 2: mean ¾, variance (2/16 + 49/16 + 25/16) / 4 = 19/16.
    scale = math.sqrt(19 / 16)
    # The totals 1, -1, 2 have variance 2 - 4/9.
    assert result.gain_scale == pytest.approx(math.sqrt(14 / 9))
    assert [v * scale for row in result.values for v in row] == pytest.approx([1.0, 1.0, -1.0, 2.0])
    assert result.returns == [[1.0, 1.0], [-1.0], [2.0]]


def test_the_value_baseline_needs_values():
    with pytest.raises(ValueError, match="needs a critic"):
        baseline_advantages(settings(baseline="value"), TRAJECTORIES, None)
