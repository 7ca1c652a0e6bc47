"""A process that plays in TextWorld, seen from outside: it is started when needed, and again when it has ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import IO, Any, Final, cast

from alfworld_native._textworld_worker import SHORTCUTS
from alfworld_native.engine import Step
from alfworld_native.errors import GameError, TextWorldError, TextWorldTimeoutError

MODULE: Final = "alfworld_native._textworld_worker"

QUOTED: Final = 500
"""Characters of the error output that a message quotes."""

CHUNK: Final = 1 << 16
"""Bytes read at once."""

EXIT_SECONDS: Final = 5.0
"""Waited for a process that has closed its output."""


class _EndedError(Exception):
    """The process has ended without a reply; the message says how."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A process that has started."""

    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    replies: IO[bytes]


@dataclass(slots=True)
class Episode:
    """One episode, as it can be played again from the start: TextWorld is deterministic."""

    number: int
    name: str
    """Name of the game in error messages."""
    text: str
    """The game file."""
    commands: list[str] = field(default_factory=list)
    known_to: int = 0
    """Number of the process start that has this episode open; 0 = none."""


class Process:
    """One process, any number of episodes. Threads take turns.

    Args:
        folder: for the process's files.
        seconds: limit on one answer, 0 = none.
        shortcuts: see `take_shortcuts` in `_textworld_worker.py`.
    """

    def __init__(self, folder: Path, seconds: float, *, shortcuts: bool) -> None:
        self._folder, self._seconds = folder, seconds
        self._options = [SHORTCUTS] if shortcuts else []
        self._running: _Running | None = None
        self._starts = 0
        self._lock = threading.Lock()
        # Filled when the garbage collector finds an episode, which can be amid a request.
        self._forgotten: deque[int] = deque()

    @property
    def id(self) -> int | None:
        """The operating system's number of the process; None while none runs."""
        return self._running.process.pid if self._running else None

    def open(self, episode: Episode) -> Step:
        """Begin an episode."""
        with self._lock:
            return self._with_retry(episode, None)

    def step(self, episode: Episode, command: str) -> Step:
        """Play one more command. If anything fails, the episode stays as it was."""
        with self._lock:
            step = self._with_retry(episode, command)
        # After the answer, so that a failed command is not played again on a restart.
        episode.commands.append(command)
        return step

    def forget(self, number: int) -> None:
        """Close an episode before the next request."""
        self._forgotten.append(number)

    def end(self) -> None:
        """End the process, whatever it does. The next request starts another."""
        # Cleared first, so that a second call does nothing.
        running, self._running = self._running, None
        if running is None:
            return
        running.process.kill()
        running.process.wait()
        running.requests.close()
        running.replies.close()

    def _with_retry(self, episode: Episode, command: str | None) -> Step:
        try:
            return self._play(episode, command)
        except _EndedError:  # it may have been killed for want of memory, or while it had nothing to do
            pass
        try:
            return self._play(episode, command)
        except _EndedError as error:
            at = f"command {command!r}" if command is not None else "opening"
            raise TextWorldError(f"TextWorld ended twice, {episode.name}, {at}: {error}.") from None

    def _play(self, episode: Episode, command: str | None) -> Step:
        if self._running is None or self._running.process.poll() is not None:
            self._start()
        while self._forgotten:
            self._asked({"call": "close", "episode": self._forgotten.popleft()}, episode)
        if command is None:
            return self._opened(episode)
        # The process was restarted since: open the game anew and repeat what was done.
        if episode.known_to != self._starts:
            self._opened(episode)
            for earlier in episode.commands:
                self._stepped(episode, earlier)
        return self._stepped(episode, command)

    def _start(self) -> None:
        if not self._folder.is_dir():
            # A mistake in the program, not in the input.
            raise RuntimeError("these workers are closed; make new ones")
        self.end()
        self._starts += 1
        variables = {"TMPDIR": str(self._folder), "ALFWORLD_DATA": str(self._folder)}
        with (self._folder / f"errors-{id(self)}.txt").open("wb") as errors:
            process = subprocess.Popen(
                # -P: a file in the current folder must not take the place of a module.
                [sys.executable, "-P", "-m", MODULE, str(self._folder), *self._options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env=os.environ | variables,
                start_new_session=True,  # Ctrl-C in a terminal is for the player, who ends this process
            )
        self._running = _Running(process, cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout))

    def _opened(self, episode: Episode) -> Step:
        # TextWorld loads games from files only.
        path = self._folder / f"{episode.number}.tw-pddl"
        path.write_text(episode.text)
        try:
            reply = self._asked({"call": "open", "episode": episode.number, "path": str(path)}, episode)
        finally:
            # The game is in memory once it is loaded.
            path.unlink(missing_ok=True)
        if "error" in reply:
            raise GameError(f"TextWorld cannot play {episode.name}: {reply['error']}.")
        episode.known_to = self._starts
        return _step(reply)

    def _stepped(self, episode: Episode, command: str) -> Step:
        reply = self._asked({"call": "step", "episode": episode.number, "command": command}, episode)
        if "error" in reply:
            episode.known_to = 0
            raise TextWorldError(f"TextWorld, {episode.name}, command {command!r}: {reply['error']}.")
        return _step(reply)

    def _asked(self, request: dict[str, Any], episode: Episode) -> dict[str, Any]:
        """The reply to a request; the process is ended if anything, Ctrl-C too, comes between."""
        running = cast("_Running", self._running)
        try:
            running.requests.write(json.dumps(request).encode() + b"\n")
            return json.loads(self._line(running.replies))
        except TimeoutError:
            self.end()
            # The process may still be busy with the old request, so it cannot be used again.
            what = f"TextWorld, {episode.name}, {request['call']} {request.get('command', '')!r}"
            raise TextWorldTimeoutError(f"{what}: no answer within {self._seconds:g} seconds.") from None
        except (OSError, ValueError):
            with suppress(subprocess.TimeoutExpired):  # the output may end a moment before the process
                running.process.wait(EXIT_SECONDS)
            code = running.process.returncode
            self.end()
            raise _EndedError(f"exit code {code}, last words {self._error_output()!r}") from None
        # A reply that comes later would be taken for the answer to the next request.
        except BaseException:
            self.end()
            raise

    def _line(self, replies: IO[bytes]) -> bytes:
        """One line of the output, or what there is of it when the process ends."""
        deadline = time.monotonic() + self._seconds if self._seconds else inf
        waiting = select.poll()  # not select.select, which refuses the pipes of a program with many files
        waiting.register(replies, select.POLLIN)
        line = b""
        while not line.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not waiting.poll(None if left == inf else left * 1000):
                raise TimeoutError
            chunk = os.read(replies.fileno(), CHUNK)
            if not chunk:
                break
            line += chunk
        return line

    def _error_output(self) -> str:
        words = (self._folder / f"errors-{id(self)}.txt").read_text(errors="replace")
        return words[-QUOTED:].strip()


def _step(reply: dict[str, Any]) -> Step:
    return Step(reply["feedback"], tuple(reply["admissible"]), reply["won"])
