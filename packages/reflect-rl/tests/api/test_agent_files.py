"""Agents that are written and read again, with both players."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

import reflect_rl as rrl
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import ConfigError, ModelError, RunFolderError, UserError
from reflect_rl.players.scripted import OracleReflector
from reflect_rl.rollout import NoReflector, Request, environment_rng
from reflect_rl.types import stream
from tiny_models import save_tiny

SHAPE = {"hidden_size": 16, "layers": 1, "heads": 2, "device": "cpu"}


class Walk(Corridor):
    """A corridor of a user's own."""


@pytest.fixture(scope="module")
def demonstrations():
    return rrl.collect("corridor", "oracle", reflector="oracle", episodes=8)


@pytest.fixture(scope="module")
def agent(demonstrations):
    return rrl.train_sft(
        rrl.load_model("embedded", **SHAPE), demonstrations, reflections=True, steps=40, learning_rate=1e-2
    )


def played(agent):
    episodes = rrl.evaluate(agent, "corridor", decoding="sampled", repetitions=1).episodes
    return [[(turn.reflection, turn.action, turn.decision.log_probs) for turn in one.turns] for one in episodes]


def test_both_players_come_back(tmp_path, agent):
    again = rrl.load_agent(agent.save(tmp_path), device="cpu")
    assert played(again) == played(agent)
    assert any(reflection for episode in played(again) for reflection, _, _ in episode)
    assert again.origin == replace(agent.origin, folder=None)


def test_an_agent_is_printed_in_a_line(agent):
    labels = len(agent.labels.texts)
    assert repr(agent) == (
        f"Agent(method='sft_reflect', algorithm='none', starts={agent.origin.starts}, seed=0, model='embedded', "
        f"labels={labels}, reflector='frozen', reflector_model='embedded')"
    )


def test_an_agent_knows_its_game_also_when_it_is_read_again(tmp_path, agent, demonstrations):
    assert agent.origin.environment == ""
    trained = rrl.train_sft(agent, demonstrations, env="corridor", steps=1)
    assert rrl.load_agent(trained.save(tmp_path), device="cpu").origin.environment == "corridor"
    # What goes on without a game stays with the one before.
    assert rrl.train_sft(trained, demonstrations, steps=1).origin.environment == "corridor"
    online = rrl.train_rl(trained, Walk, turns=8, validate_every=0, starts_per_update=4, episodes_per_start=2)
    assert online.origin.environment == f"{__name__}:Walk"
    # A file of before this was noted.
    record = json.loads((tmp_path / "agent.json").read_text())
    del record["environment"]
    (tmp_path / "agent.json").write_text(json.dumps(record))
    assert rrl.load_agent(tmp_path, device="cpu").origin == replace(trained.origin, environment="")


@pytest.mark.parametrize("decoding", ["greedy", "sampled"])
def test_a_loop_of_ones_own_plays_as_the_evaluation_does(agent, decoding):
    spec = EnvSpec.of(Corridor)
    for episode in rrl.evaluate(agent, "corridor", decoding=decoding, repetitions=1).episodes:
        request, game = Request(episode.task, episode.seed), spec.make()
        observation, rng, taken = game.reset(episode.task, environment_rng(request)), stream(episode.seed, "policy"), []
        for _ in episode.turns:
            taken.append(agent.act(observation, decoding, rng))
            observation = game.step(taken[-1]).observation
        assert taken == [turn.decision.index for turn in episode.turns]


def test_a_reflection_player_that_asks_a_solver_needs_a_game(agent):
    with pytest.raises(UserError, match="the reflection player 'oracle' asks a solver, and an observation has none"):
        replace(agent, reflector=OracleReflector()).act(rrl.Observation("You are at 3.", ("left", "right")))


def test_an_agent_that_was_read_goes_on_learning(tmp_path, agent, demonstrations):
    again = rrl.load_agent(agent.save(tmp_path), device="cpu")
    further = rrl.train_sft(again, demonstrations, steps=2)
    assert further.model.hash() == rrl.train_sft(agent, demonstrations, steps=2).model.hash()
    assert further.model.hash() != again.model.hash()
    learned = rrl.train_rl(again, "corridor", turns=8, validate_every=0, starts_per_update=4, episodes_per_start=2)
    assert (learned.origin.method, learned.reflector) == ("reflect_rl", again.reflector)


def test_adapters_come_back_on_their_base(tmp_path, demonstrations):
    model = rrl.load_model(save_tiny("gpt2", tmp_path / "base"), lora_rank=2, device="cpu")
    adapted = rrl.train_sft(model, demonstrations, reflections=True, steps=2)
    again = rrl.load_agent(adapted.save(tmp_path / "agent"), device="cpu")
    assert again.model.has_adapter
    assert played(again) == played(adapted)
    further = rrl.train_sft(again, demonstrations, steps=2)
    assert further.model.hash() == rrl.train_sft(adapted, demonstrations, steps=2).model.hash()


def test_a_folder_holds_the_agent_that_was_saved_last(tmp_path, agent):
    agent.save(tmp_path)
    plain = rrl.load_agent(replace(agent, reflector=NoReflector()).save(tmp_path), device="cpu")
    assert isinstance(plain.reflector, NoReflector)
    assert not (tmp_path / "reflector").exists()


def test_saving_removes_nothing_of_the_users(tmp_path, agent):
    (tmp_path / "reflector").mkdir()
    (tmp_path / "reflector" / "notes.txt").write_text("mine")
    replace(agent, reflector=NoReflector()).save(tmp_path)
    assert (tmp_path / "reflector" / "notes.txt").read_text() == "mine"


def test_an_agent_is_saved_over_the_one_that_was_read(tmp_path, agent):
    again = rrl.load_agent(agent.save(tmp_path), device="cpu")
    assert played(rrl.load_agent(again.save(tmp_path), device="cpu")) == played(agent)


def test_a_whole_model_is_read_where_an_adapter_was_saved_before(tmp_path, agent, demonstrations):
    model = rrl.load_model(save_tiny("gpt2", tmp_path / "base"), lora_rank=2, device="cpu")
    adapted = rrl.train_sft(model, demonstrations, reflections=True, steps=2)
    for one in (adapted, agent, adapted):
        again = rrl.load_agent(one.save(tmp_path / "agent"), device="cpu")
        assert again.model.hash() == one.model.hash()
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".new"] == []


@pytest.mark.skipif(os.name == "nt", reason="Windows flushes only what is open for writing")
def test_a_saved_agent_is_on_the_disk(tmp_path, agent, monkeypatch):
    seen, fsync = set(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (seen.add(os.fstat(number).st_ino), fsync(number)))
    place = agent.save(tmp_path / "agent")
    assert {path.stat().st_ino for path in (place, *place.rglob("*"))} <= seen


def test_an_interrupted_save_leaves_the_agent_that_was_there(tmp_path, agent, demonstrations, monkeypatch):
    agent.save(tmp_path / "agent")
    other = rrl.train_sft(agent, demonstrations, steps=2)
    # The disk is full when all but the record is written.
    monkeypatch.setattr("reflect_rl.agent.write_json", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        other.save(tmp_path / "agent")
    assert rrl.load_agent(tmp_path / "agent", device="cpu").model.hash() == agent.model.hash()
    assert [path.name for path in tmp_path.iterdir()] == ["agent"]


def test_an_adapter_is_not_saved_over_its_own_base(tmp_path, agent, demonstrations):
    folder = agent.save(tmp_path / "agent")
    model = rrl.load_model(folder, lora_rank=2, device="cpu")
    adapted = rrl.train_sft(model, demonstrations, env="corridor", steps=1)
    with pytest.raises(UserError, match="holds the base model that this agent's adapter stands on"):
        adapted.save(folder)
    assert rrl.load_agent(folder, device="cpu").model.hash() == agent.model.hash()


def test_a_reflection_player_that_is_no_model_is_named(tmp_path, agent):
    replace(agent, reflector=OracleReflector()).save(tmp_path)
    with pytest.raises(UserError, match="whose reflection player 'oracle' was not saved"):
        rrl.load_agent(tmp_path)


def test_numbers_need_the_environment(tmp_path, agent):
    agent.reflector.numbers, before = (lambda text: {}), agent.reflector.numbers
    try:
        agent.save(tmp_path)
    finally:
        agent.reflector.numbers = before
    with pytest.raises(UserError, match="Give it as env="):
        rrl.load_agent(tmp_path, device="cpu")
    # This one numbers nothing, so there is nothing to correct.
    assert rrl.load_agent(tmp_path, env="corridor", device="cpu").reflector.numbers is None


def test_what_is_no_agent_is_told(tmp_path, agent):
    with pytest.raises(RunFolderError, match="neither the folder of a run nor of an agent"):
        rrl.load_agent(tmp_path / "nowhere")
    # A model of the hub has a `config.json`, too.
    with pytest.raises(RunFolderError, match="is loaded by load_model"):
        rrl.load_agent(save_tiny("gpt2", tmp_path / "model"))
    folder = agent.save(tmp_path / "agent")
    with pytest.raises(UserError, match="holds one saved agent"):
        rrl.load_agent(folder, "reflect_rl")
    record = json.loads((folder / "agent.json").read_text())
    (folder / "agent.json").write_text(json.dumps({**record, "version": 2}))
    with pytest.raises(ConfigError, match="version"):
        rrl.load_agent(folder)
    (folder / "agent.json").write_text(json.dumps(record))
    (folder / "reflector" / "model.safetensors").unlink()
    with pytest.raises(ModelError):
        rrl.load_agent(folder, device="cpu")
