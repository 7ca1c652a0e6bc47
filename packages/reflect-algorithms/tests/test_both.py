"""Online training of both players: the loss by hand, what is learned, and that an interruption changes nothing."""

from __future__ import annotations

import copy
import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import reflect_rl as rrl
from offline_toy import StoppedError
from reflect_algorithms import train_both
from reflect_algorithms.both.reflector import OnlineReflector, Written, reflection_loss
from reflect_algorithms.both.settings import ReflectorTrainingConfig, reflector_training
from reflect_rl.agent import Agent
from reflect_rl.algorithms import Batch
from reflect_rl.config import parse
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import ConfigError, ModelError, RunFolderError, TrainingError, UserError
from reflect_rl.models import fits
from reflect_rl.models.load import load_model
from reflect_rl.models.memory import activation_bytes
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.players.scripted import OracleReflector
from reflect_rl.prompts import reflection_prompt
from reflect_rl.rollout import NoReflector
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.evaluate import load_players
from reflect_rl.runs.folder import units
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.types import Episode, Observation, View
from run_toy import BOTH_PLAYERS, corridor_run, whole_run
from tiny_models import save_tiny
from toy import SPEC, rlft, tiny_player, trainer

QUIET = lambda *_: None  # noqa: E731


def writer(max_new_tokens: int = 3, seed: int = 0, **settings) -> OnlineReflector:
    config = parse(ReflectorTrainingConfig, settings)
    return OnlineReflector(tiny_player(seed=5)[0], tiny_player(seed=5)[0], config, max_new_tokens, seed)


def test_the_loss_is_that_of_the_formula():
    surprise = torch.tensor([0.5, 1.5, 2.0], requires_grad=True)
    before = torch.tensor([0.5, 1.0, 3.0])
    # Two tokens of a text of one turn, and one of a text that three turns share, with -2 in all.
    turns = torch.tensor([1, 1, 3])
    loss, kl = reflection_loss(surprise, before, torch.tensor([1.0, 1.0, -2.0]), turns, 0.1)
    # log ρ = surprise - before: 0, 0.5, -1; the last one in each of its turns.
    each = [np.exp(d) - 1 - d for d in (0.0, 0.5, -1.0, -1.0, -1.0)]
    assert float(loss.detach()) == pytest.approx(0.5 + 1.5 - 4.0 + 0.1 * sum(each))
    assert kl == pytest.approx(np.mean(each))
    loss.backward()
    # d/d(-log R): the advantage, and β (ρ - 1) for each turn.
    assert surprise.grad is not None
    slopes = [1.0, 1.0 + 0.1 * (np.exp(0.5) - 1), -2.0 + 3 * 0.1 * (np.exp(-1) - 1)]
    assert surprise.grad.tolist() == pytest.approx(slopes)


def test_turns_that_share_a_text_count_as_if_each_had_its_own():
    def step(share: bool) -> tuple[dict[str, float], Tensor]:
        player = writer(2, kl_coef=0.5, max_grad_norm=1e9)
        # Away from the start, or the divergence and its slope would be zero.
        with torch.no_grad():
            for weight in player._weights():
                weight.mul_(1.5)
        texts = [Written([1, 2, 3], [4, 5], 1.0, 1), Written([1, 2], [6], -0.5, 1), Written([1, 2], [6], 2.0, 1)]
        shared = [texts[0], Written([1, 2], [6], 1.5, 2)]
        metrics = player._one_step(shared if share else texts)
        slopes = [weight.grad.flatten() for weight in player._weights() if weight.grad is not None]
        return metrics, torch.cat(slopes)

    (alone, slope), (together, same) = step(share=False), step(share=True)
    assert together == pytest.approx(alone, rel=1e-4)
    torch.testing.assert_close(same, slope, rtol=1e-3, atol=1e-6)


VIEWS = [View(Observation(f"You are at {place}.", ("left", "right")), (0, 1)) for place in range(4)]


def even(player: OnlineReflector, view: View) -> bool:
    """The judge of the test: whether the text was drawn as a token with an even number."""
    return player._texts[key_of(view)][0] % 2 == 0


def key_of(view: View) -> tuple[str, str]:
    return reflection_prompt(view), view.reflection or ""


def worth(advantages: Sequence[float], replayed: Sequence[bool] | None = None) -> Batch:
    count = len(advantages)
    flags = [False] * count if replayed is None else replayed
    return Batch(
        torch.zeros(count), torch.zeros(count), torch.tensor(advantages), torch.zeros(count), torch.tensor(flags)
    )


def share_of_even_texts(shuffled: bool) -> float:
    player, rng = writer(1, learning_rate=2e-2, kl_coef=0.0), np.random.default_rng(0)
    shares = []
    for update in range(40):
        # Four draws of each state: equal prompts of one call share a text.
        views = [
            View(view.observation, view.order, text)
            for _ in range(4)
            for view, text in zip(VIEWS, player.reflect(VIEWS), strict=True)
        ]
        good = [even(player, view) for view in views]
        shares.append(float(np.mean(good)))
        advantages = [1.0 if one else -1.0 for one in (rng.permutation(good) if shuffled else good)]
        player.learn(views, worth(advantages), update, 0.0)
    return float(np.mean(shares[-5:]))


def test_texts_that_led_to_good_turns_become_likelier_and_by_chance_they_do_not():
    assert share_of_even_texts(shuffled=False) >= 0.9
    assert share_of_even_texts(shuffled=True) <= 0.8


def test_replayed_turns_are_left_out():
    player, other = writer(1), writer(1)
    views = [View(v.observation, v.order, t) for v, t in zip(VIEWS, player.reflect(VIEWS), strict=True)]
    other.reflect(VIEWS)
    player.learn([*views, *views], worth([1.0] * 4 + [-5.0] * 4, [False] * 4 + [True] * 4), 0, 0.0)
    other.learn(views, worth([1.0] * 4), 0, 0.0)
    assert player.model.hash() == other.model.hash() != player.reference.hash()


def test_a_strong_pull_to_the_start_keeps_the_texts():
    def moved(kl_coef: float) -> float:
        player = writer(3, learning_rate=5e-3, kl_coef=kl_coef)
        for update in range(10):
            views = [View(v.observation, v.order, t) for v, t in zip(VIEWS, player.reflect(VIEWS), strict=True)]
            row = player.learn(views, worth([1.0] * len(views)), update, 0.0)
        return row["reflector/kl"]

    assert moved(20.0) < moved(0.0)


def test_a_model_that_is_not_trained_is_left_as_it_was_and_random_numbers_are_its_own():
    player = writer()
    before = player.reference.hash()
    torch.manual_seed(7)
    player.reflect(VIEWS)
    drawn = torch.rand(1)
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(1))
    first, second = writer().reflect(VIEWS), writer(seed=1).reflect(VIEWS)
    assert first == writer().reflect(VIEWS) != second
    assert player.reference.hash() == before == player.model.hash()


def both(folder: Path, progress=QUIET) -> tuple[OnlineTrainer, OnlineReflector]:
    player = writer(4, learning_rate=1e-2)
    training = trainer(folder, rlft(checkpoint_every=2, learning_rate=1e-2, validate_every=2), player)
    training.train(progress)
    return training, player


def test_an_interrupted_training_of_both_ends_like_an_uninterrupted_one(tmp_path):
    whole, reflector = both(tmp_path / "whole")
    assert whole.update >= 4
    assert reflector.model.hash() != reflector.reference.hash()
    calls: list[int] = []

    def stop(*_: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        both(tmp_path / "parts", stop)
    resumed, again = both(tmp_path / "parts")
    assert resumed.model.hash() == whole.model.hash()
    assert again.model.hash() == reflector.model.hash()
    rows = [json.loads(line) for line in (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()]
    assert {"reflector/loss", "reflector/kl", "reflector/texts", "reflector/gradient_norm"} <= rows[-1].keys()


def test_the_best_of_both_players_are_those_of_one_update(tmp_path, monkeypatch):
    """The second validation is the best one, and both players of that moment are returned, also after a break."""
    seen: list[tuple[str, str]] = []
    play = OnlineTrainer._play

    def scripted_validation(self, players, requests, *arguments, **options):
        if requests[0].task.split == "train":
            return play(self, players, requests, *arguments, **options)
        now = self.model.hash(), self.reflector.model.hash()
        if now not in seen:
            seen.append(now)
        # Of ten episodes as many are won as the script says.
        rate = 9 if now == seen[min(1, len(seen) - 1)] else 2
        return [Episode(requests[0].task, (), True, False, k < rate, 0, "x") for k in range(10)]

    monkeypatch.setattr(OnlineTrainer, "_play", scripted_validation)

    def best_of_both(folder: Path, progress=QUIET) -> tuple[str, str]:
        player = writer(4, learning_rate=1e-2)
        settings = rlft(checkpoint_every=1, learning_rate=1e-2, validate_every=1, keep="best")
        training = trainer(folder, settings, player)
        training.train(progress)
        return training.model.hash(), player.model.hash()

    found = best_of_both(tmp_path / "whole")
    assert len(seen) > 4
    assert found == seen[1]
    calls: list[int] = []

    def stop(*_: object) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        best_of_both(tmp_path / "parts", stop)
    assert best_of_both(tmp_path / "parts") == found


def test_validation_reads_the_likeliest_texts_and_leaves_training_as_it_is(tmp_path, monkeypatch):
    shown: list[tuple[str, str | None]] = []
    play = OnlineTrainer._play

    def recording(self, players, requests, *arguments, **options):
        episodes = play(self, players, requests, *arguments, **options)
        if requests[0].task.split != "train":
            views = [turn.view for episode in episodes for turn in episode.turns]
            expected = FrozenReflector(copy.deepcopy(self.reflector.model), 4).reflect(views)
            assert [view.reflection for view in views] == expected
            shown.extend((view.observation.text, view.reflection) for view in views)
        return episodes

    monkeypatch.setattr(OnlineTrainer, "_play", recording)
    ends = []
    for every in (0, 1):
        player = writer(4, learning_rate=1e-2)
        training = trainer(tmp_path / str(every), rlft(learning_rate=1e-2, validate_every=every), player)
        training.train(QUIET)
        ends.append((training.model.hash(), player.model.hash()))
    assert ends[0] == ends[1]
    assert shown


def test_turns_are_worth_what_the_policy_learns_from(tmp_path):
    """The reflection player learns from the policy's advantages, text by text."""
    player = writer(2)
    training = trainer(tmp_path, rlft(total_turns=1), player)
    episodes = training._roll_out(("near",))
    views, batch = training.learner.batch_of(episodes)
    rows = player._rows(views, batch.advantages.tolist())
    assert sum(row.advantage for row in rows) == pytest.approx(float(batch.advantages.sum()), abs=1e-5)
    assert sum(row.turns for row in rows) == sum(bool(player._texts[key_of(view)]) for view in views)
    shown = {(view.observation.text, view.reflection) for e in episodes for view in (turn.view for turn in e.turns)}
    assert len(rows) == len([pair for pair in shown if pair[1]])


SETTINGS = corridor_run(
    '["sft_reflect", "reflect_rl_both"]',
    BOTH_PLAYERS
    + """\
[rlft]
total_turns = 60
starts_per_update = 2
[reflector]
max_new_tokens = 8
""",
)


def test_a_run_trains_both_and_evaluates_with_the_trained_reflection_player(tmp_path):
    place = whole_run(tmp_path, SETTINGS)
    assert {row["method"] for row in json.loads((tmp_path / "run" / "results.json").read_text())} == {
        "sft_reflect",
        "reflect_rl_both",
    }
    config = parse(RunConfig, tomllib.loads(SETTINGS) | {"output_dir": str(tmp_path / "run")})
    unit = next(iter(units(config)))
    writers = {}
    for name in config.methods:
        reflector, _ = load_players(config, unit, name, "greedy")
        assert isinstance(reflector, FrozenReflector)
        writers[name] = reflector.model.hash()
    trained = load_model(config.model, place / "rlft_both" / "reflect_rl_both" / "reflector", trainable=False)
    assert writers["reflect_rl_both"] == trained.hash() != writers["sft_reflect"]
    cards = [
        (place / "rlft_both" / "reflect_rl_both" / part / "README.md").read_text() for part in ("model", "reflector")
    ]
    assert "supervised training on `policy_reflect`, then online RL by" in cards[0]
    assert "supervised training on `reflector`, then online RL from the turns of its policy" in cards[1]
    # A damaged player is noticed, and the message says which command makes it again.
    (place / "rlft_both" / "reflect_rl_both" / "reflector" / "model.safetensors").write_bytes(b"")
    with pytest.raises(RunFolderError, match="reflect-rl rlft_both"):
        load_players(config, unit, "reflect_rl_both", "greedy")


def test_a_reflection_player_that_is_not_the_runs_own_is_refused():
    other = {"reflector": {"kind": "lexical"}}
    config = parse(RunConfig, {"methods": ["sft_reflect", "reflect_rl_both"], **other})
    said = "reflector.kind: reflect_rl_both trains the run's own reflection player"
    assert any(said in mistake for mistake in reflector_training(config).mistakes(config))
    # Without the method it is nobody's business.
    alone = parse(RunConfig, {"methods": ["sft_reflect"], **other})
    assert not list(reflector_training(alone).mistakes(alone))


def test_both_players_are_trained_from_python():
    episodes = rrl.collect(SPEC, "oracle", OracleReflector(), episodes=8)
    small = rrl.load_model("embedded", hidden_size=16, layers=1, heads=2)
    agent = rrl.train_sft(small, episodes, env=SPEC, steps=3, reflections=True)
    assert isinstance(agent.reflector, FrozenReflector)
    before = agent.reflector.model.hash()
    trained = train_both(agent, SPEC, turns=40, starts_per_update=2, reflector={"learning_rate": 1e-2})
    assert isinstance(trained.reflector, FrozenReflector)
    assert trained.reflector.model.hash() != before == agent.reflector.model.hash()
    assert trained.model.hash() != agent.model.hash()
    assert (trained.origin.method, trained.origin.algorithm) == ("reflect_rl_both", "ppo")
    assert rrl.evaluate(trained, SPEC, split="train").episodes
    with pytest.raises(UserError, match="'none', which cannot be trained"):
        train_both(replace(agent, reflector=NoReflector()), SPEC, turns=1)


def test_a_folder_with_a_training_of_other_settings_is_refused(tmp_path):
    agent = Agent(*tiny_player(), FrozenReflector(tiny_player(seed=5)[0], 3))
    settings = {"turns": 8, "starts_per_update": 2, "validate_every": 0, "out": tmp_path}
    train_both(agent, SPEC, **settings)
    for change in ({"seed": 1}, {"learning_rate": 1e-2}, {"reflector": {"kl_coef": 0.3}}, {"algorithm": "grpo"}):
        with pytest.raises(RunFolderError, match="holds a training with other settings"):
            train_both(agent, SPEC, **settings | change)
    with pytest.raises(RunFolderError, match="other settings: scoring is 'choice_token' there and 'sum' here"):
        train_both(replace(agent, scoring="sum"), SPEC, **settings)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"total_turns": 7}, "total_turns is set by turns= here"),
        ({"turns": 0}, "^turns: 0 is too small"),
        ({"turns": "many"}, "^turns: 'many' is no whole number"),
        ({"seed": 1.5}, "seed = 1.5 is no whole number"),
        ({"out": ""}, "the path is empty"),
        ({"algorithm": 5}, "the algorithm is 5"),
        ({"max_episode_steps": 3}, "max_episode_steps is 3, and shown shows how many of its 6 turns are left"),
    ],
)
def test_values_that_would_fail_later_are_refused_before_anything_is_written(given, what, tmp_path):
    shown = EnvSpec(type("Shown", (Corridor,), {"fixed_horizon": True}), SPEC.config)
    agent = Agent(*tiny_player(), FrozenReflector(tiny_player(seed=5)[0], 3))
    with pytest.raises((UserError, ConfigError), match=what):
        train_both(agent, shown, **{"turns": 8, "out": tmp_path} | given)
    assert not list(tmp_path.iterdir())


def test_a_number_is_no_progress_and_a_file_no_folder(tmp_path):
    agent = Agent(*tiny_player(), FrozenReflector(tiny_player(seed=5)[0], 3))
    with pytest.raises(UserError, match=r"progress is 0\.5, which is no function"):
        train_both(agent, SPEC, turns=8, progress=0.5)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"is a file"):
        train_both(agent, SPEC, turns=8, out=tmp_path / "file")
    with pytest.raises(UserError, match=r"'none', which cannot be trained"):
        train_both(agent.model, SPEC, turns=8)


def test_two_players_that_do_not_fit_are_refused_where_one_would(monkeypatch):
    def begins(*_, **__):
        raise StoppedError

    agent = Agent(*tiny_player(), FrozenReflector(tiny_player(seed=5)[0], 3))
    monkeypatch.setattr("reflect_algorithms.both.api.OnlineTrainer", begins)
    # Each has weights, a gradient and two moments of 4 bytes; the player that is loaded to play is copied whole.
    network = agent.model.model
    count = sum(weight.numel() for weight in network.parameters())
    passes = activation_bytes(network.config) * 100
    for free, error in ((2 * 16 * count + passes, StoppedError), (2 * 16 * count + passes - 1, ModelError)):
        monkeypatch.setattr(fits, "free_bytes", lambda device, free=free: free)
        with pytest.raises(error):
            train_both(agent, SPEC, turns=8, micro_batch_tokens=100)


def test_adapters_of_the_policy_have_the_settings_of_train_rl(tmp_path):
    adapted = rrl.load_model(save_tiny("gpt2", tmp_path / "model"), lora_rank=2, device="cpu")
    agent = Agent(adapted, Agent.of(adapted, 3).labels, FrozenReflector(tiny_player(seed=5)[0], 3))
    trained = train_both(agent, SPEC, turns=1, starts_per_update=1, validate_every=0, out=tmp_path / "out")
    found = json.loads((tmp_path / "out" / "settings.json").read_text())["training"]
    assert (found["learning_rate"], found["target_kl"]) == (1.5e-4, 0.02)
    # As after `train_rl`, so that whoever trains the model further scores it by the same labels.
    assert (trained.model.rule, trained.model.labels) == ("choice_token", agent.labels.texts)


def test_a_reflection_player_that_explodes_is_told_with_update_and_remedy():
    player = writer(2)
    views = [View(v.observation, v.order, t) for v, t in zip(VIEWS, player.reflect(VIEWS), strict=True)]
    with pytest.raises(
        TrainingError,
        match=r"^update 3, the reflection player: the loss is nan, .* Lower rlft\.reflector\.learning_rate or raise",
    ):
        player.learn(views, worth([math.nan] * len(views)), 3, 0.0)
