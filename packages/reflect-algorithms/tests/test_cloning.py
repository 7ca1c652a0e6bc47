from __future__ import annotations

import math

import pytest
import torch

from reflect_algorithms.learners.cloning import Imitation, won_turns
from reflect_algorithms.log import Turns
from reflect_rl.algorithms import Outputs
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, View

VIEWS = tuple(View(Observation(text, ("a", "b")), (0, 1)) for text in "xyz")


def turns(won):
    numbers = torch.zeros(3)
    return Turns(VIEWS, torch.tensor([1, 0, 1]), numbers, numbers, numbers, torch.tensor(won), numbers, ("p",))


def test_the_loss_is_the_mean_of_the_negative_log_probabilities():
    # By hand: examples 2 and 0 chose action 1, at 1/4 and 1/2.
    log_probs = torch.tensor([[0.75, 0.25], [0.5, 0.5]]).log()
    loss = Imitation(VIEWS, torch.tensor([1, 0, 1])).loss(torch.tensor([2, 0]), Outputs(log_probs))
    assert float(loss.value) == pytest.approx((math.log(4) + math.log(2)) / 2)
    assert loss.metrics["action_probability"] == pytest.approx(0.375)


def test_the_filter_keeps_the_turns_of_won_episodes():
    objective = won_turns(turns([True, False, True]), 2)
    assert (objective.views, objective.actions.tolist()) == ([VIEWS[0], VIEWS[2]], [1, 1])


def test_a_log_without_a_won_episode_is_refused():
    with pytest.raises(UserError, match=r"none of the 5 episodes of the log is won.*offline\.log\.quality"):
        won_turns(turns([False] * 3), 5)
