from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import reflect_algorithms.rounds as rounds
from offline_toy import RIGHT, StoppedError, agent, shuffled, stops_at, success_of
from reflect_algorithms import train_offline
from reflect_algorithms.learners.archer import AdvantageGradient, ArCHer
from reflect_algorithms.settings import ArCHerConfig, CriticConfig
from reflect_algorithms.turn_critic import Critic, Experience, bootstrapped, by_number, fit_critic
from reflect_rl.algorithms import Outputs
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, View

X = View(Observation("x", ("a", "b")), (0, 1))


def test_targets_are_the_reward_and_the_discounted_value_that_follows():
    policy = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    following = torch.tensor([[[4.0, 8.0], [9.0, 9.0]], [[0.0, 4.0], [9.0, 9.0]]])
    found = bootstrapped(torch.tensor([1.0, 2.0]), torch.tensor([True, False]), policy, following, 0.5)
    # By hand: 1 + 0.5 · 7 and 1 + 0.5 · 3; the second turn has ended its game.
    assert found.tolist() == [[4.5, 2.0], [2.5, 2.0]]


def test_slow_copies_follow_by_a_share():
    critic = Critic(torch.eye(2), 2, 0)
    assert torch.equal(critic(torch.eye(2)), critic.slow(torch.eye(2)))
    # Two estimates that are alike would be one.
    assert not torch.equal(*critic(torch.eye(2)))
    with torch.no_grad():
        for fast, slow in zip(critic.estimates.parameters(), critic.targets.parameters(), strict=True):
            fast.fill_(2.0)
            slow.fill_(1.0)
    critic.follow(0.25)
    assert {float(value) for slow in critic.targets.parameters() for value in slow.flatten()} == {1.25}


def test_the_critic_is_the_value_of_the_policy_whoever_played():
    """In x, `a` leads to y (reward 0) and `b` ends it (0.2); in y, `a` ends it (1), and so does `b` (0)."""
    x, y = torch.eye(2)
    turns = Experience(
        hidden=torch.stack([x, y, x, y]),
        numbers=torch.tensor([0, 0, 1, 1]),
        rewards=torch.tensor([0.0, 1.0, 0.2, 0.0]),
        going_on=torch.tensor([True, False, False, False]),
        next_hidden=torch.stack([y, x, x, x]),
        next_policy=torch.tensor([0.25, 0.75]).expand(4, 2),
    )
    critic = Critic(torch.eye(2), 2, 0)
    fit_critic(critic, turns, CriticConfig(gamma=0.8, critic_steps=400), np.random.default_rng(0))
    # By hand: V(y) = 1/4, so Q(x, a) = 0.8 / 4.
    for estimate in critic(torch.eye(2)):
        assert estimate.flatten().tolist() == pytest.approx([0.2, 0.2, 1.0, 0.0], abs=0.02)


def test_a_critic_without_turns_says_what_to_do():
    none = torch.zeros(0, 2)
    turns = Experience(none, torch.zeros(0, dtype=torch.long), none[:, 0], none[:, 0] > 0, none, none)
    with pytest.raises(UserError, match="all games ran out of turns at once"):
        fit_critic(Critic(torch.eye(2), 2, 0), turns, CriticConfig(), np.random.default_rng(0))


def test_probabilities_are_put_in_the_order_of_the_numbers():
    views = [View(Observation("x", ("a", "b", "c")), (2, 0, 1)), View(Observation("y", ("a", "b")), (1, 0))]
    table = torch.tensor([[0.2, 0.3, 0.5], [0.4, 0.6, 0.0]])
    expected = [[0.5, 0.2, 0.3, 0.0], [0.6, 0.4, 0.0, 0.0]]
    assert torch.equal(by_number(table, views, 4), torch.tensor(expected))


@pytest.mark.parametrize("entropy_coef", [0.0, 0.5])
def test_the_policy_s_gradient_is_that_of_the_expected_advantage(entropy_coef):
    # One state with two actions, π = (1/4, 3/4) and Q = (4, 0); the third number is of no action.
    logits = torch.tensor([[0.0, math.log(3), -math.inf]], requires_grad=True)
    result = AdvantageGradient([X], torch.tensor([[4.0, 0.0, 9.0]]), entropy_coef).loss(
        torch.tensor([0]), Outputs(torch.log_softmax(logits, -1))
    )
    # By hand: V = 1 and A = (3, -1), so the loss is -(3/4 log 1/4 - 3/4 log 3/4).
    entropy = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    assert result.value.item() == pytest.approx(0.75 * math.log(3) - entropy_coef * entropy)
    assert result.metrics["state_value"] == pytest.approx(1.0)
    result.value.backward()
    # The gradient of -V for a softmax is -π A, that of the entropy -π (log π + H) with log π = -log 4 and -log 4/3.
    pull = [0.25 * (math.log(4) - entropy), 0.75 * (math.log(4 / 3) - entropy)]
    expected = [-0.75 - entropy_coef * pull[0], 0.75 - entropy_coef * pull[1], 0.0]
    assert logits.grad[0].tolist() == pytest.approx(expected, abs=1e-6)


SETTINGS = {"env": RIGHT, "steps": 60, "batch_size": 32, "learning_rate": 1e-2}
SMALL = ArCHerConfig(rounds=3, critic_steps=150)


def test_it_learns_by_playing(tmp_path: Path):
    assert success_of(agent()) < 0.5
    assert success_of(train_offline(agent(), [], learner=ArCHer(SMALL), out=tmp_path, **SETTINGS)) >= 0.9
    rows = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert rows[0]["success_rate"] < 0.5 < 0.75 <= rows[-1]["success_rate"]
    metrics = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"state_value", "entropy"} <= metrics.keys()


def test_it_learns_nothing_from_shuffled_rewards(monkeypatch):
    play = rounds.play
    monkeypatch.setattr(rounds, "play", lambda *args, **options: shuffled(play(*args, **options)))
    assert success_of(train_offline(agent(), [], learner=ArCHer(SMALL), **SETTINGS)) < 0.6


@pytest.mark.parametrize("step", [2, 4, 7])
def test_an_interruption_changes_nothing(tmp_path: Path, step):
    learner = ArCHer(ArCHerConfig(rounds=2, episodes=10, critic_steps=5))
    settings = {"env": RIGHT, "steps": 8, "save_steps": 3, "learner": learner}
    whole = train_offline(agent(), [], **settings)
    with pytest.raises(StoppedError):
        train_offline(agent(), [], out=tmp_path, progress=stops_at(step), **settings)
    assert train_offline(agent(), [], out=tmp_path, **settings).model.hash() == whole.model.hash()
    assert train_offline(agent(), [], seed=1, **settings).model.hash() != whole.model.hash()
