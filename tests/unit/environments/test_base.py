from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from reflect_rl.core.config import EnvironmentConfig
from reflect_rl.core.errors import UnknownNameError
from reflect_rl.core.types import Observation
from reflect_rl.environments._base import AdmissibleActions, ObservationSpace, make


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


def test_importing_the_package_imports_no_game_and_no_torch():
    code = (
        "import sys, reflect_rl.environments as e; "
        "print(sorted(m for m in sys.modules if m == 'torch' or m.startswith('reflect_rl.environments.')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
