"""Household games in the original, TextWorld, with the interface of the native engine.

    with Workers(2) as workers:
        state = TextWorldGame(record.problem, record.goal, "2.1.1", workers).start()
        print(state.first().feedback)
        print(state.step("go to fridge 1").feedback)

TextWorld runs in processes of its own (`_textworld_worker.py` says why), each of which plays any number of episodes.
TextWorld is deterministic, so an episode is its game and its commands: when a process has ended, a new one takes its
place, and its episodes go on where they were.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from functools import lru_cache
from itertools import count
from pathlib import Path
from types import TracebackType

from alfworld_native._textworld_process import Episode, Process
from alfworld_native.engine import Step
from alfworld_native.game_file import game_file
from alfworld_native.record import Wording


class Workers:
    """Processes that play games in TextWorld.

    They start when they are needed, half a second each, and end with `close`, or with this process. Threads may share
    them.

    Args:
        processes: how many; an episode stays with one of them.
        seconds: limit on one answer, 0 = none. A game takes about a second to open, a command 0.05.
        shortcuts: the same answers about ten times sooner, by replacing functions of TextWorld
            (`take_shortcuts` in `_textworld_worker.py`).
    """

    def __init__(self, processes: int = 1, seconds: float = 60.0, *, shortcuts: bool = False) -> None:
        # Each set of workers has a folder, because TextWorld writes temporary files beside its games.
        folder = Path(tempfile.mkdtemp(prefix="alfworld-native-textworld-"))
        self.processes = tuple(Process(folder, seconds, shortcuts=shortcuts) for _ in range(processes))
        self._numbers = count()
        self._closing = weakref.finalize(self, _end, self.processes, folder, os.getpid())

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes and remove their files. Episodes that are still open cannot go on."""
        self._closing()

    def place(self) -> tuple[int, Process]:
        """Number and process of a new episode."""
        number = next(self._numbers)
        # In turn: episodes are alike in cost.
        return number, self.processes[number % len(self.processes)]


def _end(processes: tuple[Process, ...], folder: Path, owner: int) -> None:
    if os.getpid() != owner:  # a fork has only borrowed them
        return
    for process in processes:
        process.end()
    shutil.rmtree(folder, ignore_errors=True)


def shared_workers() -> Workers:
    """The one worker of this process, for who names none; after a fork each side has its own."""
    return _workers_of(os.getpid())


# Keyed by process: a fork must not talk through the pipes of its parent.
@lru_cache(maxsize=1)
def _workers_of(process: int) -> Workers:
    return Workers()


class TextWorldGame:
    """One game, any number of episodes.

    Args:
        problem: the PDDL problem.
        goal: the sentence that the player reads.
        wording: version of the text.
        workers: where to play; None = `shared_workers()`.

    Raises:
        TextWorldMissingError: the extra `textworld` is not installed.
        GameError: TextWorld cannot say this goal.
    """

    def __init__(self, problem: str, goal: str, wording: Wording = "2.1.1", workers: Workers | None = None) -> None:
        self.goal = goal
        self._text = game_file(problem, goal, wording)
        self._workers = workers

    def start(self) -> TextWorldState:
        """A new episode.

        Raises:
            GameError: TextWorld cannot play this game.
            TextWorldTimeoutError: it takes too long.
            TextWorldError: its process has ended twice.
        """
        workers = self._workers or shared_workers()
        number, process = workers.place()
        return TextWorldState(workers, process, Episode(number, f"the game {self.goal!r}", self._text))


class TextWorldState:
    """One episode, made by `TextWorldGame.start`."""

    def __init__(self, workers: Workers, process: Process, episode: Episode) -> None:
        self._workers, self._process, self._episode = workers, process, episode
        # A dropped episode is closed before the next request, so that its environment is used again.
        self._closing = weakref.finalize(self, process.forget, episode.number)
        # At exit the processes end as a whole.
        self._closing.atexit = False
        self._first = process.open(episode)

    def first(self) -> Step:
        """Opening of the game."""
        return self._first

    def step(self, command: str) -> Step:
        """The game's answer to a command.

        Raises:
            TextWorldTimeoutError: it takes too long.
            TextWorldError: TextWorld failed, or its process has ended twice.
        """
        return self._process.step(self._episode, command)

    def copy(self) -> TextWorldState:
        """An independent episode at the same place; it is played anew."""
        number, process = self._workers.place()
        other = TextWorldState(self._workers, process, Episode(number, self._episode.name, self._episode.text))
        # TextWorld cannot copy a state; it is deterministic, so playing again leads to the same one.
        for command in self._episode.commands:
            other.step(command)
        return other

    def close(self) -> None:
        """Let the process reuse what this episode holds; otherwise it does when this object goes."""
        self._closing()
