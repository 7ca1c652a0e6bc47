"""Paths that begin with `~`, with a home folder and without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from reflect_rl.config import Frozen, parse
from reflect_rl.errors import ConfigError, UserError
from reflect_rl.models.catalogue import CACHE_VARIABLE, cache_folder
from reflect_rl.paths import expanded, in_home


class Places(Frozen):
    """Settings with a path in the home folder."""

    cache: Path = Path("~/.cache/x")


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user of a container who is in no list of users."""
    monkeypatch.delenv("HOME", raising=False)

    def unknown(*_: Any) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("pwd.getpwnam", unknown)


def test_a_path_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/x") == in_home("~/x", "") == parse(Places, {"cache": "~/x"}).cache == tmp_path / "x"
    assert Places().cache == tmp_path / ".cache/x"
    assert expanded("x/~") == Path("x/~")


def test_a_folder_may_begin_with_a_tilde(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("~no-such-user").mkdir()
    assert expanded("~no-such-user").is_dir()
    assert in_home("~no-such-user/x", "") == Path("~no-such-user/x")


@pytest.mark.usefixtures("homeless")
def test_without_a_home_folder_none_is_made_in_its_place(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    assert expanded("~/x") == Path("~/x")
    with pytest.raises(UserError, match=r"'~/x' is in the home folder, and this user has none\. Do that\."):
        in_home("~/x", "Do that.")
    # A default harms nobody before it is used.
    assert Places().cache == Path("~/.cache/x")
    with pytest.raises(ConfigError, match=r"cache: there is no home folder for '~/x'\. Write the whole path\."):
        parse(Places, {"cache": "~/x"})
    with pytest.raises(UserError, match=rf"and this user has none\. Set {CACHE_VARIABLE} to a folder"):
        cache_folder()
    monkeypatch.setenv(CACHE_VARIABLE, os.sep)
    assert cache_folder() == Path(os.sep)
