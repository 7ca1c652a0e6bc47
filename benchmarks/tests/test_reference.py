"""The loops in the reference style play and learn the same as ours."""

from dataclasses import replace

import pytest
import torch

from reflect_bench import reference as module
from reflect_bench.reference import BATCH_EPISODES, REFLECTION_TOKENS, ReferenceLearner, ReferenceRollout
from reflect_bench.training import disagreement
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.rollout import Request, play
from reflect_rl.training.distributed import Engine
from reflect_rl.training.learner import Learner
from toy import SPEC, rlft, tiny_player, training_tasks


@pytest.fixture(scope="module")
def players():
    (policy, labels), (reflector, _) = tiny_player(seed=0), tiny_player(seed=1)
    return policy, labels, reflector


@pytest.fixture(scope="module")
def episodes(players):
    policy, labels, reflector = players
    requests = [Request(task, seed) for seed, task in enumerate(training_tasks()[:6])]
    return play(SPEC, requests, FrozenReflector(reflector, 8), LanguageModelPolicy(policy, labels), shuffle_labels=True)


@pytest.fixture
def _brief(monkeypatch):
    """Short reflections, where their length does not matter."""
    monkeypatch.setattr(module, "REFLECTION_TOKENS", 3)


def reference(players, **options):
    policy, labels, reflector = players
    return ReferenceRollout(policy, reflector, labels, SPEC, **options)


@pytest.mark.usefixtures("_brief")
def test_the_reference_style_plays_every_turn_with_the_probabilities_that_ours_recorded(players, episodes):
    played = reference(players).play(episodes)
    assert sorted(map(repr, played.turns)) == sorted(repr(turn) for episode in episodes for turn in episode.turns)
    assert disagreement(played) < 1e-5
    assert all(sum(map(pow, [2.718281828] * len(row), row)) == pytest.approx(1) for row in played.log_probs)


@pytest.mark.usefixtures("_brief")
def test_other_weights_disagree(players, episodes):
    other, labels, reflector = tiny_player(seed=7)[0], players[1], players[2]
    assert disagreement(reference((other, labels, reflector)).play(episodes)) > 1e-3


def test_finished_episodes_are_not_replaced(players, episodes):
    """The batches of the first rounds are full, and a batch shrinks until its longest episode ends."""
    sizes = []
    rollout = reference(players)
    rollout._reflect = lambda views: sizes.append(len(views)) or []
    rollout.play(episodes)
    lengths = [len(episode.turns) for episode in episodes]
    batches = [lengths[:BATCH_EPISODES], lengths[BATCH_EPISODES:]]
    assert sizes == [sum(length > turn for length in batch) for batch in batches for turn in range(max(batch))]


def test_every_reflection_has_100_tokens_and_none_is_remembered(players, episodes, monkeypatch):
    network, widths = players[2].model, []
    generate = network.generate

    def watched(input_ids, **options):
        output = generate(input_ids=input_ids, **options)
        widths.append(output.sequences.shape[1] - input_ids.shape[1])
        return output

    monkeypatch.setattr(network, "generate", watched)
    rollout = reference(players)
    rollout.play(episodes[:1])
    rollout.play(episodes[:1])
    assert widths == [REFLECTION_TOKENS] * 2 * len(episodes[0].turns)


@pytest.mark.usefixtures("_brief")
def test_the_budget_ends_the_play_after_a_whole_round(players, episodes):
    assert len(reference(players).play(episodes, budget_seconds=0).turns) == BATCH_EPISODES


def test_an_episode_of_another_game_is_refused(players, episodes):
    turns = episodes[0].turns
    seen = replace(turns[0].observation, text="elsewhere")
    broken = replace(episodes[0], turns=(replace(turns[0], observation=seen), *turns[1:]))
    with pytest.raises(RuntimeError, match="left the recorded episode at turn 0"):
        reference(players).play([broken])


@pytest.mark.parametrize("algorithm", ["ppo", "reinforce"])
def test_both_updates_have_the_same_gradient(episodes, algorithm):
    config = rlft(
        algorithm={"name": algorithm, "epochs": 1} if algorithm == "ppo" else {"name": algorithm},
        minibatch_turns=1000,
        max_grad_norm=1e9,
    )
    (ours, labels), (theirs, _) = tiny_player(seed=3), tiny_player(seed=3)
    for model in (ours, theirs):
        model.model.requires_grad_(True)
    learner = Learner(ours, labels, config, 0, Engine(ours.device))
    # With a learning rate of zero, the gradient of the one step stays where it is.
    views, batch = learner.batch_of(episodes)
    learner.learn(views, batch, 0, 0.0)
    style = ReferenceLearner(theirs, labels, learner.algorithm, 0.0, 1e9)
    for turn, view in enumerate(views):
        style.add(view, batch.select(torch.tensor([turn])), 1 / len(views))
    largest = max(float(p.grad.abs().max()) for p in ours.model.parameters())
    assert largest > 1e-3
    for mine, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5 * largest)


def test_a_step_uses_up_the_gradient():
    model, labels = tiny_player()
    style = ReferenceLearner(model, labels, None, 1e-3, 1.0)
    before = model.hash()
    for parameter in style.parameters:
        parameter.grad = torch.ones_like(parameter)
    style.step()
    assert model.hash() != before
    assert all(parameter.grad is None for parameter in style.parameters)
