"""Every algorithm's gradient on a game of one turn and two actions, against the one worked out by hand.

The policy is π = (3/4, 1/4), a softmax of the logits (log 3, 0). Action 0 earns 1 and succeeds, action 1 earns -1. Four
episodes hold each action as often as the policy plays it, so a mean over them is an expectation over the policy:
J = 3/4 - 1/4 = 1/2, and ∂J/∂z_k = π_k (r_k - J) = (3/4 · 1/2, 1/4 · (-3/2)) = (3/8, -3/8).
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reflect_rl import registry
from reflect_rl.algorithms._batch import Batch, Loss, Outputs, Trajectory

ACTIONS = [0, 0, 0, 1]
LOGITS = torch.tensor([[math.log(3.0), 0.0]] * 4)
EPISODES = [Trajectory("task", [1.0 - 2.0 * a], [0.0], ["start"], a == 0) for a in ACTIONS]
ROOT3 = math.sqrt(3)
NAMES = registry.names("algorithms")
PAGE = Path(__file__).parents[5] / "docs" / "reference" / "algorithms.md"


def build(name: str, **settings: Any) -> Any:
    algorithm = registry.find("algorithms", name)
    return algorithm(algorithm.Config(**{"entropy_coef": 0.0, **settings}))


def played(algorithm: Any) -> Batch:
    """The four episodes as the algorithm sees them; a critic of states says 1/2 everywhere."""
    values = [[0.5]] * 4 if algorithm.critic == "state" else None
    worth = algorithm.advantages(EPISODES, values)
    return Batch(
        actions=torch.tensor(ACTIONS),
        behaviour_log_probs=LOGITS.log_softmax(-1)[range(4), ACTIONS],
        advantages=torch.tensor([row[0] for row in worth.values]),
        returns=torch.tensor([row[0] for row in worth.returns]),
        replayed=torch.zeros(4, dtype=torch.bool),
    )


def outputs(algorithm: Any, log_probs: Tensor, q: tuple[float, ...] = (0.0, 0.0)) -> Outputs:
    values = torch.full((len(log_probs),), 0.5) if algorithm.critic == "state" else None
    action_values = torch.tensor([q] * len(log_probs)) if algorithm.critic == "action" else None
    return Outputs(log_probs, values, action_values)


def gradient(algorithm: Any, batch: Batch, logits: Tensor, q: tuple[float, ...] = (0.0, 0.0)) -> tuple[Tensor, Loss]:
    """∂loss/∂logits of each turn, (N, A)."""
    logits = logits.clone().requires_grad_()
    loss = algorithm.loss(batch, outputs(algorithm, logits.log_softmax(-1), q))
    return torch.autograd.grad(loss.value, logits)[0], loss


PLAIN = {"normalise_advantages": False}
CASES = [
    # The return itself: the policy gradient, 3/8.
    ("reinforce", {"baseline": "none", **PLAIN}, 3 / 8),
    # A baseline that is the expected return changes nothing.
    ("reinforce", {"baseline": "batch", **PLAIN}, 3 / 8),
    ("reinforce", {"baseline": "value", **PLAIN}, 3 / 8),
    # The mean of the other three is 1/3 for a success and 1 for the failure: advantages 2/3 and -2, 4/3 of r - J.
    ("reinforce", {"baseline": "leave_one_out", **PLAIN}, 1 / 2),
    ("ppo", {"baseline": "none", **PLAIN}, 3 / 8),
    ("ppo", {"baseline": "batch", **PLAIN}, 3 / 8),
    ("ppo", {"baseline": "value", **PLAIN}, 3 / 8),
    ("ppo", {"baseline": "leave_one_out", **PLAIN}, 1 / 2),
    ("rloo", PLAIN, 1 / 2),
    # 2/3, 2/3, 2/3, -2 have mean 0 and variance (3 · 4/9 + 4) / 4 = 4/3.
    ("rloo", {}, 1 / 2 * ROOT3 / 2),
    ("grpo", {"scale_by_std": False}, 3 / 8),
    ("grpo", {}, 3 / 8 * 2 / ROOT3),
    # All four turns are in one state, so the step-relative advantage is the episode-relative one.
    ("gigpo", {}, 2 * 3 / 8 * 2 / ROOT3),
    ("gigpo", {"scale_by_std": False, "step_weight": 0.5}, 1.5 * 3 / 8),
    # All turns are in one state and the last ones: the difference is the return minus the mean.
    ("g2po", {}, 3 / 8 * 2 / ROOT3),
    # The three best are imitated: ¾ (1 - ¾).
    ("raft", {}, 3 / 16),
    # Untrained critic: as with leave-one-out.
    ("expected", PLAIN, 1 / 2),
    ("expected", {}, 1 / 2 * ROOT3 / 2),
]


@pytest.mark.parametrize(("name", "settings", "size"), CASES)
def test_the_gradient_is_the_one_worked_out_by_hand(name, settings, size):
    algorithm = build(name, **settings)
    found, _ = gradient(algorithm, played(algorithm), LOGITS)
    # Descent on the loss raises the first logit and lowers the second.
    torch.testing.assert_close(found.sum(0), torch.tensor([-size, size]))


def test_every_algorithm_is_in_the_table():
    assert {name for name, _, _ in CASES} == set(NAMES)


@pytest.mark.parametrize("q", [(0.0, 0.0), (0.7, -0.4), (-3.0, 5.0), (2 / 3, -2.0)])
def test_the_expected_gradient_is_unbiased_for_any_critic(q):
    algorithm = build("expected", **PLAIN)
    found, _ = gradient(algorithm, played(algorithm), LOGITS, q)
    torch.testing.assert_close(found.sum(0), torch.tensor([-1 / 2, 1 / 2]))


def test_with_an_exact_critic_the_sampled_action_does_not_matter():
    # Advantages are 2/3 of action 0 and -2 of action 1; a critic that says so leaves nothing to correct.
    algorithm = build("expected", **PLAIN)
    rows, _ = gradient(algorithm, played(algorithm), LOGITS, (2 / 3, -2.0))
    # Σ_a π q = ½ - ½ = 0, so ∂/∂z_0 = π_0 q_0 = ½, in each of the four rows.
    torch.testing.assert_close(rows, torch.tensor([[-1 / 8, 1 / 8]] * 4))
    sampled, _ = gradient(algorithm, played(algorithm), LOGITS, (0.0, 0.0))
    assert float(sampled[0, 0]) != pytest.approx(float(sampled[3, 0]))


def test_without_the_correction_the_gradient_is_what_the_critic_says():
    algorithm = build("expected", correct=False, **PLAIN)
    # Σ_a π q = ¾ · 0.8 - ¼ · 0.4 = ½; ∂/∂z_0 = ¾ (0.8 - ½).
    found, _ = gradient(algorithm, played(algorithm), LOGITS, (0.8, -0.4))
    torch.testing.assert_close(found.sum(0), torch.tensor([-0.225, 0.225]))


def test_the_critic_of_actions_learns_the_chosen_one_only_and_the_policy_moves_no_critic():
    algorithm = build("expected", value_coef=0.5, **PLAIN)
    batch = played(algorithm)
    q = torch.zeros(4, 2, requires_grad=True)
    loss = algorithm.loss(batch, Outputs(LOGITS.log_softmax(-1), action_values=q))
    # ½ · mean (q - Â)²: (q - Â)/4, with Â = 2/3 and -2.
    found = torch.autograd.grad(loss.value, q)[0]
    torch.testing.assert_close(found, torch.tensor([[-1 / 6, 0.0]] * 3 + [[0.0, 1 / 2]]))
    # (3 · 4/9 + 4) / 4.
    assert loss.metrics["value/loss"] == pytest.approx(4 / 3)


def test_a_replayed_success_is_imitated_by_its_gain_whatever_the_critic_says():
    algorithm = build("expected", **PLAIN)
    batch = Batch(
        torch.tensor([0]), torch.tensor([math.log(0.5)]), torch.tensor([0.6]), torch.zeros(1), torch.tensor([True])
    )
    # π/π_behaviour = ¾ / ½ = 3/2: -3/2 · 0.6 · (1 - ¾).
    found, _ = gradient(algorithm, batch, LOGITS[:1], (9.0, -9.0))
    torch.testing.assert_close(found, torch.tensor([[-0.225, 0.225]]))


def test_the_expected_gradient_needs_a_critic_of_actions():
    algorithm = build("expected")
    with pytest.raises(ValueError, match="needs a critic of actions"):
        algorithm.loss(played(algorithm), Outputs(LOGITS.log_softmax(-1)))


@pytest.mark.parametrize("name", ["rloo", "expected"])
@pytest.mark.parametrize(("behaviour", "weight"), [(3 / 4, 1.0), (1 / 2, 1.5), (1 / 4, 2.0)])
def test_turns_of_an_older_policy_carry_a_truncated_constant_weight(name, behaviour, weight):
    # π(0) = ¾: ratios 1, 3/2, and 3, which is cut at 2.
    algorithm = build(name, max_importance_weight=2.0)
    batch = Batch(
        torch.tensor([0]),
        torch.tensor([math.log(behaviour)]),
        torch.tensor([1.0]),
        torch.zeros(1),
        torch.tensor([False]),
    )
    found, _ = gradient(algorithm, batch, LOGITS[:1])
    torch.testing.assert_close(found, weight * torch.tensor([[-0.25, 0.25]]))


@pytest.mark.parametrize("name", NAMES)
def test_missing_actions_leave_the_gradient_finite_and_get_none(name):
    algorithm = build(name, entropy_coef=0.1, kl_coef=0.1)
    wide = torch.cat([LOGITS, torch.full((4, 1), -math.inf)], 1)
    batch = replace(played(algorithm), reference_log_probs=wide.log_softmax(-1))
    logits = torch.cat([LOGITS, torch.zeros(4, 1)], 1).requires_grad_()
    missing = torch.tensor([False, False, True])
    log_probs = logits.masked_fill(missing, -math.inf).log_softmax(-1)
    loss = algorithm.loss(batch, outputs(algorithm, log_probs, (0.5, -0.5, 0.0)))
    found = torch.autograd.grad(loss.value, logits)[0]
    assert loss.value.isfinite()
    assert found.isfinite().all()
    assert found[:, 2].tolist() == [0.0] * 4
    assert float(found[:, 0].sum()) < 0


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_may_be_cut_anywhere(name):
    algorithm = build(name, entropy_coef=0.1)
    batch, log_probs = played(algorithm), (LOGITS + torch.arange(8).reshape(4, 2) / 10).log_softmax(-1)
    whole = algorithm.loss(batch, outputs(algorithm, log_probs, (0.3, -0.2))).value
    parts = [
        len(rows) / 4 * algorithm.loss(batch.select(rows), outputs(algorithm, log_probs[rows], (0.3, -0.2))).value
        for rows in (torch.tensor([2]), torch.tensor([0, 3, 1]))
    ]
    torch.testing.assert_close(sum(parts), whole)


EVERY_METRIC = {
    "ppo": {"baseline": "value"},
    "reinforce": {"baseline": "value"},
}


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_is_explained_on_the_page(name):
    algorithm = build(name, kl_coef=0.1, **EVERY_METRIC.get(name, {}))
    batch = replace(played(algorithm), reference_log_probs=LOGITS.log_softmax(-1))
    _, loss = gradient(algorithm, batch, LOGITS)
    assert {"policy/loss", "policy/entropy", "policy/kl"} <= set(loss.metrics)
    assert ("value/loss" in loss.metrics) == (algorithm.critic != "none")
    page = PAGE.read_text(encoding="utf-8")
    assert [key for key in loss.metrics if f"| `{key}` |" not in page] == []


@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_has_only_the_settings_that_it_uses(name):
    algorithm = build(name)
    fields = set(type(algorithm.config).model_fields)
    assert {"name", "gamma", "entropy_coef", "return_entropy_coef", "kl_coef"} <= fields
    assert ("baseline" in fields) == (name in ("ppo", "reinforce"))
    assert ("value_coef" in fields) == (name in ("ppo", "reinforce", "expected"))
    assert ("clip_ratio" in fields) == (name in ("ppo", "grpo", "gigpo", "g2po"))
    assert algorithm.critic == ("action" if name == "expected" else "none")
    assert algorithm.epochs == getattr(algorithm.config, "epochs", 1)


@pytest.mark.parametrize("name", ["ppo", "reinforce"])
def test_the_value_baseline_asks_for_a_critic_of_states(name):
    assert build(name, baseline="value").critic == "state"
