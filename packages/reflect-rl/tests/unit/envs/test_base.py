from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from reflect_locate.envs import autoexplore
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs import corridor
from reflect_rl.envs.base import AdmissibleActions, ObservationSpace, make
from reflect_rl.errors import UnknownNameError
from reflect_rl.types import Observation
from small_task_set import save_small_task_set


def test_an_observation_needs_text_and_distinct_actions():
    space = ObservationSpace(2)
    assert Observation("You are here.", ("left", "right")) in space
    assert Observation("", ("left",)) not in space
    assert Observation("You are here.", ()) not in space
    assert Observation("You are here.", ("left", "left")) not in space
    assert Observation("You are here.", ("left", "right", "wait")) not in space
    assert "You are here." not in space
    assert space.sample() in space


def test_only_listed_actions_are_members_and_samples():
    space = AdmissibleActions(5)
    space.admissible = 2
    assert [index in space for index in range(5)] == [True, True, False, False, False]
    assert {int(space.sample()) for _ in range(50)} == {0, 1}


def test_gymnasiums_mask_still_restricts_samples():
    space = AdmissibleActions(3)
    assert space.sample(mask=np.array([0, 1, 0], dtype=np.int8)) == 1


def test_make_names_the_nearest_environment():
    with pytest.raises(UnknownNameError, match="Did you mean 'dangerous_taxi'"):
        make(EnvironmentConfig(name="dangerous_taxis"))


@pytest.mark.parametrize(("horizon", "limited"), [(None, False), (15, False), (40, False), (14, True), (1, True)])
def test_a_game_that_counts_its_turns_is_truncated_only_below_its_own_horizon(horizon: int | None, limited: bool):
    environment = make(autoexplore.Config(max_episode_steps=15), horizon)
    assert isinstance(environment, TimeLimit) is limited


@pytest.mark.parametrize("horizon", [None, 20, 40, 1])
def test_a_game_that_does_not_count_its_turns_is_always_truncated(horizon: int | None):
    environment = make(corridor.Config(max_episode_steps=20), horizon)
    assert isinstance(environment, TimeLimit)
    assert environment._max_episode_steps == (horizon or 20)


def test_the_last_turn_of_a_game_that_counts_its_turns_ends_it_without_truncation(tmp_path: Path):
    save_small_task_set(tmp_path, "train")
    config = autoexplore.Config(tasks=tmp_path, modes=("d1raw",), max_episode_steps=3)
    environment = make(config)
    environment.reset(options={"task": autoexplore.tasks(config, "d1raw", "train")[0]})
    ends = [environment.step(0)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (True, False)]


def test_importing_the_package_imports_no_game_and_no_torch():
    code = (
        "import sys, reflect_rl.envs as e; "
        "print(sorted(m for m in sys.modules if m == 'torch' or m.startswith('reflect_rl.envs.')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
