from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import reflect_rl as rrl
import toy
from reflect_algorithms.log import ErringExpert, play_log, turns_of
from reflect_algorithms.settings import LogConfig
from reflect_rl.errors import UserError
from reflect_rl.types import Decision, Episode, Observation, Oracle, Task, Turn, View

TASKS = toy.SPEC.tasks("near", "train")


def log(quality, **settings):
    return play_log(LogConfig(quality=quality, episodes_per_start=4, **settings), toy.SPEC, TASKS, 0)


def test_the_players_of_a_log_are_those_of_its_quality():
    def players(episodes):
        return [{turn.decision.player for turn in episode.turns} for episode in episodes]

    assert all(who == {"random"} for who in players(log("random")))
    assert all(who == {"erring_expert"} for who in players(log("expert")))
    mixed = players(log("mixed"))
    assert mixed.count({"random"}) == mixed.count({"erring_expert"}) == 2 * len(TASKS)


def test_the_same_seed_plays_the_same_log():
    assert log("mixed") == log("mixed")


def test_a_better_log_is_won_more_often():
    won = [sum(episode.success for episode in log(quality)) for quality in ("random", "mixed", "expert")]
    assert won[0] < won[1] < won[2]


def test_the_expert_errs_as_often_as_it_says():
    # Two of four actions, with ε = 0.4: the best has 0.6 + 0.1, each other 0.1.
    view = View(Observation("", ("a", "b", "c", "d")), (0, 1, 2, 3), oracle=Oracle(2, (2,), (), 1))
    decisions = ErringExpert(0.4).decide([view] * 4000, [np.random.default_rng(k) for k in range(4000)])
    assert [math.exp(value) for value in decisions[0].log_probs] == pytest.approx([0.1, 0.1, 0.7, 0.1])
    assert sum(decision.index == 2 for decision in decisions) / 4000 == pytest.approx(0.7, abs=0.03)


def test_an_expert_needs_a_solver():
    with pytest.raises(UserError, match="quality to 'random'"):
        ErringExpert(0.1).decide([View(Observation("", ("a",)), (0,))], [np.random.default_rng(0)])


def turn(text, index, reward, log_probs=None):
    return Turn(Observation(text, ("a", "b"), text), (0, 1), "said", Decision(index, "p", log_probs), reward)


def episode(*turns, success=False, split="train"):
    return Episode(Task("t", split=split), turns, True, False, success, 0, toy.SPEC.identity)


def test_turns_hold_what_followed_them():
    # By hand: rewards -1, 2, 4 give the sums 5, 6, 4.
    first = episode(turn("x", 0, -1.0, (-0.5, -0.9)), turn("y", 1, 2.0), turn("z", 0, 4.0), success=True)
    turns = turns_of([first, episode(turn("w", 1, 3.0))])
    assert turns.returns.tolist() == [5.0, 6.0, 4.0, 3.0]
    assert turns.elapsed.tolist() == [0, 1, 2, 0]
    assert turns.won.tolist() == [True, True, True, False]
    assert turns.episodes.tolist() == [0, 0, 0, 1]
    assert turns.actions.tolist() == [0, 1, 0, 1]
    assert turns.behaviour_log_probs[0] == -0.5
    assert turns.behaviour_log_probs[1:].isnan().all()
    # Whoever plays later has no reflection, so none may be learned from.
    assert {view.reflection for view in turns.views} == {None}


def test_excluded_states_and_turns_without_an_action_are_left_out_but_their_rewards_count():
    played = episode(turn("x", 0, 1.0), turn("held out", 0, 2.0), turn("z", -1, 4.0))
    turns = turns_of([played], frozenset({"held out"}))
    assert (len(turns), turns.returns.tolist()) == (1, [7.0])
    with pytest.raises(UserError, match="no turn of the 1 episodes can be learned from"):
        turns_of([played], frozenset({"held out", "x"}))


def test_a_file_is_a_log(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    played = [episode(turn("x", 0, 1.0)), episode(turn("y", 0, 1.0), split="test")]
    rrl.write_episodes(path, played)
    assert play_log(LogConfig(episodes=path), toy.SPEC, TASKS, 0) == played[:1]
    rrl.write_episodes(path, played[1:])
    with pytest.raises(UserError, match=r"none of the 1 episodes of .* is of a training task"):
        play_log(LogConfig(episodes=path), toy.SPEC, TASKS, 0)
    rrl.write_episodes(path, rrl.collect("dangerous_taxi", "random", episodes=1))
    with pytest.raises(UserError, match="environment 'dangerous_taxi-v1', and 'corridor-v1' is trained"):
        play_log(LogConfig(episodes=path), toy.SPEC, TASKS, 0)
