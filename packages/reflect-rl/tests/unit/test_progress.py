"""Reward for progress towards the solver's end: what is noted in play, and what it adds up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reflect_rl.batch import MOST_TURNS, with_progress
from reflect_rl.envs import corridor
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import UserError
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, play
from reflect_rl.types import Decision, Episode, Observation, Task, Turn, episode_from_json, to_json


def episode(left: list[int | None], *, success: bool) -> Episode:
    turns = tuple(Turn(Observation("s", ("a",)), (0,), None, Decision(0, "x"), -0.5, turns) for turns in left)
    return Episode(Task("t", "m", "train", {}), turns, True, False, success, 0, "game-v1")


@pytest.mark.parametrize(
    ("left", "success", "added"),
    [
        ([3, 2, 1], True, [1, 1, 1]),
        ([3, 4, 3, 2, 1], True, [-1, 1, 1, 1, 1]),
        ([2, 2, 1], False, [0, 1, 0]),
        ([5], True, [5]),
        ([2, 1_000_000, 1_000_000], False, [2 - MOST_TURNS, 0, 0]),
    ],
)
def test_each_turn_of_progress_has_its_reward(left, success, added):
    shaped = with_progress(episode(left, success=success), 0.25)
    assert [turn.reward for turn in shaped.turns] == [-0.5 + 0.25 * turns for turns in added]
    assert [turn.turns_left for turn in shaped.turns] == left


def test_nothing_is_added_for_nothing():
    whole = episode([None, None], success=True)
    assert with_progress(whole, 0.0) is whole
    with pytest.raises(UserError, match=r"the expert of game-v1 does not know .* in task 't', .* Set it to 0\."):
        with_progress(whole, 0.1)


def played(policy, *, note: bool) -> list[Episode]:
    spec = EnvSpec.of(corridor.Corridor)
    requests = [Request(task, seed) for task in spec.tasks(spec.modes[-1], "train")[:4] for seed in (1, 2)]
    return play(spec, requests, NoReflector(), policy, note_turns_left=note)


def test_won_episodes_of_a_task_get_the_same_however_they_went():
    """The sum over an episode is the length of the shortest solution at its beginning: shaping by a potential."""
    found = {}
    for policy in (RandomPolicy(), OraclePolicy()):
        for one in played(policy, note=True):
            assert all(turn.turns_left is not None for turn in one.turns)
            total = with_progress(one, 1.0).total_reward - one.total_reward
            if one.success:
                found.setdefault(one.task.key, set()).add(round(total, 9))
                assert total == pytest.approx(one.turns[0].turns_left)
            else:
                assert total < one.turns[0].turns_left
    assert len(found) == 4
    assert all(len(sums) == 1 for sums in found.values())


def test_the_solver_is_noted_and_changes_nothing():
    noted, plain = (played(RandomPolicy(), note=note) for note in (True, False))
    assert [replace(e, turns=tuple(replace(t, turns_left=None) for t in e.turns)) for e in noted] == plain
    assert all(turn.turns_left is None for one in plain for turn in one.turns)
    assert [episode_from_json(to_json(one)) for one in noted] == noted
