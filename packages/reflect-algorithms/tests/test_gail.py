from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import offline_toy
import reflect_rl.training.online as online
from offline_toy import RIGHT, StoppedError, agent, success_of
from reflect_algorithms import train_offline
from reflect_algorithms.learners.gail import GAIL, acts_of, discrimination, reward_of
from reflect_algorithms.online import with_rewards
from reflect_algorithms.settings import GAILConfig
from reflect_rl.errors import UserError
from reflect_rl.types import NO_ACTION, Decision, Episode, Observation, Task, Turn
from toy import rlft

ALGORITHM = {"name": "ppo", "baseline": "value", "gamma": 0.9}
ONLINE = {"starts_per_update": 8, "episodes_per_start": 4, "learning_rate": 5e-3, "algorithm": ALGORITHM}
SETTINGS = {"env": RIGHT, "learning_rate": 3e-3, "batch_size": 32}


def learner(total_turns: int = 1000, **changes) -> GAIL:
    return GAIL(GAILConfig(**changes), rlft(total_turns=total_turns, checkpoint_every=2, **ONLINE))


@pytest.fixture(scope="module")
def demonstrations() -> list[Episode]:
    return of_right(offline_toy.log("expert", 6))


def of_right(log: list[Episode]) -> list[Episode]:
    """The episodes as those of the game that is trained, which has the same states and actions."""
    return [replace(episode, environment=RIGHT.identity) for episode in log]


def test_the_loss_of_the_discriminator_is_that_of_the_formula():
    scores = torch.tensor([math.log(3), math.log(3), -math.log(4)], requires_grad=True)
    each = discrimination(scores, torch.tensor([True, False, False]))
    # By hand: D = 3/4, 3/4, 1/5; the loss is -log D for the policy's act and -log(1 - D) for the others.
    assert each.tolist() == pytest.approx([math.log(4 / 3), math.log(4), math.log(5 / 4)])
    each.sum().backward()
    # d/df of them: D - 1 and D.
    assert scores.grad.tolist() == pytest.approx([-1 / 4, 3 / 4, 1 / 5])


def test_the_best_discriminator_compares_how_often_both_act_so():
    """The maximum of (14) is at D = ρ_π / (ρ_π + ρ_E), where the loss has no gradient."""
    policy, expert = torch.tensor([0.7, 0.3]), torch.tensor([0.2, 0.8])
    scores = (policy / expert).log().requires_grad_()
    by_policy = discrimination(scores, torch.tensor([True, True]))
    others = discrimination(scores, torch.tensor([False, False]))
    loss = (policy * by_policy + expert * others).sum()
    loss.backward()
    assert scores.grad.abs().max() < 1e-6
    # By hand: its value is 2 log 2 less the two divergences from the mean of both.
    middle = (policy + expert) / 2
    divergence = (policy * (policy / middle).log() + expert * (expert / middle).log()).sum()
    assert loss.item() == pytest.approx(2 * math.log(2) - divergence.item())


def test_rewards_are_large_for_what_demonstrators_do():
    # By hand: D = 1/2, 3/4, 1/5.
    scores = torch.tensor([0.0, math.log(3), -math.log(4)])
    assert reward_of(scores, "paper").tolist() == pytest.approx([math.log(2), math.log(4 / 3), math.log(5)])
    assert reward_of(scores, "logit").tolist() == pytest.approx([0.0, -math.log(3), math.log(4)])


def test_a_turn_without_an_action_earns_nothing_and_is_not_learned_from():
    turns = [
        Turn(Observation(text, ("a", "b"), state), (0, 1), None, Decision(index, "p"), -7.0)
        for text, state, index in [("x", "1", 1), ("y", "2", NO_ACTION), ("z", "3", 0)]
    ]
    episode = Episode(Task("t"), tuple(turns), True, False, False, 0, "toy-v1")
    assert [turn.reward for turn in with_rewards([episode], [2.0, 3.0])[0].turns] == [2.0, 0.0, 3.0]
    assert [(view.observation.text, index) for view, index in acts_of([episode], frozenset({"3"}))] == [("x", 1)]


@pytest.mark.parametrize("seed", [0, 1])
def test_it_learns_from_demonstrations_and_nothing_from_random_ones(demonstrations, random_log, seed):
    won = [
        success_of(train_offline(agent(), log, learner=learner(), seed=seed, **SETTINGS))
        for log in (demonstrations, of_right(random_log))
    ]
    assert won[0] >= 0.75
    assert won[1] < 0.6


def test_the_game_s_rewards_and_verdicts_are_never_used(demonstrations, monkeypatch):
    trained = [train_offline(agent(), demonstrations, learner=learner(300), **SETTINGS)]
    play = online.play

    def unpaid(*args, **options):
        return [
            replace(e, turns=tuple(replace(t, reward=float(k)) for k, t in enumerate(e.turns)), success=False)
            for e in play(*args, **options)
        ]

    monkeypatch.setattr(online, "play", unpaid)
    log = offline_toy.shuffled(demonstrations)
    trained.append(train_offline(agent(), log, learner=learner(300), **SETTINGS))
    assert trained[0].model.hash() == trained[1].model.hash() != agent().model.hash()


def test_an_interruption_changes_nothing(demonstrations, tmp_path: Path):
    calls: list[int] = []

    def stops(*_: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise StoppedError

    settings = {"learner": learner(480), **SETTINGS}
    whole = train_offline(agent(), demonstrations, **settings)
    with pytest.raises(StoppedError):
        train_offline(agent(), demonstrations, out=tmp_path, progress=stops, **settings)
    resumed = train_offline(agent(), demonstrations, out=tmp_path, **settings)
    assert resumed.model.hash() == whole.model.hash()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {"discriminator/loss", "discriminator/accuracy", "reward/learned_return"} <= rows[-1].keys()
    assert train_offline(agent(), demonstrations, seed=1, **settings).model.hash() != whole.model.hash()


def test_nothing_to_imitate_is_named():
    with pytest.raises(UserError, match="gail: there is no demonstration"):
        train_offline(agent(), [], learner=learner(40), **SETTINGS)
