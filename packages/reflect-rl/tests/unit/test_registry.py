"""The folder is the registry."""

from __future__ import annotations

import pytest

from reflect_rl import registry
from reflect_rl.errors import UnknownNameError, suggestion


def test_names_are_the_files_without_the_private_ones():
    assert {"ppo", "reinforce"} <= set(registry.names("algorithms"))
    assert {"corridor", "dangerous_taxi"} <= set(registry.names("environments"))
    assert not any(name.startswith("_") for folder in ("algorithms", "environments") for name in registry.names(folder))
    assert registry.names("algorithms") == sorted(registry.names("algorithms"))


@pytest.mark.parametrize("folder", ["algorithms", "curricula", "environments"])
def test_every_file_holds_a_config_with_its_name_and_its_class(folder):
    part = {"algorithms": "Algorithm", "curricula": "Curriculum", "environments": "Environment"}[folder]
    for name in registry.names(folder):
        module = registry.find(folder, name)
        assert module.Config().name == name
        assert isinstance(getattr(module, part), type)
        assert module.__doc__


def test_names_that_are_close_and_names_that_are_not():
    with pytest.raises(UnknownNameError, match=r"no algorithm named 'reinforc'\. Did you mean 'reinforce'\?"):
        registry.find("algorithms", "reinforc")
    with pytest.raises(
        UnknownNameError, match=r"no reflector named 'xyz'\. Known: chat, frozen, lexical, none, oracle, served\."
    ):
        registry.find("reflectors", "xyz")
    with pytest.raises(UnknownNameError):
        registry.find("algorithms", "_common")


def test_dotted_names_are_imported_as_they_are():
    assert registry.find("environments", "json.decoder").__name__ == "json.decoder"
    with pytest.raises(UnknownNameError, match=r"cannot import 'no_such_package\.game' for environments"):
        registry.find("environments", "no_such_package.game")


def test_suggestions():
    assert suggestion("pikcup", ["full", "pickup"]) == "Did you mean 'pickup'?"
    assert suggestion("q", ["b", "a"]) == "Known: a, b."
