"""Every command of this package explains itself."""

from __future__ import annotations

import pytest

from reflect_rl import registry
from reflect_rl.cli.main import main

OWN = [verb for verb in registry.names("commands") if registry.COMPANIONS["commands"].get(verb) == "reflect-report"]


def test_these_commands_are_known():
    assert {"play", "prefer", "report", "status", "sweep", "watch"} <= set(OWN)


@pytest.mark.parametrize("verb", OWN)
def test_a_command_has_a_help(verb: str, capsys: pytest.CaptureFixture[str]):
    assert main([verb, "--help"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("usage: reflect-rl ")
    assert f"reflect-rl {verb}" in said.out
