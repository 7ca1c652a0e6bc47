"""The check of a game of one's own: each promise that a game can break without an error is found."""

from __future__ import annotations

import itertools

import pytest

import reflect_rl as rrl
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import UserError


class Kept(rrl.TextEnv):
    """Two switches, one of which is right; every promise is kept."""

    modes = ("default",)
    max_episode_steps = 3
    actions = ("left", "right")
    text = "Room {}."
    reward = 1.0

    def tasks(self, mode, split):
        rooms = {"train": range(4), "validation": range(4, 6), "test": range(6, 8)}[split]
        return [rrl.Task(f"room/{room}", mode, split, {"room": room}) for room in rooms]

    def reset(self, task, rng):
        self.wanted = int(rng.integers(2))
        return rrl.Observation(self.text.format(task.data["room"]), self.actions, task.key)

    def step(self, action):
        won = action == self.wanted
        return rrl.Step(rrl.Observation("The end.", self.actions), self.reward * won, terminated=True, success=won)


class Remembers(Kept):
    games = 0

    def reset(self, task, rng):
        self.games += 1
        first = super().reset(task, rng)
        return rrl.Observation(f"{first.text} Game {self.games}.", first.actions, first.state)


class Draws(Kept):
    numbers = itertools.count()

    def reset(self, task, rng):
        first = super().reset(task, rng)
        return rrl.Observation(f"{first.text} {next(Draws.numbers)}", first.actions, first.state)


class Reorders(Kept):
    turned = itertools.cycle((1, -1))

    def tasks(self, mode, split):
        return super().tasks(mode, split)[:: next(Reorders.turned)]


class Unjudged(Kept):
    def tasks(self, mode, split):
        return [] if split == "validation" else super().tasks(mode, split)


class Pays(Kept):
    reward = 20.0

    def step(self, action):
        answer = super().step(action)
        return rrl.Step(answer.observation, 20.0, terminated=True, success=answer.success)


class Silent(Kept):
    text = " "


class Twice(Kept):
    actions = ("left", "left")


class Broken(Kept):
    actions = ("left", "go\nright")


class AllAlike(Kept):
    def reset(self, task, rng):
        first = super().reset(task, rng)
        return rrl.Observation(first.text, first.actions, "start")


class Misleads(Kept):
    def oracle(self):
        return rrl.Oracle(1 - self.wanted, (1 - self.wanted,), (), 1)


class SaysNothing(Kept):
    def teach(self):
        return ""


@pytest.mark.parametrize(
    ("game", "found"),
    [
        (Remembers, "an episode goes otherwise after another one. Let reset keep nothing"),
        (Draws, "equal seeds play other episodes. Draw all randomness from the rng"),
        (Reorders, "another copy of the game lists other train tasks, or in another order."),
        (Unjudged, "there is no validation task."),
        (Pays, r"task 'room/0': the reward 20 is not in [-1, 1]."),
        (Silent, "task 'room/0': a state has no text."),
        (Twice, "task 'room/0': the action 'left' is listed twice."),
        (Broken, r"the action 'go\nright' is no single line of text."),
        (AllAlike, "every training task begins in a state in which a validation or test task begins"),
        (Misleads, "its solver loses 4 of 4 training tasks within 3 turns, such as 'room/0'."),
        (SaysNothing, "its teacher writes an empty text."),
    ],
)
def test_a_broken_promise_is_named(game, found):
    sentences = rrl.check_env(game)
    assert any(found in sentence for sentence in sentences), sentences
    assert all(sentence.startswith(f"{game.name}, mode 'default': ") for sentence in sentences)


def test_nothing_is_found_where_all_are_kept():
    assert rrl.check_env(Kept) == []
    assert rrl.check_env(Corridor, episodes=5) == []
    assert rrl.check_env("dangerous_taxi", episodes=5) == []


def test_each_mode_is_checked_and_no_episode_is_no_check():
    class Modes(Twice):
        modes = ("easy", "hard")

    assert [sentence.split(":")[0] for sentence in rrl.check_env(Modes)] == ["modes, mode 'easy'", "modes, mode 'hard'"]
    with pytest.raises(UserError, match="episodes = 0 is too small"):
        rrl.check_env(Kept, episodes=0)
