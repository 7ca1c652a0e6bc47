"""The loop of all learners: seeds, interruptions, weights of examples, and bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import reflect_rl as rrl
from offline_toy import StoppedError, agent, stops_at
from reflect_algorithms import train_offline
from reflect_algorithms.learners.cloning import Cloning, Imitation
from reflect_algorithms.learners.gail import GAIL
from reflect_algorithms.learners.morel import MOReL
from reflect_algorithms.learners.rvs import RvS
from reflect_algorithms.log import turns_of
from reflect_algorithms.preferences.rlhf import RLHF
from reflect_algorithms.settings import RvSConfig
from reflect_algorithms.training import Training, draw_examples, frozen_scores, settings_of
from reflect_rl import registry
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import ConfigError, RunFolderError, TrainingError, UserError
from toy import SMALL, SPEC, rlft

SETTINGS = {"env": SPEC, "steps": 9, "batch_size": 8, "save_steps": 3}


def test_the_same_seed_gives_the_same_weights_and_another_one_others(mixed_log):
    hashes = [train_offline(agent(), mixed_log, seed=seed, **SETTINGS).model.hash() for seed in (0, 0, 1)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_model_that_went_in_stays_as_it_is(mixed_log):
    start = agent()
    before = start.model.hash()
    assert train_offline(start, mixed_log, **SETTINGS).model.hash() != before
    assert start.model.hash() == before


@pytest.mark.parametrize("step", [1, 3, 5, 8])
def test_an_interrupted_training_goes_on_to_the_same_weights_and_metrics(mixed_log, tmp_path: Path, step):
    whole = train_offline(agent(), mixed_log, out=tmp_path / "whole", **SETTINGS)
    with pytest.raises(StoppedError):
        train_offline(agent(), mixed_log, out=tmp_path / "cut", progress=stops_at(step), **SETTINGS)
    resumed = train_offline(agent(), mixed_log, out=tmp_path / "cut", **SETTINGS)
    assert resumed.model.hash() == whole.model.hash()
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


def test_an_interrupted_training_does_not_go_on_under_another_rule(mixed_log, tmp_path: Path):
    with pytest.raises(StoppedError):
        train_offline(agent(), mixed_log, out=tmp_path, progress=stops_at(5), **SETTINGS)
    with pytest.raises(RunFolderError, match="other settings: scoring is 'choice_token' there and 'sum' here"):
        train_offline(replace(agent(), scoring="sum"), mixed_log, out=tmp_path, **SETTINGS)


def test_tasks_of_a_learners_own_curriculum_are_noted(mixed_log, tmp_path: Path):
    near = EnvSpec.of(SPEC.env_class, **SMALL.model_dump() | {"modes": ["near"]})
    for learner, modes in (("bc", {"near"}), (GAIL(rlft=rlft()), {"near", "far"})):
        folder = tmp_path / str(len(modes))
        with pytest.raises(StoppedError):
            train_offline(agent(), mixed_log, learner=learner, out=folder, progress=stops, **SETTINGS | {"env": near})
        noted = json.loads((folder / "settings.json").read_text())["tasks"]
        assert {part.split("/")[0] for part in noted} == modes


def stops(done: int, total: int, note: str) -> None:
    raise StoppedError


def test_a_finished_folder_is_used_again_with_other_settings(mixed_log, tmp_path: Path):
    train_offline(agent(), mixed_log, out=tmp_path / "used", **SETTINGS)
    for folder in ("used", "fresh"):
        train_offline(agent(), mixed_log, learner="rvs", out=tmp_path / folder, **SETTINGS | {"steps": 6})
    used, fresh = (load_file(tmp_path / folder / "model" / "model.safetensors") for folder in ("used", "fresh"))
    assert all(torch.equal(used[name], weight) for name, weight in fresh.items())
    assert losses(tmp_path / "used") == losses(tmp_path / "fresh")


@dataclass
class Plain(Cloning):
    """Behaviour cloning with settings that are no configuration."""

    rate: float = 1.0
    levels: tuple[object, ...] = ("low", None)
    helper: object = field(default_factory=object)


@dataclass(slots=True, weakref_slot=True)
class Slotted:
    """Behaviour cloning without a `__dict__`."""

    rate: float = 1.0
    config: RvSConfig = field(default_factory=RvSConfig)

    def train(self, training: Training) -> None:
        Cloning().train(training)


def test_settings_are_configurations_and_plain_values():
    assert settings_of(Plain()) == [f"{__name__}.Plain", "levels ('low', None)", "rate 1.0"]
    # Equal learners have equal settings, whatever objects they carry.
    assert settings_of(Plain()) == settings_of(Plain()) != settings_of(Plain(levels=("low", 1)))
    config = RvSConfig().model_dump_json()
    assert settings_of(Slotted(2.0)) == [f"{__name__}.Slotted", f"config {config}", "rate 2.0"]
    assert settings_of(RvS())[:2] == ["reflect_algorithms.learners.rvs.RvS", f"config {config}"]


@pytest.mark.parametrize("learner", [Plain, Slotted])
def test_an_interrupted_training_does_not_go_on_with_another_plain_setting(mixed_log, tmp_path: Path, learner):
    with pytest.raises(StoppedError):
        train_offline(agent(), mixed_log, learner=learner(), out=tmp_path, progress=stops_at(5), **SETTINGS)
    with pytest.raises(RunFolderError, match=r"other settings: learner is .*rate 1\.0.* there and .*rate 2\.0.* here"):
        train_offline(agent(), mixed_log, learner=learner(rate=2.0), out=tmp_path, **SETTINGS)


def losses(folder: Path):
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    return [(row.split('"loss": ')[1].split(",")[0]) for row in rows]


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path):
    script = Path(__file__).parent / "killed_offline.py"
    done = subprocess.run([sys.executable, script, tmp_path], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split().count("killed") >= 2
    whole, *others = sorted(tmp_path.glob("*/model/model.safetensors"))
    assert len(others) >= 2
    for other in others:
        assert all(torch.equal(load_file(other)[name], weight) for name, weight in load_file(whole).items())


def test_examples_are_drawn_by_their_weights():
    objective = Imitation([None] * 3, torch.zeros(3))
    assert sorted(draw_examples(objective, 0, 3)) == [0, 1, 2]
    assert draw_examples(objective, 0, 7)[:3] == draw_examples(objective, 0, 3)
    objective.weights = [1.0, 0.0, 3.0]
    drawn = draw_examples(objective, 0, 4000)
    assert 1 not in drawn
    assert drawn.count(2) / 4000 == pytest.approx(0.75, abs=0.03)


def test_frozen_scores_are_those_of_the_player(mixed_log):
    player = agent()
    views = turns_of(mixed_log).views[:600]
    found = frozen_scores(player.model, player.labels, views, "choice_token")
    row = player.policy()._log_probs([views[-1]])[0]
    assert found.log_probs[-1][: len(row)].tolist() == pytest.approx(row, abs=1e-5)
    assert found.log_probs[-1][len(row) :].isneginf().all()


def test_mistakes_are_named(mixed_log):
    with pytest.raises(ConfigError, match="stepz"):
        train_offline(agent(), mixed_log, env=SPEC, stepz=3)
    with pytest.raises(UserError, match="the method 'sft' learns from no log"):
        train_offline(agent(), mixed_log, env=SPEC, learner="sft")
    tests = rrl.collect(SPEC, "random", episodes=2, split="test")
    with pytest.raises(UserError, match="none of the 2 episodes is of a training task"):
        train_offline(agent(), tests, env=SPEC)
    taxi = rrl.collect("dangerous_taxi", "random", episodes=2)
    with pytest.raises(UserError, match="an episode is of the environment 'dangerous_taxi-v1', and 'corridor-v1' is"):
        train_offline(agent(), [*mixed_log, *taxi], env=SPEC)


def test_what_was_trained_without_reflections_plays_without(mixed_log):
    asked = train_offline(agent(), mixed_log, learner="rvs", **SETTINGS)
    assert asked.reflector.name == "asked_outcome"
    cloned = train_offline(asked, mixed_log, learner="bc", **SETTINGS)
    assert cloned.reflector.name == "none"


@pytest.mark.parametrize("learner", [GAIL, MOReL, RLHF])
def test_learners_that_play_need_no_settings(learner):
    config = learner().rlft
    assert registry.find("curricula", config.curriculum.name)(config.curriculum, ("near", "far")).stage(0) == ("far",)


def test_an_exploding_step_is_refused(mixed_log):
    with pytest.raises(TrainingError, match=r"the loss is .* at step 1, .* Lower learning_rate"):
        train_offline(agent(), mixed_log, env=SPEC, steps=2, stop_grad_norm=1e-9)
