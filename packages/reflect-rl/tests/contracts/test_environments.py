"""The contract of the project's own games: one that is registered with its version is tested without writing a test.

The games of `reflect-games` are somebody else's: they need files or another program, and their experts are no solvers.
Their package tests them.

Each test skips nothing silently: what an environment cannot do is named by the test of its capabilities.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from reflect_rl import registry
from reflect_rl.config import config_of
from reflect_rl.envs.base import (
    CAPABILITIES,
    SPLITS,
    EnvSpec,
    HasSolver,
    HasTeacher,
    Idles,
    NamesGames,
    NumbersActions,
    TextEnv,
    idle_step,
    spec_of,
)
from reflect_rl.envs.gym import GymnasiumEnv
from reflect_rl.errors import UnknownNameError, UserError
from reflect_rl.registry import register_all
from reflect_rl.types import Observation, Oracle, Task, stream, to_json
from three_projects import save_three_projects

NAMES = [name for name in registry.names("environments") if name in registry.VERSIONS]
TASKS_PER_SPLIT = 40

register_all()


@cache
def task_set() -> TemporaryDirectory[str]:
    """A task set with tasks of every mode; it is removed when the tests end."""
    folder = TemporaryDirectory()
    save_three_projects(Path(folder.name), folders=8, files=6)
    return folder


def made(name: str, **changes: Any) -> EnvSpec:
    """The default settings, except that a game about files gets some."""
    config = config_of("environments", name, "name")
    if "tasks" in config.model_fields:
        changes["tasks"] = Path(task_set().name)
    return spec_of(config(name=name, **changes))  # type: ignore[arg-type]


@pytest.fixture(params=NAMES)
def spec(request: pytest.FixtureRequest) -> EnvSpec:
    return made(request.param)


def some_tasks(spec: EnvSpec, count: int = TASKS_PER_SPLIT) -> list[Task]:
    return [task for mode in spec.all_modes for split in SPLITS for task in spec.tasks(mode, split)[:count]]


def begun(spec: EnvSpec, task: Task) -> tuple[TextEnv, Observation]:
    game = spec.make()
    return game, game.reset(task, stream(0, "environment"))


def solver(game: TextEnv) -> HasSolver:
    if not isinstance(game, HasSolver):
        pytest.skip(f"{game.name} has no solver")
    return game


def gymnasium_id(spec: EnvSpec) -> str:
    return f"reflect_rl/{spec.name.title().replace('_', '')}-v{spec.version}"


def test_it_is_named_like_its_entry_point_and_says_what_it_can_do(
    spec: EnvSpec, record_property: pytest.FixtureRequest
):
    assert spec.name == spec.config.name
    assert set(spec.modes) <= set(spec.all_modes)
    assert spec.modes == tuple(mode for mode in spec.all_modes if mode in spec.modes)
    known = {kind.__name__ for kind in CAPABILITIES}
    assert set(spec.capabilities) <= known
    record_property("capabilities", ", ".join(spec.capabilities))  # type: ignore[operator]


def test_our_own_games_offer_what_their_documents_say():
    both = {"HasSolver", "HasTeacher", "Restartable", "HasRules"}
    assert set(made("corridor").capabilities) == both
    assert set(made("dangerous_taxi").capabilities) == both | {"Renders", "VariesTexts"}


def test_what_an_evaluation_may_change_are_settings(spec: EnvSpec):
    assert set(spec.env_class.evaluation_only) <= set(type(spec.config).model_fields) - {"name"}


def test_a_result_can_name_the_games_it_is_about(spec: EnvSpec):
    game = spec.capability(NamesGames)
    if game is None:
        pytest.skip(f"the games of {spec.name} are told by its tasks")
    facts = [game.games_tested(spec.all_modes[0], split) for split in ("test", "test", "validation")]
    assert facts[0] == facts[1] != facts[2]
    assert json.loads(json.dumps(facts)) == facts


def test_gymnasium_makes_it_by_its_versioned_id_and_its_checker_has_no_complaint(spec: EnvSpec):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environment = gymnasium.make(gymnasium_id(spec), config=spec.config)
        check_env(environment.unwrapped)


def test_splits_share_no_task_and_every_task_says_where_it_belongs(spec: EnvSpec):
    for mode in spec.all_modes:
        by_split = {split: spec.tasks(mode, split) for split in SPLITS}
        keys = [task.key for task in chain(*by_split.values())]
        assert len(set(keys)) == len(keys)
        for split, tasks in by_split.items():
            assert tasks
            assert {(task.mode, task.split) for task in tasks} == {(mode, split)}
            assert json.loads(json.dumps(to_json(tasks[0]))) == to_json(tasks[0])


def test_tasks_are_the_same_whenever_they_are_asked_for(spec: EnvSpec):
    again = made(spec.config.name)
    assert [spec.tasks(mode, "test") for mode in spec.all_modes] == [
        again.tasks(mode, "test") for mode in spec.all_modes
    ]


def test_unknown_modes_splits_and_tasks_are_refused_by_name(spec: EnvSpec):
    with pytest.raises(UnknownNameError, match="'nowhere'"):
        spec.tasks("nowhere", "train")
    with pytest.raises(UnknownNameError, match="Did you mean 'train'"):
        spec.tasks(spec.all_modes[0], "trian")
    with pytest.raises(UserError, match="must be a Task"):
        GymnasiumEnv(spec).reset(options={"task": "full"})
    # Passed over, it would start a task that nobody asked for.
    with pytest.raises(UserError, match=r"reset\(\) has no option 'tasks'; it knows 'task'"):
        GymnasiumEnv(spec).reset(options={"tasks": "full"})
    with pytest.raises(UserError, match="odd/1"):
        begun(spec, Task("odd/1", spec.all_modes[0], "train", {}))


def test_the_oracle_wins_every_task_in_the_number_of_turns_it_announces(spec: EnvSpec):
    for task in some_tasks(spec):
        game, _ = begun(spec, task)
        announced = solver(game).oracle().turns_left
        assert announced <= spec.max_episode_steps
        for turn in range(announced):
            oracle = solver(game).oracle()
            assert oracle.turns_left == announced - turn
            answer = game.step(oracle.best)
            assert -1 <= answer.reward <= 1
        assert (answer.terminated, answer.success) == (True, True)


def test_every_optimal_action_saves_a_turn_and_every_safe_action_saves_none_but_keeps_the_game_winnable(spec: EnvSpec):
    for task in some_tasks(spec, 8):
        oracle = solver(begun(spec, task)[0]).oracle()
        assert oracle.best in oracle.optimal
        assert not set(oracle.optimal) & set(oracle.safe)
        for index in (*oracle.optimal, *oracle.safe):
            game, _ = begun(spec, task)
            answer = game.step(index)
            if answer.terminated:
                assert (index in oracle.optimal, answer.success, oracle.turns_left) == (True, True, 1)
                continue
            after = solver(game).oracle()
            assert (after.turns_left == oracle.turns_left - 1) == (index in oracle.optimal)
            assert after.turns_left >= oracle.turns_left - (index in oracle.optimal)


def test_turns_can_pass_without_an_action_and_cost_no_more_than_the_game_allows(spec: EnvSpec):
    for task in some_tasks(spec, 3):
        game, before = begun(spec, task)
        shown = before
        for turn in range(1, spec.max_episode_steps + 1):
            answer = idle_step(game, shown)
            shown = answer.observation
            assert (type(answer.reward), answer.success) == (float, False)
            assert -1 <= answer.reward <= 0
            assert not answer.terminated or turn == spec.max_episode_steps
        # A game that counts its turns ends itself; the rollout truncates the others.
        assert answer.terminated == spec.env_class.fixed_horizon
        assert not spec.env_class.fixed_horizon or isinstance(game, Idles)
        game, before = begun(spec, task)
        after = idle_step(game, before).observation
        assert after.actions == before.actions
        if isinstance(game, HasSolver):
            assert game.oracle().turns_left >= 1


def test_every_listed_action_is_accepted_and_no_other(spec: EnvSpec):
    environment = GymnasiumEnv(spec)
    for task in some_tasks(spec, 5):
        observation, _ = environment.reset(options={"task": task})
        assert len(observation.actions) <= spec.max_actions
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


def random_walk(environment: GymnasiumEnv, seed: int, turns: int = 60) -> list[object]:
    """A random game, begun anew whenever it ends, as values that can be compared."""
    rng = np.random.default_rng(seed)
    observation, _ = environment.reset(seed=seed)
    seen: list[object] = [observation]
    for _ in range(turns):
        observation, reward, terminated, truncated, info = environment.step(rng.integers(len(observation.actions)))
        seen.append((observation, reward, terminated, truncated, info["success"]))
        if terminated or truncated:
            observation, _ = environment.reset()
            seen.append(observation)
    return seen


def test_two_copies_with_one_seed_play_the_same_games_and_another_seed_others(spec: EnvSpec):
    first, second = GymnasiumEnv(spec), GymnasiumEnv(spec)
    assert random_walk(first, 7) == random_walk(second, 7)
    assert random_walk(first, 7) != random_walk(second, 8)


def test_a_finished_game_leaves_no_trace_in_the_next(spec: EnvSpec):
    for task in some_tasks(spec, 3):
        used, _ = begun(spec, task)
        while not used.step(solver(used).oracle().best).terminated:
            pass
        again = used.reset(task, stream(0, "environment"))
        fresh, first = begun(spec, task)
        assert again == first
        assert solver(used).oracle() == solver(fresh).oracle()


def test_reset_without_a_task_draws_training_tasks_of_the_configured_modes_only(spec: EnvSpec):
    one = made(spec.config.name, modes=spec.all_modes[:1])
    environment = GymnasiumEnv(one)
    starts = {task.key: begun(one, task)[1] for task in one.tasks(spec.all_modes[0], "train")}
    for seed in range(5):
        assert environment.reset(seed=seed)[0] in starts.values()


def test_observations_are_json_and_say_nothing_of_time_unless_the_horizon_is_fixed(spec: EnvSpec):
    for task in some_tasks(spec, 3):
        _, observation = begun(spec, task)
        assert json.loads(json.dumps(to_json(observation)))["text"] == observation.text
        if not spec.env_class.fixed_horizon:
            assert "turn" not in observation.text.lower()


def test_the_teacher_gives_the_advice_of_the_expert(spec: EnvSpec):
    numbered = spec.capability(NumbersActions)
    for task in some_tasks(spec, 8):
        game, observation = begun(spec, task)
        if not isinstance(game, HasTeacher):
            pytest.skip(f"{spec.name} has no teacher")
        oracle = solver(game).oracle()
        assert isinstance(oracle, Oracle)
        advised = oracle.best if oracle.explorer is None else oracle.explorer
        # Games whose states number the actions give the number too.
        number = f" ={advised}" if numbered is not None and numbered.numbered else ""
        assert f"Next: {observation.actions[advised]}{number}." in game.teach()


def test_outside_a_game_there_is_no_step(spec: EnvSpec):
    environment = GymnasiumEnv(spec)
    with pytest.raises(RuntimeError, match="reset"):
        environment.step(0)
    environment.reset(seed=0)
    while not environment.step(solver(environment.game).oracle().best)[2]:
        pass
    with pytest.raises(RuntimeError, match="over"):
        environment.step(0)


def test_the_text_is_rendered_on_request_only(spec: EnvSpec):
    silent, shown = GymnasiumEnv(spec), GymnasiumEnv(spec, render_mode="ansi")
    assert shown.render() is None
    shown.reset(seed=1)
    silent.reset(seed=1)
    assert silent.render() is None
    assert shown.render()
