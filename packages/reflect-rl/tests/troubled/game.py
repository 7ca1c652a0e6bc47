"""A corridor that gets into trouble at the second turn of some tasks."""

import ctypes
import os
import re
import signal
import sys
import time
from dataclasses import replace

from reflect_rl.envs import corridor
from reflect_rl.types import Observation, Step


class Config(corridor.CorridorConfig):
    name: str = "troubled.game:Troubled"
    trouble: str = ""
    """Name of a function below."""
    at: tuple[str, ...] = ()
    """Keys of the tasks."""


class Troubled(corridor.Corridor):
    """Counts the environments that were made, and remembers which of them were ever in trouble."""

    Config = Config
    name = "corridor"
    made = 0

    def __init__(self, config):
        super().__init__(config)
        type(self).made += 1
        self.broken = False
        if config.trouble == "making":
            raise ConnectionError("no server")

    def reset(self, task, rng=None):
        assert not self.broken, "an environment that failed is used again"
        self._key, self._turn = task.key, 0
        if self.config.trouble == "reset" and task.key in self.config.at:
            self.broken = True
            raise KeyError("no such level")
        return super().reset(task, rng)

    def step(self, action):
        self._turn += 1
        answer = super().step(action)
        if self._turn == 2 and self._key in self.config.at and self.config.trouble in globals():
            self.broken = True
            return globals()[self.config.trouble](answer)
        return answer


def sleeps(answer):
    time.sleep(600)


def loops(answer):
    while True:
        pass


def swallows(answer):
    """Python code that does not want to be interrupted."""
    while True:
        try:
            time.sleep(600)
        except Exception:
            continue


def reads(answer):
    """C code that waits for a pipe, and goes on doing so after a signal."""
    signal.siginterrupt(signal.SIGURG, False)
    end, _ = os.pipe()
    ctypes.CDLL(None).read(end, ctypes.create_string_buffer(1), 1)


def matches(answer):
    """C code that holds Python's lock: a pattern that needs exponential time."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def raises(answer):
    raise ZeroDivisionError("a wall where none should be")


def leaves(answer):
    sys.exit()


def numbers(answer):
    return replace(answer, observation=replace(answer.observation, state=7))


def nan(answer):
    return replace(answer, reward=float("nan"))


def endless(answer):
    return replace(answer, reward=float("-inf"))


def wordless(answer):
    return replace(answer, reward=None)


def stuck(answer):
    return Step(Observation("Nothing can be done.", ()), 0.0)
