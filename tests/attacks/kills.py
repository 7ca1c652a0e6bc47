"""SIGKILL at any moment of any stage, again and again: the run then ends bit for bit as one that was left alone.

`kills.py FOLDER SEED NUMBER...` prints a JSON line for each case. Each life of a run is a fork of a process that has
imported everything and computed nothing.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from corruption import STAGES, results, work
from table import Outcome, attempt

from reflect_rl.runs.workers import silence

EVENTS = ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")
"""Calls that change what is on the disk; between two of them a kill finds the same files."""
TIMED = ("time/", "memory/")


def at_event(call: Callable[[], None]) -> None:
    """Call this before each event."""
    for name in EVENTS:
        own = getattr(os, name)

        def announced(*words: object, own: Callable[..., object] = own, **options: object) -> object:
            call()
            return own(*words, **options)

        setattr(os, name, announced)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def child(begin: Callable[[], None], run: Path, *stages: str) -> int:
    """Do stages in a fork; its exit status as of `os.waitstatus_to_exitcode`."""
    if not (process := os.fork()):
        try:
            begin()
            work(run, *stages)
        except BaseException as error:  # a fork must never return into the code above it
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    except TimeoutError:  # the limit of a case
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise


def left(run: Path) -> str:
    """Hash of all that a run makes: data sets, weights, metrics without clocks, rows."""
    digest = hashlib.sha256(results(run).encode())
    for path in sorted(run.rglob("*")):
        parts = path.relative_to(run).parts
        if "checkpoints" in parts or not path.is_file():
            continue
        is_made = path.suffix == ".safetensors" or ("data" in parts and path.suffix == ".jsonl")
        if is_made or path.name == "episodes.jsonl":
            digest.update(f"{parts}".encode() + path.read_bytes())
        elif path.name == "metrics.jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            rows = [{key: value for key, value in row.items() if not key.startswith(TIMED)} for row in rows]
            digest.update(json.dumps(rows).encode())
    return digest.hexdigest()


def counting(note: Path) -> Callable[[], None]:
    """Write a letter for each event, and the names of the modules that were imported until the last one."""

    def count() -> None:
        with note.open("a") as file:
            file.write("x")
        note.with_name("modules").write_text("\n".join(sys.modules))

    return lambda: at_event(count)


def import_all(names: Path) -> None:
    """Import what a run imports on the way, so that no fork has to."""
    for name in names.read_text().splitlines():
        with suppress(Exception):
            importlib.import_module(name)
    # Every job ends with a collection, which would walk through all modules in each of hundreds of forks.
    gc.freeze()


def killing(draw: random.Random, most: int, seconds: float) -> Callable[[], None]:
    """Die at one of so many events, or some time within so many seconds."""
    if draw.random() < 0.3:
        wait = draw.uniform(0, seconds)
        return lambda: threading.Timer(wait, die).start()
    moments = iter([*[False] * draw.randrange(most), True])
    return lambda: at_event(lambda: die() if next(moments, False) else None)


def main(place: Path, seed: int, numbers: Iterable[int]) -> None:
    """Run once without a kill, then with them."""
    run, before, events = place / "run", {}, {}
    place.mkdir(parents=True, exist_ok=True)
    for stage in STAGES:
        before[stage] = place / f"before-{stage}"
        if run.exists():
            shutil.copytree(run, before[stage])
        assert child(counting(place / stage), run, stage) == 0
        events[stage] = (place / stage).stat().st_size
    import_all(place / "modules")
    wanted = left(run)

    def attack(number: int, stage: str) -> str:
        draw = random.Random(f"{seed} {number}")
        shutil.rmtree(run)
        if before[stage].exists():
            shutil.copytree(before[stage], run)
        deaths = [child(killing(draw, events[stage], 0.5), run, stage) for _ in range(draw.choice((1, 1, 3)))]
        if child(lambda: None, run, *STAGES) or 1 in deaths:
            return "unexpected"
        return "exact" if left(run) == wanted else "silent"

    for number in numbers:
        stage = STAGES[number % len(STAGES)]
        words = f"seed {seed}, case {number}, {stage}"
        outcome = attempt(f"kill in {stage}", number, words, lambda number=number, stage=stage: attack(number, stage))
        print(json.dumps(asdict(outcome)), flush=True)


def attempts(place: Path, seed: int, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Try the cases of these numbers, the stages in turn, in a process of their own."""
    command = [sys.executable, __file__, str(place), str(seed), *map(str, numbers)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    # In a session of its own: Ctrl-C is for the caller, who then ends this process and its forks together.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield Outcome(**json.loads(line))
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, "kills.py has ended"


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    silence()
    main(Path(sys.argv[1]), int(sys.argv[2]), map(int, sys.argv[3:]))
