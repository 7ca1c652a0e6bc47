"""Every learner that reads outcomes learns to walk right from random walks, and nothing from shuffled outcomes."""

from __future__ import annotations

import pytest

from offline_toy import agent, shuffled, success_of
from reflect_algorithms import train_offline
from reflect_algorithms.learners.a_lol import ALoL
from reflect_algorithms.learners.rvs import RvS
from reflect_algorithms.settings import ALoLConfig, RvSConfig
from toy import SPEC

LEARNED = 0.65
"""Share of games that a learner wins, drawing its actions. From true outcomes it is 0.83 and more, from shuffled ones
half at most, with some difference between processors."""
SETTINGS = {"env": SPEC, "steps": 150, "batch_size": 32, "learning_rate": 1e-2}

LEARNERS = {
    "filtered_bc": "filtered_bc",
    "rvs-success": RvS(),
    "rvs-return": RvS(RvSConfig(condition="return")),
    "a_lol-turn": ALoL(),
    "a_lol-sequence": ALoL(ALoLConfig(variant="sequence")),
    "a_lol-per-turn": ALoL(ALoLConfig(variant="per_turn")),
    "a_lol-reference-free": ALoL(ALoLConfig(variant="reference_free")),
    "a_lol-kl": ALoL(ALoLConfig(variant="kl")),
    "a_lol-behaviour": ALoL(ALoLConfig(reference="behaviour", priority_sampling=False)),
}
each_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)


@each_learner
def test_it_learns_from_random_walks(random_log, learner):
    assert success_of(agent()) < 0.5
    assert success_of(train_offline(agent(), random_log, learner=learner, **SETTINGS)) >= LEARNED


@each_learner
def test_it_learns_nothing_from_shuffled_outcomes(random_log, learner):
    assert success_of(train_offline(agent(), shuffled(random_log), learner=learner, **SETTINGS)) < LEARNED


def test_rvs_does_what_it_is_asked_for(random_log):
    lowest = RvS(RvSConfig(condition="return", asked_level=0))
    assert success_of(train_offline(agent(), random_log, learner=lowest, **SETTINGS)) < 0.2


def test_dagger_learns_from_the_solver_alone():
    assert success_of(train_offline(agent(), [], learner="dagger", **SETTINGS)) >= 0.95


def test_cloning_is_as_good_as_the_log(random_log, mixed_log):
    won = [success_of(train_offline(agent(), log, learner="bc", **SETTINGS)) for log in (random_log, mixed_log)]
    assert won[0] < 0.5 < won[1]
