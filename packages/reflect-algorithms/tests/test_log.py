from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import offline_toy
import reflect_rl as rrl
import toy
from reflect_algorithms import train_offline
from reflect_algorithms.log import ErringExpert, play_log, turns_of
from reflect_algorithms.settings import LogConfig, offline_config
from reflect_rl.config import parse
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import UserError
from reflect_rl.runs.config import RunConfig
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


@pytest.mark.parametrize(
    ("starts", "recorded", "refused"), [([2, 8], True, True), ([8], True, False), ([2, 8], False, False)]
)
def test_a_recorded_log_is_the_same_for_all_numbers_of_starts(tmp_path: Path, starts, recorded, refused):
    path = tmp_path / "log.jsonl"
    path.touch()
    chosen = {"offline": {"log": {"episodes": str(path)}}} if recorded else {}
    run = parse(RunConfig, {"methods": ["bc"], "data": {"demonstration_starts": starts}, **chosen})
    found = list(offline_config(run).mistakes(run))
    assert [mistake.partition(":")[0] for mistake in found] == ["data.demonstration_starts"] * refused
    assert all("2, 8" in mistake for mistake in found)


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
    return Episode(Task("t", "near", split), turns, True, False, success, 0, toy.SPEC.identity)


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


OTHER_SPLIT = EnvSpec(Corridor, toy.SMALL.model_copy(update={"split_seed": 1}))


def test_a_log_with_held_out_tasks_is_refused(tmp_path: Path):
    episodes, path = rrl.collect(toy.SPEC, "random", episodes=40), tmp_path / "log.jsonl"
    rrl.write_episodes(path, episodes)
    config = LogConfig(episodes=path)
    assert play_log(config, toy.SPEC, TASKS, 0) == episodes
    parts = [OTHER_SPLIT.tasks(mode, split) for mode in ("near", "far") for split in ("validation", "test")]
    keys = {task.key for part in parts for task in part}
    count = sum(one.task.key in keys for one in episodes)
    assert 0 < count < 40
    said = f"{count} of 40 episodes are of tasks that are held out here, such as '.*', a (test|validation) task of "
    with pytest.raises(UserError, match=rf"log\.jsonl: {said}corridor with these settings"):
        play_log(config, OTHER_SPLIT, TASKS, 0)
    with pytest.raises(UserError, match=f"train_offline: {said}"):
        train_offline(offline_toy.agent(), episodes, env=OTHER_SPLIT, steps=1)
    kept = [one for one in episodes if one.task.key not in keys]
    rrl.write_episodes(path, kept)
    assert play_log(config, OTHER_SPLIT, TASKS, 0) == kept


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
