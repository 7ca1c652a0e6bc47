from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import reflect_rl as rrl
from offline_toy import StoppedError, agent, stops_at
from reflect_algorithms import train_offline
from reflect_algorithms.learners.dagger import DAgger, Labelled, labelled_states
from reflect_algorithms.settings import DAggerConfig
from reflect_rl.data.recorded import read_episodes
from reflect_rl.errors import RunFolderError, UserError
from reflect_rl.types import Decision, Observation, Oracle, Step, View
from toy import SPEC

SETTINGS = {"env": SPEC, "steps": 8, "batch_size": 8, "save_steps": 3, "learner": DAgger(DAggerConfig(rounds=2))}


class Watching:
    """Plays the second action, and remembers what it saw."""

    name, sees_oracle = "watching", False

    def decide(self, views, rngs):
        self.views = views
        return [Decision(1, self.name) for _ in views]


def test_the_player_plays_and_the_solver_labels():
    view = View(Observation("x", ("a", "b")), (0, 1), oracle=Oracle(0, (0,), (1,), 3), lesson="a!")
    player = Watching()
    said = Labelled(player).decide([view, View(Observation("y", ("a", "b")), (0, 1))], [np.random.default_rng(0)] * 2)
    assert [(decision.index, decision.target) for decision in said] == [(1, 0), (1, None)]
    assert all(seen.oracle is None and seen.lesson is None for seen in player.views)


def test_rounds_are_kept_and_the_policy_plays_the_later_ones(tmp_path: Path):
    train_offline(agent(), [], out=tmp_path, **SETTINGS)
    first, second = (read_episodes(tmp_path / f"round-{number}.jsonl") for number in (0, 1))
    assert len(first) == len(second) == 100
    assert {turn.decision.player for episode in first for turn in episode.turns} == {"oracle"}
    assert {turn.decision.player for episode in second for turn in episode.turns} == {"language_model"}
    # The label is the solver's whoever played.
    wrong = [turn for e in second for turn in e.turns if turn.decision.index != turn.decision.target]
    assert wrong


def test_states_without_a_label_and_excluded_ones_are_left_out(tmp_path: Path):
    train_offline(agent(), [], out=tmp_path, **SETTINGS)
    episodes = read_episodes(tmp_path / "round-0.jsonl")
    states = {turn.observation.state for episode in episodes for turn in episode.turns}
    left = next(iter(states))
    assert {view.observation.state for view, _ in labelled_states(episodes, frozenset({left}))} == states - {left}


@pytest.mark.parametrize("step", [2, 4, 5, 7])
def test_an_interruption_changes_nothing(tmp_path: Path, step):
    whole = train_offline(agent(), [], **SETTINGS)
    with pytest.raises(StoppedError):
        train_offline(agent(), [], out=tmp_path, progress=stops_at(step), **SETTINGS)
    assert train_offline(agent(), [], out=tmp_path, **SETTINGS).model.hash() == whole.model.hash()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed is '0' there and '1' here"),
        ({"learning_rate": 1e-2}, "training.learning_rate is"),
        ({"learner": DAgger(DAggerConfig(rounds=4))}, "learner is"),
        ({"env": SPEC.env_class}, "environment_settings"),
    ],
)
def test_a_folder_with_a_training_of_other_settings_is_refused(tmp_path: Path, change, said):
    train_offline(agent(), [], out=tmp_path, **SETTINGS)
    with pytest.raises(RunFolderError, match=said):
        train_offline(agent(), [], out=tmp_path, **SETTINGS | change)


class NoSolver(rrl.TextEnv):
    name, max_actions, modes, horizons = "no_solver", 2, ("default",), (5,)

    def tasks(self, mode, split):
        return (rrl.Task(f"{split}/0", split=split),)

    def reset(self, task, rng=None):
        return Observation("x", ("a", "b"))

    def step(self, index):
        return Step(Observation("x", ("a", "b")), 0.0)


def test_a_game_without_a_solver_is_refused():
    with pytest.raises(UserError, match="DAgger needs HasSolver"):
        train_offline(agent(), [], env=NoSolver, learner="dagger", steps=2)
