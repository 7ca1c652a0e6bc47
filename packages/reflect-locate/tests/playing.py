"""Playing a game of files by the texts of its actions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reflect_locate.envs.autoexplore import AutoExplore
from reflect_locate.envs.autoexplore_paper import AutoExplorePaper
from reflect_rl.envs.base import TextEnv
from reflect_rl.types import Observation, Step


def begin(environment: TextEnv) -> Observation:
    """Start the first training task of the first configured mode."""
    task = environment.tasks(environment.config.modes[0], "train")[0]
    return environment.reset(task, np.random.default_rng(0))


def do(environment: AutoExplore | AutoExplorePaper, *actions: str) -> Step:
    """Take actions; returns the answer to the last."""
    for action in actions:
        step = environment.step(environment.shown.actions.index(action))
    return step


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
