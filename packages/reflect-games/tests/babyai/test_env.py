"""BabyAI as an environment: tasks, texts, rewards, the bot, bad input."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from pydantic import ValidationError

from reflect_rl.data.generate import DataConfig, demonstrations, rows
from reflect_rl.envs.base import EnvSpec, idle_step
from reflect_rl.errors import UnknownNameError, UserError
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, play
from reflect_rl.types import Decision, Step, Task

pytest.importorskip("minigrid")

from reflect_games.babyai import starts
from reflect_games.babyai.env import ACTIONS, LEVELS, BabyAI, BabyAIConfig
from reflect_games.babyai.expert import DROP, FORWARD, PICK_UP, TOGGLE, TURN_RIGHT

FEW = {"train_tasks": 12, "validation_tasks": 4, "test_tasks": 4}


def game(level: str = "GoToLocal", **settings) -> BabyAI:
    return BabyAI(BabyAIConfig(modes=(level,), **{**FEW, **settings}))


def begin(level: str = "GoToLocal", number: int = 0, **settings) -> BabyAI:
    env = game(level, **settings)
    env.reset(env.tasks(level, "train")[number])
    return env


def test_no_two_tasks_begin_in_the_same_state_though_seeds_of_a_small_level_do():
    env = game("GoToObj", train_tasks=300, validation_tasks=50, test_tasks=50)
    tasks = [task for split in ("train", "validation", "test") for task in env.tasks("GoToObj", split)]
    assert len({task.data["start"] for task in tasks}) == len(tasks) == 400
    assert len({task.key for task in tasks}) == 400


def test_the_state_of_a_start_is_its_fingerprint_and_is_the_same_in_another_copy():
    first, second = game(), game()
    for task in first.tasks("GoToLocal", "test"):
        assert first.reset(task) == second.reset(task)
        assert first.reset(task).state == task.data["start"]


def test_a_game_keeps_nothing_of_the_episode_before():
    env = game()
    one, two = env.tasks("GoToLocal", "train")[:2]
    fresh = env.reset(one)
    env.reset(two)
    env.oracle()
    env.step(FORWARD)
    assert env.reset(one) == fresh


@pytest.mark.parametrize("level", LEVELS)
def test_the_bot_wins_every_level_in_as_many_turns_as_it_says(level):
    spec = EnvSpec.of(BabyAI, modes=(level,), max_episode_steps=576, train_tasks=2, validation_tasks=1, test_tasks=1)
    requests = [Request(task, 0) for task in spec.tasks(level, "train")]
    for episode in play(spec, requests, NoReflector(), OraclePolicy(), note_turns_left=True):
        assert episode.success
        assert [turn.turns_left for turn in episode.turns] == list(range(len(episode.turns), 0, -1))


def test_the_bot_finds_its_way_back_from_a_noisy_player():
    env = game("PutNextLocal", train_tasks=6)
    rng = np.random.default_rng(0)
    for task in env.tasks("PutNextLocal", "train"):
        env.reset(task)
        for turn in range(300):
            # Anything may happen for a while, then the bot is followed.
            noisy = turn < 30 and rng.random() < 0.5
            step = env.step(int(rng.integers(6)) if noisy else env.oracle().best)
            if step.terminated:
                break
        assert step.success


def test_the_bot_asked_late_knows_no_more_than_one_asked_from_the_start():
    env = begin()
    env.step(TURN_RIGHT)
    assert 0 <= env.oracle().best <= TOGGLE


def test_perturbed_demonstrations_are_disturbed_by_moves_only():
    env = begin()
    assert set(env.oracle().safe) <= {0, 1, 2}
    assert env.oracle().best not in env.oracle().safe


def test_the_reward_is_babyais_and_only_for_winning():
    env = begin()
    taken, step = 0, None
    while step is None or not step.terminated:
        assert step is None or step.reward == 0
        step = env.step(env.oracle().best)
        taken += 1
    # BabyAI: 1 - 0.9 * turns / longest episode, which is 64 turns in one room.
    assert step.reward == pytest.approx(1 - 0.9 * taken / 64)
    assert step.success


def test_a_turn_without_an_action_costs_as_much_as_any_other_and_changes_nothing_else():
    env = begin()
    before = env.reset(env.tasks("GoToLocal", "train")[0])
    planned = env.oracle()
    for _ in range(10):
        assert idle_step(env, before) == Step(before, 0.0)
    assert env.oracle() == planned
    for _ in range(planned.turns_left):
        step = env.step(env.oracle().best)
    assert step.success
    assert step.reward == pytest.approx(1 - 0.9 * (10 + planned.turns_left) / 64)


def test_turns_without_an_action_end_where_babyai_ends_the_level():
    env = begin()
    answers = [env.idle() for _ in range(64)]
    assert [answer.truncated for answer in answers] == [False] * 63 + [True]
    assert not any(answer.terminated for answer in answers)


@pytest.mark.parametrize(("level", "longest"), [("GoToLocal", 64), ("PutNextLocal", 128)])
def test_levels_of_one_run_end_where_babyai_ends_them(level, longest):
    spec = EnvSpec.of(BabyAI, modes=(level,), max_episode_steps=576, **FEW)
    (episode,) = play(spec, [Request(spec.tasks(level, "train")[0], 0)], NoReflector(), Turning())
    assert (episode.terminated, episode.truncated, len(episode.turns)) == (False, True, longest)


class Turning(RandomPolicy):
    def decide(self, views, rngs):
        return [Decision(ACTIONS.index("turn left"), self.name) for _ in views]


def test_all_six_actions_are_listed_and_those_that_do_nothing_change_nothing_but_the_last_action():
    env = begin()
    before = env.reset(env.tasks("GoToLocal", "train")[0])
    after = env.step(DROP).observation
    assert after.actions == ACTIONS
    assert after.state == before.state
    assert after.text == before.text.replace("Last action: none", "Last action: drop")


def test_what_is_picked_up_is_carried():
    env = game("PickupLoc")
    for task in env.tasks("PickupLoc", "train"):
        env.reset(task)
        step = None
        while step is None or not step.terminated:
            best = env.oracle().best
            step = env.step(best)
        assert best == PICK_UP
        assert "Carried: nothing" not in step.observation.text


def test_turning_around_leaves_what_was_seen_in_memory_or_not():
    for settings, line in (({}, "From the start: here, facing behind"), ({"state": "view"}, "")):
        env = begin(**settings)
        env.step(TURN_RIGHT)
        text = env.step(TURN_RIGHT).observation.text
        assert line in text
        assert ("Remembered" in text) == bool(line)


def test_two_games_of_one_level_are_played_at_once():
    first, second = begin(number=0), begin(number=1)
    alone = begin(number=0)
    for action in (TURN_RIGHT, FORWARD, TURN_RIGHT, FORWARD):
        second.step(1 - action % 2)
        assert first.step(action) == alone.step(action)


def test_demonstrations_have_no_row_that_a_held_out_task_begins_with():
    spec = EnvSpec.of(BabyAI, **FEW)
    episodes = demonstrations(DataConfig(perturbed_episodes_per_start=1), spec, 4, 0)
    made = rows("policy_plain", episodes["positive"] + episodes["negative"], list("012345"), frozenset())
    held_out = {task.data["start"] for split in ("validation", "test") for task in spec.tasks("GoToLocal", split)}
    assert made
    assert not held_out & {row.state for row in made}


def test_results_name_the_seeds():
    tested = game().games_tested("GoToLocal", "test")
    assert tested["seeds"].startswith("2000000000 to ")
    assert set(tested) == {"seeds", "minigrid"}


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(("mode", "split"), [("GoToLokal", "train"), ("GoToLocal", "dev")])
def test_unknown_names_are_named(mode, split):
    with pytest.raises(UnknownNameError, match=r"GoToLokal|dev"):
        game().tasks(mode, split)


def test_an_unknown_level_in_a_run_file_is_refused_before_anything_starts():
    with pytest.raises(ValidationError, match="GoToLocal"):
        BabyAIConfig(modes=("GoToLokal",))


@pytest.mark.parametrize("data", [{}, {"seed": "x", "start": ""}, {"seed": 0}])
def test_a_task_that_is_none_is_refused(data):
    with pytest.raises(UserError, match="Take tasks from tasks"):
        game().reset(Task("GoToLocal/0", "GoToLocal", "train", data))


def test_a_start_that_another_version_made_is_refused():
    with pytest.raises(UserError, match="begins otherwise under minigrid"):
        game().reset(Task("GoToLocal/0", "GoToLocal", "train", {"seed": 0, "start": "0123456789abcdef"}))


class FewStarts:
    """A level with five starts."""

    def reset(self, seed: int) -> None:
        self.start = str(seed % 5)


def test_more_tasks_than_a_level_has_starts_are_refused(monkeypatch):
    monkeypatch.setattr(starts, "open_level", lambda name: FewStarts())
    monkeypatch.setattr(starts, "state_of", lambda level: level.start)
    # A stop of its own, so that a search without an end fails and does not hang.
    monkeypatch.setattr(starts, "count", lambda first: range(first, first + 5000))
    sizes = (("test", 1), ("validation", 1), ("train", 3))
    assert len(starts.level_tasks("Small", sizes)["train"]) == 3
    refused = r"environment\.train_tasks = 4: Small has no more than 3 starts.* Lower it to 3"
    with pytest.raises(UserError, match=refused):
        starts.level_tasks("Small", (("test", 1), ("validation", 1), ("train", 4)))


def test_a_missing_minigrid_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    starts._load_minigrid.cache_clear()
    with pytest.raises(UserError, match=r"pip install 'reflect-games\[minigrid\]'"):
        starts.open_level("GoToLocal")


def test_a_level_that_minigrid_lacks_is_named():
    with pytest.raises(UserError, match="no level BabyAI-Nowhere-v0"):
        starts.open_level("Nowhere")
