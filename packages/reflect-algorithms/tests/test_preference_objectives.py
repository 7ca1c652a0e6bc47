"""Losses of pairs by hand: the reward model's, DPO's and RRHF's, and the rewards of RLHF."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from reflect_algorithms.comparisons import Comparison, split_by_start
from reflect_algorithms.heads import ActionHead
from reflect_algorithms.preferences import rlhf
from reflect_algorithms.preferences.dpo import DirectPreferences
from reflect_algorithms.preferences.objective import Compared
from reflect_algorithms.preferences.reward_model import Ranking, RewardModel
from reflect_algorithms.preferences.rlhf import RLHF, LearnedReward, PPOMax
from reflect_algorithms.preferences.rrhf import RankedResponses
from reflect_algorithms.preferences.settings import RLHFConfig, preferences_config
from reflect_algorithms.training import frozen_scores
from reflect_rl import registry
from reflect_rl.algorithms import Outputs, Trajectory
from reflect_rl.algorithms.ppo import PPOConfig
from reflect_rl.config import AlgorithmConfig, parse
from reflect_rl.errors import ConfigError, UserError
from reflect_rl.runs.config import RunConfig
from reflect_rl.training.config import RLFTConfig
from reflect_rl.types import NO_ACTION, Decision, Episode, Observation, Task, Turn, View
from toy import tiny_player

A, B, C = (View(Observation(text, ("left", "right")), (0, 1)) for text in "abc")
EPISODES = Comparison("one", ((A, 0), (B, 1)), ((C, 0),))
"""Two turns are better than one."""
ACTIONS = Comparison("two", ((A, 1),), ((A, 0),))
LOG_PROBS = torch.tensor([[0.5, 0.5], [0.75, 0.25], [0.2, 0.8], [0.5, 0.5], [0.5, 0.5]]).log()
"""Of the turns of both pairs: A, B, C, then A twice."""


def log_sigmoid(x: float) -> float:
    return -math.log(1 + math.exp(-x))


def test_sums_are_those_of_each_side():
    pairs = Compared([EPISODES, ACTIONS])
    assert pairs.views == [A, B, C, A, A]
    # The second pair first, as a batch may draw them.
    order = torch.tensor([1, 0])
    assert pairs.rows(order).tolist() == [3, 4, 0, 1, 2]
    assert pairs.sums(order, torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == [[1.0, 2.0], [7.0, 5.0]]


def test_dpo_is_the_log_sigmoid_of_the_difference_of_log_ratios():
    # By hand, with β = 2 and π_ref = 1/2: ratios 1 · 1/2 of the better episode, 2/5 of the worse one.
    reference = torch.full((5,), 0.5).log()
    loss = DirectPreferences([EPISODES, ACTIONS], reference, 2.0).loss(torch.tensor([0]), Outputs(LOG_PROBS[:3]))
    assert float(loss.value) == pytest.approx(-log_sigmoid(2 * math.log((1 / 2) / (2 / 5))))
    assert loss.metrics["better_reward"] == pytest.approx(2 * math.log(1 / 2))
    assert loss.metrics["pair_accuracy"] == 1.0


def test_rrhf_ranks_length_normalised_log_probabilities():
    # By hand: the better side has (log 1/2 + log 1/4) / 2 = -1.5 log 2, the worse one log 1/5.
    loss = RankedResponses([EPISODES], 0.5).loss(torch.tensor([0]), Outputs(LOG_PROBS[:3]))
    assert loss.metrics["ranking_loss"] == 0.0
    assert float(loss.value) == pytest.approx(0.5 * 1.5 * math.log(2))
    turned = Comparison("one", EPISODES.worse, EPISODES.better)
    loss = RankedResponses([turned], 0.0).loss(torch.tensor([0]), Outputs(LOG_PROBS[[2, 0, 1]]))
    assert float(loss.value) == pytest.approx(math.log(5) - 1.5 * math.log(2))


def test_the_reward_model_ranks_sums_and_imitates_the_better_side():
    # By hand: scores 1 + 3 of the better side, 2 of the worse one.
    values = torch.tensor([[1.0, 9.0], [9.0, 3.0], [2.0, 9.0]])
    loss = Ranking([EPISODES], 0.5).loss(torch.tensor([0]), Outputs(LOG_PROBS[:3], action_values=values))
    assert float(loss.value) == pytest.approx(-log_sigmoid(2.0) + 0.5 * 1.5 * math.log(2))


def test_the_loss_of_the_reward_model_does_not_depend_on_how_a_batch_is_cut():
    pairs = Ranking([EPISODES, ACTIONS], 0.5)
    values = torch.tensor([[1.0, 9.0], [9.0, 3.0], [2.0, 9.0], [4.0, 5.0], [4.0, 5.0]])

    def loss(numbers: list[int], turns: slice) -> float:
        outputs = Outputs(LOG_PROBS[turns], action_values=values[turns])
        return float(pairs.loss(torch.tensor(numbers), outputs).value)

    parts = [loss([0], slice(0, 3)), loss([1], slice(3, 5))]
    assert loss([0, 1], slice(0, 5)) == pytest.approx(sum(parts) / 2)
    # By hand: three turns of better sides in all, of the probabilities 1/2, 1/4 and 1/2.
    ranking = -(log_sigmoid(2.0) + log_sigmoid(1.0)) / 2
    assert sum(parts) / 2 == pytest.approx(ranking + 0.5 * 4 * math.log(2) / 3)


class Fixed:
    """A reward that is 1 for `left` and 3 for `right`."""

    def rewards(self, views: list[View], actions: Tensor) -> Tensor:
        return 1.0 + 2.0 * actions


def turn(view: View, index: int, log_probs: tuple[float, ...] | None = (math.log(0.25), math.log(0.75))) -> Turn:
    return Turn(view.observation, (0, 1), None, Decision(index, "p", log_probs), -7.0)


def test_the_learned_reward_pays_for_leaving_the_supervised_policy():
    model, labels = tiny_player()
    episode = Episode(Task("t", split="train"), (turn(A, 1), turn(B, NO_ACTION), turn(B, 0)), True, False, True, 0, "")
    reference = frozen_scores(model, labels, [A, B], "choice_token").log_probs
    ratios = [math.log(0.75) - float(reference[0, 1]), math.log(0.25) - float(reference[1, 0])]
    told, metrics = LearnedReward(Fixed(), model, labels, "choice_token", 0.5).relabelled([episode])
    assert [t.reward for t in told[0].turns] == pytest.approx([3 - 0.5 * ratios[0], 0.0, 1 - 0.5 * ratios[1]])
    assert told[0].success
    assert metrics["reward/true_return"] == -21.0
    assert metrics["reward/learned_return"] == 4.0
    assert metrics["reward/kl"] == pytest.approx(sum(ratios), abs=1e-6)


def test_a_policy_that_is_the_supervised_one_pays_nothing_at_any_temperature(monkeypatch):
    model, labels = tiny_player()
    row = tuple(frozen_scores(model, labels, [A], "choice_token", temperature=3.0).log_probs[0].tolist())
    episode = Episode(Task("t", split="train"), (turn(A, 1, row),), True, False, True, 0, "")
    paid = []
    monkeypatch.setattr(rlhf, "train_online", lambda *_, rewards, **rest: paid.append(rewards([episode])[1]))
    training = SimpleNamespace(start=lambda: model, labels=labels, rule="choice_token", comparisons=())
    for temperature in (3.0, 1.0):
        RLHF(rlft=RLFTConfig(algorithm=PPOConfig(), temperature=temperature), reward=Fixed()).train(training)
    assert paid[0]["reward/kl"] == pytest.approx(0.0, abs=1e-6)
    assert abs(paid[1]["reward/kl"]) > 1e-4


def test_ppo_max_divides_by_the_deviation_and_clips():
    model, labels = tiny_player()
    task = Task("t", split="train")
    episodes = [Episode(task, (turn(A, index),), True, False, True, 0, "") for index in (0, 1)]
    # By hand: learned returns 1 and 3 have the deviation 1, and 3 is cut to 2.
    told, metrics = LearnedReward(Fixed(), model, labels, "choice_token", 0.0, 2.0).relabelled(episodes)
    assert [e.turns[0].reward for e in told] == [1.0, 2.0]
    assert metrics["reward/clipped_share"] == 0.5


def test_equal_learned_returns_are_not_divided_by_their_rounding():
    returns = torch.full((48,), 0.7)
    assert returns.std(correction=0) > 0  # what rounding makes of them
    assert rlhf.clipped(torch.tensor([-0.25]), returns, 2.0).tolist() == [-0.25]


def test_regret_is_zero_for_the_best_action_of_a_state():
    model, labels = tiny_player()
    head = ActionHead(16, 3)
    torch.nn.init.normal_(head.layer.weight)
    views = [A, View(Observation("d", ("x", "y", "z")), (0, 1, 2))]
    raw = RewardModel(model, labels, head).table(views)
    table = RewardModel(model, labels, head, regret=True, scale=4.0).table(views)
    assert table[0, :2].max() == table[1].max() == 0.0
    assert (table[1] * 4).tolist() == pytest.approx((raw[1] - raw[1].max()).tolist(), abs=1e-6)


def test_starts_are_divided_and_none_is_on_both_sides():
    many = [Comparison(str(k % 10), ((A, 0),), ((A, 1),)) for k in range(50)]
    learned, held_out = split_by_start(many, 0.2, 0)
    assert (len(learned), len(held_out)) == (40, 10)
    assert not {one.start for one in learned} & {one.start for one in held_out}
    assert [len(part) for part in split_by_start(many[:2], 0.01, 0)] == [1, 1]
    with pytest.raises(UserError, match="3 pairs of 1 starts cannot be divided"):
        split_by_start([many[0]] * 3, 0.2, 0)


@pytest.mark.parametrize("kind", [RLHF, PPOMax])
@pytest.mark.parametrize(
    ("pairs", "chosen", "expected"),
    [("actions", {}, 0.0), ("episodes", {}, 0.9), ("actions", {"gamma": 0.5}, 0.5), ("episodes", {"gamma": 0.0}, 0.0)],
)
def test_later_turns_count_nothing_for_a_pair_of_actions(kind, pairs, chosen, expected):
    run = parse(RunConfig, {"preferences": {"rlhf": chosen}, "rlft": {"algorithm": {"name": "ppo", "gamma": 0.9}}})
    assert kind.for_run(run).settings(of_actions=pairs == "actions").algorithm.gamma == expected


def test_an_algorithm_without_a_discount_stays_as_it_is():
    rlft = RLFTConfig(algorithm=AlgorithmConfig())
    assert RLHF(RLHFConfig(gamma=0.0), rlft).settings(of_actions=True) == rlft


def settings_of(algorithm, compare="actions", **rlft):
    preferences = {"preferences": {"pairs": {"compare": compare}}, "methods": ["rlhf"]}
    return parse(RunConfig, preferences | {"rlft": {"algorithm": algorithm, **rlft}})


@pytest.mark.parametrize("name", ["ppo", "reinforce"])
def test_a_turn_is_credited_with_its_own_learned_reward(name):
    learner = RLHF.for_run(settings_of({"name": name, "normalise_advantages": False}))
    algorithm = learner.settings(of_actions=True).algorithm
    rows = [[0.0, 0.0, -5.0], [0.0, -3.0, -1.0]]
    episodes = [Trajectory("t", row, [0.0] * 3, ["a", "b", "c"], success=False) for row in rows]
    advantages = registry.find("algorithms", name)(algorithm).advantages(episodes, None)
    # By hand: each reward less the mean reward at the same turn.
    assert advantages.values == [[0.0, 1.5, -2.0], [0.0, -1.5, 2.0]]


@pytest.mark.parametrize("name", ["grpo", "gigpo", "raft", "rloo"])
def test_an_algorithm_that_compares_whole_episodes_is_refused(name):
    def mistakes(compare):
        run = settings_of({"name": name}, compare)
        return list(preferences_config(run).mistakes(run))

    assert mistakes("actions") == [
        f"rlft.algorithm.name: {name!r} compares whole episodes, and where pairs compare actions later turns count "
        "nothing. Set it to 'ppo', or preferences.rlhf.gamma above 0."
    ]
    assert mistakes("episodes") == []
    with pytest.raises(ConfigError, match="compares whole episodes"):
        RLHF.for_run(settings_of({"name": name})).settings(of_actions=True)
    assert PPOMax.for_run(settings_of({"name": name})).settings(of_actions=True).algorithm.name == "ppo"


@pytest.mark.parametrize(("situation", "refused"), [({"seed": 0}, True), (None, False)])
def test_pairs_of_a_file_say_themselves_what_they_compare(situation, refused, tmp_path):
    file = tmp_path / "preferences.jsonl"
    file.write_text(json.dumps({"situation": situation}) + "\n")
    preferences = {"preferences": {"pairs": {"file": file}}, "methods": ["rlhf"]}
    run = parse(RunConfig, preferences | {"rlft": {"algorithm": {"name": "grpo"}}})
    found = list(preferences_config(run).mistakes(run))
    assert [one for one in found if "compares whole episodes" in one] == found
    assert bool(found) == refused


@pytest.mark.parametrize("regret", [True, False])
def test_the_discount_follows_what_the_reward_was_learned_from(regret, monkeypatch):
    model, labels = tiny_player()
    learned = []
    monkeypatch.setattr(rlhf, "train_online", lambda training, settings, **rest: learned.append(settings.algorithm))
    reward = RewardModel(model, labels, ActionHead(16, 3), regret=regret)
    training = SimpleNamespace(start=lambda: model, labels=labels, rule="choice_token", comparisons=())
    RLHF(reward=reward).train(training)
    RLHF(reward=Fixed()).train(SimpleNamespace(**vars(training) | {"comparisons": (ACTIONS if regret else EPISODES,)}))
    assert [algorithm.gamma == 0.0 for algorithm in learned] == [regret] * 2
    assert learned[0].baseline == ("batch" if regret else "leave_one_out")


def test_the_games_verdict_is_not_learned_from():
    model, labels = tiny_player()
    lost = Episode(Task("t", split="train"), (turn(A, 1),), True, False, False, 0, "")
    told, _ = LearnedReward(Fixed(), model, labels, "choice_token", 0.0).relabelled([lost])
    assert told[0].success
    learner = RLHF.for_run(settings_of({"name": "ppo"}, replay_capacity=50))
    assert learner.settings(of_actions=False).replay_capacity == 0
