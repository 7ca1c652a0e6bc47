"""Every method that learns from preferences learns to walk right from them, and nothing from shuffled ones."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

import preferences_toy
from offline_toy import StoppedError, agent, stops_at, success_of
from reflect_algorithms.comparisons import Comparison
from reflect_algorithms.heads import ActionHead
from reflect_algorithms.players import AskedOutcome
from reflect_algorithms.preferences.api import learn_reward, train_on_preferences
from reflect_algorithms.preferences.dpo import DPO
from reflect_algorithms.preferences.reward_model import RewardModel
from reflect_algorithms.preferences.rlhf import RLHF, PPOMax
from reflect_algorithms.preferences.rrhf import RRHF
from reflect_algorithms.preferences.settings import DPOConfig, RewardConfig, RLHFConfig, RRHFConfig
from reflect_rl.errors import RunFolderError
from toy import SPEC, rlft, tiny_player

LEARNED = 0.7
"""Share of games that a learner wins, drawing its actions; nobody who has learned nothing wins 0.6."""
SETTINGS = {"env": SPEC, "steps": 100, "batch_size": 16, "learning_rate": 1e-2}
ONLINE = {"total_turns": 1200, "starts_per_update": 8, "episodes_per_start": 4, "learning_rate": 3e-3}
ANSWERS = {"right": list, "shuffled": preferences_toy.shuffled, "reversed": preferences_toy.reversed_}
LEARNERS = {"dpo": DPO(DPOConfig(beta=0.3)), "rrhf": RRHF(RRHFConfig(imitation_coef=0.3))}

each_kind = pytest.mark.parametrize("compare", ["episodes", "actions"])


@cache
def pairs(compare: str, answers: str) -> list[Comparison]:
    found = preferences_toy.comparisons(compare, 40 if compare == "actions" else 6)
    return ANSWERS[answers](found)


@cache
def reward(compare: str, answers: str) -> RewardModel:
    return learn_reward(agent(), pairs(compare, answers), **SETTINGS)


@each_kind
@pytest.mark.parametrize("name", LEARNERS)
def test_it_learns_from_pairs_and_nothing_from_shuffled_ones(name, compare):
    won = [
        success_of(train_on_preferences(agent(), pairs(compare, answers), learner=LEARNERS[name], **SETTINGS))
        for answers in ("right", "shuffled")
    ]
    assert won[0] >= LEARNED
    assert won[1] < 0.6


@pytest.mark.parametrize(("kind", "compare"), [(RLHF, "episodes"), (RLHF, "actions"), (PPOMax, "episodes")])
def test_online_rl_does_what_the_learned_reward_says(kind, compare):
    # Reversed, not shuffled: a reward is scaled to its own deviation, so RL would learn what the noise in it says.
    settings = RLHFConfig(kl_coef=0.01), rlft(**ONLINE, algorithm={"name": "ppo"})
    won = [
        success_of(train_on_preferences(agent(), env=SPEC, learner=kind(*settings, reward(compare, answers))))
        for answers in ("right", "reversed")
    ]
    assert won[0] >= LEARNED
    assert won[1] < 0.4


@each_kind
def test_the_reward_model_ranks_held_out_starts(compare, tmp_path: Path):
    learn_reward(agent(), pairs(compare, "right"), out=tmp_path, **SETTINGS)
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["pairs"] + card["held_out_pairs"] == len(pairs(compare, "right"))
    assert card["pair_accuracy"] >= 0.75
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["held_out/pair_accuracy"] == card["pair_accuracy"]
    learn_reward(agent(), pairs(compare, "shuffled"), out=tmp_path / "shuffled", **SETTINGS)
    # By hand: each pair is there with both answers, so any scores rank half of the answers right.
    assert json.loads((tmp_path / "shuffled" / "card.json").read_text())["pair_accuracy"] == 0.5


def test_a_folder_with_a_training_of_other_settings_is_refused(tmp_path: Path):
    few = SETTINGS | {"steps": 2, "comparisons": pairs("actions", "right")}
    policy, reward_model = few | {"out": tmp_path / "policy"}, few | {"out": tmp_path / "reward"}
    for train, arguments in ((train_on_preferences, policy), (learn_reward, reward_model)):
        with pytest.raises(StoppedError):
            train(agent(), progress=stops_at(1), **arguments)
        with pytest.raises(RunFolderError, match="other settings: scoring is 'choice_token' there and 'sum' here"):
            train(replace(agent(), scoring="sum"), **arguments)
    for change in ({"learner": RRHF()}, {"seed": 1}, {"comparisons": pairs("actions", "shuffled")}):
        with pytest.raises(RunFolderError, match="holds a training with other settings"):
            train_on_preferences(agent(), **policy | change)
    with pytest.raises(RunFolderError, match="holds a training with other settings"):
        learn_reward(agent(), config=RewardConfig(imitation_coef=0.5), **reward_model)


def test_an_interrupted_training_does_not_go_on_with_another_reward_model(tmp_path: Path):
    model, labels = tiny_player()
    first = RewardModel(model, labels, ActionHead(16, 3))
    trained = ActionHead(16, 3)
    torch.nn.init.ones_(trained.layer.bias)

    def stops(done: int, total: int, note: str) -> None:
        raise StoppedError

    def train(reward: RewardModel, **arguments) -> None:
        train_on_preferences(agent(), env=SPEC, learner=RLHF(rlft=rlft(), reward=reward), out=tmp_path, **arguments)

    with pytest.raises(StoppedError):
        train(first, progress=stops)
    for other in (replace(first, scale=2.0), replace(first, head=trained), replace(first, model=tiny_player(1)[0])):
        with pytest.raises(RunFolderError, match="holds a training with other settings"):
            train(other)
    train(replace(first))


def test_what_was_trained_without_reflections_plays_without():
    few = SETTINGS | {"steps": 2, "comparisons": pairs("actions", "right")}
    asks = replace(agent(), reflector=AskedOutcome("Asked: win."))
    assert train_on_preferences(asks, **few).reflector.name == "none"


def test_a_finished_folder_is_used_again_with_other_settings(tmp_path: Path):
    few = SETTINGS | {"steps": 2, "comparisons": pairs("actions", "right"), "out": tmp_path}
    train_on_preferences(agent(), **few)
    again = train_on_preferences(agent(), learner=RRHF(), **few).model.hash()
    assert again == train_on_preferences(agent(), learner=RRHF(), **few | {"out": None}).model.hash()
    learn_reward(agent(), **few)
