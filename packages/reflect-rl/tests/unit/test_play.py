"""The loop that steps games: num_envs, order, success, listing orders, and what each player is shown."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from reflect_locate.envs import autoexplore
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, VariedPolicy, play
from reflect_rl.types import Decision, Episode, Observation, Turn, View, stream
from small_task_set import save_small_task_set
from toy import SPEC, tiny_player, training_tasks

CORRIDOR = EnvSpec.of(Corridor)
REQUESTS = [Request(task, 100 + k) for k, task in enumerate(training_tasks())]


class Scripted:
    """Always plays the action with this index, and remembers how many games it was shown at once."""

    name = "scripted"
    sees_oracle = False

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.widths: list[int] = []

    def decide(self, views, rngs) -> list[Decision]:
        self.widths.append(len(views))
        return [Decision(self.index, self.name) for _ in views]


def random_games(num_envs: int, **options) -> list[Episode]:
    return play(SPEC, REQUESTS, NoReflector(), RandomPolicy(), num_envs=num_envs, **options)


@pytest.mark.parametrize("num_envs", [1, 3, 7, 64])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_number_of_slots_changes_nothing(num_envs, shuffle):
    assert random_games(num_envs, shuffle_labels=shuffle) == random_games(5, shuffle_labels=shuffle)


def test_the_number_of_slots_changes_no_choice_of_a_language_model():
    from reflect_rl.players.language_model import LanguageModelPolicy

    model, labels = tiny_player()

    def choices(num_envs: int) -> list[list[int]]:
        episodes = play(SPEC, REQUESTS, NoReflector(), LanguageModelPolicy(model, labels), num_envs=num_envs)
        return [[turn.decision.index for turn in episode.turns] for episode in episodes]

    assert choices(2) == choices(64)


def test_episodes_come_in_the_order_of_the_requests():
    episodes = random_games(3)
    assert [(e.task, e.seed) for e in episodes] == [(r.task, r.seed) for r in REQUESTS]
    lengths = [len(e.turns) for e in episodes]
    assert lengths != sorted(lengths)


def test_a_finished_game_is_replaced_at_once():
    policy = OraclePolicy()
    widths = []
    decide = policy.decide
    policy.decide = lambda views, rngs: widths.append(len(views)) or decide(views, rngs)  # type: ignore[method-assign]
    turns = sum(len(e.turns) for e in play(SPEC, REQUESTS, NoReflector(), policy, num_envs=4))
    assert sum(widths) == turns
    # Full until the line is empty, then only fewer.
    assert widths[0] == 4 == max(widths)
    assert widths == sorted(widths, reverse=True)


def test_fewer_requests_than_slots_and_none():
    policy = Scripted()
    assert len(play(SPEC, REQUESTS[:2], NoReflector(), policy, num_envs=10)) == 2
    assert policy.widths[0] == 2
    assert play(SPEC, [], NoReflector(), policy) == []


def test_requests_may_be_an_iterator():
    assert play(SPEC, iter(REQUESTS), NoReflector(), RandomPolicy(), num_envs=2) == random_games(5)


def test_an_episode_by_hand():
    task = next(t for t in CORRIDOR.tasks("near", "train") if t.data["goal"] and t.data["start"] == t.data["goal"] - 2)
    (won,) = play(CORRIDOR, [Request(task, 1)], NoReflector(), Scripted(1))
    assert [turn.reward for turn in won.turns] == [-0.05, 1.0]
    assert (won.success, won.terminated, won.truncated) == (True, True, False)
    assert (won.task, won.seed, won.environment) == (task, 1, "corridor-v1")
    assert won.total_reward == pytest.approx(0.95)
    assert [won.success_within(h) for h in (1, 2, 3)] == [False, True, True]
    (lost,) = play(CORRIDOR, [Request(task, 1)], NoReflector(), Scripted(0))
    assert (lost.success, lost.terminated, lost.truncated) == (False, True, False)
    assert lost.turns[-1].reward == -0.5


def test_the_horizon_truncates_without_success():
    task = CORRIDOR.tasks("far", "train")[0]
    (episode,) = play(CORRIDOR, [Request(task, 1)], NoReflector(), OraclePolicy(), max_episode_steps=2)
    assert len(episode.turns) == 2
    assert (episode.success, episode.terminated, episode.truncated) == (False, False, True)
    (won,) = play(CORRIDOR, [Request(task, 1)], NoReflector(), OraclePolicy())
    assert won.success
    assert won.turns[:2] == episode.turns


def test_a_win_at_the_horizon_is_a_win():
    task = next(t for t in CORRIDOR.tasks("near", "train") if abs(t.data["goal"] - t.data["start"]) == 2)
    (episode,) = play(CORRIDOR, [Request(task, 1)], NoReflector(), OraclePolicy(), max_episode_steps=2)
    assert (episode.success, episode.terminated) == (True, True)


def test_every_listing_order_is_a_permutation_and_the_fixed_one_by_default():
    orders = [turn.order for e in random_games(5, shuffle_labels=True) for turn in e.turns]
    assert all(sorted(order) == list(range(len(order))) for order in orders)
    assert {order for order in orders if len(order) == 2} == {(0, 1), (1, 0)}
    assert len({order for order in orders if len(order) == 3}) == 6
    assert {turn.order for e in random_games(5) for turn in e.turns} == {(0, 1), (0, 1, 2)}


class FirstListed:
    """Picks the action that carries number 0, by the order it is shown."""

    name = "first_listed"
    sees_oracle = False

    def decide(self, views, rngs) -> list[Decision]:
        return [Decision(view.order[0], self.name) for view in views]


def test_the_chosen_number_is_the_action_that_carries_it():
    episodes = play(SPEC, REQUESTS, NoReflector(), FirstListed(), shuffle_labels=True)
    for episode in episodes:
        for turn, upcoming in zip(episode.turns, episode.turns[1:], strict=False):
            action = turn.observation.actions[turn.order[0]]
            assert upcoming.observation.text.endswith(f"Last action: {action}.")


def test_shuffling_the_labels_moves_no_choice_of_a_player_that_reads_actions_only():
    plain = random_games(5)
    shuffled = random_games(5, shuffle_labels=True)
    assert [[t.decision for t in e.turns] for e in plain] == [[t.decision for t in e.turns] for e in shuffled]


def test_each_decision_draws_from_the_stream_of_its_own_episode():
    drawn: dict[int, list[float]] = {}

    class Recorder(Scripted):
        def decide(self, views, rngs):
            for rng in rngs:
                drawn.setdefault(id(rng), []).append(rng.random())
            return super().decide(views, rngs)

    (episode,) = play(SPEC, REQUESTS[:1], NoReflector(), Recorder())
    expected = stream(REQUESTS[0].seed, "policy")
    assert [x for values in drawn.values() for x in values] == [expected.random() for _ in episode.turns]


def test_the_reflection_player_sees_no_actions_and_its_words_reach_the_policy():
    seen: list[View] = []

    class Namer:
        name, sees_oracle = "namer", False

        def reflect(self, views):
            seen.extend(views)
            return [f"about {view.observation.state}" for view in views]

    class Reader(Scripted):
        def decide(self, views, rngs):
            assert [v.reflection for v in views] == [f"about {v.observation.state}" for v in views]
            return super().decide(views, rngs)

    episodes = play(SPEC, REQUESTS, Namer(), Reader())
    assert {(view.observation.actions, view.order, view.oracle) for view in seen} == {((), (), None)}
    assert all(turn.reflection == f"about {turn.observation.state}" for e in episodes for turn in e.turns)


def test_observers_hear_every_turn_and_every_episode_as_it_ends():
    turns: list[Turn] = []
    ended: list[Episode] = []
    episodes = random_games(3, on_turn=turns.append, on_episode=ended.append)
    assert len(turns) == sum(len(e.turns) for e in episodes)
    assert sorted(map(id, (t for e in ended for t in e.turns))) == sorted(map(id, turns))
    assert {id(e) for e in ended} == {id(e) for e in episodes}
    assert len(ended) == len(REQUESTS)


def test_a_reflection_can_add_actions_that_the_policy_then_takes(tmp_path):
    """No word of the question stands in `engine.py`'s text but `motor`; `warm` is the reflection's own word."""
    spec = EnvSpec.of(
        autoexplore.AutoExplore,
        tasks=save_small_task_set(tmp_path),
        modes=("d1raw",),
        search=True,
        leaks=("none", "name"),
        max_episode_steps=4,
    )
    task = next(t for t in spec.tasks("d1raw", "test") if t.data["question"] == "small/1")
    shown: list[tuple[str, ...]] = []

    class Associating:
        name, sees_oracle = "associating", False

        def reflect(self, views):
            texts = (view.observation.text for view in views)
            return ["No more." if "Last:" in text else "Motors are cozy and warm." for text in texts]

    class Searching:
        name, sees_oracle = "searching", False

        def decide(self, views, rngs):
            shown.extend(view.observation.actions for view in views)
            wanted = ("search warm", "cat /core/engine.py", "id core/engine.py")[(len(shown) - 1) % 3]
            return [Decision(view.observation.actions.index(wanted), self.name) for view in views]

    (episode,) = play(spec, [Request(task, 0)], Associating(), Searching(), shuffle_labels=True)
    # `motors` is a word of the question, and no file holds `cozy`.
    assert [action for action in shown[0] if action.startswith("search ")] == ["search cogs motor", "search warm"]
    assert not any("warm" in action for action in shown[1])
    first = episode.turns[0]
    assert first.observation.actions == shown[0]
    assert sorted(first.order) == list(range(len(shown[0])))
    assert first.observation.actions[first.decision.index] == "search warm"
    assert "Found: core/engine.py (motor)" in episode.turns[1].observation.text
    assert episode.terminated
    # Without such a reflection there is nothing to be found by that word.
    silent = play(spec, [Request(task, 0)], NoReflector(), Scripted())
    assert not any("warm" in action for turn in silent[0].turns for action in turn.observation.actions)


def test_a_varied_player_chooses_among_first_words_and_then_among_actions():
    actions = (*(f"go to {place}" for place in range(8)), "take mug", "look")
    view = View(Observation("room", actions, "s"), tuple(range(len(actions))))
    rng = np.random.default_rng(0)
    decisions = VariedPolicy().decide([view] * 900, [rng] * 900)
    counts = Counter(actions[decision.index].partition(" ")[0] for decision in decisions)
    assert all(250 < counts[word] < 350 for word in ("go", "take", "look"))
    assert {actions[decision.index] for decision in decisions} == set(actions)
    # The probabilities it reports are those it drew with.
    assert np.exp(decisions[0].log_probs) == pytest.approx([1 / 24] * 8 + [1 / 3] * 2)
