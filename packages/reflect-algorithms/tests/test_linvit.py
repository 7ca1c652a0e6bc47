from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import reflect_algorithms.rounds as rounds
from offline_toy import TASKS, StoppedError, agent, stops_at, success_of
from reflect_algorithms import train_offline
from reflect_algorithms.learners.linvit import (
    LINVIT,
    Distillation,
    LinearQ,
    SoftPolicy,
    fitted_q,
    prior_of,
    soft_policy,
    soft_values,
)
from reflect_algorithms.settings import LINVITConfig
from reflect_algorithms.training import Frozen
from reflect_algorithms.transitions import transitions_of
from reflect_rl.algorithms import Outputs
from reflect_rl.errors import UserError
from reflect_rl.types import Decision, Episode, Observation, Task, Turn, View
from toy import SPEC

EVEN = torch.tensor([[0.5, 0.5]]).log()


def test_value_and_policy_have_the_closed_form():
    # λ = 2, Q = (0, 2 ln 3): the mean of 1 and 3 is 2, so V = 2 ln 2 and π = (1/4, 3/4).
    action_values = torch.tensor([[0.0, 2 * math.log(3)]])
    assert soft_values(EVEN, action_values, 2.0).item() == pytest.approx(2 * math.log(2))
    assert soft_policy(EVEN, action_values, 2.0).exp()[0].tolist() == pytest.approx([0.25, 0.75])
    # A prior of (3/4, 1/4) makes up for it: 3/4 + 3/4, and both are equally likely.
    prior = torch.tensor([[0.75, 0.25]]).log()
    assert soft_values(prior, action_values, 2.0).item() == pytest.approx(2 * math.log(1.5))
    assert soft_policy(prior, action_values, 2.0).exp()[0].tolist() == pytest.approx([0.5, 0.5])


def test_no_policy_has_a_greater_value():
    prior, action_values, weight = torch.tensor([[0.2, 0.5, 0.3]]).log(), torch.tensor([[1.0, -0.5, 0.3]]), 0.7
    best = soft_values(prior, action_values, weight).item()
    for other in torch.distributions.Dirichlet(torch.ones(3)).sample((200,)):
        divergence = (other * (other.log() - prior[0])).sum()
        assert (other * action_values[0]).sum() - weight * divergence <= best + 1e-6


def turn(text, index, reward, order=(0, 1)):
    return Turn(Observation(text, ("a", "b")), order, None, Decision(index, "p", (-0.7, -0.7)), reward)


def episode(*turns, truncated=False):
    return Episode(Task("t"), turns, not truncated, truncated, True, 0, "toy-v1")


def test_transitions_know_what_followed():
    found = transitions_of([episode(turn("x", 0, -1.0), turn("y", 1, 3.0)), episode(turn("z", 1, 0.5, (1, 0)))])
    assert found.following.tolist() == [1, -1, -1]
    assert found.rewards.tolist() == [-1.0, 3.0, 0.5]
    # The action with the index 1 is listed first in the last state.
    assert found.numbers.tolist() == [0, 1, 0]
    assert (found.lowest, found.highest) == (0.5, 3.0)


def test_what_follows_the_last_turn_of_a_truncated_episode_is_not_known():
    found = transitions_of([episode(turn("x", 0, 1.0), turn("y", 1, 1.0), truncated=True)])
    assert found.numbers.tolist() == [0, -1]
    with pytest.raises(UserError, match=r"nothing was played"):
        transitions_of([])


def test_q_is_the_fixed_point_of_the_soft_bellman_equation():
    """A chain of two states: `a` in x leads to y (reward 0), `b` ends it (0.2); in y, `a` ends it (1), `b` too (0)."""
    plays = [(("x", 0, 0.0), ("y", 0, 1.0)), (("x", 1, 0.2),), (("x", 0, 0.0), ("y", 1, 0.0))]
    turns = transitions_of([episode(*(turn(*step) for step in play)) for play in plays * 4])
    hidden = torch.tensor([[1.0, 0.0] if view.observation.text == "x" else [0.0, 1.0] for view in turns.views])
    config = LINVITConfig(kl_coef=0.5, gamma=0.9, prior="uniform")
    frozen = Frozen(EVEN.expand(len(turns.views), 2), hidden)
    values = fitted_q(config, turns, frozen, 2)
    # By hand: V(y) = 0.5 ln((e^2 + e^0) / 2), Q(x, a) = 0.9 V(y).
    value = 0.5 * math.log((math.exp(2) + 1) / 2)
    expected = [[0.9 * value, 0.2], [1.0, 0.0]]
    assert values(torch.eye(2)).flatten().tolist() == pytest.approx([*expected[0], *expected[1]], abs=0.02)


def test_an_action_that_was_never_played_is_worth_nothing():
    values = LinearQ(torch.eye(2), torch.tensor([0, 0]), 3)
    values.fit(torch.tensor([1.0, 3.0]))
    assert values.own()[:, 1:].abs().sum() == 0
    assert values.own()[:, 0].tolist() == pytest.approx([1.0, 3.0], abs=0.02)


def test_a_uniform_prior_is_uniform_over_the_actions_that_there_are():
    table = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]).log()
    assert prior_of(LINVITConfig(), table) is table
    found = prior_of(LINVITConfig(prior="uniform"), table).exp()
    assert found[0].tolist() == [0.5, 0.5, 0.0]
    assert found[1].tolist() == pytest.approx([1 / 3] * 3)


def test_the_first_round_is_the_priors():
    player = agent()
    views = [View(SPEC.make().reset(task), (0, 1)) for task in TASKS[:1]]
    views = [replace(view, order=tuple(range(len(view.observation.actions)))) for view in views]
    policy = SoftPolicy(LINVITConfig(), player.model, player.labels, "choice_token", None)
    own = policy.decide(views, [np.random.default_rng(0)])[0]
    model = player.policy().decide(views, [np.random.default_rng(0)])[0]
    assert own.log_probs == pytest.approx(model.log_probs, abs=1e-5)
    assert own.index == model.index


def test_the_distillation_is_a_cross_entropy():
    views = [View(Observation(text, ("a", "b", "c")), (0, 1, 2)) for text in "xy"]
    targets = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    log_probs = torch.tensor([[0.25, 0.75, 0.0]]).log().requires_grad_()
    result = Distillation(views, targets).loss(torch.tensor([0]), Outputs(log_probs))
    # By hand: -(ln 1/4 + ln 3/4) / 2, less the entropy ln 2.
    crossed = -(math.log(0.25) + math.log(0.75)) / 2
    assert result.value.item() == pytest.approx(crossed)
    assert result.metrics["kl_from_target"] == pytest.approx(crossed - math.log(2))
    result.value.backward()
    assert log_probs.grad[0].tolist() == pytest.approx([-0.5, -0.5, 0.0])


SETTINGS = {"env": SPEC, "steps": 150, "batch_size": 32, "learning_rate": 1e-2}
SMALL = LINVITConfig(rounds=4, episodes=40)


@pytest.mark.parametrize("prior", ["model", "uniform"])
def test_it_learns_by_playing(tmp_path: Path, prior):
    learner = LINVIT(SMALL.model_copy(update={"prior": prior}))
    assert success_of(train_offline(agent(), [], learner=learner, out=tmp_path, **SETTINGS)) > 0.7
    rows = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["success_rate"] < rows[-1]["success_rate"]
    turns = [row["turns"] for row in rows]
    assert turns == sorted(turns)


def test_it_learns_nothing_from_shuffled_rewards(monkeypatch):
    rng, play = np.random.default_rng(0), rounds.play

    def shuffled(*args, **options):
        episodes = play(*args, **options)
        rewards = iter(rng.permutation([turn.reward for e in episodes for turn in e.turns]).tolist())
        return [replace(e, turns=tuple(replace(turn, reward=next(rewards)) for turn in e.turns)) for e in episodes]

    monkeypatch.setattr(rounds, "play", shuffled)
    assert success_of(train_offline(agent(), [], learner=LINVIT(SMALL), **SETTINGS)) < 0.6


def test_an_interruption_changes_nothing(tmp_path: Path):
    settings = {"env": SPEC, "steps": 8, "save_steps": 3, "learner": LINVIT(LINVITConfig(rounds=2, episodes=10))}
    whole = train_offline(agent(), [], **settings)
    with pytest.raises(StoppedError):
        train_offline(agent(), [], out=tmp_path, progress=stops_at(5), **settings)
    assert train_offline(agent(), [], out=tmp_path, **settings).model.hash() == whole.model.hash()
