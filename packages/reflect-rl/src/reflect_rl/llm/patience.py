"""Pauses between attempts: as long as the server asks for, else growing and jittered."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import numpy as np

from reflect_rl.llm.errors import Failure

__all__ = ["FIRST_PAUSE", "Clock", "Patience", "wanted_pause"]

FIRST_PAUSE = 0.5
"""Seconds before the second attempt; each pause is twice the one before."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time and how it passes."""

    now: Callable[[], float] = time.time
    """Seconds since 1970."""
    sleep: Callable[[float], None] = time.sleep
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    """Of the jitter; it changes no result."""


class Patience:
    """How long to wait before which attempt; shared by the threads that ask one server.

    Args:
        retries: further attempts after the first.
        longest_pause_seconds: longest pause between two attempts.
        clock: the time.
    """

    def __init__(self, retries: int, longest_pause_seconds: float, clock: Clock) -> None:
        self.retries, self.longest, self.clock = retries, longest_pause_seconds, clock
        self._lock = threading.Lock()
        self._closed_until = -math.inf

    def wait(self) -> None:
        """Until the server may be asked again, where it has told any of the threads to wait."""
        with self._lock:
            pause = self._closed_until - self.clock.now()
        if pause > 0:
            self.clock.sleep(min(pause, self.longest))

    def again(self, failure: Failure, attempts: int) -> bool:
        """Whether there is another attempt after so many; if so, it comes back when it is due."""
        most = min(self.retries, 1) if failure.kind == "unreadable" else self.retries
        if not failure.may_pass or attempts > most:
            return False
        wanted = wanted_pause(failure, self.clock.now())
        if wanted is None:
            self.clock.sleep(self._growing(attempts))
        elif wanted > self.longest:
            return False
        else:
            with self._lock:
                self._closed_until = max(self._closed_until, self.clock.now() + wanted)
        return True

    def _growing(self, attempts: int) -> float:
        """Seconds: doubled with each attempt; up to half of it is drawn, so that threads do not return together."""
        pause = min(FIRST_PAUSE * 2 ** min(attempts - 1, 60), self.longest)
        return pause * float(self.clock.rng.uniform(0.5, 1))


def wanted_pause(failure: Failure, now: float) -> float | None:
    """Seconds that the server asks to wait (`Retry-After`, RFC 9110, in seconds or as a date; None: it does not).

    A date counts from the server's own clock, where it tells the time.
    """
    headers = dict(failure.headers)
    if (number := _number(headers.get("retry-after-ms"))) is not None:
        return number / 1000
    text = headers.get("retry-after")
    if (number := _number(text)) is not None:
        return number
    if (then := _moment(text)) is None:
        return None
    here = _moment(headers.get("date"))
    return max(then - (now if here is None else here), 0.0)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _moment(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, OverflowError):
        return None
