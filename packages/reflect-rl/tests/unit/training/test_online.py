"""Online training: reproducible, resumable to the last bit, and stopped by numbers that are not finite."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import OPTConfig, OPTForCausalLM

from reflect_rl.batch import with_progress
from reflect_rl.config import LoRAConfig, ModelConfig, parse
from reflect_rl.data.generate import held_out_states
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import (
    ConfigError,
    FaultyEnvironmentError,
    FaultyPlayerError,
    ReflectRLWarning,
    RunFolderError,
    TrainingError,
    UserError,
)
from reflect_rl.models.kept import Kept
from reflect_rl.models.load import load_model
from reflect_rl.models.score import score
from reflect_rl.players.language_model import score_views
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.players.scripted import OracleReflector
from reflect_rl.runs.check import check
from reflect_rl.runs.config import RunConfig
from reflect_rl.training.checkpoint import CheckpointWarning
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.learner import no_dropout
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.types import Episode
from reflect_rl.watchdog import Limits
from tiny_models import KINDS, save_tiny
from toy import SPEC, rlft, tiny_player, trainer
from troubled.game import Config, Troubled

QUIET = lambda *_: None  # noqa: E731
EVERYTHING = {
    "algorithm": {"name": "ppo", "baseline": "value", "kl_coef": 0.1},
    "replay_capacity": 10,
    "replay_per_update": 3,
    "validate_every": 2,
    "checkpoint_every": 2,
    "keep": "best",
    "learning_rate": 2e-2,
    "curriculum": {"name": "stages"},
    "total_turns": 140,
}
"""Settings under which every part of the trainer's state matters."""


def run(folder: Path, config: RLFTConfig, progress=QUIET, **options) -> OnlineTrainer:
    if getattr(config.algorithm, "kl_coef", 0):
        options["reference"] = tiny_player()[0]
    training = trainer(folder, config, OracleReflector(), **options)
    training.train(progress)
    return training


def metrics(folder: Path) -> list[dict]:
    """The rows without the clock."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith(("time/", "memory/"))} for row in rows]


SETTINGS = [
    {"algorithm": {"name": "reinforce", "baseline": "leave_one_out"}},
    {"algorithm": {"name": "ppo", "baseline": "batch", "return_entropy_coef": 0.1}, "value_head": "mlp"},
    EVERYTHING,
]


@pytest.mark.parametrize(("changes", "shuffle"), zip(SETTINGS, [True, False, True], strict=True))
def test_the_same_seed_twice_gives_the_same_weights_and_metrics(tmp_path, changes, shuffle):
    first = run(tmp_path / "a", rlft(**changes), shuffle_labels=shuffle)
    second = run(tmp_path / "b", rlft(**changes), shuffle_labels=shuffle)
    assert first.model.hash() == second.model.hash() != tiny_player()[0].hash()
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b") != []


class InterruptedRunError(Exception):
    pass


def interrupt_after(updates: int):
    calls = []

    def progress(*_) -> None:
        calls.append(1)
        if len(calls) == updates:
            raise InterruptedRunError

    return progress


def test_more_tasks_of_an_update_than_there_are_is_told_once_for_each_stage(tmp_path, recwarn):
    stages = {"curriculum": {"name": "stages", "modes": ["near", "far"]}}
    near, far = (len(SPEC.tasks(mode, "train")) for mode in ("near", "far"))
    trained = run(tmp_path / "many", rlft(starts_per_update=1000, total_turns=400, **stages))
    assert trained.update >= 4
    told = [str(one.message) for one in recwarn if issubclass(one.category, ReflectRLWarning)]
    assert [one.partition(":")[0] for one in told] == [
        f"starts_per_update is 1000, and corridor has {count} training tasks of the mode {mode}"
        for mode, count in (("near", near), ("far", far))
    ]
    assert f"each update plays these, {2 * near} episodes. Lower it to {near}, or raise" in told[0]
    recwarn.clear()
    # As many as there are, and a default that nobody chose.
    run(tmp_path / "all", rlft(starts_per_update=near, curriculum={"name": "uniform", "modes": ["near"]}))
    default = parse(RLFTConfig, {"total_turns": 20, "validate_every": 0})
    assert default.starts_per_update > near
    run(tmp_path / "default", default, modes=("near",))
    assert not [one for one in recwarn if issubclass(one.category, ReflectRLWarning)]


@pytest.mark.parametrize("changes", [SETTINGS[0], EVERYTHING, EVERYTHING | {"value_head": "mlp"}])
@pytest.mark.parametrize("updates", [1, 3])
def test_an_interrupted_training_ends_like_an_uninterrupted_one(tmp_path, changes, updates):
    config = rlft(**{"checkpoint_every": 2, **changes})
    whole = run(tmp_path / "whole", config)
    assert whole.update >= 5
    with pytest.raises(InterruptedRunError):
        run(tmp_path / "parts", config, interrupt_after(updates))
    resumed = run(tmp_path / "parts", config)
    assert resumed.model.hash() == whole.model.hash()
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    assert (resumed.turns, resumed.episodes, resumed.best) == (whole.turns, whole.episodes, whole.best)
    mine, other = resumed.learner.value_head, whole.learner.value_head
    if mine is not None and other is not None:
        for a, b in zip(mine.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)


def test_failed_episodes_of_all_processes_count_together(tmp_path, monkeypatch):
    spec = EnvSpec(Troubled, Config(length=5, lengths=2, trouble="reset", at=(SPEC.tasks("near", "train")[0].key,)))
    config = rlft(starts_per_update=100, episodes_per_start=1, total_turns=10)
    model, labels = tiny_player()

    def training(folder: Path) -> OnlineTrainer:
        limits = Limits(failed_episodes=1)
        return OnlineTrainer(model, labels, OracleReflector(), spec, config, folder, seed=0, limits=limits)

    training(tmp_path / "one").train(QUIET)
    launched = training(tmp_path / "two")
    # As if another process had met the same.
    monkeypatch.setattr(launched.engine, "all_gather", lambda items: [*items, *items])
    with pytest.raises(FaultyEnvironmentError, match=r"^2 episodes failed, more than limits\.failed_episodes = 1 "):
        launched.train(QUIET)


def test_a_process_all_of_whose_episodes_failed_goes_on_with_those_of_the_others(tmp_path, monkeypatch):
    at = SPEC.tasks("near", "train")[0].key
    spec = EnvSpec(Troubled, Config(length=5, lengths=2, trouble="reset", at=(at,)))
    config = rlft(starts_per_update=100, episodes_per_start=1, total_turns=10)
    model, labels = tiny_player()

    def training(folder: Path, most: int) -> OnlineTrainer:
        folder.mkdir()
        limits = Limits(failed_episodes=most)
        return OnlineTrainer(model, labels, OracleReflector(), spec, config, folder, seed=0, limits=limits)

    whole = training(tmp_path / "one", 1)
    episodes = whole._roll_out(("near",))
    for most in (0, 1):
        launched = training(tmp_path / f"two-{most}", most)
        monkeypatch.setattr(launched, "_share", lambda requests: [r for r in requests if r.task.key == at])
        monkeypatch.setattr(launched.engine, "count", 2)
        # As if another process had played the other games.
        monkeypatch.setattr(launched.engine, "all_gather", lambda items: items or episodes)
        if most:
            assert launched._roll_out(("near",)) == episodes
            assert launched.failures == 1
        else:
            with pytest.raises(FaultyEnvironmentError, match=at):
                launched._roll_out(("near",))


def test_every_update_begins_without_memoised_probabilities_as_a_resumed_one_does(tmp_path):
    training = trainer(tmp_path, rlft(validate_every=1))
    sizes: list[int] = []
    training.train(lambda *_: sizes.append(len(training.policy._cache) + len(training.eval_policy._cache)))
    assert set(sizes) == {0}


def test_a_finished_training_is_not_trained_further(tmp_path):
    config = rlft(**EVERYTHING)
    first = run(tmp_path, config)
    rows = metrics(tmp_path)
    again = run(tmp_path, config, lambda *_: pytest.fail("an update was done"))
    assert again.model.hash() == first.model.hash()
    assert metrics(tmp_path) == rows


def test_a_corrupt_checkpoint_is_named_and_the_one_before_is_used(tmp_path):
    config = rlft(**EVERYTHING)
    whole = run(tmp_path, config)
    expected = metrics(tmp_path)
    places = sorted((tmp_path / "checkpoints").glob("step-*"))
    assert len(places) == 2
    path = places[-1] / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.warns(CheckpointWarning, match=places[-1].name):
        again = run(tmp_path, config)
    assert again.model.hash() == whole.model.hash()
    assert metrics(tmp_path) == expected


def test_when_no_checkpoint_is_whole_training_is_refused(tmp_path):
    run(tmp_path, rlft())
    for path in (tmp_path / "checkpoints").glob("step-*/weights.safetensors"):
        path.write_bytes(b"x")
    with pytest.warns(CheckpointWarning), pytest.raises(RunFolderError, match="step-"):
        run(tmp_path, rlft())


def checkpoint_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted((folder / "checkpoints").rglob("*")) if path.is_file()}


def test_exploding_weights_stop_the_training_and_the_checkpoint_stays(tmp_path):
    calm = rlft(total_turns=100, checkpoint_every=1)
    with pytest.raises(InterruptedRunError):
        run(tmp_path, calm, interrupt_after(1))
    before = checkpoint_bytes(tmp_path)
    assert before
    # Settings refuse such a rate, so it is put in behind their back.
    hopeless = rlft(total_turns=1000, checkpoint_every=100, max_grad_norm=1e30)
    with pytest.raises(TrainingError, match=r"update \d: the loss is .* Lower rlft.learning_rate"):
        run(tmp_path, hopeless.model_copy(update={"learning_rate": 1e30}))
    assert checkpoint_bytes(tmp_path) == before


def test_a_gradient_norm_above_the_limit_stops_the_training_and_the_turns_are_saved(tmp_path):
    config = rlft(stop_grad_norm=1e-6, algorithm={"name": "reinforce", "baseline": "none"})
    with pytest.raises(TrainingError, match=r"changed by it: the \d+ turns are in .*offending_batch\.jsonl"):
        run(tmp_path, config)
    rows = [json.loads(line) for line in (tmp_path / "offending_batch.jsonl").read_text().splitlines()]
    assert len(rows) > 1
    assert set(rows[0]) >= {"observation", "reflection", "action", "advantage", "behaviour_log_prob"}
    assert rows[0]["action"] < len(rows[0]["observation"]["actions"])
    # No update was done.
    assert trainer(tmp_path / "b", config).model.hash() == tiny_player()[0].hash()


def test_weights_that_are_not_finite_stop_the_first_update(tmp_path):
    training = trainer(tmp_path, rlft())
    with torch.no_grad():
        training.learner.parameters[0].fill_(float("nan"))
    with pytest.raises(FaultyPlayerError, match="no longer numbers"):
        training.train(QUIET)


@pytest.mark.parametrize(
    ("script", "best"),
    [
        ([0.2, 0.9, 0.4, 0.1, 0.3, 0.5, 0.0, 0.0], 1),
        # Of equal ones the most trained.
        ([0.2, 0.9, 0.4, 0.9, 0.3, 0.5, 0.0, 0.0], 3),
        # The policy before the first update counts too.
        ([0.9, 0.2, 0.4, 0.1, 0.3, 0.5, 0.0, 0.0], 0),
        # All modes count: the second policy loses in one what it wins in the other.
        ([(0.8, 1.0), (1.0, 0.1), *[(0.1, 0.1)] * 6], 0),
    ],
)
def test_keep_best_ends_with_the_weights_of_the_best_validation(tmp_path, monkeypatch, script, best):
    seen: list[str] = []
    play = OnlineTrainer._play
    rates = [each if isinstance(each, tuple) else (each, each) for each in script]

    def scripted_validation(self, policy, requests, horizon, limits, **options):
        requests = list(requests)
        if requests[0].task.split == "train":
            return play(self, policy, requests, horizon, limits, **options)
        is_far = requests[0].task.mode == "far"
        if not seen or (not is_far and seen[-1] != self.model.hash()):
            seen.append(self.model.hash())
        # Of ten episodes of a mode, as many are won as the script says.
        rate = rates[len(seen) - 1][not is_far]
        return [Episode(requests[0].task, (), True, False, k < rate * 10, 0, "x") for k in range(10)]

    monkeypatch.setattr(OnlineTrainer, "_play", scripted_validation)
    training = run(tmp_path, rlft(validate_every=1, keep="best", total_turns=120, learning_rate=1e-2))
    assert 4 < len(seen) <= len(script)
    assert len(set(seen)) == len(seen)
    assert training.model.hash() == seen[best]
    assert training.best == pytest.approx(0.9)


def test_the_best_of_a_game_without_validation_tasks_is_refused(tmp_path, monkeypatch):
    tasks = EnvSpec.tasks
    without = lambda spec, mode, split: () if split == "validation" else tasks(spec, mode, split)  # noqa: E731
    monkeypatch.setattr(EnvSpec, "tasks", without)
    said = r"keep: 'best' is chosen on validation tasks, and corridor has none of the modes near, far\. Set"
    with pytest.raises(ConfigError, match=said):
        run(tmp_path, rlft(keep="best", validate_every=1))
    settings = {"methods": ["rlft"], "environment": {"name": "corridor"}, "rlft": {"keep": "best"}}
    with pytest.raises(ConfigError, match=r"rlft\.keep: 'best' is chosen on validation tasks"):
        check(parse(RunConfig, settings | {"output_dir": str(tmp_path / "run")}))
    run(tmp_path, rlft(keep="last", validate_every=1, total_turns=1))


def test_keep_last_ends_with_the_last_weights(tmp_path, monkeypatch):
    hashes: list[str] = []
    validate = OnlineTrainer._validate

    def recording(self):
        hashes.append(self.model.hash())
        return validate(self)

    monkeypatch.setattr(OnlineTrainer, "_validate", recording)
    training = run(tmp_path, rlft(validate_every=1))
    assert training.model.hash() == hashes[-1] != hashes[0]


@pytest.mark.parametrize("kl_coef", [0.0, 0.1])
def test_a_temperature_is_that_of_playing_and_of_learning_and_not_of_validation(tmp_path, monkeypatch, kl_coef):
    """One update of one step: the policy that learns is the one that played, so the ratio is one."""
    played: dict[str, list[Episode]] = {"train": [], "validation": []}
    play = OnlineTrainer._play

    def recording(self, policy, requests, *arguments, **options):
        episodes = play(self, policy, requests, *arguments, **options)
        played[requests[0].task.split] += episodes
        return episodes

    monkeypatch.setattr(OnlineTrainer, "_play", recording)
    algorithm = {"name": "ppo", "epochs": 1, "kl_coef": kl_coef, "entropy_coef": 0.0}
    changes = {"algorithm": algorithm, "minibatch_turns": 10_000, "total_turns": 1, "validate_every": 1}
    found = {}
    for temperature in (1.0, 0.02):
        for episodes in played.values():
            episodes.clear()
        run(tmp_path / str(temperature), rlft(temperature=temperature, **changes))
        row = metrics(tmp_path / str(temperature))[1]
        assert row["policy/kl_to_behaviour"] == pytest.approx(0, abs=1e-6)
        model, labels = tiny_player()
        for split, at in (("train", temperature), ("validation", 1.0)):
            turn = played[split][0].turns[0]
            views = [turn.view]
            expected = score_views(model, labels, views, temperature=at).log_probs[0].tolist()
            assert turn.decision.log_probs == pytest.approx(expected, abs=1e-5), split
        found[temperature] = row["policy/entropy"]
    assert found[0.02] < found[1.0] - 0.01


def test_metrics_of_an_update(tmp_path):
    run(tmp_path, rlft(starts_per_update=3, episodes_per_start=2, validate_every=1))
    before, *rows = metrics(tmp_path)
    assert (before["update"], before["turns"], "rollout/success_rate" in before) == (0, 0, False)
    assert 0 <= before["validation/far/success_rate"] <= 1
    assert [row["update"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["episodes"] for row in rows] == [6 * row["update"] for row in rows]
    turns = [row["turns"] for row in rows]
    assert turns == sorted(turns)
    assert turns[-2] < 120 <= turns[-1]
    for row, earlier in zip(rows, [0, *turns], strict=False):
        assert row["rollout/mean_turns"] * 6 == pytest.approx(row["turns"] - earlier)
        assert 0 <= row["rollout/success_rate"] <= 1
        assert 0 <= row["validation/far/success_rate"] <= 1
    # Linearly from the learning rate to a tenth of it over the budget.
    rates = [3e-4 * (1 - 0.9 * used / 120) for used in [0, *turns[:-1]]]
    assert [row["policy/learning_rate"] for row in rows] == pytest.approx(rates)


def test_the_replay_is_drawn_before_the_new_episodes_are_added_and_cleared_with_the_stage(tmp_path):
    config = rlft(
        replay_capacity=50, replay_per_update=50, total_turns=200, curriculum={"name": "stages"}, starts_per_update=8
    )
    run(tmp_path, config)
    kept, stage = 0.0, None
    for row in metrics(tmp_path):
        kept = 0.0 if row["stage"] != stage else kept
        assert row["replay/episodes"] == pytest.approx(min(kept, 50))
        kept += row["rollout/success_rate"] * (row["episodes"] / row["update"])
        stage = row["stage"]
    assert {row["stage"] for row in metrics(tmp_path)} == {"near", "far"}
    assert any(row["replay/episodes"] > 0 for row in metrics(tmp_path))


@pytest.mark.parametrize("micro", [1, 400, 16_384])
def test_micro_batches_give_the_update_of_the_whole_minibatch(tmp_path, micro):
    config = {"algorithm": {"name": "ppo", "baseline": "value"}, "learning_rate": 1e-3, "total_turns": 30}
    whole = run(tmp_path / "whole", rlft(**config))
    parts = run(tmp_path / "parts", rlft(**config, micro_batch_tokens=micro))
    for mine, other in zip(parts.learner.parameters, whole.learner.parameters, strict=True):
        torch.testing.assert_close(mine, other, atol=2e-5, rtol=1e-3)


def test_kl_penalty_with_states_of_unequal_numbers_of_actions(tmp_path):
    config = rlft(algorithm={"name": "ppo", "kl_coef": 1.0}, minibatch_turns=2, total_turns=40)
    run(tmp_path, config)
    rows = metrics(tmp_path)
    # At the first step of the first update the policy is the reference; later it has moved away from it.
    assert 0 <= rows[0]["policy/kl"] < rows[-1]["policy/kl"]


def test_a_kl_penalty_keeps_the_policy_near_its_reference(tmp_path):
    def last_kl(coefficient: float) -> float:
        config = {"name": "ppo", "kl_coef": coefficient, "entropy_coef": 0.0}
        folder = tmp_path / str(coefficient)
        run(folder, rlft(algorithm=config, learning_rate=1e-2, total_turns=200))
        return metrics(folder)[-1]["policy/kl"]

    assert last_kl(20.0) < last_kl(1e-6) / 3


def test_a_training_whose_turns_are_all_excluded_stops(tmp_path):
    every_state = held_out_states(SPEC, ("near", "far")) | {
        f"{cells}-{goal}-{cell}" for cells in (5, 6) for goal in (0, cells - 1) for cell in range(cells)
    }
    training = trainer(tmp_path, rlft(), excluded=every_state)
    with pytest.raises(UserError, match="update 0: all turns are in states in which validation or test tasks begin"):
        training.train(lambda *_: None)
    assert training.model.hash() == tiny_player()[0].hash()


def test_given_rewards_are_learnt_from_and_stay_out_of_the_metrics(tmp_path):
    def run_on(reward: float, folder: Path) -> tuple[str, list[dict]]:
        def rewards(episodes):
            told = [replace(e, turns=tuple(replace(turn, reward=reward) for turn in e.turns)) for e in episodes]
            return told, {"reward/mine": reward}

        training = trainer(folder, rlft(total_turns=60, algorithm={"name": "reinforce"}), rewards=rewards)
        training.train(lambda *_: None)
        return training.model.hash(), metrics(folder)

    (none, rows), (some, _) = run_on(0.0, tmp_path / "none"), run_on(1.0, tmp_path / "some")
    assert none != some
    assert rows[-1]["reward/mine"] == 0.0 != rows[-1]["rollout/mean_return"]


def test_progress_is_learnt_from_and_stays_out_of_the_metrics(tmp_path, monkeypatch):
    """Replayed episodes too: what is kept of them are the game's own rewards, and how far the solver was."""
    config = rlft(progress=0.25, replay_capacity=5, replay_per_update=2, validate_every=1)
    training, learnt, played = trainer(tmp_path, config, OracleReflector()), [], []
    batch_of, roll_out = training.learner.batch_of, training._roll_out

    def recorded(episodes, replayed):
        learnt.append((episodes, replayed))
        return batch_of(episodes, replayed)

    monkeypatch.setattr(training.learner, "batch_of", recorded)
    monkeypatch.setattr(training, "_roll_out", lambda stage: played.append(roll_out(stage)) or played[-1])
    training.train(lambda *_: None)
    assert any(replayed for _, replayed in learnt)
    for own, (shaped, replayed) in zip(played, learnt, strict=True):
        assert shaped == [with_progress(episode, 0.25) for episode in own] != own
        for episode in replayed:
            assert episode.success
            plain = next(e for part in played for e in part if e.seed == episode.seed)
            assert episode.total_reward == pytest.approx(plain.total_reward + 0.25 * plain.turns[0].turns_left)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()][1:]
    for own, row in zip(played, rows, strict=True):
        assert row["rollout/mean_return"] == pytest.approx(sum(e.total_reward for e in own) / len(own))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [0, 2])
def test_nothing_is_dropped_while_training_even_with_gradient_checkpointing(tmp_path, kind, rank):
    config = ModelConfig(device="cpu", gradient_checkpointing=True, lora=LoRAConfig(rank=rank, dropout=0.5))
    model = load_model(config, save_tiny(kind, tmp_path / kind), trainable=True)
    if kind == "gpt2":
        assert model.model.config.attn_pdrop == model.model.config.resid_pdrop == 0.1
    states = [[5, 6, 7], [8, 9]], [[[3], [4]], [[5], [6]]]
    with torch.no_grad():
        expected = score(model, *states).log_probs
    no_dropout(model.model)
    recomputed = []
    for module in model.model.modules():
        if getattr(module, "gradient_checkpointing", False) and hasattr(module, "_gradient_checkpointing_func"):
            original = module._gradient_checkpointing_func
            module._gradient_checkpointing_func = lambda *a, f=original, **k: recomputed.append(1) or f(*a, **k)
    for _ in range(3):
        torch.testing.assert_close(score(model, *states).log_probs, expected, atol=1e-6, rtol=0)
    assert recomputed
    score(model, *states).log_probs[:, 0].sum().backward()
    assert all(w.grad is not None for w in model.model.parameters() if w.requires_grad)


def test_layers_that_drop_by_themselves_do_not_with_gradient_checkpointing_either():
    shape = {"hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 32, "num_hidden_layers": 2}
    model = OPTForCausalLM(OPTConfig(**shape, num_attention_heads=2, vocab_size=50, dropout=0.5))
    model.gradient_checkpointing_enable()
    no_dropout(model)
    tokens = torch.arange(10)[None]
    first, second = (model(tokens, use_cache=False).logits for _ in range(2))
    assert torch.equal(first, second)


def test_what_players_have_read_is_gone_before_the_policy_learns(tmp_path, monkeypatch):
    for name in ("network.REUSE_WIDTH", "score.REUSE_TOKENS"):
        monkeypatch.setattr(f"reflect_rl.models.{name}", 1)
    writer = FrozenReflector(tiny_player()[0], max_new_tokens=3)
    training = trainer(tmp_path, rlft(total_turns=30), writer)
    held: dict[str, list[int]] = {"play": [], "learn": []}
    players, learn, add = (training.policy, writer), training.learner.learn, Kept.add

    def watched(self, *parts, **rest):
        add(self, *parts, **rest)
        held["play"].append(self.bytes)

    def learned(*parts):
        held["learn"] += [player._kept.bytes for player in players]
        return learn(*parts)

    monkeypatch.setattr(Kept, "add", watched)
    monkeypatch.setattr(training.learner, "learn", learned)
    training.train(QUIET)
    assert min(held["play"]) > 0
    assert set(held["learn"]) == {0}
