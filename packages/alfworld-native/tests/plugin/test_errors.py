"""Household errors as a user of reflect-rl meets them."""

import pytest

from alfworld_native.errors import (
    GameError,
    HouseholdError,
    TextWorldError,
    TextWorldMissingError,
    TextWorldTimeoutError,
)
from alfworld_native.plugin.errors import translated_errors
from reflect_rl.cli.main import main
from reflect_rl.errors import EnvironmentTimeoutError, FaultyEnvironmentError, ReflectRLError, UserError


@pytest.mark.parametrize(
    ("raised", "met"),
    [
        (GameError, UserError),
        (TextWorldMissingError, UserError),
        (TextWorldError, FaultyEnvironmentError),
        (TextWorldTimeoutError, EnvironmentTimeoutError),
    ],
)
def test_errors_are_translated(raised: type[HouseholdError], met: type[ReflectRLError]):
    with pytest.raises(ReflectRLError, match="it says why") as caught, translated_errors():
        raise raised("it says why")
    assert type(caught.value) is met
    assert type(caught.value.__cause__) is raised


def test_other_errors_stay_what_they_are():
    with pytest.raises(ZeroDivisionError), translated_errors():
        1 / 0  # noqa: B018


def test_the_command_line_ends_with_one_sentence_and_the_code_of_a_mistake(capsys: pytest.CaptureFixture[str]):
    code = main(["play", "--environment.name", "alfworld", "--environment.games", "/no/such/folder"])
    assert code == 2
    assert capsys.readouterr().err.startswith("error: there is no folder /no/such/folder with ALFWorld's games.")
