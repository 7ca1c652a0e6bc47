"""Every shape with every number of threads, each in a process of its own, whose memory and threads are its own."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from reflect_bench.exploring import measure_exploring, table_of_trees
from reflect_bench.household import measure_household, table_of_games
from reflect_bench.machine import check_device, machine, versions
from reflect_bench.online import measure_online, table_of_online
from reflect_bench.options import BenchOptions, Shape
from reflect_bench.table import in_words, table_of
from reflect_rl.errors import ReflectRLError, UserError
from reflect_rl.runs.workers import hold_interrupts, prepare, stop
from reflect_rl.store import write_json

SCHEMA_VERSION = 1
"""Version of the JSON file."""


def bench(options: BenchOptions, console: Console) -> dict[str, Any]:
    """Measure, print a table, and write the JSON file after each measurement; what it holds at the end.

    Raises:
        UserError: no file was named, or it cannot be written; two benchmarks were; the device is absent.
        ReflectRLError: a measurement failed or was killed; the earlier ones are in the file.
    """
    if options.file is None:
        raise UserError("name the file for the figures: reflect-rl bench --json FILE.")
    if options.exploring and options.household is not None:
        raise UserError("--exploring and --household are two benchmarks: name one of them.")
    # All that a mistake can be in, before minutes of measuring.
    for path in (options.file, options.profile):
        if path is not None:
            _check_file(path)
    if options.run is not None:
        from reflect_bench.players import check_run

        check_run(options)
    check_device(options.device)
    document: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(options.device),
        "versions": versions(),
        "options": options.model_dump(mode="json"),
        "results": [],
    }
    if options.household is not None:
        return _household(options.household, options, options.file, document, console)
    if options.online:
        return _online(options, options.file, document, console)
    if options.exploring:
        return _exploring(options, options.file, document, console)
    profiles: list[str] = []
    places = list(product(options.shapes or _default_shapes(options), options.threads))
    with _progress(console) as progress:
        task = progress.add_task("", total=len(places), note="")
        for shape, threads in places:
            title = f"{shape}, {in_words(threads)}"
            progress.update(task, description=title, note="starting")
            result = _in_process(options, shape, threads, lambda note: progress.update(task, note=note))
            if "profile" in result:
                profiles.append(f"{title}\n\n{result.pop('profile')}")
                if options.profile is not None:
                    options.profile.write_text("\n".join(profiles), encoding="utf-8")
            document["results"].append(result)
            write_json(options.file, document)
            progress.advance(task)
            console.print(f"done  {title}")
    console.print(table_of(document))
    console.print(f"figures: {options.file}")
    return document


def _exploring(options: BenchOptions, file: Path, document: dict[str, Any], console: Console) -> dict[str, Any]:
    """The environment that explores trees, measured in this process."""
    with _progress(console) as progress:
        task = progress.add_task("AutoExplore", total=len(options.exploring), note="starting")
        for spec in options.exploring:
            report = partial(_note, progress, task)
            document["results"].append(measure_exploring(spec, quick=options.quick, report=report))
            write_json(file, document)
            progress.advance(task)
            console.print(f"done  {spec}")
    console.print(table_of_trees(document["results"]))
    console.print(f"figures: {file}")
    return document


def _online(options: BenchOptions, file: Path, document: dict[str, Any], console: Console) -> dict[str, Any]:
    """Online RL with the settings of run files, measured in this process with the first number of threads."""
    prepare(options.threads[0])
    with _progress(console) as progress:
        task = progress.add_task("online RL", total=len(options.online), note="starting")
        for path in options.online:
            document["results"].append(measure_online(path, options.starts, partial(_note, progress, task)))
            write_json(file, document)
            progress.advance(task)
            console.print(f"done  {path}")
    console.print(table_of_online(document["results"]))
    console.print(f"figures: {file}")
    return document


def _household(
    games: str, options: BenchOptions, file: Path, document: dict[str, Any], console: Console
) -> dict[str, Any]:
    """Engine and environment of household games, measured in this process."""
    with _progress(console) as progress:
        task = progress.add_task("ALFWorld", total=1, note="starting")
        report = partial(_note, progress, task)
        document["results"].append(measure_household(games, quick=options.quick, report=report))
    write_json(file, document)
    console.print(table_of_games(document["results"]))
    console.print(f"figures: {file}")
    return document


def _note(progress: Progress, task: TaskID, note: str) -> None:
    progress.update(task, note=note)


def _default_shapes(options: BenchOptions) -> tuple[Shape, ...]:
    return ("embedded",) if options.quick else ("embedded", "gpt2-small")


def _check_file(path: Path) -> None:
    parent = path.resolve().parent
    if path.is_dir() or not parent.is_dir() or not os.access(parent, os.W_OK):
        raise UserError(f"cannot write {str(path)!r}: it is a folder, or its folder does not exist or is read-only.")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _in_process(options: BenchOptions, shape: Shape, threads: int, report: Callable[[str], None]) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    messages = context.SimpleQueue()
    pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=(threads, messages))
    try:
        with hold_interrupts():
            future = pool.submit(_do, options, shape)
        while not future.done():
            wait([future], timeout=0.2)
            while not messages.empty():
                report(messages.get())
        result = future.result()
    except BrokenProcessPool:
        raise ReflectRLError(
            f"the measurement of {shape} was killed; most often the memory ran out. Leave the shape out of --shapes."
        ) from None
    except BaseException:
        stop(pool)
        raise
    pool.shutdown()
    return result


_inbox: list[Any] = []
"""Queue to the parent, in a worker."""


def _begin(threads: int, messages: Any) -> None:
    """Runs once in each worker."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's library would print
    prepare(threads)
    _inbox.append(messages)


def _do(options: BenchOptions, shape: Shape) -> dict[str, Any]:
    """Measure in a worker."""
    from reflect_bench.measure import measure
    from reflect_bench.profile import profile

    result = measure(options, shape, _inbox[0].put)
    if options.profile is not None:
        _inbox[0].put("profile")
        result["profile"] = profile(options, shape)
    return result
