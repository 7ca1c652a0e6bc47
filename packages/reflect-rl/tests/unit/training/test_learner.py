"""Turns that cannot change a weight are left out of the computation, and out of nothing else."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from reflect_rl.algorithms import Outputs
from reflect_rl.models import network, prefixes, score as score_module
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.rollout import NoReflector, Request, play
from reflect_rl.training.distributed import Engine
from reflect_rl.training.learner import Learner, kl_to_behaviour
from toy import SPEC, rlft, tiny_player, training_tasks


@pytest.fixture(scope="module")
def episodes():
    """Two of each task: some tasks lost twice, some won once."""
    model, labels = tiny_player(seed=5)
    requests = [Request(task, seed) for seed, task in enumerate(training_tasks()[:8] * 2)]
    played = play(SPEC, requests, NoReflector(), LanguageModelPolicy(model, labels))
    assert 0 < sum(episode.success for episode in played) < len(played)
    return played


def learner(computed, monkeypatch, everything=False, **changes):
    """One whose learning rate is zero, so that the gradient of its one step stays; turns computed go to `computed`."""
    model, labels = tiny_player(seed=3)
    model.model.requires_grad_(True)
    settings = {"minibatch_turns": 1000, "max_grad_norm": 1e9, **changes}
    made = Learner(model, labels, rlft(**settings), 0, Engine(model.device))
    score = made._outputs
    monkeypatch.setattr(made, "_outputs", lambda views, prompts: computed.extend(views) or score(views, prompts))
    if everything:
        monkeypatch.setattr(made, "_only_advantages_move", lambda: False)
    return made


PLAIN = [
    {"name": "raft"},
    {"name": "grpo", "epochs": 1, "entropy_coef": 0.0},
    {"name": "gigpo", "epochs": 1, "entropy_coef": 0.0},
    {"name": "reinforce", "entropy_coef": 0.0},
    {"name": "rloo", "entropy_coef": 0.0},
]


@pytest.mark.parametrize("algorithm", PLAIN, ids=lambda algorithm: algorithm["name"])
def test_the_gradient_is_the_one_of_all_turns(episodes, monkeypatch, algorithm):
    few, all_turns = [], []
    short = learner(few, monkeypatch, algorithm=algorithm)
    whole = learner(all_turns, monkeypatch, everything=True, algorithm=algorithm)
    metrics, others = (made.learn(*made.batch_of(episodes), 0, 0.0) for made in (short, whole))
    assert len(all_turns) == sum(len(episode.turns) for episode in episodes)
    assert len(few) < len(all_turns)
    assert metrics["policy/moving_share"] == others["policy/moving_share"] == len(few) / len(all_turns)
    assert metrics["policy/gradient_norm"] == pytest.approx(others["policy/gradient_norm"], rel=1e-4)
    pairs = zip(short.model.model.parameters(), whole.model.model.parameters(), strict=True)
    largest = max(float(parameter.grad.abs().max()) for parameter in whole.model.model.parameters())
    assert largest > 1e-4
    for mine, other in pairs:
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5 * largest)


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "grpo", "epochs": 1},
        {"name": "raft", "entropy_coef": 0.01},
        {"name": "reinforce", "entropy_coef": 0.0, "baseline": "value"},
        {"name": "expected", "epochs": 1, "entropy_coef": 0.0},
    ],
    ids=["entropy bonus", "entropy bonus with raft", "critic of states", "critic of actions"],
)
def test_a_regulariser_or_a_critic_needs_every_turn(episodes, monkeypatch, algorithm):
    computed = []
    made = learner(computed, monkeypatch, algorithm=algorithm)
    made.learn(*made.batch_of(episodes), 0, 0.0)
    assert len(computed) == sum(len(episode.turns) for episode in episodes)


def test_an_update_in_which_nothing_was_won_changes_nothing(episodes, monkeypatch):
    computed = []
    made = learner(computed, monkeypatch, algorithm={"name": "raft"})
    before = made.model.hash()
    lost = [episode for episode in episodes if not episode.success]
    metrics = made.learn(*made.batch_of(lost), 0, 1.0)
    assert metrics == {
        "policy/unique_prompts": metrics["policy/unique_prompts"],
        "policy/moving_share": 0.0,
        "policy/steps": 0,
    }
    assert made.model.hash() == before
    assert not computed


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5])
def test_the_distance_to_the_behaviour_is_never_negative(episodes, ratio):
    model, labels = tiny_player(seed=5)
    made = Learner(model, labels, rlft(), 0, Engine(model.device))
    _, batch = made.batch_of(episodes[:1])
    # π(a) = 1/2 of every chosen action.
    outputs = Outputs(torch.full((len(batch.actions), 3), math.log(0.5)))
    far = replace(batch, behaviour_log_probs=torch.full((len(batch.actions),), math.log(0.5 / ratio)))
    assert kl_to_behaviour(far, outputs) == pytest.approx(ratio - 1 - math.log(ratio), abs=1e-6)


NAMES = ("ppo", "grpo", "gigpo", "raft", "reinforce", "rloo", "expected", "own_algorithms:Own")
ALL = [{"name": name} for name in NAMES]


@pytest.mark.parametrize("algorithm", ALL, ids=lambda algorithm: algorithm["name"])
def test_an_update_ends_where_the_policy_has_gone_too_far(episodes, algorithm):
    """Each minibatch after the first sees how far the steps before it have gone."""
    found = {}
    for limit in (None, 1e-6, 1e6):
        model, labels = tiny_player(seed=5)
        model.model.requires_grad_(True)
        config = rlft(algorithm=algorithm, minibatch_turns=8, target_kl=limit)
        made = Learner(model, labels, config, 0, Engine(model.device))
        found[limit] = made.learn(*made.batch_of(episodes), 0, 1e-2)
        found[limit]["hash"] = model.hash()
    assert found[None] == found[1e6]
    assert found[None]["policy/kl_to_behaviour"] > 1e-6
    assert found[None]["policy/steps"] >= 3
    assert 1 <= found[1e-6]["policy/steps"] < found[None]["policy/steps"]
    assert len({row["hash"] for row in found.values()}) == 2


def test_an_update_makes_one_step_even_if_the_turns_were_played_by_another_policy(episodes):
    """Replayed turns are further than the limit from the policy before any step."""
    model, labels = tiny_player(seed=5)
    model.model.requires_grad_(True)
    made = Learner(model, labels, rlft(minibatch_turns=8, target_kl=1e-6), 0, Engine(model.device))
    views, batch = made.batch_of(episodes[:2], episodes[2:])
    far = replace(batch, behaviour_log_probs=batch.behaviour_log_probs - 1)
    metrics = made.learn(views, far, 0, 1e-3)
    assert metrics["policy/kl_to_behaviour"] > 1e-6
    assert metrics["policy/steps"] == 1


@pytest.mark.parametrize("rule", ["choice_token", "sum"])
@pytest.mark.parametrize("is_wide", [False, True])
def test_each_part_of_a_minibatch_is_one_pass_whatever_its_rows_need(episodes, monkeypatch, rule, is_wide):
    """Processes wait for each other in every pass, so a part with two of them would stop a launch of several."""
    if is_wide:
        monkeypatch.setattr(network, "REUSE_WIDTH", 1)
        monkeypatch.setattr(score_module, "REUSE_TOKENS", 1)
    # Rows of so few tokens that most states need several.
    monkeypatch.setattr(prefixes, "ROW_TOKENS", 12)
    model, labels = tiny_player(seed=3)
    model.model.requires_grad_(True)
    algorithm = {"name": "grpo", "epochs": 1, "entropy_coef": 0.0}
    settings = {"minibatch_turns": 1000, "micro_batch_tokens": 60, "algorithm": algorithm}
    made = Learner(model, labels, rlft(**settings), 0, Engine(model.device), rule=rule)
    passes, parts = [], []
    read, outputs = score_module.read, made._outputs
    monkeypatch.setattr(score_module, "read", lambda *given: passes.append(1) or read(*given))

    def counted(views, prompts):
        before = len(passes)
        result = outputs(views, prompts)
        parts.append(len(passes) - before)
        return result

    monkeypatch.setattr(made, "_outputs", counted)
    made.learn(*made.batch_of(episodes), 0, 0.0)
    assert len(parts) > 1
    assert set(parts) == {1}


def test_turns_that_begin_alike_share_a_minibatch_and_each_is_in_one(episodes, monkeypatch):
    made = learner([], monkeypatch, minibatch_turns=12, turns_together=4, algorithm={"name": "ppo", "epochs": 3})
    views, _ = made.batch_of(episodes)
    order = list(dict.fromkeys(views))
    place = {view: number for number, view in enumerate(order)}
    parts = list(made.minibatches(views, order, 0))
    assert parts == list(made.minibatches(views, order, 0)) != list(made.minibatches(views, order, 1))
    assert sorted(turn for part in parts for turn in part) == sorted(list(range(len(views))) * 3)
    drawn = [place[view] for part in parts for view in dict.fromkeys(views[turn] for turn in part)]
    neighbours = sum(after == before + 1 for before, after in pairwise(drawn))
    # Of four in a row three follow one.
    assert neighbours >= 0.6 * len(drawn)
    assert drawn != sorted(drawn)


def test_less_is_read_where_turns_that_begin_alike_are_together(episodes, monkeypatch):
    monkeypatch.setattr(score_module, "REUSE_TOKENS", 1)
    tokens = []
    algorithm = {"name": "grpo", "epochs": 1, "entropy_coef": 0.0}
    for together in (1, 1000):
        made, read = learner([], monkeypatch, minibatch_turns=6, turns_together=together, algorithm=algorithm), []
        made.model.model.get_input_embeddings().register_forward_pre_hook(
            lambda _, words, read=read: read.append(words[0].numel())
        )
        made.learn(*made.batch_of(episodes), 0, 0.0)
        tokens.append(sum(read))
    assert tokens[1] < 0.9 * tokens[0]
