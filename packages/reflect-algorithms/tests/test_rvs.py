from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reflect_algorithms.learners.rvs import RvS, average_to_come, levels, verdicts
from reflect_algorithms.log import turns_of
from reflect_algorithms.players import AskedOutcome
from reflect_algorithms.settings import RvSConfig
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, View


def test_the_average_reward_to_come_is_over_the_turns_that_are_left(mixed_log):
    # By hand, H = 10: rewards -1, 2, 4 leave the sums 5, 6, 4 for the last 10, 9, 8 turns.
    turns = replace(turns_of(mixed_log), returns=torch.tensor([5.0, 6.0, 4.0]), elapsed=torch.tensor([0, 1, 2]))
    assert average_to_come(turns, 10).tolist() == pytest.approx([0.5, 6 / 9, 0.5])
    # An episode that is longer than the limit counts its last turns as one.
    assert average_to_come(turns, 2).tolist() == pytest.approx([2.5, 6.0, 4.0])


def test_levels_are_quantiles_and_the_best_is_the_highest():
    assert levels(torch.tensor([0.3, 0.1, 0.2, 0.4])) == [7, 2, 4, 9]
    # Half of the values are equal: they share the level of the last of them.
    assert levels(torch.tensor([0.0] * 5 + [1.0] * 5)) == [4] * 5 + [9] * 5


def test_a_win_cannot_be_asked_for_that_was_never_seen(mixed_log):
    turns = turns_of(mixed_log)
    assert set(verdicts(turns)) == {"win", "loss"}
    with pytest.raises(UserError, match=r"no episode of the log is won.*offline\.rvs\.condition to 'return'"):
        verdicts(replace(turns, won=torch.zeros(len(turns), dtype=torch.bool)))


def test_a_level_cannot_be_asked_for_that_was_never_seen(mixed_log):
    # By hand: half of the turns have 0 to come and the others 1 or more, so the levels are those below.
    turns = turns_of(mixed_log)
    returns = (torch.arange(len(turns)) >= len(turns) // 2).float()
    turns = replace(turns, returns=returns, elapsed=torch.full((len(turns),), 9))
    there = (4, 9)
    for asked_level in range(10):
        learner = RvS(RvSConfig(condition="return", asked_level=asked_level))
        if asked_level in there:
            assert {view.reflection for view in learner.objective(turns, 10).views} == {
                f"Asked: level {number}." for number in there
            }
        else:
            with pytest.raises(UserError, match=rf"offline\.rvs\.asked_level: .*level {asked_level}.* one of 4, 9\."):
                learner.objective(turns, 10)
    # Where verdicts are asked for, no level is.
    assert RvS(RvSConfig(asked_level=3)).objective(turns, 10).views
    # Rounds to come may reach it.
    assert RvS(RvSConfig(condition="return", asked_level=3)).objective(turns, 10, plays_on=True).views


def test_the_outcome_that_is_asked_for_stands_where_a_reflection_would():
    views = [View(Observation("x", ("a",)), (0,))] * 2
    assert RvS().reflector.reflect(views) == ["Asked: win."] * 2
    config = RvSConfig(condition="return", asked_level=3)
    assert AskedOutcome.of(config).reflect(views) == ["Asked: level 3."] * 2
