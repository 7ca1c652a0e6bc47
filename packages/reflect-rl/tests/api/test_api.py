"""The Python API on the corridor and on a game without solver."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import reflect_rl as rrl
from guess import Guess
from reflect_rl.agent import Agent
from reflect_rl.errors import ConfigError, RunFolderError, UnknownNameError, UserError
from reflect_rl.models.precision import choose
from reflect_rl.training.config import RLFTConfig, SFTConfig
from tiny_models import save_tiny

SMALL = {"hidden_size": 16, "layers": 1, "heads": 2, "context_tokens": 192, "device": "cpu"}
TINY_RL = {"turns": 40, "starts_per_update": 4, "episodes_per_start": 2, "validate_every": 0}


def small_model(seed: int = 0):
    return rrl.load_model("embedded", seed=seed, **SMALL)


@pytest.fixture(scope="module")
def won_episodes():
    return rrl.collect(Guess, "random", episodes=60, seed=1)


@pytest.fixture(scope="module")
def warm(won_episodes):
    return rrl.train_sft(small_model(), won_episodes, env=Guess, steps=3)


def test_an_environment_by_class_name_or_spec():
    spec = rrl.make_env("corridor", max_episode_steps=7)
    assert (spec.name, spec.max_episode_steps) == ("corridor", 7)
    assert rrl.make_env(spec) is spec
    assert rrl.make_env(Guess).name == "guess"
    assert rrl.make_env("guess:Guess").env_class is Guess
    assert rrl.make_env("dangerous-taxi").name == "dangerous_taxi"


def test_what_is_no_environment():
    with pytest.raises(UnknownNameError, match=r"no environment named 'coridor'\. Did you mean 'corridor'\?"):
        rrl.make_env("coridor")
    with pytest.raises(ConfigError, match=r"unknown key 'lenght' \(value 3\)\. Did you mean 'length'\?"):
        rrl.make_env("corridor", lenght=3)
    with pytest.raises(UserError, match="is no environment"):
        rrl.make_env(dict)
    with pytest.raises(UserError, match=r"has its settings already: make it with \['length'\] set"):
        rrl.make_env(rrl.make_env("corridor"), length=3)


def test_collect_plays_every_task_once_before_it_plays_one_again():
    spec = rrl.make_env(Guess)
    count = len(spec.tasks("default", "train"))
    episodes = rrl.collect(spec, "random", episodes=count + 3, seed=2)
    keys = [episode.task.key for episode in episodes]
    assert len(set(keys[:count])) == count
    assert keys[count:] == keys[:3]
    assert episodes == rrl.collect(spec, "random", episodes=count + 3, seed=2)
    assert episodes != rrl.collect(spec, "random", episodes=count + 3, seed=3)


def test_episodes_survive_the_file(tmp_path, won_episodes):
    rrl.write_episodes(tmp_path / "demos.jsonl", won_episodes)
    assert rrl.read_episodes(tmp_path / "demos.jsonl") == won_episodes


def test_a_file_that_holds_no_episodes(tmp_path):
    path = tmp_path / "demos.jsonl"
    with pytest.raises(RunFolderError, match=r"demos\.jsonl is missing\. Name a file that"):
        rrl.read_episodes(path)
    path.write_text('{"task": {"key": "a"}}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"demos\.jsonl: row 1 is no episode \(ValueError: turns: Field required"):
        rrl.read_episodes(path)


def test_training_leaves_the_model_that_went_in_as_it_was(warm, won_episodes):
    before = warm.model.hash()
    again = rrl.train_sft(warm, won_episodes, env=Guess, steps=2)
    agent = rrl.train_rl(warm, Guess, **TINY_RL)
    assert warm.model.hash() == before
    assert len({before, again.model.hash(), agent.model.hash()}) == 3


def test_the_same_seed_gives_the_same_weights(won_episodes):
    def trained(seed: int) -> str:
        warm = rrl.train_sft(small_model(), won_episodes, env=Guess, steps=2, seed=seed)
        return rrl.train_rl(warm, Guess, seed=seed, **TINY_RL).model.hash()

    assert trained(0) == trained(0) != trained(1)


def test_only_won_episodes_are_imitated_unless_told_otherwise(won_episodes):
    lost = [replace(episode, success=False) for episode in won_episodes]
    with pytest.raises(UserError, match=r"none of the 60 episodes is a won one of a training task.*lost=True"):
        rrl.train_sft(small_model(), lost, steps=1)
    assert rrl.train_sft(small_model(), lost, steps=1, lost=True).origin.starts == len({e.task.key for e in lost})


def test_reflections_must_be_there_to_be_learned(won_episodes):
    with pytest.raises(UserError, match="the episodes hold no reflection to learn from"):
        rrl.train_sft(small_model(), won_episodes, steps=1, reflections=True)


class Echo:
    """Writes the first word of the state."""

    name = "echo"
    sees_oracle = False

    def reflect(self, views):
        return [view.observation.text.split()[0] for view in views]


def test_reflections_are_written_on_recorded_states_and_learned(won_episodes):
    noted = rrl.add_reflections(won_episodes, Echo())
    assert {turn.reflection for episode in noted for turn in episode.turns} == {"Answer:"}
    agent = rrl.train_sft(small_model(), noted, env=Guess, steps=2, reflections=True)
    assert (agent.origin.method, agent.reflector.name) == ("sft_reflect", "frozen")
    assert rrl.train_rl(agent, Guess, **TINY_RL).origin.method == "reflect_rl"


def test_the_policy_alone_learns_from_copies_with_other_numbers(won_episodes):
    noted = rrl.add_reflections(won_episodes, Echo())
    plain, copied = (
        rrl.train_sft(small_model(), noted, env=Guess, steps=2, reflections=True, renumbered_copies=copies)
        for copies in (0, 2)
    )
    assert plain.model.hash() != copied.model.hash()
    assert plain.reflector.model.hash() == copied.reflector.model.hash()
    without = rrl.train_sft(small_model(), won_episodes, env=Guess, steps=2)
    ignored = rrl.train_sft(small_model(), won_episodes, env=Guess, steps=2, renumbered_copies=2)
    assert without.model.hash() == ignored.model.hash()
    with pytest.raises(UserError, match="renumbered_copies = -1 is too small"):
        rrl.train_sft(small_model(), noted, env=Guess, renumbered_copies=-1)
    with pytest.raises(ConfigError, match="renumbered_copies = 2: the agent scores 'line_end', without labels"):
        rrl.train_sft(replace(plain, scoring="line_end"), noted, env=Guess, renumbered_copies=2)


def test_evaluation_counts_what_was_won(warm):
    spec = rrl.make_env("corridor")
    outcome = rrl.evaluate("oracle", spec)
    assert (outcome.rate, outcome.successes, len(outcome.episodes)) == (1.0, 14, 14)
    assert str(outcome).startswith("oracle on corridor-v1 (test, greedy, horizon 20): 100.0% won [95% interval 78.5%")
    short = rrl.evaluate("oracle", spec, horizon=1)
    assert short.successes == sum(len(episode.turns) == 1 for episode in outcome.episodes)
    assert len(rrl.evaluate("random", spec, decoding="sampled", repetitions=2).episodes) == 28


def test_a_paired_comparison_by_hand():
    spec = rrl.make_env("corridor")
    oracle, short = rrl.evaluate("oracle", spec), rrl.evaluate("oracle", spec, horizon=2)
    difference = oracle.compare(short)
    only_oracle = 14 - short.successes
    assert difference.difference == pytest.approx(only_oracle / 14)
    assert difference.p_value == pytest.approx(2 * 0.5**only_oracle)
    with pytest.raises(UserError, match=r"cannot compare corridor-v1 \(test\) with guess-v1 \(test\)"):
        oracle.compare(rrl.evaluate("random", Guess))


def test_games_with_other_settings_are_not_compared():
    class Pockets(Guess):
        class Config(rrl.EnvironmentConfig):
            pocket: int = 6
            advice: str = "command"

    def played(**settings):
        return rrl.evaluate("random", rrl.make_env(Pockets, **settings))

    expected = r"cannot compare pockets-v1 with pocket=6 and pockets-v1 with pocket=2, .* with the same settings"
    with pytest.raises(UserError, match=expected):
        played().compare(played(pocket=2))
    # Whose advice the players learned from changes no game, nor do the modes and the horizon.
    assert played().compare(played(advice="goal", modes=("default",), max_episode_steps=5)).pairs == 32


def test_a_comparison_names_other_decodings_and_horizons():
    usual = rrl.evaluate("random", "corridor")
    assert str(usual.compare(usual)).endswith("McNemar p = 1")
    other = rrl.evaluate("random", "corridor", horizon=12, decoding="sampled", repetitions=1)
    assert str(usual.compare(other)).endswith("; greedy against sampled, horizon 20 against 12")


def test_a_run_folder_holds_metrics_model_results_and_a_report(tmp_path, warm):
    out = tmp_path / "run"
    agent = rrl.train_rl(warm, Guess, out=out, **TINY_RL)
    outcome = rrl.evaluate(agent, Guess)
    folder = next(out.glob("starts-*/seed-0"))
    assert (folder / "rlft" / "sft_rlft" / "metrics.jsonl").stat().st_size > 0
    assert rrl.load_model(folder / "rlft" / "sft_rlft" / "model").hash() == agent.model.hash()
    assert len(rrl.read_episodes(folder / "evaluation" / "sft_rlft" / "episodes.jsonl")) == len(outcome.episodes)
    page = rrl.report(out)
    assert "guess" in Path(page).read_text(encoding="utf-8")
    rrl.evaluate(agent, Guess)  # noted once, however often it is asked for
    assert len(rrl.read_episodes(folder / "evaluation" / "sft_rlft" / "episodes.jsonl")) == len(outcome.episodes)


@pytest.mark.parametrize("name", ["results.json", "rows.json", "episodes.jsonl"])
def test_results_that_were_damaged_are_neither_reported_nor_added_to(tmp_path, warm, name):
    agent = rrl.train_rl(warm, Guess, out=tmp_path / "run", **TINY_RL)
    rrl.evaluate(agent, Guess)
    (path,) = (tmp_path / "run").rglob(name)
    text = path.read_text(encoding="utf-8")
    # One digit of the first figure: still JSON, and still a row.
    place = next(
        k for k in range(text.index("episodes") if name != "episodes.jsonl" else 0, len(text)) if text[k].isdigit()
    )
    path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :], encoding="utf-8")
    with pytest.raises(RunFolderError, match=name):
        rrl.report(tmp_path / "run")
    if name != "results.json":  # which is written anew from the sealed rows
        with pytest.raises(RunFolderError, match=name):
            rrl.evaluate(agent, Guess)


def test_a_finished_training_is_taken_up_and_one_with_other_settings_is_refused(tmp_path, warm):
    out = tmp_path / "run"
    first = rrl.train_rl(warm, Guess, out=out, **TINY_RL)
    assert rrl.train_rl(warm, Guess, out=out, **TINY_RL).model.hash() == first.model.hash()
    with pytest.raises(RunFolderError, match=r"training\.total_turns is 40 there and 41 here"):
        rrl.train_rl(warm, Guess, out=out, **(TINY_RL | {"turns": 41}))


def test_adapters_are_trained_online_with_settings_of_their_own(tmp_path, warm):
    def settings(model, **own):
        out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        rrl.train_rl(model, Guess, out=out, **TINY_RL, max_episode_steps=1, **own)
        (path,) = out.rglob("settings.json")
        return json.loads(path.read_text())["training"]

    folder = save_tiny("gpt2", tmp_path / "model")
    adapted = rrl.load_model(folder, lora_rank=2, device="cpu")
    found = settings(adapted)
    assert (found["learning_rate"], found["target_kl"]) == (1.5e-4, 0.02)
    found = settings(adapted, learning_rate=1e-3)
    assert (found["learning_rate"], found["target_kl"]) == (1e-3, 0.02)
    found, usual = settings(warm), RLFTConfig()
    assert (found["learning_rate"], found["target_kl"]) == (usual.learning_rate, usual.target_kl)


def test_the_number_format_that_was_chosen_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "reflect_rl.models.precision._seconds", lambda device, dtype: 1.0 if dtype is torch.float32 else 0.1
    )
    choose.cache_clear()
    folder, told = save_tiny("gpt2", tmp_path / "model"), []
    model = rrl.load_model(folder, device="cpu", precision="auto", progress=lambda *said: told.append(said))
    choose.cache_clear()
    sentence = "precision: mixed (on cpu a matrix product in bfloat16 is 10.0 times as fast as in float32)"
    assert (model.mixed, told) == (True, [(1, 1, sentence)])
    # Whoever names a format knows it.
    rrl.load_model(folder, device="cpu", precision="mixed", progress=lambda *said: told.append(said))
    assert len(told) == 1


def test_random_weights_learn_at_the_rate_of_small_models(tmp_path):
    episodes = rrl.collect("corridor", "oracle", episodes=2)

    def rate(model):
        out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        trained = rrl.train_sft(model, episodes, steps=3, warmup_steps=1, out=out)
        (path,) = out.rglob("metrics.jsonl")
        return trained, max(json.loads(row)["learning_rate"] for row in path.read_text().splitlines())

    small = {"hidden_size": 32, "layers": 1, "heads": 2}
    texts = [turn.observation.text for episode in episodes for turn in episode.turns]
    trained, found = rate(rrl.load_model("embedded", texts=texts, **small))
    assert found == SFTConfig().learning_rate
    assert rate(rrl.load_model("embedded", **small))[1] == SFTConfig().learning_rate
    assert rate(trained)[1] == rate(trained.model)[1] == 2e-4


def test_a_model_plays_as_it_is_without_being_made_an_agent():
    model = rrl.load_model("embedded", hidden_size=32, layers=1, device="cpu", texts=["Answer: wrong. From one to two"])
    found = rrl.evaluate(model, Guess)
    assert found.rate == rrl.evaluate(Agent.of(model, Guess.max_actions), Guess).rate
    assert len(rrl.collect(Guess, model, episodes=3)) == 3


def test_mistakes_are_one_sentence(warm):
    with pytest.raises(ConfigError, match=r"unknown key 'turnz'"):
        rrl.train_rl(warm, Guess, turnz=3)
    with pytest.raises(UnknownNameError, match=r"no algorithm named 'pp0'\. Did you mean 'ppo'\?"):
        rrl.train_rl(warm, Guess, algorithm="pp0")
    with pytest.raises(UserError, match="is no player"):
        rrl.evaluate(3, Guess)
