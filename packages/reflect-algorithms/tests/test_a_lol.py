from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from reflect_algorithms.learners.a_lol import Leftovers, behaviour_of, leftovers, ridge
from reflect_algorithms.log import Turns
from reflect_algorithms.settings import ALoLConfig
from reflect_rl.algorithms import Outputs
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, View

VIEWS = tuple(View(Observation(text, ("a", "b")), (0, 1)) for text in "wxyz")
ACTIONS = torch.tensor([0, 1, 0, 1])
TURNS = Turns(
    VIEWS,
    ACTIONS,
    torch.tensor([0.25, 0.5, 0.5, 0.25]).log(),
    returns=torch.tensor([5.0, 6.0, 4.0, 3.0]),
    elapsed=torch.tensor([0, 1, 2, 0]),
    won=torch.tensor([True, True, True, False]),
    episodes=torch.tensor([0, 0, 0, 1]),
    players=("somebody",),
)
VALUES = torch.tensor([4.0, 7.0, 4.0, 2.0])


def loss_of(variant, examples, rows, **settings):
    """Loss, its gradient by log-probabilities of the chosen actions, and metrics; the advantages are 2 and 1."""
    config = ALoLConfig(variant=variant, **settings)
    objective = Leftovers(config, VIEWS, ACTIONS, TURNS.behaviour_log_probs, examples, torch.tensor([2.0, 1.0]))
    table = torch.tensor([[0.5, 0.5], [0.75, 0.25], [0.5, 0.5], [0.75, 0.25]])[rows].log().requires_grad_()
    result = objective.loss(torch.arange(len(examples)), Outputs(table))
    result.value.backward()
    return result.value.item(), table.grad.gather(1, ACTIONS[rows][:, None])[:, 0].tolist(), result.metrics


# Probabilities now 1/2, 1/4, 1/2, 1/4 and of the reference 1/4, 1/2, 1/2, 1/4: the ratios are 2, 1/2, 1, 1.
HALF, QUARTER = math.log(0.5), math.log(0.25)


def test_a_turn_has_its_clipped_ratio():
    value, slope, metrics = loss_of("turn", [(0,), (1,)], [0, 1])
    assert value == pytest.approx(-(2 * 1.2 * HALF + 1 * 0.8 * QUARTER) / 2)
    # The weights are constants: no gradient flows through the ratio.
    assert slope == pytest.approx([-1.2, -0.4])
    assert metrics["clip_fraction"] == 1.0
    # Mean of ρ - 1 - log ρ over 2 and 1/2; the logarithms cancel.
    assert metrics["kl_to_reference"] == pytest.approx(0.25)


def test_without_a_reference_the_weight_is_the_advantage():
    value, slope, _ = loss_of("reference_free", [(0,), (1,)], [0, 1])
    assert value == pytest.approx(-(2 * HALF + QUARTER) / 2)
    assert slope == pytest.approx([-1.0, -0.5])


def test_a_penalty_takes_the_log_ratio_from_the_advantage():
    value, _, _ = loss_of("kl", [(0,), (1,)], [0, 1], kl_coef=0.5)
    log2 = math.log(2)
    assert value == pytest.approx(-((2 - 0.5 * log2) * HALF + (1 + 0.5 * log2) * QUARTER) / 2)


def test_an_episode_has_the_product_of_its_ratios():
    # 2 · 1/2 · 1 = 1 for the first episode, 1 for the second.
    value, slope, _ = loss_of("sequence", [(0, 1, 2), (3,)], [0, 1, 2, 3])
    assert value == pytest.approx(-(2 * (HALF + QUARTER + HALF) + 1 * QUARTER) / 2)
    assert slope == pytest.approx([-1.0, -1.0, -1.0, -0.5])


def test_turns_of_an_episode_may_have_ratios_of_their_own():
    value, _, _ = loss_of("per_turn", [(0, 1, 2), (3,)], [0, 1, 2, 3])
    assert value == pytest.approx(-(2 * (1.2 * HALF + 0.8 * QUARTER + HALF) + QUARTER) / 2)


@pytest.mark.parametrize(
    ("variant", "examples", "share"),
    [
        ("turn", [(0,), (2,)], 0.5),
        ("per_turn", [(0, 1, 2), (3,)], 0.5),
        # The product is 2 · 1/2 · 1 = 1 for the first episode, so nothing is clipped; 1/2 · 1 for the first two turns.
        ("sequence", [(0, 1, 2), (3,)], 0.0),
        ("sequence", [(1, 2), (3,)], 2 / 3),
        ("reference_free", [(0,), (1,)], 0.0),
        ("kl", [(0,), (1,)], 0.0),
    ],
)
def test_the_share_of_clipped_weights_counts_the_weights_that_clipping_changes(variant, examples, share):
    rows = [row for example in examples for row in example]
    assert loss_of(variant, examples, rows)[2]["clip_fraction"] == pytest.approx(share)


def test_what_is_better_than_its_value_is_left_over():
    # By hand: the gains are 1, -1, 0, 1, their variance 3/4 - 1/16 = 11/16.
    objective = leftovers(ALoLConfig(), TURNS, VALUES, TURNS.behaviour_log_probs)
    assert objective.examples == [(0,), (3,)]
    assert objective.advantages.tolist() == pytest.approx([4 / math.sqrt(11)] * 2)
    assert objective.weights == objective.advantages.tolist()


def test_an_episode_is_judged_at_its_start():
    objective = leftovers(ALoLConfig(variant="sequence"), TURNS, VALUES * 1.2, TURNS.behaviour_log_probs)
    # 5 - 4.8 = 0.2 and 3 - 2.4 = 0.6; their standard deviation is 0.2.
    assert objective.examples == [[0, 1, 2], [3]]
    assert objective.advantages.tolist() == pytest.approx([1.0, 3.0], rel=1e-4)


def test_a_log_without_leftovers_is_refused():
    with pytest.raises(UserError, match=r"nothing of its 4 turns is left over.*offline\.log\.quality = 'mixed'"):
        leftovers(ALoLConfig(), TURNS, TURNS.returns, TURNS.behaviour_log_probs)


def test_the_value_is_the_ridge_regression():
    # One standardised feature, so its coefficient is the covariance 1 over 1 + λ.
    values = ridge(torch.tensor([[-1.0], [1.0]]), torch.tensor([0.0, 2.0]))
    assert values.tolist() == pytest.approx([1 - 1 / 1.001, 1 + 1 / 1.001])


def test_equal_states_have_the_mean_of_their_returns():
    hidden = torch.tensor([[0.0, 1.0], [0.0, 1.0], [2.0, 3.0], [2.0, 3.0]])
    values = ridge(hidden, torch.tensor([1.0, 3.0, 10.0, 20.0]))
    assert values.tolist() == pytest.approx([2.0, 2.0, 15.0, 15.0], rel=0.01)


def test_a_log_without_probabilities_is_refused_where_they_are_needed():
    assert behaviour_of(TURNS) is TURNS.behaviour_log_probs
    unknown = replace(TURNS, behaviour_log_probs=torch.tensor([0.0, math.nan, math.nan, 0.0]))
    with pytest.raises(UserError, match=r"2 of 4 turns have none \(players: somebody\)\. Set it to 'model'"):
        behaviour_of(unknown)
