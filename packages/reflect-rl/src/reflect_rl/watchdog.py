"""A limit on how long a piece of code may take, so that what hangs is stopped and named.

    with on_duty(60):
        for action in actions:
            with watch(f"my game, action {action}", 60):
                game.step(action)

When the time is up, the code is interrupted three ways, each for what the one before cannot reach:

1. Python code in the main thread (Linux and macOS): a signal raises the error inside the watched code.
2. Code that does not come back `GRACE` seconds later: the stacks of all threads are written down and the process ends
   with exit code 1.
3. C code that also holds Python's lock: the same, by a timer outside of Python, `GRACE` seconds after one to two times
   the shortest limit on duty. This timer also counts the time in which a process is stopped (Ctrl-Z).

One thread does this for the whole process and sleeps until the next deadline. A watch stores a deadline and writes the
name of what is watched to a file that outlives the process: one to two microseconds (`scripts/measure_watchdog.py`).
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

from pydantic import Field

from reflect_rl.config import Frozen
from reflect_rl.errors import EnvironmentTimeoutError, FaultyEnvironmentError, HangError, ReflectRLError

Result = TypeVar("Result")

REMEDY = "Raise limits.environment_seconds (0 = no limit), or leave such episodes out with limits.failed_episodes."

GRACE = 10.0
"""Seconds that interrupted code has to come back."""

# Windows has no SIGURG. There only the two ways that end the process are left.
SIGNAL = getattr(signal, "SIGURG", None)
"""Without a handler this signal is ignored, so one that comes late harms nothing; few programs use it."""

NAME_BYTES = 1024
"""Start of a report: the name of what is watched, in its first line; stacks follow when the process is ended."""

LONGEST = 30 * 86_400
"""Seconds; about the longest that a thread can sleep on every system."""


class Limits(Frozen):
    """Time limits of the parts of a game, and the number of episodes that may fail."""

    environment_seconds: float = Field(60, ge=0, le=LONGEST)
    """Longest making, reset or step of an environment, 0 = no limit."""
    player_seconds: float = Field(1800, ge=0, le=LONGEST)
    """Longest call of the reflection player or of the policy, for one turn of all games at once, 0 = no limit."""
    failed_episodes: int = Field(0, ge=0)
    """Episodes of one round of play that may fail, of all processes together; they are left out, counted and written
    down, never learnt from. Evaluation leaves none out."""

    def without_failures(self) -> Limits:
        """The same limits of time, and no episode may fail: to leave some out would change what a rate is of."""
        return self.model_copy(update={"failed_episodes": 0})


DEFAULT_LIMITS = Limits()


class watch:  # noqa: N801 (read as a verb: with watch(...))
    """A piece of code that may take so many seconds; inside `on_duty` this is cheap.

    Watches of one thread do not nest: after an inner one the outer one watches no more.

    Args:
        what: names the code in messages, in one line.
        seconds: the limit; 0 = none.
        error: what is raised.
        remedy: end of its message.
    """

    # A watch is made for every step of every game: without a `__dict__` it is cheaper to make.
    __slots__ = ("_duty", "deadline", "error", "interrupted", "remedy", "renewed", "seconds", "what")

    def __init__(
        self, what: str, seconds: float, error: type[ReflectRLError] = HangError, remedy: str = "Raise the limit."
    ) -> None:
        self.what, self.seconds, self.error, self.remedy = what, seconds, error, remedy
        self.interrupted, self.renewed = 0.0, False
        self._duty: Any = None

    def __enter__(self) -> None:
        if not self.seconds:
            return
        # A watch outside `on_duty` sets up the signal and the timer for itself.
        if not _watcher.duties:
            self._duty = on_duty(self.seconds)
            self._duty.__enter__()
        _watcher.note(self.what)
        self.deadline = time.monotonic() + self.seconds
        # Last, with the deadline set: the thread reads `active` without taking the lock.
        _watcher.active[threading.get_ident()] = self
        if self.seconds < _watcher.interval:
            # The thread sleeps for the shortest limit it knows, so it would wake too late for a shorter one.
            _watcher.hasten(self.seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.seconds:
            return  # nothing began here, and an outer watch goes on
        _watcher.active.pop(threading.get_ident(), None)
        if self._duty is not None:
            self._duty.__exit__(kind, error, trace)

    def message(self) -> str:
        """Text of the error: the code that hung, its limit, the remedy."""
        return f"{self.what} did not come back within {self.seconds:g} s. {self.remedy}"


class _Watcher:
    """The thread that looks after all watches of this process, and the timer that looks after the thread."""

    def __init__(self) -> None:
        self.duties = 0
        self.has_timer = True
        self.start_afresh()

    def start_afresh(self) -> None:
        """Nothing is watched, as in a fork, which has no other threads.

        It has no timer either: faulthandler would wait forever for the thread that its timer had in the parent.
        """
        # Only a fork made while on duty inherits a set timer; `__init__` has set `duties` to 0.
        self.has_timer = self.has_timer and not self.duties
        self.active: dict[int, watch] = {}
        """The watch of each thread, by the thread's identifier."""
        self.duties = 0
        self.interval = float(LONGEST)
        """Shortest limit on duty: the thread looks at least this often, so it misses no deadline."""
        self.place: Path | None = None
        """Where reports go; None: a temporary file."""
        self._report: tuple[int, Path] | None = None
        # A new lock: a fork may have copied the old one while another thread held it.
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._handler: Any = None
        self._handles = False

    def begin(self, seconds: float) -> None:
        with self._lock:
            self.duties += 1
            if self.duties == 1:
                self.interval = seconds
                self._open()
            self.interval = min(self.interval, seconds)
            # It sleeps on between duties; only the first duty of a process, or of a fork, starts one.
            if self._thread is None or not self._thread.is_alive():
                # A daemon, so that it does not keep a finished program from ending.
                self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)
                self._thread.start()
            self._set_timer()
        self._wake.set()

    def end(self) -> None:
        with self._lock:
            self.duties -= 1
            self.active.pop(threading.get_ident(), None)
            if not self.duties:
                self._stop_timer()
                self._close()

    def hasten(self, seconds: float) -> None:
        with self._lock:
            self.interval = seconds
            self._set_timer()
        self._wake.set()

    def handle_signals(self) -> bool:
        """Take the signal, unless it is taken already; returns True when this call took it."""
        # Python runs signal handlers in the main thread only, and lets no other thread set one.
        main = threading.current_thread() is threading.main_thread()
        if self._handles or not main or SIGNAL is None or not hasattr(signal, "pthread_kill"):
            return False
        self._handler = signal.signal(SIGNAL, self._interrupted)
        self._handles = True
        return True

    def give_signals_back(self) -> None:
        self._handles = False
        # None: a handler that was not set from Python, which Python cannot set again.
        signal.signal(SIGNAL, signal.SIG_DFL if self._handler is None else self._handler)  # type: ignore[arg-type]

    def note(self, what: str) -> None:
        """Write down what is watched from now on, since a process that is ended cannot say it."""
        if self._report is not None:
            with suppress(OSError, AttributeError):  # a full disk; a system without pwrite
                # At offset 0 without moving the file position, which stays behind the name for the stacks.
                os.pwrite(self._report[0], f"{what}\n".encode(errors="replace")[:NAME_BYTES], 0)

    def _open(self) -> None:
        try:
            if self.place is None:
                number, name = tempfile.mkstemp(prefix="reflect-rl-hang-", suffix=".txt")
                self._report = number, Path(name)
            else:
                self.place.parent.mkdir(parents=True, exist_ok=True)
                self._report = os.open(self.place, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644), self.place
            # Stacks go behind the name, which `note` rewrites in place. A file no longer than the name holds no hang.
            os.lseek(self._report[0], NAME_BYTES, os.SEEK_SET)
        except OSError:  # messages then go to the standard error only
            self._report = None

    def _close(self) -> None:
        if self._report is not None:
            number, path = self._report
            self._report = None
            os.close(number)
            with suppress(OSError):
                path.unlink()

    def _set_timer(self) -> None:
        """Set the timer outside of Python, which goes off when the thread cannot set it again in time."""
        number = self._report[0] if self._report is not None else 2
        # Twice the limit: the timer may be as old as one limit when a watch begins.
        with suppress(OSError, RuntimeError, ValueError):
            if self.has_timer:
                faulthandler.dump_traceback_later(2 * self.interval + GRACE, exit=True, file=number)

    def _stop_timer(self) -> None:
        if self.has_timer:
            faulthandler.cancel_dump_traceback_later()

    def _look(self) -> None:
        while True:
            with self._lock:
                # Under the lock, so that `end` cannot cancel the timer just before it is set again here.
                on_duty = self.duties > 0
                if on_duty:
                    self._set_timer()
            self._sleep(self._pause() if on_duty else None)

    def _sleep(self, seconds: float | None) -> None:
        """Sleep; renew each watch, once, if this thread could not run (process stopped, lock held by C code)."""
        due = time.monotonic() + (seconds or 0)
        self._wake.wait(seconds)
        self._wake.clear()
        now = time.monotonic()
        # Waking half a second late is ordinary load on the machine; more means that the process stood still.
        if seconds is None or now < due + 0.5:
            return
        # A copy, because other threads begin and end watches without taking the lock.
        for entry in self.active.copy().values():
            # Once only: C code that holds the lock again and again would otherwise never be overdue.
            if not entry.renewed:
                entry.renewed, entry.deadline = True, now + entry.seconds

    def _pause(self) -> float:
        """Act on what is overdue; returns the seconds until the next look."""
        now, pause = time.monotonic(), self.interval
        # A copy, because watches come and go while this thread looks.
        for thread, entry in self.active.copy().items():
            if now < entry.deadline:
                pause = min(pause, entry.deadline - now)
                continue
            if not entry.interrupted:
                entry.interrupted = now
                if self._handles and thread == threading.main_thread().ident:
                    # Sent to the thread and not to the process, so that a blocking system call of that thread returns.
                    signal.pthread_kill(thread, SIGNAL)  # type: ignore[arg-type]
            if now - entry.interrupted >= GRACE and self.active.get(thread) is entry:
                self._end_process(entry)
            pause = min(pause, entry.interrupted + GRACE - now)
        # Never zero: a deadline that has just passed must not make this thread spin.
        return max(pause, 0.001)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """Raise the error of the overdue watch, inside the code that it watches."""
        entry = self.active.get(threading.get_ident())
        # The watch may have ended, or another begun, between sending the signal and this call.
        if entry is not None and entry.interrupted:
            raise entry.error(entry.message())

    def _end_process(self, entry: watch) -> None:
        self._stop_timer()
        place = ""
        if self._report is not None:
            number, path = self._report
            # The last of several watches to begin has noted its name, which need not be the one that hangs.
            self.note(entry.what)
            with suppress(OSError):
                faulthandler.dump_traceback(number, all_threads=True)
                place = f" The stacks of all threads are in {path}."
        # The parent of a worker reads the file and says it all; other words would tear the progress bars.
        if multiprocessing.parent_process() is None or not place:
            with suppress(OSError, ValueError, AttributeError):
                print(f"error: {entry.message()} It could not be interrupted.{place}", file=sys.stderr, flush=True)
                faulthandler.dump_traceback(sys.stderr, all_threads=True)
        # sys.exit would end this thread alone.
        os._exit(1)


_watcher = _Watcher()
if hasattr(os, "register_at_fork"):
    # Only POSIX systems fork.
    os.register_at_fork(after_in_child=_watcher.start_afresh)


@contextmanager
def on_duty(*seconds: float) -> Iterator[None]:
    """Set up the signal, the file and the timer once for many watches with these limits (0 = none)."""
    limits = [limit for limit in seconds if limit]
    if not limits:
        yield
        return
    handles = _watcher.handle_signals()
    _watcher.begin(min(limits))
    try:
        yield
    finally:
        _watcher.end()
        if handles:
            # After `end`: as long as a watch is on, a signal may still come, and its handler must be ours.
            _watcher.give_signals_back()


HANGS = "hang-*.txt"
"""Names of the files in which processes report, as a pattern."""


@contextmanager
def report_in(folder: Path) -> Iterator[None]:
    """When this process is ended inside the block, what hung is written to a file of this folder, for `hang_in`.

    Each process of a distributed job (`RANK`) has a file of its own.
    """
    before = _watcher.place
    _watcher.place = folder / f"hang-{os.environ.get('RANK', '0')}.txt"
    with suppress(OSError):
        # The report of an earlier start would be taken for one of this process.
        _watcher.place.unlink()
    try:
        yield
    finally:
        _watcher.place = before


def hang_in(folder: Path) -> str | None:
    """Message about the hang that ended a process which reported in this folder; None if no hang did."""
    for path in sorted(folder.glob(HANGS)):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        # Longer than the name: stacks were added, so the process was ended by its watchdog.
        if len(text) > NAME_BYTES:
            what = text.partition(b"\n")[0].decode(errors="replace")
            return (
                f"{what} did not come back in time and could not be interrupted, so its process was ended. The stacks "
                f"of all its threads are in {path}. If it needs longer, raise its limit under [limits]."
            )
    return None


def about_exit(error: SystemExit) -> str:
    """Sentences on code of a user's own that called `sys.exit`, which often comes without any text.

    >>> about_exit(SystemExit("bye"))
    "it called sys.exit('bye'), which would end the whole program. Raise an exception instead."
    """
    code = "" if error.code is None else f"{error.code!r:.100}"
    return f"it called sys.exit({code}), which would end the whole program. Raise an exception instead."


def guarded(what: str, seconds: float, act: Callable[[], Result]) -> Result:
    """The result of calling an environment's code.

    Args:
        what: environment, task, turn and action, in one line.
        seconds: limit, 0 = none.
        act: the call.

    Raises:
        EnvironmentTimeoutError: it took longer.
        FaultyEnvironmentError: in place of what it raised, `sys.exit` included, which is the cause. Errors of this
            package (a task that is none of the game) and a lack of memory are raised as they are.
    """
    try:
        with watch(what, seconds, EnvironmentTimeoutError, REMEDY):
            return act()
    except (ReflectRLError, MemoryError):
        raise
    except SystemExit as error:
        raise FaultyEnvironmentError(f"{what}: {about_exit(error)}") from error
    except Exception as error:  # code of the user's own may fail in any way
        raise FaultyEnvironmentError(f"{what}: {type(error).__name__}: {error}.") from error
