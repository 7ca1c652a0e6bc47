"""Household games: the native engine, the environment on it, and TextWorld, on the same games and commands.

Random commands are drawn once, and then given to each side again, so that no side's time holds the drawing. TextWorld
plays as it comes and with shortcuts (`take_shortcuts`), each in a process of its own, so that its times hold
a message there and back, too. As it takes seconds for what the others do in a millisecond, it plays a few commands of
a few games, and the ratios are of those.
"""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from rich.table import Table

from alfworld_native.engine import Game, Step
from alfworld_native.plugin.env import Alfworld, AlfworldConfig
from alfworld_native.plugin.games import forget_generated_games, forget_parsed_games, record_of
from alfworld_native.record import GameRecord, Wording
from alfworld_native.textworld import TextWorldGame, TextWorldState, Workers
from reflect_bench.options import GENERATED
from reflect_rl.errors import ReflectRLError
from reflect_rl.types import Task, stream

COMMANDS = 50
"""Commands of a game at most; it also ends when it is won."""
REPEATS = 20
"""Times that the native side plays what TextWorld played: the clock is too coarse for once."""
KILO = 1024

Held = TypeVar("Held")


@dataclass(frozen=True)
class Walk:
    """Game, and the commands that are given in it."""

    task: Task
    record: GameRecord
    commands: tuple[str, ...]

    def cut(self, count: int) -> Walk:
        """Its first commands."""
        return Walk(self.task, self.record, self.commands[:count])


@dataclass(frozen=True)
class Effort:
    """Amount of play."""

    games: int
    as_it_comes: tuple[int, int]
    """Games, and commands of each, of TextWorld as it comes."""
    shortcuts: tuple[int, int]


def _effort(*, quick: bool) -> Effort:
    """Half a minute of TextWorld; a few seconds if quick."""
    return Effort(10, (1, 3), (2, 5)) if quick else Effort(100, (5, 20), (10, 30))


def measure_household(games: str, *, quick: bool, report: Callable[[str], None]) -> dict[str, Any]:
    """The figures of one set of games.

    Args:
        games: a folder with ALFWorld's games, of which valid_seen is played, or `generated`.
        quick: play fewer of them.
        report: called with what is being measured.

    Raises:
        UserError: the folder, or what should be in it, is missing or corrupt.
    """
    much = _effort(quick=quick)
    config = AlfworldConfig(generated_games=2 * much.games) if games == GENERATED else AlfworldConfig(games=games)
    report("drawing commands")
    chosen = Alfworld(config).tasks("all", "test")[: much.games]
    walks = [walk_of(config, task, number) for number, task in enumerate(chosen)]
    report("native engine")
    time_engine(walks[:1], config.wording)  # what a process does once is done
    engine = time_engine(walks, config.wording) | _memory_of_engine(walks, config.wording)
    report("environment")
    environment = time_environment(walks, config) | _memory_of_environment(walks, config)
    return {
        "games": games,
        "wording": config.wording,
        "count": len(walks),
        "commands": sum(len(walk.commands) for walk in walks),
        "engine": engine,
        "environment": environment,
        "textworld": _textworld(walks, config, much, report) if find_spec("alfworld") else {},
    }


def walk_of(config: AlfworldConfig, task: Task, seed: int) -> Walk:
    """Random commands among those listed, up to the win."""
    record, rng = record_of(config, dict(task.data)), stream(seed, "benchmark", "household")
    state, commands = Game(record.problem, record.goal, config.wording).start(), list[str]()
    while len(commands) < COMMANDS and not state.won:
        commands.append(state.admissible[int(rng.integers(len(state.admissible)))])
        state.step(commands[-1])
    return Walk(task, record, tuple(commands))


def time_engine(walks: Sequence[Walk], wording: Wording, repeats: int = 1) -> dict[str, float]:
    """Milliseconds to read a game, to begin an episode, and of a step, list of commands included; steps a second."""
    opened, begun, played = [], [], 0.0
    for walk in walks:
        started = time.perf_counter()
        game = Game(walk.record.problem, walk.record.goal, wording)
        opened.append(time.perf_counter() - started)
        for _ in range(repeats):
            started = time.perf_counter()
            state = game.start()
            begun.append(time.perf_counter() - started)
            started = time.perf_counter()
            for command in walk.commands:
                state.step(command)
            played += time.perf_counter() - started
    return _figures(opened, begun, played, repeats * _steps(walks))


def time_environment(walks: Sequence[Walk], config: AlfworldConfig, repeats: int = 1) -> dict[str, float]:
    """The same with the state as text; a game is opened when its task first begins, and begun ever after."""
    environment, opened, begun, played = Alfworld(config), [], [], 0.0
    forget_parsed_games()
    for walk in walks:
        opened.append(_reset(environment, walk.task))
        for _ in range(repeats):
            begun.append(_reset(environment, walk.task))
            # The number of a command is the player's to find.
            for command in walk.commands:
                index = environment.shown.actions.index(command)
                started = time.perf_counter()
                environment.step(index)
                played += time.perf_counter() - started
    return _figures(opened, begun, played, repeats * _steps(walks))


def _reset(environment: Alfworld, task: Task) -> float:
    started = time.perf_counter()
    environment.reset(task)
    return time.perf_counter() - started


def _figures(opened: Sequence[float], begun: Sequence[float], played: float, steps: int) -> dict[str, float]:
    return {
        "open_ms": 1e3 * median(opened),
        "reset_ms": 1e3 * median(begun),
        "step_ms": 1e3 * played / steps,
        "steps_per_second": steps / played,
    }


def _steps(walks: Sequence[Walk]) -> int:
    return sum(len(walk.commands) for walk in walks)


def _memory_of_engine(walks: Sequence[Walk], wording: Wording) -> dict[str, float]:
    """Memory of a game that was read, and of a further episode at its end."""

    def read() -> list[Game]:
        return [Game(walk.record.problem, walk.record.goal, wording) for walk in walks]

    games, of_games = _held(read)

    def play() -> list[Any]:
        states = [game.start() for game in games]
        for state, walk in zip(states, walks, strict=True):
            for command in walk.commands:
                state.step(command)
        return states

    states, of_states = _held(play)
    return {"kilobytes_per_game": of_games / len(games), "kilobytes_per_episode": of_states / len(states)}


def _memory_of_environment(walks: Sequence[Walk], config: AlfworldConfig) -> dict[str, float]:
    """Memory of an environment with its game and an episode at its end, all that the process keeps for it included."""

    def play() -> list[Alfworld]:
        environments = [Alfworld(config) for _ in walks]
        for environment, walk in zip(environments, walks, strict=True):
            environment.reset(walk.task)
            for command in walk.commands:
                environment.step(environment.shown.actions.index(command))
        return environments

    forget_parsed_games()
    forget_generated_games()  # generated ones, so that making them counts
    environments, kilobytes = _held(play)
    return {"kilobytes_per_game": kilobytes / len(environments)}


def _held(make: Callable[[], Held]) -> tuple[Held, float]:
    """Objects that are made, and the kilobytes of Python objects that stay because of it."""
    gc.collect()
    tracemalloc.start()
    try:
        held = make()
        gc.collect()
        return held, tracemalloc.get_traced_memory()[0] / KILO
    finally:
        tracemalloc.stop()


def _textworld(
    walks: Sequence[Walk], config: AlfworldConfig, much: Effort, report: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    found = {}
    for name, (games, commands) in (("as_it_comes", much.as_it_comes), ("shortcuts", much.shortcuts)):
        report(f"TextWorld, {name.replace('_', ' ')}")
        few = [walk.cut(commands) for walk in walks[:games]]
        with Workers(shortcuts=name == "shortcuts") as workers:
            theirs = time_textworld(few, config.wording, workers)
        ours = {
            "engine": time_engine(few, config.wording, REPEATS),
            "environment": time_environment(few, config, REPEATS),
        }
        found[name] = theirs | {"games": len(few), "commands": _steps(few), "ratios": _ratios(theirs, ours)}
    return found


def _ratios(theirs: Mapping[str, float], ours: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Time of TextWorld as a multiple of each of ours, on the same games and commands.

    TextWorld reads a game anew for every episode, so its `open` stands beside our `reset`, too.
    """
    pairs = (("open", "open_ms", "open_ms"), ("reset", "open_ms", "reset_ms"), ("step", "step_ms", "step_ms"))
    return {
        name: {part: theirs[left] / figures[right] for part, left, right in pairs} for name, figures in ours.items()
    }


def time_textworld(walks: Sequence[Walk], wording: Wording, workers: Workers) -> dict[str, float]:
    """Milliseconds to open a game and of a step, and memory; all episodes stay open.

    Raises:
        ReflectRLError: TextWorld does not say what the native engine says.
    """
    episodes, opened, played = [_begin(walks[0], wording, workers)], [], 0.0  # the process starts
    before = _memory_of(workers)
    for walk in walks:
        started = time.perf_counter()
        episodes.append(_begin(walk, wording, workers))
        opened.append(time.perf_counter() - started)
        started = time.perf_counter()
        steps = [episodes[-1].step(command) for command in walk.commands]
        played += time.perf_counter() - started
        _check_equal(walk, wording, steps)
    figures = {
        "open_ms": 1e3 * median(opened),
        "step_ms": 1e3 * played / _steps(walks),
        "steps_per_second": _steps(walks) / played,
    }
    return (
        figures
        if before is None
        else figures | {"kilobytes_per_game": ((_memory_of(workers) or 0.0) - before) / len(walks)}
    )


def _begin(walk: Walk, wording: Wording, workers: Workers) -> TextWorldState:
    """An episode in TextWorld."""
    return TextWorldGame(walk.record.problem, walk.record.goal, wording, workers).start()


def _memory_of(workers: Workers) -> float | None:
    """Kilobytes of memory that the first process holds; None where /proc does not tell."""
    status = Path(f"/proc/{workers.processes[0].id}/statm")
    if not status.exists():
        return None
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / KILO


def _check_equal(walk: Walk, wording: Wording, theirs: Sequence[Step]) -> None:
    state = Game(walk.record.problem, walk.record.goal, wording).start()
    if [state.step(command) for command in walk.commands] != list(theirs):
        raise ReflectRLError(
            f"TextWorld and the native engine differ in {walk.record.key!r}. Please report it; "
            "scripts/alfworld_lockstep.py shows where."
        )


def table_of_games(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A section for each set of games; the last columns say how many times longer TextWorld as it comes takes."""
    table = Table(title="Household games; last, how many times longer TextWorld takes", title_justify="left")
    table.add_column("")
    for name in ("steps/s", "open ms", "reset ms", "kB/game", "step", "open"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_section()
        table.add_row(f"{row['games']}, {row['count']} games")
        ratios = row["textworld"].get("as_it_comes", {}).get("ratios", {})
        for side in ("engine", "environment"):
            times = (f"{ratios[side][part]:,.0f}x" for part in ("step", "open")) if ratios else ()
            table.add_row(f"  {side}", *_cells(row[side]), *times)
        for side, figures in row["textworld"].items():
            table.add_row({"as_it_comes": "  TextWorld"}.get(side, "  with shortcuts"), *_cells(figures))
    return table


def _cells(figures: Mapping[str, float]) -> list[str]:
    names = ("steps_per_second", "open_ms", "reset_ms", "kilobytes_per_game")
    values = (figures.get(name) for name in names)
    return ["-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values]
