"""The code of an environment under watch: whatever goes wrong in it is told with the place in the game."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reflect_rl.errors import EnvironmentTimeoutError, FaultyEnvironmentError, ReflectRLError
from reflect_rl.watchdog import watch

__all__ = ["guarded"]

Result = TypeVar("Result")

REMEDY = "Raise limits.environment_seconds (0 = no limit), or leave such episodes out with limits.failed_episodes."


def guarded(what: str, seconds: float, act: Callable[[], Result]) -> Result:
    """The result of calling an environment's code.

    Args:
        what: environment, task, turn and action, in one line.
        seconds: limit, 0 = none.
        act: the call.

    Raises:
        EnvironmentTimeoutError: it took longer.
        FaultyEnvironmentError: in place of what it raised, which is the cause. Errors of this package (a task that is
            none of the game) and a lack of memory are raised as they are.
    """
    try:
        with watch(what, seconds, EnvironmentTimeoutError, REMEDY):
            return act()
    except (ReflectRLError, MemoryError):
        raise
    except Exception as error:  # code of the user's own may fail in any way
        raise FaultyEnvironmentError(f"{what}: {type(error).__name__}: {error}.") from error
