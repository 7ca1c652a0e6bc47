"""What every environment of the catalog must hold. A new file in `environments/` is tested without writing a test."""

from __future__ import annotations

import json
import warnings
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import reflect_rl.envs  # noqa: F401 (registers the games)
from reflect_rl import registry
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, TextEnvironment, make
from reflect_rl.errors import UnknownNameError, UserError
from reflect_rl.types import Oracle, Task, to_json
from three_projects import save_three_projects

NAMES = registry.names("environments")
TASKS_PER_SPLIT = 40


@pytest.fixture(params=NAMES)
def game(request: pytest.FixtureRequest) -> ModuleType:
    return registry.find("environments", request.param)


@cache
def task_set() -> TemporaryDirectory[str]:
    """A task set with tasks of every mode; it is removed when the tests end."""
    folder = TemporaryDirectory()
    save_three_projects(Path(folder.name), folders=8, files=6)
    return folder


def settings(game: ModuleType, **changes: Any) -> EnvironmentConfig:
    """The default settings, except that a game about files gets some."""
    if "tasks" in game.Config.model_fields:
        changes["tasks"] = Path(task_set().name)
    return game.Config(**changes)


def some_tasks(game: ModuleType, count: int = TASKS_PER_SPLIT) -> list[tuple[str, Task]]:
    config = settings(game)
    return [(mode, task) for mode in game.MODES for split in SPLITS for task in game.tasks(config, mode, split)[:count]]


def gymnasium_id(game: ModuleType) -> str:
    return f"reflect_rl/{game.NAME.title().replace('_', '')}-v{game.VERSION}"


def test_the_module_names_itself_like_its_file(game: ModuleType):
    assert game.NAME == game.__name__.rpartition(".")[2] == settings(game).name
    assert set(settings(game).modes) <= set(game.MODES)


def test_what_an_evaluation_may_change_are_settings(game: ModuleType):
    assert set(getattr(game, "EVALUATION_ONLY", ())) <= set(game.Config.model_fields) - {"name"}


def test_a_result_can_name_the_games_it_is_about(game: ModuleType):
    if hasattr(game, "games_tested"):
        facts = [game.games_tested(settings(game), game.MODES[0], split) for split in ("test", "test", "validation")]
        assert facts[0] == facts[1] != facts[2]
        assert json.loads(json.dumps(facts)) == facts


def test_gymnasium_makes_it_by_its_versioned_id_and_its_checker_has_no_complaint(game: ModuleType):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environment = gymnasium.make(gymnasium_id(game), config=settings(game))
        assert environment.spec is not None
        assert environment.spec.max_episode_steps == settings(game).max_episode_steps
        check_env(environment.unwrapped)


def test_splits_share_no_task_and_every_task_says_where_it_belongs(game: ModuleType):
    config = settings(game)
    for mode in game.MODES:
        by_split = {split: game.tasks(config, mode, split) for split in SPLITS}
        keys = [task.key for task in chain(*by_split.values())]
        assert len(set(keys)) == len(keys)
        for split, tasks in by_split.items():
            assert tasks
            assert {(task.mode, task.split) for task in tasks} == {(mode, split)}
            assert json.loads(json.dumps(to_json(tasks[0]))) == to_json(tasks[0])


def test_tasks_are_the_same_whenever_they_are_asked_for(game: ModuleType):
    assert [game.tasks(settings(game), mode, "test") for mode in game.MODES] == [
        game.tasks(settings(game), mode, "test") for mode in game.MODES
    ]


def test_unknown_modes_splits_and_tasks_are_refused_by_name(game: ModuleType):
    with pytest.raises(UnknownNameError, match="'nowhere'"):
        game.tasks(settings(game), "nowhere", "train")
    with pytest.raises(UnknownNameError, match="Did you mean 'train'"):
        game.tasks(settings(game), game.MODES[0], "trian")
    with pytest.raises(UserError, match="must be a Task"):
        game.Environment(settings(game)).reset(options={"task": "full"})
    with pytest.raises(UserError, match="odd/1"):
        game.Environment(settings(game)).reset(options={"task": Task("odd/1", game.MODES[0], "train", {})})


def test_the_oracle_wins_every_task_in_the_number_of_turns_it_announces(game: ModuleType):
    environment = make(settings(game))
    for _, task in some_tasks(game):
        _, info = environment.reset(seed=0, options={"task": task})
        assert info["success"] is False
        announced = environment.unwrapped.oracle().turns_left
        assert announced <= settings(game).max_episode_steps
        for turn in range(announced):
            oracle = environment.unwrapped.oracle()
            assert oracle.turns_left == announced - turn
            _, reward, terminated, truncated, info = environment.step(oracle.best)
            assert -1 <= reward <= 1
        assert (terminated, truncated, info["success"]) == (True, False, True)


def test_every_optimal_action_saves_a_turn_and_every_safe_action_saves_none_but_keeps_the_game_winnable(
    game: ModuleType,
):
    environment = game.Environment(settings(game))
    for _, task in some_tasks(game, 8):
        environment.reset(options={"task": task})
        oracle = environment.oracle()
        assert oracle.best in oracle.optimal
        assert not set(oracle.optimal) & set(oracle.safe)
        for index in (*oracle.optimal, *oracle.safe):
            environment.reset(options={"task": task})
            _, _, terminated, _, info = environment.step(index)
            if terminated:
                assert (index in oracle.optimal, info["success"], oracle.turns_left) == (True, True, 1)
                continue
            after = environment.oracle()
            assert (after.turns_left == oracle.turns_left - 1) == (index in oracle.optimal)
            assert after.turns_left >= oracle.turns_left - (index in oracle.optimal)


def test_turns_can_pass_without_an_action_and_cost_no_more_than_the_game_allows(game: ModuleType):
    environment = game.Environment(settings(game))
    horizon = settings(game).max_episode_steps
    for _, task in some_tasks(game, 3):
        before, _ = environment.reset(options={"task": task})
        for turn in range(1, horizon + 1):
            after, reward, terminated, truncated, info = environment.let_pass()
            assert after in environment.observation_space
            assert (type(reward), truncated, info["success"]) == (float, False, False)
            assert -1 <= reward <= 0
            assert not terminated or turn == horizon
        # A game that ends itself loses; a wrapper ends the others.
        assert terminated == getattr(game, "FIXED_HORIZON", False)
        environment.reset(options={"task": task})
        environment.let_pass()
        assert environment.oracle().turns_left >= 1
        assert environment.running().actions == before.actions


def test_every_listed_action_is_accepted_and_no_other(game: ModuleType):
    environment = game.Environment(settings(game))
    for _, task in some_tasks(game, 5):
        observation, _ = environment.reset(options={"task": task})
        for index in range(len(observation.actions)):
            environment.reset(options={"task": task})
            after, reward, terminated, truncated, info = environment.step(np.int64(index))
            assert after in environment.observation_space
            assert (type(reward), type(terminated), truncated) == (float, bool, False)
            assert set(info) >= {"success"}
        for index in (-1, len(observation.actions)):
            environment.reset(options={"task": task})
            with pytest.raises(ValueError, match=f"no action {index}"):
                environment.step(index)


def trace(environment: TextEnvironment, seed: int, turns: int = 60) -> list[object]:
    """A random game, begun anew whenever it ends, as values that can be compared."""
    rng = np.random.default_rng(seed)
    observation, _ = environment.reset(seed=seed)
    seen: list[object] = [observation]
    for _ in range(turns):
        observation, reward, terminated, _, info = environment.step(rng.integers(len(observation.actions)))
        seen.append((observation, reward, terminated, info["success"]))
        if terminated:
            observation, _ = environment.reset()
            seen.append(observation)
    return seen


def test_two_copies_with_one_seed_play_the_same_games_and_another_seed_others(game: ModuleType):
    first, second = game.Environment(settings(game)), game.Environment(settings(game))
    assert trace(first, 7) == trace(second, 7)
    assert trace(first, 7) != trace(second, 8)


def test_a_finished_game_leaves_no_trace_in_the_next(game: ModuleType):
    used = game.Environment(settings(game))
    for _, task in some_tasks(game, 3):
        used.reset(options={"task": task})
        while not used.step(used.oracle().best)[2]:
            pass
        fresh = game.Environment(settings(game))
        assert used.success
        assert used.reset(options={"task": task}) == fresh.reset(options={"task": task})
        assert (used.success, used.oracle()) == (False, fresh.oracle())


def test_reset_without_a_task_draws_training_tasks_of_the_configured_modes_only(game: ModuleType):
    config = settings(game, modes=game.MODES[:1])
    environment = game.Environment(config)
    expected = game.tasks(config, game.MODES[0], "train")
    assert tuple(environment.training_tasks()) == expected


def test_observations_are_json_and_say_nothing_of_time_unless_the_horizon_is_fixed(game: ModuleType):
    environment = game.Environment(settings(game))
    for _, task in some_tasks(game, 3):
        observation, _ = environment.reset(options={"task": task})
        assert observation.state
        assert json.loads(json.dumps(to_json(observation)))["text"] == observation.text
        if not getattr(game, "FIXED_HORIZON", False):
            assert "turn" not in observation.text.lower()


def test_the_oracles_reflection_gives_the_advice(game: ModuleType):
    environment = game.Environment(settings(game))
    for _, task in some_tasks(game, 8):
        observation, _ = environment.reset(options={"task": task})
        oracle = environment.oracle()
        assert isinstance(oracle, Oracle)
        advised = oracle.best if oracle.explorer is None else oracle.explorer
        # Games whose states number the actions give the number too.
        number = f" ={advised}" if "=" in oracle.reflection else ""
        assert f"Next: {observation.actions[advised]}{number}." in oracle.reflection


def test_outside_a_game_there_is_neither_oracle_nor_step(game: ModuleType):
    environment = game.Environment(settings(game))
    with pytest.raises(RuntimeError, match="reset"):
        environment.oracle()
    environment.reset(seed=0)
    while not environment.step(environment.oracle().best)[2]:
        pass
    with pytest.raises(RuntimeError, match="over"):
        environment.oracle()
    with pytest.raises(RuntimeError, match="over"):
        environment.step(0)


def test_the_text_is_rendered_on_request_only(game: ModuleType):
    config = settings(game)
    silent, shown = game.Environment(config), game.Environment(config, render_mode="ansi")
    assert shown.render() is None
    observation, _ = shown.reset(seed=1)
    silent.reset(seed=1)
    assert (silent.render(), shown.render()) == (None, observation.text)


def test_make_truncates_at_the_given_horizon(game: ModuleType):
    environment = make(settings(game), max_episode_steps=1)
    task = next(
        task
        for _, task in some_tasks(game)
        if environment.reset(options={"task": task}) and environment.unwrapped.oracle().turns_left > 1
    )
    environment.reset(options={"task": task})
    _, _, terminated, truncated, info = environment.step(environment.unwrapped.oracle().best)
    assert (terminated, truncated, info["success"]) == (False, True, False)
