"""A corridor that fails in the way named by the environment variable FAULT, in worker processes only."""

import multiprocessing
import os
import re
import sys

from reflect_rl import watchdog
from reflect_rl.envs.corridor import Corridor

if multiprocessing.parent_process() is not None:
    # Not where the tests run: it would stay, and end their process when the machine is slow.
    watchdog.GRACE = 0.3


class Faulty(Corridor):
    def reset(self, task, rng=None):
        if multiprocessing.parent_process() is not None:
            if os.environ["FAULT"] == "killed":
                os._exit(9)  # what the kernel does when memory runs out
            if os.environ["FAULT"] == "hangs":
                re.match(r"(a+)+$", "a" * 60 + "b")  # needs exponential time, and holds Python's lock
            if os.environ["FAULT"] == "leaves":
                sys.exit()
            raise ZeroDivisionError("a wall where none should be")
        return super().reset(task, rng)
