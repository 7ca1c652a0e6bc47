"""Playing a game of files by the texts of its actions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reflect_rl.types import Observation

__all__ = ["begin", "do", "nothing_outside"]


def begin(environment: Any) -> Observation:
    """Start the first training task of the first configured mode."""
    config = environment.config
    task = sys.modules[type(environment).__module__].tasks(config, config.modes[0], "train")[0]
    return environment.reset(options={"task": task})[0]


def do(environment: Any, *actions: str) -> tuple[Observation, float, bool]:
    """Take actions: the last observation and reward, and whether the game is over."""
    for action in actions:
        observation, reward, over, _, _ = environment.step(environment.running().actions.index(action))
    return observation, reward, over


@contextmanager
def nothing_outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever is done inside opens no file, runs no program, and leaves the process as it was."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the game reached outside")

    place, variables, descriptors = Path.cwd(), dict(os.environ), len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patch:
        for name in ("open", "system", "chdir", "listdir", "scandir", "stat"):
            patch.setattr(os, name, refuse)
        patch.setattr(subprocess, "Popen", refuse)
        patch.setattr("builtins.open", refuse)
        yield
    assert (Path.cwd(), dict(os.environ)) == (place, variables)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
