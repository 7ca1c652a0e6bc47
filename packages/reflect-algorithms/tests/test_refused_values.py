"""Mistakes in calls of this package: each costs one sentence, before anything is trained or written."""

from __future__ import annotations

import pytest

import offline_toy
import preferences_toy
from reflect_algorithms import train_offline
from reflect_algorithms.online import train_online
from reflect_algorithms.preferences.api import learn_reward, train_on_preferences
from reflect_algorithms.settings import LearnerSteps
from reflect_algorithms.training import Training
from reflect_rl.agent import Agent
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import ModelError, UserError
from reflect_rl.models import fits
from toy import SMALL, SPEC, rlft, tiny_player


def offline(model, **given):
    return train_offline(model, offline_toy.log("random", 1), env=SPEC, steps=1, **given)


def preferred(model, **given):
    return train_on_preferences(model, preferences_toy.comparisons("episodes", 2), env=SPEC, steps=1, **given)


def rewarded(model, **given):
    return learn_reward(model, preferences_toy.comparisons("episodes", 2), env=SPEC, steps=1, **given)


each_training = pytest.mark.parametrize("train", [offline, preferred, rewarded])


@each_training
@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"seed": 1.5}, "seed = 1.5 is no whole number"),
        ({"progress": 0.5}, r"progress is 0\.5, which is no function"),
        ({"out": 5}, "the folder 5 is no path"),
        ({"out": ""}, "the path is empty"),
    ],
)
def test_values_that_would_fail_later_are_refused(train, given, what):
    with pytest.raises(UserError, match=what):
        train(offline_toy.agent(), **given)


@each_training
def test_a_name_is_no_model_and_nobody_needs_progress(train):
    with pytest.raises(UserError, match=r"'embedded' is no model"):
        train("embedded")
    assert train(offline_toy.agent(), progress=None) is not None


@each_training
def test_a_training_that_does_not_fit_is_refused_before_anything_is_written(train, tmp_path, monkeypatch):
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10)
    with pytest.raises(ModelError, match=r"training 'embedded' needs about"):
        train(offline_toy.agent(), out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_is_no_list_of_episodes():
    with pytest.raises(UserError, match=r"episodes is 'log\.jsonl'\. Read the file first"):
        train_offline(offline_toy.agent(), "log.jsonl", env=SPEC)


def test_a_model_that_was_trained_on_pairs_knows_its_labels():
    trained = preferred(Agent(*tiny_player()))
    assert (trained.model.rule, trained.model.labels) == ("choice_token", trained.labels.texts)


def test_a_learned_reward_is_not_paid_in_games_cut_short_that_show_their_end(tmp_path):
    spec = EnvSpec(type("Shown", (Corridor,), {"fixed_horizon": True}), SMALL)
    model, labels = tiny_player()
    training = Training(
        model, labels, lambda: model, spec, (), (), LearnerSteps(), tmp_path / "out", 0, lambda *_: None
    )
    with pytest.raises(UserError, match=r"max_episode_steps is 3, and shown shows how many of its 6 turns"):
        train_online(training, rlft(max_episode_steps=3, total_turns=1))
    assert not list(tmp_path.iterdir())
