"""An answer that names no action costs a turn: the game waits, charges a step, and counts."""

from __future__ import annotations

import json

import pytest

from reflect_locate.envs import autoexplore, autoexplore_paper
from reflect_rl.envs import corridor, dangerous_taxi
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.gym import GymnasiumEnv
from reflect_rl.errors import FaultyPlayerError
from reflect_rl.evaluation.evaluate import summary
from reflect_rl.rollout import NoReflector, Request, play
from reflect_rl.types import NO_ACTION, Decision, Episode, episode_from_json, to_json
from small_task_set import save_small_task_set
from toy import SPEC, training_tasks

REQUESTS = [Request(task, k) for k, task in enumerate(training_tasks())]


class Mumbler:
    """Takes the action of this text; every time but one in so many it says nothing that can be read."""

    name = "mumbler"
    sees_oracle = False

    def __init__(self, action: str = "", once_in: int = 0) -> None:
        self.action, self.once_in, self.calls = action, once_in, 0
        self.seen: list[str] = []

    def decide(self, views, rngs) -> list[Decision]:
        self.calls += 1
        self.seen += [view.observation.text for view in views]
        if self.once_in and self.calls % self.once_in == 0:
            return [Decision(view.observation.actions.index(self.action), self.name, answer="ok") for view in views]
        return [Decision(NO_ACTION, self.name, answer="hm") for _ in views]


def mumbled(spec, tasks, policy=None, **options) -> list[Episode]:
    requests = [Request(task, k) for k, task in enumerate(tasks)]
    return play(spec, requests, NoReflector(), policy or Mumbler(), num_envs=1, **options)


@pytest.mark.parametrize("horizon", [1, 4, 6])
def test_nothing_but_invalid_answers_use_up_the_horizon_at_the_price_of_a_step_each(horizon: int):
    for episode in mumbled(SPEC, training_tasks()[:3], max_episode_steps=horizon):
        assert (episode.terminated, episode.truncated, episode.success) == (False, True, False)
        assert [turn.reward for turn in episode.turns] == [corridor.STEP_REWARD] * horizon
        assert len({turn.observation for turn in episode.turns}) == 1
        assert {(turn.action, turn.decision.answer) for turn in episode.turns} == {(None, "hm")}


def test_invalid_answers_between_actions_delay_the_game_and_change_nothing_else():
    """From cell 0 to the goal at 4, an answer every second turn: the 4 steps end at turn 8."""
    task = corridor.Corridor().task_at("far", "5-4-0")
    (episode,) = mumbled(SPEC, [task], Mumbler("right", 2), max_episode_steps=8)
    assert (episode.success, episode.terminated, len(episode.turns)) == (True, True, 8)
    assert [turn.action for turn in episode.turns] == [None, "right"] * 4
    assert episode.total_reward == pytest.approx(7 * corridor.STEP_REWARD + 1)
    (late,) = mumbled(SPEC, [task], Mumbler("right", 2), max_episode_steps=7)
    assert (late.success, late.terminated, late.truncated, len(late.turns)) == (False, False, True, 7)


def test_the_next_game_at_the_same_table_has_its_full_horizon():
    """The first game wastes turns; the second one, with actions only, must not be cut short or counted on."""
    far = corridor.Corridor().task_at("far", "5-4-0")

    class Improving(Mumbler):
        """Says nothing in its first four turns."""

        def decide(self, views, rngs):
            self.once_in = 1 if self.calls >= 4 else 0
            return super().decide(views, rngs)

    first, second = mumbled(SPEC, [far, far], Improving("right"), max_episode_steps=4)
    assert [turn.action for turn in first.turns] == [None] * 4
    assert [turn.action for turn in second.turns] == ["right"] * 4
    assert (first.success, second.success, second.truncated) == (False, True, False)


def test_in_the_taxi_it_costs_a_step_and_is_not_fatal():
    spec = EnvSpec.of(dangerous_taxi.DangerousTaxi)
    (episode,) = mumbled(spec, spec.tasks("full", "test")[:1], max_episode_steps=3)
    assert [turn.reward for turn in episode.turns] == [-1 / 20] * 3
    assert episode.truncated


@pytest.mark.parametrize("game", [autoexplore.AutoExplore, autoexplore_paper.AutoExplorePaper])
def test_in_autoexplore_it_counts_as_a_turn_and_the_last_one_loses(game, tmp_path):
    spec = EnvSpec.of(game, tasks=save_small_task_set(tmp_path), max_episode_steps=3)
    tasks = next(found for mode in spec.all_modes if (found := spec.tasks(mode, "test")))
    (episode,) = mumbled(spec, tasks[:1])
    assert (episode.terminated, episode.truncated, episode.success, len(episode.turns)) == (True, False, False, 3)
    # -1 a turn, -3 for no answer, over the scale of the game: 4, or 5 where warnings are charged.
    scale = {"autoexplore": 4, "autoexplore_paper": 5}[spec.name]
    assert [turn.reward * scale for turn in episode.turns] == pytest.approx([-1, -1, -4])
    assert len({turn.observation.text for turn in episode.turns}) == 3
    measured = summary(spec, [episode])
    assert (measured["timeouts"], measured["wrong_answers"], measured["spl"]) == (1, 0, 0)


def test_a_turn_can_pass_only_while_a_game_goes_on():
    environment = GymnasiumEnv(SPEC)
    with pytest.raises(RuntimeError, match="has not begun"):
        environment.let_pass()
    environment.reset(options={"task": REQUESTS[0].task})
    before = environment.current()
    observation, reward, terminated, truncated, info = environment.let_pass()
    assert (observation, reward, terminated, truncated, info["success"]) == (before, -0.05, False, False, False)


def test_only_a_player_that_says_something_may_name_no_action():
    class Silent(Mumbler):
        def decide(self, views, rngs):
            return [Decision(NO_ACTION, self.name) for _ in views]

    with pytest.raises(FaultyPlayerError, match="'mumbler' chose action -1"):
        mumbled(SPEC, training_tasks()[:1], Silent())


def test_the_episode_is_the_same_after_json_and_older_files_are_read():
    (episode,) = mumbled(SPEC, training_tasks()[:1], Mumbler("wait", 3))
    row = json.loads(json.dumps(to_json(episode)))
    assert episode_from_json(row) == episode
    for turn in row["turns"]:
        del turn["decision"]["answer"]
    old = episode_from_json(row)
    assert {turn.decision.answer for turn in old.turns} == {None}
    assert [turn.decision.index for turn in old.turns] == [turn.decision.index for turn in episode.turns]
