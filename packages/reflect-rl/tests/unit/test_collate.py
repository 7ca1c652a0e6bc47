"""From episodes to a batch: order, exclusions, replay, and a ratio of one before the first update."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from reflect_rl.algorithms import expected as expected_gradient, ppo, reinforce
from reflect_rl.algorithms._batch import Outputs, Trajectory
from reflect_rl.batch import by_action, chosen_log_prob, collate
from reflect_rl.config import Rule
from reflect_rl.envs.corridor import Corridor
from reflect_rl.players.language_model import LanguageModelPolicy, score_views
from reflect_rl.players.scripted import OraclePolicy, OracleReflector
from reflect_rl.rollout import NoReflector, Request, play
from reflect_rl.types import NO_ACTION, Decision, Episode, Observation, Task, Turn, View
from toy import SMALL, SPEC, tiny_player, training_tasks

PLAIN = reinforce.Reinforce(reinforce.ReinforceConfig(baseline="none", normalise_advantages=False))
HALF, QUARTER = math.log(0.5), math.log(0.25)


def turn(state: str, reward: float, index: int = 0) -> Turn:
    log_probs = (HALF, HALF) if index == 0 else (math.log(0.75), QUARTER)
    seen = Observation(f"You are at {state}.", ("left", "right"), state)
    return Turn(seen, (1, 0), f"about {state}", Decision(index, "model", log_probs), reward)


def episode(key: str, *turns: Turn, success: bool = False, mode: str = "near") -> Episode:
    return Episode(Task(key, mode, "train"), turns, True, False, success, 0, "corridor-v1")


FRESH = [episode("a", turn("1", 0.0), turn("2", 1.0, 1)), episode("b", turn("3", -0.5, 1))]
WIN = episode("c", turn("4", 0.25), turn("5", 1.0, 1), success=True)


def test_views_and_rows_are_the_turns_in_order():
    views, batch = collate(PLAIN, FRESH, [], frozenset(), None, None)
    expected = [t for e in FRESH for t in e.turns]
    assert views == [t.view for t in expected]
    assert views[1] == View(expected[1].observation, (1, 0), "about 2")
    assert batch.actions.tolist() == [0, 1, 1]
    assert batch.behaviour_log_probs.tolist() == pytest.approx([HALF, QUARTER, QUARTER])
    assert batch.returns.tolist() == [1.0, 1.0, -0.5]
    assert batch.advantages.tolist() == [1.0, 1.0, -0.5]
    assert batch.replayed.tolist() == [False] * 3
    assert (batch.actions.dtype, batch.advantages.dtype) == (torch.int64, torch.float32)


def test_tasks_of_two_modes_with_one_key_are_not_compared():
    algorithm = reinforce.Reinforce(reinforce.ReinforceConfig(normalise_advantages=False))
    rewards = [("near", 1.0), ("near", 0.0), ("far", -1.0), ("far", -2.0)]
    fresh = [episode("a", turn("1", reward), mode=mode) for mode, reward in rewards]
    _, batch = collate(algorithm, fresh, [], frozenset(), None, None)
    assert batch.advantages.tolist() == [1.0, -1.0, 1.0, -1.0]


def test_excluded_states_are_not_learnt_from():
    views, batch = collate(PLAIN, FRESH, [WIN], frozenset({"1", "3", "5"}), None, None)
    assert [view.observation.state for view in views] == ["2", "4"]
    # The reward of an excluded turn still counts in the return of the turns before it.
    assert batch.returns.tolist() == [1.0, 1.25]
    assert batch.replayed.tolist() == [False, True]
    nothing, empty = collate(PLAIN, FRESH, [], frozenset("123"), None, None)
    assert (nothing, len(empty)) == ([], 0)


def test_replayed_successes_carry_their_gain_over_the_fresh_mean():
    _, batch = collate(PLAIN, FRESH, [WIN], frozenset(), None, None)
    assert batch.replayed.tolist() == [False] * 3 + [True] * 2
    # 1.25 - (1 - 0.5) / 2 = 1, on every turn; returns are its own.
    assert batch.advantages.tolist()[3:] == [1.0, 1.0]
    assert batch.returns.tolist()[3:] == [1.25, 1.0]
    assert batch.behaviour_log_probs.tolist()[3:] == pytest.approx([HALF, QUARTER])


def test_a_replayed_advantage_is_never_negative_and_compares_with_its_own_mode_only():
    better = [episode("a", turn("1", 2.0)), episode("b", turn("2", -1.0), mode="far")]
    _, batch = collate(PLAIN, better, [WIN], frozenset(), None, None)
    assert batch.advantages.tolist()[2:] == [0.0, 0.0]
    _, without_peers = collate(PLAIN, better[1:], [WIN], frozenset(), None, None)
    assert without_peers.advantages.tolist()[1:] == [0.0, 0.0]


def test_replayed_advantages_share_the_scale_of_normalised_ones():
    algorithm = reinforce.Reinforce(reinforce.ReinforceConfig(baseline="none", normalise_advantages=True))
    _, batch = collate(algorithm, FRESH, [WIN], frozenset(), None, None)
    # The returns 1 and -0.5 have deviation 0.75.
    assert batch.advantages.tolist()[3:] == pytest.approx([1 / 0.75] * 2)


def test_fresh_episodes_that_all_ended_alike_do_not_blow_up_the_replay():
    algorithm = reinforce.Reinforce(reinforce.ReinforceConfig(baseline="none", normalise_advantages=True))
    alike = [episode(key, turn("1", -0.5)) for key in "ab"]
    _, batch = collate(algorithm, alike, [WIN], frozenset(), None, None)
    assert batch.advantages.tolist()[2:] == pytest.approx([1.75, 1.75])


def test_values_and_reference_are_asked_about_the_right_views():
    asked: list[list[str]] = []

    def values(views):
        asked.append([view.observation.state for view in views])
        return torch.tensor([0.5, 0.25, 0.0, 0.125, 0.75])

    def reference(views):
        asked.append([view.observation.state for view in views])
        return torch.tensor([[HALF, HALF]] * len(views))

    algorithm = reinforce.Reinforce(
        reinforce.ReinforceConfig(baseline="value", gae_lambda=1.0, normalise_advantages=False)
    )
    _, batch = collate(algorithm, FRESH, [WIN], frozenset({"2"}), values, reference)
    # The critic sees whole trajectories, the reference the rows that are learnt from.
    assert asked == [["1", "2", "3", "4", "5"], ["1", "3", "4", "5"]]
    assert batch.advantages.tolist()[:2] == [0.5, -0.5]
    assert batch.reference_log_probs.shape == (4, 2)


def test_replayed_turns_have_value_targets_and_gains_on_the_scale_of_the_fresh_ones():
    _, batch = collate(
        expected_gradient.Expected(expected_gradient.ExpectedConfig()), FRESH, [WIN], frozenset(), None, None
    )
    # Over the mean of the other episode the returns 1, 1, -0.5 are 1.5, 1.5, -1.5, of variance 2.25 - 0.25. Those of
    # WIN, 1.25 and 1, are over the mean of all turns, 0.5.
    scale = math.sqrt(2)
    assert batch.returns.tolist() == pytest.approx([x / scale for x in (1.5, 1.5, -1.5, 0.75, 0.5)])
    # The totals 1 and -0.5 have mean 0.25 and deviation 0.75; WIN's total of 1.25 is one above the mean.
    assert batch.advantages.tolist()[3:] == pytest.approx([1 / 0.75] * 2)


class Recorder(reinforce.Reinforce):
    seen: list[Trajectory]

    def advantages(self, trajectories, values):
        self.seen = list(trajectories)
        return super().advantages(trajectories, values)


def test_an_algorithm_sees_tasks_states_and_success():
    recorder = Recorder(PLAIN.config)
    collate(recorder, [*FRESH, WIN], [], frozenset({"1"}), None, None)
    assert [(t.group, t.states, t.success) for t in recorder.seen] == [
        ("near\na", ["1", "2"], False),
        ("near\nb", ["3"], False),
        ("near\nc", ["4", "5"], True),
    ]
    assert recorder.seen[0].rewards == [0.0, 1.0]
    # log 2; ¾ log 4/3 + ¼ log 4.
    second = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert recorder.seen[0].entropies == pytest.approx([math.log(2), second])


def test_episodes_of_a_player_without_probabilities_are_refused():
    episodes = play(SPEC, [Request(training_tasks()[0], 0)], NoReflector(), OraclePolicy())
    with pytest.raises(ValueError, match="'oracle' reports no probabilities"):
        collate(PLAIN, episodes, [], frozenset(), None, None)


@pytest.mark.parametrize("rule", ["choice_token", "sum", "token_mean"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("reflector", [NoReflector, OracleReflector])
def test_before_the_first_update_every_ratio_is_one(rule: Rule, shuffle, reflector):
    model, labels = tiny_player(layers=2)
    with torch.no_grad():
        for weight in model.model.parameters():
            weight.mul_(3 if weight.dim() > 1 else 1)
    requests = [Request(task, k) for k, task in enumerate(training_tasks() * 2)]
    policy = LanguageModelPolicy(model, labels, rule=rule)
    episodes = play(SPEC, requests, reflector(), policy, num_envs=5, shuffle_labels=shuffle)
    views, batch = collate(PLAIN, episodes, [], frozenset(), None, None)
    with torch.no_grad():
        scores = score_views(model, labels, views, rule)
    ratio = (Outputs(scores.log_probs).chosen(batch) - batch.behaviour_log_probs).exp()
    torch.testing.assert_close(ratio, torch.ones(len(views)), atol=1e-5, rtol=0)
    # The choices were not all alike, so a wrong column would show.
    assert float(batch.behaviour_log_probs.std()) > 0.01


def test_a_listing_order_changes_the_label_of_an_action_and_not_its_column():
    model, labels = tiny_player()
    task = next(t for t in Corridor(SMALL).tasks("near", "train"))
    (played,) = play(SPEC, [Request(task, 0)], NoReflector(), OraclePolicy())
    seen = played.turns[0].observation
    count = len(seen.actions)
    from reflect_rl.players.language_model import tokenize

    for seed in range(4):
        order = tuple(np.random.default_rng(seed).permutation(count).tolist())
        _, actions = tokenize(model, labels, View(seen, order))
        for number, index in enumerate(order):
            assert actions[index] == (labels.ids[number],)


def test_the_first_ppo_loss_on_fresh_turns_is_minus_the_mean_advantage():
    model, labels = tiny_player()
    algorithm = ppo.PPO(ppo.PPOConfig(entropy_coef=0.0, baseline="batch"))
    requests = [Request(task, k) for k, task in enumerate(training_tasks())]
    episodes = play(SPEC, requests, NoReflector(), LanguageModelPolicy(model, labels))
    views, batch = collate(algorithm, episodes, [], frozenset(), None, None)
    loss = algorithm.loss(batch, Outputs(score_views(model, labels, views).log_probs))
    assert loss.value.item() == pytest.approx(-float(batch.advantages.mean()), abs=1e-5)
    assert loss.metrics["policy/clip_fraction"] == 0.0


def test_values_by_number_are_put_in_the_order_of_the_actions():
    views = [View(Observation("x", ("a", "b", "c")), (2, 0, 1)), View(Observation("y", ("a", "b")), (1, 0))]
    table = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    # In x number 0 names action 2, number 1 action 0, number 2 action 1; y has no third action.
    assert by_action(table, views).tolist() == [[2.0, 3.0, 1.0], [5.0, 4.0, 0.0]]


@pytest.mark.parametrize("coefficient", [0.0, 0.5])
def test_an_action_of_the_probability_zero_adds_nothing_to_the_entropy(coefficient):
    config = reinforce.ReinforceConfig(baseline="none", normalise_advantages=False, return_entropy_coef=coefficient)
    sure = Turn(turn("1", 0.0).observation, (0, 1), None, Decision(0, "model", (HALF, HALF)), 1.0)
    choice = Decision(1, "model", (-math.inf, 0.0))
    never = Turn(sure.observation, (0, 1), None, choice, 0.25)
    _, batch = collate(reinforce.Reinforce(config), [episode("a", never, sure)], [], frozenset(), None, None)
    # The entropy of two equal chances is log 2, that of certainty 0.
    assert batch.returns.tolist() == pytest.approx([1.25 + coefficient * math.log(2), 1 + coefficient * math.log(2)])
    assert batch.behaviour_log_probs.tolist() == pytest.approx([0.0, HALF])


@pytest.mark.parametrize("decision", [Decision(0, "script"), Decision(NO_ACTION, "script", (HALF, HALF), answer="?")])
def test_a_choice_without_a_probability_is_named(decision):
    told = Turn(turn("1", 0.0).observation, (0, 1), None, decision, 0.0)
    with pytest.raises(ValueError, match=r"^the player 'script' reports no probabilities of its choice"):
        chosen_log_prob(told)
