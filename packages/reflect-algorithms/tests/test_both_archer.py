"""ArCHer's critic over both players: advantages by hand, what is learned, and that an interruption changes nothing."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import reflect_algorithms.both.archer as archer
import reflect_algorithms.both.reflector as reflector
import reflect_rl as rrl
from offline_toy import RIGHT, TASKS, StoppedError, shuffled
from reflect_algorithms import train_both
from reflect_algorithms.both.archer import TurnCritic, value_turns
from reflect_algorithms.both.reflector import OnlineReflector
from reflect_algorithms.both.settings import ReflectorTrainingConfig, reflector_training
from reflect_algorithms.training import Frozen
from reflect_rl.agent import trainable_copy
from reflect_rl.config import parse
from reflect_rl.errors import ConfigError
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import completion_losses
from reflect_rl.players.scripted import OracleReflector
from reflect_rl.prompts import reflection_prompt
from reflect_rl.runs.config import RunConfig
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.types import Decision, Episode, Observation, Task, Turn, View
from run_toy import BOTH_PLAYERS, corridor_run, whole_run
from toy import SPEC, rlft, tiny_player, trainer

QUIET = lambda *_: None  # noqa: E731
ARCHER = {"critic_steps": 30, "turns": 128, "gamma": 0.9}


def player(max_new_tokens: int = 2, **settings) -> OnlineReflector:
    config = parse(ReflectorTrainingConfig, {"critic": "archer", "archer": ARCHER} | settings)
    return OnlineReflector(tiny_player(seed=5)[0], tiny_player(seed=5)[0], config, max_new_tokens, 0)


def valued(training: OnlineTrainer) -> TurnCritic:
    writer = training.reflector
    assert isinstance(writer, OnlineReflector)
    return value_turns(training, tiny_player()[0], writer, writer.config.archer)


def plain(**changes):
    """Settings of online RL with the paper's policy gradient."""
    return rlft(algorithm={"name": "reinforce", "entropy_coef": 0.05}, **changes)


class Told:
    """A critic whose Q is 4 and 0 behind the text `good`, 2 and 6 behind any other; the third number has no action."""

    def least(self, hidden):
        return torch.where(hidden[:, :1] > 0, torch.tensor([4.0, 0.0, 9.0]), torch.tensor([2.0, 6.0, 9.0]))


def turn(text: str, number: int, order: Sequence[int] = (0, 1)) -> Turn:
    decision = Decision(order[number], "p", (-0.7, -0.7))
    return Turn(Observation(f"At {text}.", ("left", "right")), tuple(order), text, decision, 1.0)


ENDED = (True, False, True, 0, "toy-v1")
"""The other fields of an episode that was won."""


def test_the_advantage_is_that_of_the_whole_utterance_and_reaches_tokens_and_actions(tmp_path, monkeypatch):
    def scores(model, labels, views, rule, temperature=1.0):
        # π is 1/4 and 3/4 by action, whatever was written.
        policy = torch.tensor([[0.25, 0.75]]).log().expand(len(views), 2)
        return Frozen(policy, torch.tensor([[1.0 if view.reflection == "good" else 0.0] for view in views]))

    monkeypatch.setattr(archer, "frozen_scores", scores)
    monkeypatch.setattr(archer, "fit_critic", lambda *_: 0.0)
    writer = player()
    monkeypatch.setattr(writer, "draw", lambda views: ["other"] * len(views))
    training = trainer(tmp_path, rlft(algorithm={"name": "reinforce", "entropy_coef": 0.0}), writer)
    critic = valued(training)
    critic.critic = Told()  # type: ignore[assignment]
    # The second one has run out of turns, which hides what its last turn led to, and not what was done there.
    episodes = [
        Episode(Task("t"), (turn("good", 0), turn("bad", 1, (1, 0))), *ENDED),
        Episode(Task("t"), (turn("good", 1),), False, True, False, 1, "toy-v1"),
    ]
    told, metrics = training.rewards(episodes)
    assert told == episodes
    # By hand: behind `other` the players get 1/4 · 2 + 3/4 · 6 = 5; listed the other way round 3/4 · 2 + 1/4 · 6 = 3.
    expected = [4.0 - 5.0, 6.0 - 3.0, 0.0 - 5.0]
    views, batch = training.learner.batch_of(told)
    assert batch.advantages.tolist() == pytest.approx(expected)
    assert metrics["critic/value"] == pytest.approx((5 + 3 + 5) / 3)
    assert metrics["critic/advantage_std"] == pytest.approx(np.std(expected))
    # The texts, each with the advantage of its turn; `good` was written in one state and shown twice.
    for view in views:
        writer._texts[reflection_prompt(view), view.reflection or ""] = [7]
    assert [row.advantage for row in writer._rows(views, batch.advantages.tolist())] == pytest.approx([-6.0, 3.0])
    # The policy's loss is -mean A log π(a), with log π = -0.7 - 0.1 k for the action k: 0, 0 and 1.
    outputs = archer.Outputs(torch.tensor([[-0.7, -0.8]]).expand(3, 2))
    assert training.learner.algorithm.loss(batch, outputs).value.item() == pytest.approx(
        -(-1.0 * -0.7 + 3.0 * -0.7 + -5.0 * -0.8) / 3
    )


def test_old_turns_are_learned_from_with_texts_of_the_present(tmp_path, monkeypatch):
    """The replay holds all turns, a limited number of them is drawn, and their next states get new texts."""
    seen: list[archer.Experience] = []
    monkeypatch.setattr(archer, "fit_critic", lambda critic, turns, *_: seen.append(turns) or 0.0)
    writer = player(archer=ARCHER | {"turns": 5})
    training = trainer(tmp_path, plain(), writer)
    critic = valued(training)
    asked: list[View] = []
    draw = writer.draw
    monkeypatch.setattr(writer, "draw", lambda views: asked.extend(views) or draw(views))
    first, second = (training._roll_out((mode,)) for mode in ("near", "far"))
    critic(first)
    critic(second)
    assert len(critic.episodes) == len(first) + len(second)
    assert [len(turns.numbers) for turns in seen] == [5, 5]
    # In the second update: 5 next turns of any game, and the turns that are valued.
    own = [turn.view for episode in second for turn in episode.turns]
    assert asked[-len(own) :] == own
    played = {turn.view for episode in critic.episodes for turn in episode.turns}
    assert set(asked) <= played
    # Nothing was learned from what was only drawn.
    assert set(writer._texts) == {(reflection_prompt(view), view.reflection) for view in played}


def test_a_turn_is_followed_by_the_next_state_with_a_new_text(tmp_path, monkeypatch):
    seen: list[archer.Experience] = []
    marks = {"x": 1.0, "y": 2.0, "z": 3.0, "new": 9.0}

    def scores(model, labels, views, rule, temperature=1.0):
        hidden = [[marks[view.observation.text[3]], marks[view.reflection or ""]] for view in views]
        return Frozen(torch.tensor([[0.25, 0.75]]).log().expand(len(views), 2), torch.tensor(hidden))

    monkeypatch.setattr(archer, "frozen_scores", scores)
    monkeypatch.setattr(archer, "fit_critic", lambda critic, turns, *_: seen.append(turns) or 0.0)
    writer = player()
    monkeypatch.setattr(writer, "draw", lambda views: ["new"] * len(views))
    training = trainer(tmp_path, plain(), writer)
    valued(training)([Episode(Task("t"), (turn("x", 0), turn("y", 1, (1, 0)), turn("z", 0)), *ENDED)])
    (turns,) = seen
    order = turns.hidden[:, 0].argsort()
    assert turns.hidden[order].tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert turns.numbers[order].tolist() == [0, 1, 0]
    assert turns.going_on[order].tolist() == [True, True, False]
    assert turns.next_hidden[order][:2].tolist() == [[2.0, 9.0], [3.0, 9.0]]
    # In y the actions are listed the other way round; a third number, which SPEC has, lists none.
    assert turns.next_policy[order][:2].tolist() == [[0.75, 0.25, 0.0], [0.25, 0.75, 0.0]]


WORDS = (" left", " right")


@cache
def taught() -> LanguageModel:
    """A reflection player that has learned to write one of two words, whatever the state is."""
    model, _ = tiny_player(seed=5)
    prompts = [model.encode_prompt(reflection_prompt(View(RIGHT.make().reset(task), ()))) for task in TASKS]
    ids = [[*prompt, model.encode(word)[-1]] for prompt in prompts for word in WORDS]
    masks = [[0] * (len(row) - 1) + [1] for row in ids]
    optimizer = torch.optim.Adam(model.model.parameters(), lr=1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        completion_losses(model, ids, masks).mean().backward()
        optimizer.step()
    return model


def last_shares(folder: Path, word: str, *, by_chance: bool = False) -> float:
    """Train where turns are paid for a word, in their reflection or in another one; its share in the last updates."""
    config = player(learning_rate=3e-2, archer={"critic_steps": 30, "turns": 64, "gamma": 0.1}).config
    writer = OnlineReflector(trainable_copy(taught()), taught(), config, 1, 0)
    # The policy stays as it is, so that whatever is learned is learned by the tokens.
    training = trainer(folder, plain(total_turns=240, learning_rate=1e-9), writer)
    shares, rng = list[float](), np.random.default_rng(0)

    def rewards(episodes: Sequence[Episode]) -> tuple[list[Episode], dict[str, float]]:
        written = [word.strip() in (turn.reflection or "") for episode in episodes for turn in episode.turns]
        if written:
            shares.append(float(np.mean(written)))
        paid = iter(rng.permutation(written) if by_chance else written)
        return [
            replace(one, turns=tuple(replace(turn, reward=float(next(paid))) for turn in one.turns)) for one in episodes
        ], {}

    training.rewards = rewards
    valued(training)
    training.train(QUIET)
    return float(np.mean(shares[-3:]))


def test_words_that_are_paid_become_likelier_and_by_chance_they_do_not(tmp_path):
    for by_chance in (False, True):
        left, right = (last_shares(tmp_path / f"{word}{by_chance}", word, by_chance=by_chance) for word in WORDS)
        # At the start each has about half, so chance alone leaves the sum near one.
        assert left + right <= 1.25 if by_chance else left + right >= 1.6


def last_success(folder: Path, *, shuffle: bool) -> float:
    """Train both players in corridors whose goal is the right end; the success of the last four updates."""
    model, labels = tiny_player()
    settings = plain(total_turns=400, learning_rate=1e-2, starts_per_update=6)
    training = OnlineTrainer(model, labels, player(learning_rate=1e-3), RIGHT, settings, folder, 0)
    if shuffle:
        true = training.rewards
        training.rewards = lambda episodes: (shuffled(true(episodes)[0]), {})
    valued(training)
    training.train(QUIET)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert {"critic/loss", "critic/value", "critic/advantage_std", "reflector/loss", "policy/loss"} <= rows[-1].keys()
    return float(np.mean([row["rollout/success_rate"] for row in rows[-4:]]))


def test_both_players_learn_to_win_and_shuffled_rewards_teach_nothing(tmp_path):
    assert last_success(tmp_path / "true", shuffle=False) >= 0.9
    assert last_success(tmp_path / "shuffled", shuffle=True) <= 0.6


def both(folder: Path, progress=QUIET) -> tuple[OnlineTrainer, OnlineReflector, TurnCritic]:
    writer = player(4, learning_rate=1e-2, archer={"critic_steps": 5, "turns": 16})
    training = trainer(folder, plain(checkpoint_every=2, learning_rate=1e-2, validate_every=2), writer)
    critic = valued(training)
    training.train(progress)
    return training, writer, critic


def test_an_interrupted_training_ends_like_an_uninterrupted_one(tmp_path):
    whole, writer, critic = both(tmp_path / "whole")
    assert whole.update >= 4
    calls: list[int] = []

    def stop(*_: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        both(tmp_path / "parts", stop)
    resumed, again, restored = both(tmp_path / "parts")
    assert resumed.model.hash() == whole.model.hash()
    assert again.model.hash() == writer.model.hash() != writer.reference.hash()
    assert restored.episodes == critic.episodes
    for name, group in critic.tensors().items():
        assert all(torch.equal(tensor, restored.tensors()[name][key]) for key, tensor in group.items())


def test_a_launch_of_several_processes_is_refused(monkeypatch):
    monkeypatch.setattr(reflector, "Engine", lambda device: SimpleNamespace(count=2))
    with pytest.raises(ConfigError, match="reflect_rl_both trains in one process, and 2 were launched"):
        player()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithm": {"name": "grpo"}}, "rlft.algorithm.name: 'grpo' does not weight actions"),
        ({"replay_capacity": 5}, "rlft.replay_capacity: 5 won episodes would be replayed"),
    ],
)
def test_settings_that_do_not_go_with_the_critic_are_named(tmp_path, changes, said):
    methods = ["sft_reflect", "reflect_rl_both"]
    for critic, count in (("archer", 1), ("algorithm", 0)):
        config = parse(RunConfig, {"methods": methods, "rlft": changes | {"reflector": {"critic": critic}}})
        assert [said in mistake for mistake in reflector_training(config).mistakes(config)] == [True] * count
    with pytest.raises(ConfigError, match=said):
        valued(trainer(tmp_path, rlft(**changes), player()))


SETTINGS = corridor_run(
    '["reflect_rl_both"]',
    BOTH_PLAYERS
    + """\
[rlft]
total_turns = 40
starts_per_update = 2
[rlft.reflector]
critic = "archer"
[rlft.reflector.archer]
critic_steps = 3
turns = 8
[reflector]
max_new_tokens = 4
""",
)


def test_a_run_says_in_its_cards_who_valued_the_turns(tmp_path):
    place = whole_run(tmp_path, SETTINGS) / "rlft_both" / "reflect_rl_both"
    for part in ("model", "reflector"):
        card = (place / part / "README.md").read_text()
        block = card.partition("```toml\n")[2].partition("```")[0]
        expected = {"gamma": 0.95, "critic_steps": 3, "critic_learning_rate": 3e-3, "target_rate": 0.1, "turns": 8}
        assert tomllib.loads(block) == {"rlft": {"reflector": {"archer": expected}}}
    assert "critic/loss" in json.loads((place / "metrics.jsonl").read_text().splitlines()[-1])


def test_both_players_are_trained_from_python():
    episodes = rrl.collect(SPEC, "oracle", OracleReflector(), episodes=8)
    small = rrl.load_model("embedded", hidden_size=16, layers=1, heads=2)
    agent = rrl.train_sft(small, episodes, env=SPEC, steps=3, reflections=True)
    archers = {"critic": "archer", "archer": {"critic_steps": 3}, "learning_rate": 1e-2}
    settings = {"turns": 40, "starts_per_update": 2}
    trained = [train_both(agent, SPEC, reflector=own, **settings) for own in ({"learning_rate": 1e-2}, archers)]
    # Other advantages teach other weights.
    assert len({one.model.hash() for one in (agent, *trained)}) == 3
    assert len({one.reflector.model.hash() for one in (agent, *trained)}) == 3
