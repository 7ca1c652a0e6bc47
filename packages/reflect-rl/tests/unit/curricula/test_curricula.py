"""Which modes are trained when."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from reflect_rl import registry
from reflect_rl.curricula import Stages, StagesConfig, Uniform, UniformConfig

MODES = ("pickup", "dropoff", "full")


def test_uniform_trains_the_same_modes_at_any_progress():
    everything = Uniform(UniformConfig(modes=("pickup", "full")), MODES)
    assert {everything.stage(p) for p in (0.0, 0.5, 0.99)} == {("pickup", "full")}
    assert Uniform(UniformConfig(), MODES).stage(0.0) == ("full",)


@pytest.mark.parametrize(
    ("progress", "mode"),
    [
        (0.0, "pickup"),
        (0.24, "pickup"),
        (0.25, "dropoff"),
        (0.49, "dropoff"),
        (0.5, "full"),
        (0.99, "full"),
        (1, "full"),
    ],
)
def test_stages_follow_the_shares_of_the_budget(progress, mode):
    # 1 : 1 : 2 of the budget: the first quarter, the second quarter, the second half.
    curriculum = Stages(StagesConfig(modes=MODES, shares=(1.0, 1.0, 2.0)), MODES)
    assert curriculum.stage(progress) == (mode,)


def test_without_settings_all_modes_get_equal_shares():
    curriculum = Stages(StagesConfig(), MODES)
    assert [curriculum.stage(p)[0] for p in (0.3, 0.4, 0.6, 0.7)] == ["pickup", "dropoff", "dropoff", "full"]


def test_rounding_does_not_hold_a_stage_back():
    # 1/5 + 2/5 is a little more than 0.6 in floating point.
    curriculum = Stages(StagesConfig(shares=(1.0, 2.0, 2.0)), MODES)
    assert curriculum.stage(3 / 5) == ("full",)


@given(st.lists(st.floats(0.01, 10), min_size=3, max_size=3), st.floats(0, 1), st.floats(0, 1))
def test_stages_never_go_back(shares, one, other):
    curriculum = Stages(StagesConfig(shares=tuple(shares)), MODES)
    earlier, later = (MODES.index(curriculum.stage(p)[0]) for p in sorted((one, other)))
    assert earlier <= later


def test_a_stage_of_two_modes_trains_both():
    curriculum = Stages(StagesConfig(modes=("pickup+dropoff", "full"), shares=(1.0, 3.0)), MODES)
    assert [curriculum.stage(p) for p in (0.0, 0.24, 0.25, 1.0)] == [("pickup", "dropoff")] * 2 + [("full",)] * 2
    last = Stages(StagesConfig(modes=("pickup", "dropoff+full")), MODES)
    assert last.stage(1.0) == ("dropoff", "full")


def test_shares_that_do_not_fit_are_refused():
    with pytest.raises(ValidationError, match="2 numbers for 1 modes"):
        StagesConfig(modes=("full",), shares=(1.0, 2.0))
    with pytest.raises(ValidationError, match="must be positive"):
        StagesConfig(shares=(1.0, 0.0, 1.0))
    with pytest.raises(ValueError, match="2 numbers for the modes pickup, dropoff, full"):
        Stages(StagesConfig(shares=(1.0, 2.0)), MODES)


@pytest.mark.parametrize("name", registry.names("curricula"))
def test_every_curriculum_names_itself_like_its_file_and_stays_within_the_modes(name):
    found = registry.find("curricula", name)
    curriculum = found(found.Config(), MODES)
    assert found.Config().name == name
    for progress in (0.0, 0.5, 1.0):
        assert set(curriculum.stage(progress)) <= set(MODES)
        assert curriculum.stage(progress)
