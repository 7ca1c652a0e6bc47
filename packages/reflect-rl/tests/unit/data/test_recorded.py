"""Recorded episodes of tasks that are held out are refused, whatever split they were recorded in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

import reflect_rl as rrl
import toy
from reflect_rl.config import parse
from reflect_rl.data.recorded import refuse_held_out
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import UserError
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import demonstrated
from reflect_rl.runs.folder import units
from reflect_rl.types import stream

OTHER_SPLIT = {"length": 5, "lengths": 2, "max_episode_steps": 6, "split_seed": 1}
OTHER = rrl.make_env("corridor", **OTHER_SPLIT)


@pytest.fixture(scope="module")
def episodes():
    """Won walks from all training starts of the usual split."""
    tasks = [task for mode in toy.SPEC.modes for task in toy.SPEC.tasks(mode, "train")]
    return [episode for episode in rrl.collect(toy.SPEC, "oracle", episodes=len(tasks)) if episode.success]


def held_out(episodes) -> list[str]:
    """Keys of the episodes whose starts are held out with the other split."""
    tasks = (OTHER.tasks(mode, split) for mode in OTHER.modes for split in ("validation", "test"))
    known = {task.key for part in tasks for task in part}
    return [episode.task.key for episode in episodes if episode.task.key in known]


def test_an_episode_of_a_held_out_task_is_named_with_its_split_and_the_remedy(episodes):
    keys = held_out(episodes)
    (split,) = (s for s in ("validation", "test") for m in OTHER.modes for t in OTHER.tasks(m, s) if t.key == keys[0])
    with pytest.raises(UserError) as raised:
        refuse_held_out(episodes, OTHER, "here.jsonl")
    assert str(raised.value) == (
        f"here.jsonl: {len(keys)} of {len(episodes)} episodes are of tasks that are held out here, such as "
        f"{keys[0]!r}, a {split} task of corridor with these settings. Leave such episodes out, or set the environment "
        "as it was when they were recorded."
    )
    refuse_held_out(episodes, toy.SPEC, "here.jsonl")


@pytest.mark.parametrize("change", [{"data": {"cells": 9}}, {"key": "near/9-9-9"}])
def test_another_game_under_the_same_key_is_no_held_out_task(episodes, change):
    kept = [replace(episode, task=replace(episode.task, **change)) for episode in episodes]
    refuse_held_out(kept, OTHER, "here.jsonl")


def test_an_episode_of_a_mode_that_the_game_does_not_have_is_refused(episodes):
    kept = [*episodes[1:], replace(episodes[0], task=replace(episodes[0].task, mode="Near"))]
    with pytest.raises(UserError) as raised:
        refuse_held_out(kept, toy.SPEC, "here.jsonl")
    assert str(raised.value) == (
        "here.jsonl: an episode is of the mode 'Near', which corridor does not have, only near, far. Correct the mode, "
        "or leave such episodes out."
    )


class Endless(Corridor):
    """A game whose training tasks nobody can list."""

    def tasks(self, mode: str, split: str) -> Any:
        """Those of the corridor but for training."""
        assert split != "train"
        return super().tasks(mode, split)


def test_training_tasks_are_not_listed(episodes):
    refuse_held_out(episodes, EnvSpec(Endless, toy.SMALL), "here.jsonl")


def test_training_from_python_refuses_them_where_the_environment_is_known(episodes):
    model = rrl.load_model("embedded", hidden_size=16, layers=1, heads=2)
    with pytest.raises(UserError, match=rf"train_sft: {len(held_out(episodes))} of {len(episodes)} episodes"):
        rrl.train_sft(model, episodes, env=OTHER, steps=1)


def test_a_run_refuses_a_file_with_them(episodes, tmp_path):
    path = tmp_path / "played.jsonl"
    rrl.write_episodes(path, episodes)

    def learned(**settings: int):
        values = {
            "output_dir": str(tmp_path / "run"),
            "environment": {"name": "corridor", **settings},
            "data": {"episodes": str(path), "demonstration_starts": [len(episodes)]},
        }
        run = parse(RunConfig, values)
        return demonstrated(run, next(iter(units(run))), frozenset())["positive"]

    assert len(learned(**OTHER_SPLIT | {"split_seed": 0})) == len(episodes)
    with pytest.raises(UserError, match=rf"data.episodes: {path}: {len(held_out(episodes))} of {len(episodes)}"):
        learned(**OTHER_SPLIT)


def test_starts_are_chosen_by_their_keys_before_their_modes(tmp_path):
    game, path = rrl.make_env(toy.Numbered, **toy.SMALL.model_dump(exclude={"name"})), tmp_path / "played.jsonl"
    count = sum(len(game.tasks(mode, "train")) for mode in game.modes)
    rrl.write_episodes(path, rrl.collect(game, "oracle", episodes=count))
    values = {
        "output_dir": str(tmp_path / "run"),
        "environment": toy.SMALL.model_dump() | {"name": "toy:Numbered"},
        "data": {"episodes": str(path), "demonstration_starts": [3]},
    }
    run = parse(RunConfig, values)
    unit = next(iter(units(run)))
    chosen = {episode.task.unique_key for episode in demonstrated(run, unit, frozenset())["positive"]}
    # By key, so that a mode whose name begins another's changes no choice, and then by mode, where keys are shared.
    keys = sorted((task.key, mode) for mode in game.modes for task in game.tasks(mode, "train"))
    order = stream(unit.seed, "demonstration starts").permutation(count)[:3]
    assert chosen == {keys[index][::-1] for index in order}


class Worded(Corridor):
    """A corridor whose texts are said to depend on settings."""

    facts: ClassVar = {"wording": "old", "advice": "command"}

    def text_settings(self) -> dict[str, str]:
        """Settings of its texts."""
        return self.facts


class Reworded(Worded):
    """The same with another wording and advice."""

    facts: ClassVar = {"wording": "new", "advice": "goal"}


def test_episodes_of_other_texts_are_refused(tmp_path):
    path, spec = tmp_path / "played.jsonl", EnvSpec(Worded, toy.SMALL)
    rrl.write_episodes(path, rrl.collect(spec, "oracle", episodes=2))
    read = rrl.read_episodes(path)
    assert [episode.texts for episode in read] == [Worded.facts] * 2
    refuse_held_out(read, spec, "here.jsonl")
    other = EnvSpec(Reworded, toy.SMALL)
    taught = [replace(episode, turns=tuple(replace(t, reflection="Go.") for t in episode.turns)) for episode in read]
    for episodes, told in ((taught, "advice is 'command' there and 'goal' here; "), (read, "")):
        with pytest.raises(UserError) as raised:
            refuse_held_out(episodes, other, "here.jsonl")
        assert str(raised.value) == (
            f"here.jsonl: 2 of 2 episodes were recorded with other texts: {told}wording is 'old' there and 'new' here. "
            "Set the environment as it was when they were recorded, or leave such episodes out."
        )


def test_episodes_that_say_nothing_of_their_texts_stay_readable_and_as_they_are(tmp_path):
    path = tmp_path / "played.jsonl"
    rrl.write_episodes(path, rrl.collect(toy.SPEC, "oracle", episodes=1))
    assert "texts" not in path.read_text()
    refuse_held_out(rrl.read_episodes(path), EnvSpec(Reworded, toy.SMALL), "here.jsonl")
