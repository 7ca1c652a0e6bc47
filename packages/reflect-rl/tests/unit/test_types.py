"""The values that travel: frozen, and the same after JSON."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, strategies as st

from reflect_rl.players.scripted import Annotator, OracleReflector
from reflect_rl.rollout import Request, play
from reflect_rl.types import NO_ACTION, Decision, Episode, Observation, Task, Turn, View, episode_from_json, to_json
from toy import SPEC, training_tasks

texts = st.text(max_size=8)
tasks = st.builds(Task, texts, texts, texts, st.dictionaries(texts, st.integers() | texts | st.none(), max_size=3))
observations = st.builds(Observation, texts, st.lists(texts, max_size=3).map(tuple), texts)
numbers = st.floats(allow_nan=False, allow_infinity=False)
decisions = st.builds(
    Decision,
    st.integers(0, 5),
    texts,
    st.none() | st.lists(numbers, max_size=3).map(tuple),
    st.none() | st.integers(0, 5),
)
turns = st.builds(
    Turn, observations, st.lists(st.integers(0, 5), max_size=3).map(tuple), st.none() | texts, decisions, numbers
)
episodes = st.builds(
    Episode,
    tasks,
    st.lists(turns, max_size=3).map(tuple),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**63 - 1),
    texts,
)


@given(episodes)
def test_an_episode_is_the_same_after_json(episode):
    again = episode_from_json(json.loads(json.dumps(to_json(episode))))
    assert again == episode
    assert [hash(turn) for turn in again.turns] == [hash(turn) for turn in episode.turns]


def test_played_episodes_are_the_same_after_json():
    requests = [Request(task, k) for k, task in enumerate(training_tasks()[:3])]
    for episode in play(SPEC, requests, OracleReflector(), Annotator(0.5, "clean")):
        assert episode_from_json(json.loads(json.dumps(to_json(episode)))) == episode


def test_a_missing_field_is_an_error():
    row = to_json(Episode(Task("a", "near", "train"), (), True, False, True, 0, "corridor-v1"))
    del row["success"]
    with pytest.raises(KeyError, match="success"):
        episode_from_json(row)


def test_values_cannot_be_changed_and_views_are_keys():
    view = View(Observation("text", ("left",)), (0,))
    with pytest.raises(FrozenInstanceError):
        view.reflection = "x"  # type: ignore[misc]
    assert {view: 1}[View(Observation("text", ("left",)), (0,))] == 1


def test_success_within_a_horizon():
    turn = Turn(Observation("t", ("a",)), (0,), None, Decision(0, "x"), 0.5)
    won = Episode(Task("a", "near", "train"), (turn,) * 3, True, False, True, 0, "corridor-v1")
    assert [won.success_within(h) for h in (2, 3, 4)] == [False, True, True]
    lost = Episode(won.task, won.turns, True, False, False, 0, "corridor-v1")
    assert not lost.success_within(9)
    assert won.total_reward == 1.5


def test_the_log_probability_of_a_choice_is_that_of_its_action():
    assert Decision(1, "a", (-0.5, -1.5)).log_prob == -1.5
    assert Decision(1, "a").log_prob is None
    # -1 would name the last action of the list.
    assert Decision(NO_ACTION, "a", (-0.5, -1.5), answer="?").log_prob is None
