"""Mistakes in calls of the Python API: each costs one sentence, before anything is trained or written."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import reflect_rl as rrl
from own_algorithms import (
    ByReturns,
    DetachedLoss,
    HalfAnEpoch,
    LongRows,
    NoEpochs,
    NoNumber,
    OddCritic,
    Own,
    PlainLoss,
    PlainRows,
    TensorMetric,
    VectorLoss,
)
from reflect_rl.agent import Agent
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import (
    ConfigError,
    FaultyEnvironmentError,
    ModelError,
    RunFolderError,
    TrainingError,
    UnknownNameError,
    UserError,
)
from reflect_rl.models import fits
from reflect_rl.training.metrics import STARTS
from tiny_models import save_tiny

SHAPE = {"hidden_size": 16, "layers": 1, "heads": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def episodes():
    return rrl.collect("corridor", "oracle", episodes=4)


def model():
    return rrl.load_model("embedded", **SHAPE)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"seed": 1.5}, "seed = 1.5 is no whole number"),
        ({"seed": -1}, "seed = -1 is too small. The lowest value is 0"),
        ({"seed": None}, "seed = None is no whole number"),
        ({"seed": True}, "seed = True is no whole number"),
        ({"progress": 5}, "progress is 5, which is no function"),
        ({"renumbered_copies": 1.5}, "renumbered_copies = 1.5 is no whole number"),
        ({"renumbered_copies": -1}, "The lowest value is 0"),
        ({"reflections": "no"}, "reflections is 'no'. Give True or False"),
        ({"out": 5}, "the folder 5 is no path"),
    ],
)
def test_supervised_training_refuses_values_that_would_fail_later(given, what, episodes):
    with pytest.raises(UserError, match=what):
        rrl.train_sft(model(), episodes, **given)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"seed": "1"}, "seed = '1' is no whole number"),
        ({"seed": -1}, "seed = -1 is too small. The lowest value is 0"),
        ({"progress": 0.5}, "For a reward of progress give progress_reward=0.5"),
        ({"total_turns": 5}, "total_turns is set by turns= here"),
        ({"turns": 0}, "turns: 0 is too small"),
    ],
)
def test_online_rl_refuses_values_that_would_fail_later(given, what):
    with pytest.raises((UserError, ConfigError), match=what):
        rrl.train_rl(model(), "corridor", **given)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (
            {"clip_ratio": 0.3},
            r"clip_ratio is a setting of the algorithm: algorithm={'name': 'ppo', 'clip_ratio': 0.3}\.",
        ),
        (
            {"algorithm": {"name": "ppo", "epochs": 2}, "clip_ratio": 0.3, "gae_lambda": 0.9},
            r"clip_ratio, gae_lambda are settings of the algorithm: algorithm={'name': 'ppo', 'epochs': 2, 'clip",
        ),
        ({"algorithm": Own, "clip_ratio": 0.3}, r"unknown key 'clip_ratio'"),
        ({"squash": 1.5}, r"unknown key 'squash'"),
    ],
)
def test_settings_of_an_algorithm_stand_in_its_table(given, what):
    with pytest.raises(ConfigError, match=what):
        rrl.train_rl(model(), "corridor", **given)


def test_progress_is_rewarded_when_it_is_asked_for(tmp_path):
    tiny = {"turns": 16, "starts_per_update": 2, "episodes_per_start": 2, "validate_every": 0, "num_envs": 4}
    rrl.train_rl(model(), "corridor", progress_reward=0.5, out=tmp_path, **tiny)
    # Another reward is another training.
    with pytest.raises(RunFolderError, match="progress"):
        rrl.train_rl(model(), "corridor", out=tmp_path, **tiny)
    # Batches of another size round otherwise, so the weights would be others.
    with pytest.raises(RunFolderError, match="num_envs"):
        rrl.train_rl(model(), "corridor", progress_reward=0.5, out=tmp_path, **tiny | {"num_envs": 2})


def test_a_training_that_does_not_fit_is_refused_before_anything_is_played_or_written(tmp_path, monkeypatch, episodes):
    class Writer:
        name, sees_oracle = "writer", False

        def reflect(self, views):
            raise AssertionError("it writes")

    def plays(*_, **__):
        raise AssertionError("it plays")

    loaded = rrl.load_model(save_tiny("llama", tmp_path / "model"), device="cpu")
    agent = replace(Agent.of(loaded, 3), reflector=Writer())
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10**6)
    monkeypatch.setattr("reflect_rl.api.play", plays)
    monkeypatch.setattr("reflect_rl.api.OnlineTrainer", plays)
    out = tmp_path / "out"
    for call in (
        lambda: rrl.train_sft(agent, episodes, out=out),
        lambda: rrl.train_sft(loaded, episodes, env="corridor", out=out),
        lambda: rrl.warm_up(loaded, "corridor", policy="random", out=out),
        lambda: rrl.train_rl(agent, "corridor", out=out),
    ):
        with pytest.raises(ModelError, match=r"needs about 0\.3 GB .* cpu has 0\.0 GB free\. With model\."):
            call()
    with pytest.raises(ModelError, match="training 'embedded' needs about"):
        rrl.train_rl(rrl.load_model("embedded", texts=["You are at 1."], **SHAPE), "corridor")
    # Online, passes can be made smaller, so their size is what is asked about.
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10**8)
    with pytest.raises(AssertionError, match="it plays"):
        rrl.train_rl(loaded, "corridor", micro_batch_tokens=1000, out=out)
    assert not out.exists() or not [*out.rglob("metrics.jsonl")]


@pytest.mark.parametrize("given", ["embedded", None, 3])
def test_a_model_is_loaded_first(given, episodes):
    with pytest.raises(UserError, match=r"is no model. Load one first: reflect_rl.load_model\('embedded'\)"):
        rrl.train_sft(given, episodes)
    with pytest.raises(UserError, match="is no model"):
        rrl.train_rl(given, "corridor")


def test_a_model_without_words_cannot_play():
    with pytest.raises(UserError, match="has no words yet"):
        rrl.collect("corridor", model())


@pytest.mark.parametrize("given", ["games.jsonl", None, [1, 2], 5])
def test_episodes_are_a_list_of_episodes(given, tmp_path):
    for call in (
        lambda: rrl.train_sft(model(), given),
        lambda: rrl.add_reflections(given, object()),
        lambda: rrl.write_episodes(tmp_path / "e.jsonl", given),
    ):
        with pytest.raises(UserError, match="episodes"):
            call()
    assert not [*tmp_path.iterdir()]


def test_a_single_episode_is_put_into_a_list(episodes):
    with pytest.raises(UserError, match=r"Give a list: \[episode\]"):
        rrl.train_sft(model(), episodes[0])


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path, episodes):
    file = tmp_path / "file"
    file.write_text("mine")
    agent = rrl.train_sft(model(), episodes, steps=1)
    for call in (
        lambda: rrl.train_sft(model(), episodes, out=file),
        lambda: rrl.train_rl(model(), "corridor", out=file / "below"),
        lambda: agent.save(file),
    ):
        with pytest.raises(UserError, match="is a file"):
            call()
    with pytest.raises(UserError, match=r"is a folder\. Name a file in it"):
        rrl.write_episodes(tmp_path, episodes)
    assert file.read_text() == "mine"
    assert [*tmp_path.parent.glob("*.new")] == []


def test_a_folder_written_from_python_is_told_from_a_run(tmp_path, episodes):
    agent = rrl.train_sft(model(), episodes, steps=1, env="corridor", out=tmp_path)
    rrl.evaluate(agent, "corridor", split="validation")
    with pytest.raises(RunFolderError, match=r"was written from Python\. Repeat the call with the same out"):
        rrl.load_agent(tmp_path)
    with pytest.raises(UserError, match="is no path"):
        rrl.load_agent(5)


def test_names_may_be_missing_by_mistake():
    with pytest.raises(UnknownNameError, match="no split named None"):
        rrl.collect("corridor", "random", split=None)
    with pytest.raises(UserError, match="modes is 5"):
        rrl.evaluate("random", "corridor", modes=5)
    with pytest.raises(UserError, match="3 is no evaluation"):
        rrl.evaluate("random", "corridor", split="validation").compare(3)


def test_adapters_are_given_once_and_texts_in_a_list(tmp_path):
    with pytest.raises(ConfigError, match="too small"):
        rrl.load_model(tmp_path, lora_rank=-1)
    with pytest.raises(UserError, match="lora and lora_rank were both given"):
        rrl.load_model(tmp_path, lora_rank=4, lora={"rank": 8})
    with pytest.raises(UserError, match=r"Give a list: \[text\]"):
        rrl.load_model("embedded", texts="abc")
    with pytest.raises(UserError, match="progress is True, which is no function"):
        rrl.load_model(tmp_path, progress=True)


@pytest.mark.parametrize("modes", ["easy", (), ["easy"], (1,)])
def test_modes_of_a_game_are_a_tuple_of_names(modes):
    with pytest.raises(UserError, match="Give a tuple of names"):
        type("Lights", (rrl.TextEnv,), {"modes": modes})


class Gymnasium(rrl.TextEnv):
    """A game whose answers are those of Gymnasium."""

    start = ("lamp", {})
    answer = ("lamp", 1.0, True, False, {})

    def tasks(self, mode, split):
        return [rrl.Task(f"{split}/{number}", mode, split) for number in range(2)]

    def reset(self, task, rng):
        return self.start

    def step(self, action):
        return self.answer


@pytest.mark.parametrize(
    ("start", "answer", "what"),
    [
        (("lamp", {}), None, "must show an Observation, and no tuple"),
        (rrl.Observation("lamp", ("on", "off")), ("lamp", 1.0), "step must return a Step, and no tuple"),
        (rrl.Observation("lamp", ("on", "off")), None, "step must return a Step, and no NoneType"),
        (
            rrl.Observation("lamp", ("on", "off")),
            rrl.Step(rrl.Observation("", ("on",)), "1", terminated=True, success=True),
            "the reward '1' is a text",
        ),
    ],
)
def test_a_game_of_another_library_is_told_what_to_return(start, answer, what):
    lamps = type("Lamps", (Gymnasium,), {"start": start, "answer": answer})
    with pytest.raises(FaultyEnvironmentError, match=what):
        rrl.collect(lamps, "random", episodes=1)


def test_seeds_of_numpy_are_whole_numbers():
    assert len(rrl.collect("corridor", "random", episodes=2, seed=np.int64(3))) == 2


def test_a_player_that_asks_a_solver_needs_one():
    for call in (lambda: rrl.collect(Gymnasium, "oracle"), lambda: rrl.evaluate("oracle", Gymnasium)):
        with pytest.raises(UserError, match="the player 'oracle' needs HasSolver"):
            call()


def test_an_agent_is_not_saved_over_files_that_are_none_of_an_agent(tmp_path, episodes):
    agent = rrl.train_sft(model(), episodes, steps=1)
    base = tmp_path / "base"
    agent.model.save(base)
    before = {path.name: path.read_bytes() for path in base.iterdir()}
    with pytest.raises(UserError, match=r"holds a model and no agent\.json, so Agent\.save did not write it"):
        agent.save(base)
    assert {path.name: path.read_bytes() for path in base.iterdir()} == before
    (tmp_path / "mine").mkdir()
    for _ in range(2):
        agent.save(tmp_path / "mine")
    assert rrl.load_agent(tmp_path / "mine").model.hash() == agent.model.hash()


def test_a_constructor_takes_the_settings():
    made = type("Made", (Gymnasium,), {"__init__": lambda self: None})
    with pytest.raises(
        UserError, match=r"Made.__init__ does not take the settings\. Write: def __init__\(self, config"
    ):
        rrl.collect(made, "random", episodes=1)


TINY_RL = {"turns": 60, "starts_per_update": 2, "episodes_per_start": 2, "validate_every": 0}


@pytest.mark.parametrize(
    ("algorithm", "what"),
    [
        (OddCritic, r"no critic of the algorithm 'own_algorithms:OddCritic' named 'yes'"),
        (NoEpochs, r"^the algorithm 'own_algorithms:NoEpochs' makes 0 epochs over each batch\. Set epochs = 1"),
        (HalfAnEpoch, r"makes 0\.5 epochs over each batch"),
        (
            PlainRows,
            r"the algorithm 'PlainRows': advantages returned list\. Return reflect_rl\.algorithms\.Advantages\.",
        ),
        (LongRows, r"gave values in rows of the lengths \[.* turns\. Give one list for each episode"),
        (PlainLoss, r"the loss of 'PlainLoss' is of type Tensor\. Return a Loss\."),
        (VectorLoss, r"the loss of 'VectorLoss' has the shape \(\d+,\)\. Give its mean, one number\."),
        (DetachedLoss, r"the loss of 'DetachedLoss' has no gradient\. Compute it from `outputs`"),
        (TensorMetric, r"the metric 'my/metric' of the loss of 'TensorMetric' is of type Tensor\. Give float"),
    ],
)
def test_answers_of_an_own_algorithm_are_checked(algorithm, what, episodes):
    with pytest.raises(UserError, match=what):
        rrl.train_rl(rrl.train_sft(model(), episodes, steps=1), "corridor", algorithm=algorithm, **TINY_RL)


def test_a_negative_seed_is_refused_where_a_run_refuses_it():
    with pytest.raises(UserError, match=r"^seed = -1 is too small"):
        rrl.load_model("embedded", seed=-1)
    with pytest.raises(UserError, match=r"^seed = -1 is too small"):
        rrl.collect("corridor", "random", seed=-1)


def test_a_state_without_actions_is_refused_in_words(episodes):
    agent = rrl.train_sft(model(), episodes, steps=1)
    with pytest.raises(UserError, match=r"^a state lists no action, .* Give its Observation at least one action\.$"):
        agent.act(rrl.Observation("hello", ()))


def test_weights_that_are_not_finite_are_named_before_the_first_step_and_leave_nothing(tmp_path, monkeypatch, episodes):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    Path(tempfile.tempdir).mkdir()
    spoilt = rrl.load_model(save_tiny("llama", tmp_path / "model"), device="cpu")
    # One that the look at a loaded model does not meet: of a letter.
    with torch.no_grad():
        spoilt.model.get_input_embeddings().weight[spoilt.encode("o")[-1], 0] = float("nan")
    what = r"^the weights of '.*/model' are not finite before any step: \S*embed_tokens\.weight holds nan or inf\. "
    with pytest.raises(ModelError, match=what):
        rrl.train_sft(spoilt, episodes, steps=2)
    assert list(Path(tempfile.tempdir).iterdir()) == []


class Wordless(Corridor):
    """Shows nothing where the tasks of a split begin."""

    silent = "validation"

    def reset(self, task, rng=None):
        return None if task.split == self.silent else super().reset(task)


def test_a_start_that_shows_nothing_is_the_fault_of_the_game(episodes):
    agent = rrl.train_sft(model(), episodes, steps=1)
    shown = r"^wordless-v1, task \S+(, start| \(seed.*): TypeError: reset and step must show an Observation"
    with pytest.raises(FaultyEnvironmentError, match=shown):
        rrl.train_rl(agent, Wordless, **TINY_RL)
    with pytest.raises(FaultyEnvironmentError, match=shown):
        rrl.check_env(Wordless)


def test_trackers_are_checked_before_a_training(episodes, tmp_path, monkeypatch):
    for given, out, what in (
        (["tensorboad"], tmp_path / "run", r"no tracker named 'tensorboad'.*tensorboard"),
        (["wandb"], tmp_path / "run", r"'wandb' needs the package wandb"),
        (["tensorboard"], None, r"keep their files in the run folder\. Name one with out="),
    ):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "wandb" else name)
        with pytest.raises(UserError, match=what):
            rrl.train_sft(model(), episodes, trackers=given, out=out)
        with pytest.raises(UserError, match=what):
            rrl.train_rl(model(), "corridor", trackers=given, out=out)
        monkeypatch.undo()
    assert not (tmp_path / "run").exists()


def test_trackers_get_the_metrics_of_a_call(episodes, tmp_path, monkeypatch):
    seen = []

    class Tracker:
        def __init__(self, log):
            self.name = log.name

        def start(self):
            pass

        def log(self, numbers, step):
            seen.append((self.name, step, numbers))

        finish = start

    monkeypatch.setitem(STARTS, "tensorboard", Tracker)
    warm = rrl.train_sft(model(), episodes, steps=2, trackers=["tensorboard"], out=tmp_path / "run")
    rrl.train_rl(warm, "corridor", trackers=["tensorboard"], out=tmp_path / "run", **TINY_RL)
    assert {name for name, _, _ in seen} == {
        f"run/starts-4/seed-0/{part}" for part in ("sft/policy_plain", "rlft/sft_rlft")
    }
    assert any("rollout/success_rate" in numbers for _, _, numbers in seen)


def test_an_own_algorithm_that_keeps_its_contract_trains(episodes):
    agent = rrl.train_sft(model(), episodes, steps=1)
    trained = rrl.train_rl(agent, "corridor", algorithm=Own, **TINY_RL)
    assert trained.model.hash() != agent.model.hash()


def test_turns_without_an_advantage_reach_an_own_loss(episodes):
    agent = rrl.train_sft(model(), episodes, steps=1)
    settings = {"name": "own_algorithms:ByReturns", "entropy_coef": 0.0, "kl_coef": 0.0}
    trained = rrl.train_rl(agent, "corridor", algorithm=settings, **TINY_RL)
    assert ByReturns.loss is not Own.loss
    assert trained.model.hash() != agent.model.hash()


def test_the_turns_of_a_loss_that_is_no_number_are_kept_without_a_folder(episodes):
    agent = rrl.train_sft(model(), episodes, steps=1)
    with pytest.raises(TrainingError) as caught:
        rrl.train_rl(agent, "corridor", algorithm=NoNumber, **TINY_RL)
    place = re.search(r"turns are in (\S+offending_batch\.jsonl)", str(caught.value))
    assert place is not None
    assert Path(place[1]).read_text()
    shutil.rmtree(Path(tempfile.gettempdir()) / Path(place[1]).relative_to(tempfile.gettempdir()).parts[0])


def test_an_empty_path_is_not_the_current_folder(episodes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"the path is empty, which would mean the current folder"):
        rrl.train_sft(model(), episodes, steps=1, out="")
    with pytest.raises(UserError, match=r"the path is empty"):
        rrl.warm_up(model(), "corridor", episodes=2).save("")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("trackers", ["wandb", None])
def test_trackers_are_a_list(episodes, tmp_path, trackers):
    with pytest.raises(UserError, match=r"trackers=.* is no list of names\. Give one, such as \['tensorboard'\]"):
        rrl.train_sft(model(), episodes, steps=1, out=tmp_path, trackers=trackers)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"turns": "many"}, r"^turns: 'many' is no whole number"),
        ({"progress_reward": -1}, r"^progress_reward: -1 is too"),
    ],
)
def test_settings_are_named_as_they_were_given(settings, message):
    with pytest.raises(ConfigError, match=message):
        rrl.train_rl(model(), "corridor", **settings)
