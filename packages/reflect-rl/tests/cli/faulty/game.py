"""A corridor that fails in the way named by the environment variable FAULT, in worker processes only."""

import multiprocessing
import os
import re
from typing import Literal

from reflect_rl import watchdog
from reflect_rl.envs import corridor
from reflect_rl.envs.corridor import MODES, NAME, VERSION, task_at, tasks

__all__ = ["MODES", "NAME", "VERSION", "Config", "Environment", "task_at", "tasks"]


class Config(corridor.Config):
    name: Literal["faulty.game"] = "faulty.game"


watchdog.GRACE = 0.3


class Environment(corridor.Environment):
    def start(self, task):
        if multiprocessing.parent_process() is not None:
            if os.environ["FAULT"] == "killed":
                os._exit(9)  # what the kernel does when memory runs out
            if os.environ["FAULT"] == "hangs":
                re.match(r"(a+)+$", "a" * 60 + "b")  # needs exponential time, and holds Python's lock
            raise ZeroDivisionError("a wall where none should be")
        return super().start(task)
