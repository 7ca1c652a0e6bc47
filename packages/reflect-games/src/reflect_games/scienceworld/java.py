"""The Java program of ScienceWorld: one per Python process, with many games in it.

ScienceWorld keeps three things for the whole program that belong to a game: the random numbers, the counter of object
numbers and the simplifications. Each game here brings its own along whenever it is played, so that what one game does
changes nothing in another.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from subprocess import Popen, TimeoutExpired
from typing import Any

from reflect_rl.errors import UserError

MISSING_JAVA = (
    "ScienceWorld is a Java program, and no command 'java' is found. Install a Java runtime, 8 or later, such as the "
    "package default-jre-headless of Debian and Ubuntu."
)
MISSING_PACKAGE = (
    "ScienceWorld comes with the package scienceworld, which is not installed. Install it: "
    "pip install 'reflect-games[scienceworld]'"
)
JAVA_OPTIONS = (
    # One game plays at a time, so a parallel garbage collector would only take processors from the training.
    "-XX:+UseSerialGC",
    # Gold paths follow the order of Java's hash sets, which is otherwise another one in every process.
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)
STOP_SECONDS = 5.0
"""Time that the program has to end by itself."""
DEATH_SECONDS = 1.0
"""Time after which a program that has not answered is seen to have ended."""


class EndedError(RuntimeError):
    """The program has ended while it was needed; the next reset starts it again."""


class Simulator:
    """A running Java program.

    Args:
        memory_mb: the most that its heap may take.

    Raises:
        UserError: Java or the package is missing, or the program does not start.
    """

    def __init__(self, memory_mb: int) -> None:
        if shutil.which("java") is None:
            raise UserError(MISSING_JAVA)
        try:
            from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
            from scienceworld.constants import BASEPATH, JAR_PATH
        except ImportError:
            raise UserError(MISSING_PACKAGE) from None
        # Py4J logs a traceback for every object that a dead program cannot free; what matters is raised.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_not_of_py4j)
        self.memory_mb = memory_mb
        options = [f"-Xmx{memory_mb}m", *JAVA_OPTIONS]
        try:
            # `die_on_exit` ends the program with this process, however that ends.
            port, self.process = launch_gateway(
                classpath=JAR_PATH, cwd=BASEPATH, javaopts=options, die_on_exit=True, return_proc=True
            )
        except Exception as error:
            raise UserError(f"the Java program of ScienceWorld does not start ({error}). Try: java -version") from None
        self.gateway = JavaGateway(
            gateway_parameters=GatewayParameters(auto_field=True, port=port), java_process=self.process
        )
        self.lock = threading.Lock()
        """Held while a game is played: the games share what the program keeps."""
        self.playing: object = None
        """The game that played last, whose numbers are in place."""
        self.known: dict[tuple[object, ...], Any] = {}
        """Commands by the variation and what was done in it: to list them takes as long as a turn."""
        java = self.gateway.jvm
        self.ids: Any = java.util.UniqueIdentifier
        self.simplifier: Any = java.main.scala.scienceworld.runtime.SimplifierProcessor
        # Scala's `object Random` has no static methods that Py4J could call.
        self.random: Any = java.java.lang.Class.forName("scala.util.Random$").getField("MODULE$").get(None)

    @property
    def runs(self) -> bool:
        """True as long as the program runs."""
        return bool(self.process.poll() is None)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the program while it is asked.

        Raises:
            EndedError: it has ended.
        """
        with self.lock:
            try:
                yield
            # Py4J tells a lost connection by errors of several kinds.
            except Exception:
                try:
                    code = self.process.wait(DEATH_SECONDS)
                except TimeoutExpired:
                    code = None
                if code is None:
                    raise
                raise EndedError(
                    f"the Java program of ScienceWorld has ended in the middle of a game (exit code {code}); the next "
                    "reset starts it again; should it end often, free memory or lower environment.java_memory_mb = "
                    f"{self.memory_mb}"
                ) from None

    def new_game(self) -> Any:
        """A game in which no task is loaded: ScienceWorld's `PythonInterface`."""
        return self.gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()

    def close(self) -> None:
        """End the program."""
        self.gateway.shutdown()
        process: Popen[bytes] = self.process
        if process.stdin is not None and self.runs:
            # The program ends when its input does.
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except TimeoutExpired:
            process.kill()
            process.wait()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Leave out what Py4J logs under no name, as it does where the program dies in the middle of an answer."""
    return record.module != "java_gateway"


_running: dict[int, Simulator] = {}
"""The program of each process, by the process's number: a fork must start its own."""
_starting = threading.Lock()


def simulator(memory_mb: int) -> Simulator:
    """The program of this process, started at the first call, and again where it has ended.

    Args:
        memory_mb: the most that its heap may take, where it is to be started.

    Raises:
        UserError: Java or the package is missing, or the program does not start.
    """
    with _starting:
        found = _running.get(os.getpid())
        if found is None or not found.runs:
            found = _running[os.getpid()] = Simulator(memory_mb)
            _close_at_exit()
        return found


@cache
def _close_at_exit() -> None:
    atexit.register(stop)


def stop() -> None:
    """End the program of this process, if there is one; the next game starts it again."""
    with _starting:
        found = _running.pop(os.getpid(), None)
    if found is not None:
        found.close()
