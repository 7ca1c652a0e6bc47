"""Losses against gradients and numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from reflect_rl import registry
from reflect_rl.algorithms import ppo, reinforce
from reflect_rl.algorithms._batch import Batch, Loss, Outputs
from reflect_rl.algorithms._common import BaselineConfig, PolicyGradientConfig, entropy, kl_divergence

PLAIN = {"entropy_coef": 0.0}
INF = math.inf


def made(module: Any, **settings: Any) -> Any:
    """The algorithm of a module, by its name in the registry."""
    algorithm = registry.find("algorithms", module.__name__.rpartition(".")[2])
    return algorithm(algorithm.Config(**settings))


def batch(
    actions: list[int],
    advantages: list[float],
    behaviour: list[float] | Tensor,
    replayed: bool | list[bool] = False,
    reference: Tensor | None = None,
) -> Batch:
    count = len(actions)
    return Batch(
        actions=torch.tensor(actions),
        behaviour_log_probs=torch.as_tensor(behaviour).detach(),
        advantages=torch.tensor(advantages),
        returns=torch.zeros(count),
        replayed=torch.tensor([replayed] * count if isinstance(replayed, bool) else replayed),
        reference_log_probs=reference,
    )


def gradient(algorithm, turns: Batch, logits: Tensor) -> tuple[Tensor, Loss]:
    """∂loss/∂logits, (N, A)."""
    logits = logits.clone().requires_grad_()
    loss = algorithm.loss(turns, Outputs(logits.log_softmax(-1)))
    return torch.autograd.grad(loss.value, logits)[0], loss


ALGORITHMS = {
    "reinforce": reinforce.Reinforce(reinforce.ReinforceConfig(**PLAIN)),
    "ppo": ppo.PPO(ppo.PPOConfig(**PLAIN)),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("action", [0, 1])
@pytest.mark.parametrize("advantage", [1.0, -2.0])
def test_two_actions_one_step(name, action, advantage):
    # π = (3/4, 1/4); the gradient of -A log π(a) by the logits is -A (1{a} - π).
    logits = torch.tensor([[math.log(3.0), 0.0]])
    pi = [0.75, 0.25]
    turns = batch([action], [advantage], [math.log(pi[action])])
    found, _ = gradient(ALGORITHMS[name], turns, logits)
    expected = [-advantage * ((k == action) - pi[k]) for k in (0, 1)]
    torch.testing.assert_close(found, torch.tensor([expected]))


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.floats(-3, 3), *[st.floats(-2, 2)] * 3),
        min_size=1,
        max_size=5,
    )
)
def test_reinforce_and_ppo_have_the_same_gradient_at_ratio_one_which_is_the_closed_form(rows):
    actions, advantages, logits = [r[0] for r in rows], [r[1] for r in rows], torch.tensor([r[2:] for r in rows])
    log_probs = logits.log_softmax(-1)
    turns = batch(actions, advantages, log_probs.gather(1, torch.tensor(actions)[:, None])[:, 0])
    one_hot = torch.nn.functional.one_hot(turns.actions, 3)
    expected = -turns.advantages[:, None] * (one_hot - log_probs.exp()) / len(rows)
    for algorithm in ALGORITHMS.values():
        torch.testing.assert_close(gradient(algorithm, turns, logits)[0], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [
        (1.3, 1.0, False),  # already more likely by more than ε = 0.2: no further
        (1.3, -1.0, True),  # too likely and bad: the way back is open
        (0.7, -1.0, False),  # already less likely by more than ε: no further
        (0.7, 1.0, True),  # too unlikely and good: the way back is open
        (1.1, 1.0, True),
        (0.9, -1.0, True),
    ],
)
def test_ppo_clips_on_the_side_that_the_advantage_pushes_to(ratio, advantage, moves):
    logits = torch.tensor([[0.0, 0.0]])
    algorithm = ppo.PPO(ppo.PPOConfig(clip_ratio=0.2, **PLAIN))
    found, loss = gradient(algorithm, batch([0], [advantage], [math.log(0.5 / ratio)]), logits)
    # Inside: ∂(-ρA)/∂logits = -A ρ (1{a} - π), π = (1/2, 1/2).
    expected = [[-advantage * ratio * 0.5, advantage * ratio * 0.5]] if moves else [[0.0, 0.0]]
    torch.testing.assert_close(found, torch.tensor(expected))
    assert loss.metrics["policy/clip_fraction"] == (0.0 if 0.8 < ratio < 1.2 else 1.0)
    clipped = min(max(ratio, 0.8), 1.2)
    assert loss.value.item() == pytest.approx(-min(ratio * advantage, clipped * advantage))


def test_reinforce_weighs_replayed_turns_by_a_truncated_constant_ratio():
    # π(0) = 1/2 in all rows; behaviour 1/2, 1/3, 1/8: ratios 1, 3/2, 4 (cut at 2); the fresh last row has weight one.
    algorithm = reinforce.Reinforce(reinforce.ReinforceConfig(max_importance_weight=2.0, **PLAIN))
    behaviour = [math.log(p) for p in (1 / 2, 1 / 3, 1 / 8, 1 / 8)]
    turns = batch([0] * 4, [1.0] * 4, behaviour, replayed=[True, True, True, False])
    found, loss = gradient(algorithm, turns, torch.zeros(4, 2))
    expected = torch.tensor([1.0, 1.5, 2.0, 1.0])[:, None] * torch.tensor([[-0.5, 0.5]]) / 4
    torch.testing.assert_close(found, expected)
    assert loss.value.item() == pytest.approx(math.log(2) * (1 + 1.5 + 2 + 1) / 4)


def test_entropy_by_hand():
    rows = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]]).log()
    # log 2; ½ log 4 + ½ log 2 = 3/2 log 2; 0.
    torch.testing.assert_close(entropy(rows), torch.tensor([math.log(2), 1.5 * math.log(2), 0.0]))


def test_kl_by_hand():
    p = torch.tensor([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]]).log()
    q = torch.tensor([[0.25, 0.75, 0.0], [0.9, 0.1, 0.0]]).log()
    # ½ log 2 + ½ log (2/3) = ½ log (4/3); equal rows: 0.
    torch.testing.assert_close(kl_divergence(p, q), torch.tensor([0.5 * math.log(4 / 3), 0.0]))


def masked(logits: Tensor) -> Tensor:
    """As `score` makes them: -inf logits before the softmax where there is no action."""
    missing = torch.tensor([[False, False, True], [False, False, False]])
    return logits.masked_fill(missing, -INF).log_softmax(-1)


def test_gradients_are_finite_and_right_beside_missing_actions():
    reference = masked(torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0]]))
    for term in (entropy, lambda log_probs: kl_divergence(log_probs, reference)):
        logits = torch.tensor([[1.0, -1.0, 5.0], [0.3, 0.2, 0.1]], dtype=torch.float32, requires_grad=True)
        found = torch.autograd.grad(term(masked(logits)).sum(), logits)[0]
        assert found.isfinite().all()
        assert float(found[0, 2]) == 0.0
        for row, column in ((0, 0), (0, 1), (1, 2)):
            step = torch.zeros(2, 3)
            step[row, column] = 1e-2
            slope = (term(masked(logits.detach() + step)).sum() - term(masked(logits.detach() - step)).sum()) / 2e-2
            assert float(found[row, column]) == pytest.approx(float(slope), abs=2e-3)


@pytest.mark.parametrize("module", [reinforce, ppo])
def test_the_regularisers_enter_with_their_weights_and_signs(module):
    log_probs = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]]).log()
    reference = torch.tensor([[0.25, 0.75, 0.0], [0.25, 0.75, 0.0]]).log()
    turns = batch([0, 1], [0.0, 0.0], log_probs[:, 0], reference=reference)
    loss = made(module, entropy_coef=0.1, kl_coef=2.0).loss(turns, Outputs(log_probs))
    bonus = (math.log(2) + (0.25 * math.log(4) + 0.75 * math.log(4 / 3))) / 2
    penalty = 0.5 * math.log(4 / 3) / 2
    assert loss.value.item() == pytest.approx(2.0 * penalty - 0.1 * bonus, abs=1e-6)
    assert loss.metrics["policy/entropy"] == pytest.approx(bonus, abs=1e-6)
    assert loss.metrics["policy/kl"] == pytest.approx(penalty, abs=1e-6)


@pytest.mark.parametrize("module", [reinforce, ppo])
def test_a_minibatch_may_list_fewer_actions_than_the_widest_state_of_the_update(module):
    narrow = torch.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    reference = torch.tensor([[0.25, 0.75, 0.0], [0.25, 0.75, 0.0]]).log()
    turns = batch([0, 1], [0.0, 0.0], narrow[:, 0], reference=reference)
    loss = made(module, kl_coef=1.0, **PLAIN).loss(turns, Outputs(narrow))
    assert loss.value.item() == pytest.approx(0.25 * math.log(4 / 3), abs=1e-6)


@pytest.mark.parametrize("module", [reinforce, ppo])
def test_the_critics_error_is_the_mean_square_times_its_weight(module):
    log_probs = torch.tensor([[0.5, 0.5]] * 2).log()
    turns = Batch(torch.tensor([0, 1]), log_probs[:, 0], torch.zeros(2), torch.tensor([1.0, -2.0]), torch.zeros(2) > 0)
    values = torch.tensor([0.0, 1.0], requires_grad=True)
    loss = made(module, value_coef=0.5, **PLAIN).loss(turns, Outputs(log_probs, values))
    # ½ · (1² + 3²) / 2
    assert loss.value.item() == pytest.approx(2.5)
    assert loss.metrics["value/loss"] == pytest.approx(5.0)
    # ∂/∂v of ½ · mean (v - g)² = ½ · (v - g): -½ and 3/2.
    assert torch.autograd.grad(loss.value, values)[0].tolist() == pytest.approx([-0.5, 1.5])


def test_selected_turns_keep_their_parts_together():
    reference = torch.tensor([[0.5, 0.5], [0.1, 0.9], [0.2, 0.8]]).log()
    turns = batch([0, 1, 0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [False, True, False], reference)
    part = turns.select(torch.tensor([2, 1]))
    assert (part.actions.tolist(), part.advantages.tolist()) == ([0, 1], [3.0, 2.0])
    assert (part.behaviour_log_probs.tolist(), part.replayed.tolist()) == ([-3.0, -2.0], [False, True])
    assert torch.equal(part.reference_log_probs, reference[[2, 1]])
    assert (len(part), turns.select(torch.tensor([0])).reference_log_probs is None) == (2, False)
    assert batch([0], [1.0], [0.0]).select(torch.tensor([0])).reference_log_probs is None


def test_the_open_baseline_is_a_setting_of_two_algorithms():
    assert issubclass(ppo.PPOConfig, BaselineConfig)
    assert issubclass(reinforce.ReinforceConfig, BaselineConfig)
    assert "baseline" not in PolicyGradientConfig.model_fields
    assert ppo.PPO(ppo.PPOConfig(epochs=5)).epochs == 5
    assert reinforce.Reinforce(reinforce.ReinforceConfig()).epochs == 1


@pytest.mark.parametrize(("ratio", "moves"), [(1.25, True), (1.35, False), (0.75, False)])
def test_the_upper_clip_may_be_wider(ratio, moves):
    algorithm = ppo.PPO(ppo.PPOConfig(clip_ratio=0.2, clip_ratio_high=0.3, **PLAIN))
    # A good action below one may always rise, a bad one below 0.8 sinks no further.
    advantage = 1.0 if ratio > 1 else -1.0
    turns = batch([0], [advantage], [math.log(0.5 / ratio)])
    found, loss = gradient(algorithm, turns, torch.tensor([[0.0, 0.0]]))
    assert (float(found.abs().sum()) > 0) == moves
    assert loss.metrics["policy/clip_fraction"] == (0.0 if moves else 1.0)
