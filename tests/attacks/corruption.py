"""Damage to every file of a run, at every stage: what comes after must refuse it, or give the same results."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import json
import random
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from table import Outcome, attempt

from reflect_report.page import write_report
from reflect_rl.cli.arguments import parse_arguments
from reflect_rl.errors import ReflectRLError
from reflect_rl.runs.run import gather
from reflect_rl.runs.stages import execute, plan
from reflect_rl.runs.start import begin

ROOT = Path(__file__).parents[2]
FLAGS = (
    *("--model.embedded.hidden-size", "16", "--model.embedded.layers", "1", "--workers", "1"),
    *("--data.demonstration-starts", "4", "--sft.base.steps", "2", "--sft.policy-plain.steps", "2"),
    *("--sft.policy-reflect.steps", "2", "--sft.reflector.steps", "4", "--reflector.max-new-tokens", "8"),
    *("--sft.base.save-steps", "1", "--sft.policy-plain.save-steps", "1", "--sft.policy-reflect.save-steps", "1"),
    *("--sft.reflector.save-steps", "1", "--rlft.checkpoint-every", "1", "--rlft.starts-per-update", "2"),
    *("--rlft.total-turns", "60", "--environment.test-starts", "6", "--environment.validation-starts", "6"),
    *("--evaluation.horizons", "5", "--methods", "sft", "reflect_rl"),
)
STAGES = ("data", "sft", "rlft", "eval")
INSIDE = {"inside sft": ("sft", 3), "inside rlft": ("rlft", 2)}
"""Runs that are stopped: the stage, and the progress at which the first of its jobs that comes so far is stopped."""
# What is measured by a clock, or names a file of this run's own.
FREE = ("seconds", "per_second", "memory", "created", "finished")


def halve(data: bytes) -> bytes:
    """The first half, as a full disk leaves it."""
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    """One bit in the middle, as a bad disk does."""
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] if data else b"\1"


def cut_lines(data: bytes) -> bytes:
    """The first half of the lines, whole ones."""
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: len(lines) // 2])


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "half": halve,
    "bit": flip,
    "lines": cut_lines,
    "empty": lambda data: b"",
    "null": lambda data: b"null",
    "list": lambda data: b"[]",
    "gone": lambda data: None,
}


class Stopped(Exception):  # noqa: N818 (it is none)
    """The end of a training before its time."""


def work(run: Path, *stages: str, most: int = 1_000_000) -> None:
    """Do the stages of a run, and write its results and its page; in this process, as workers take seconds to start.

    Raises:
        Stopped: a job came as far as `most` of its steps.
    """

    def progress(done: int, *_: object) -> None:
        if done >= most:
            raise Stopped

    call = parse_arguments("run", [str(ROOT / "configs/taxi/smoke.toml"), "--output-dir", str(run), *FLAGS])
    begin(call.config, "attack")
    for job in plan(call.config):
        if job.kind in stages and not job.done:
            execute(job, call.config, progress)
    gather(call.config)
    write_report([run], run / "report.html")


def make_stages(place: Path) -> dict[str, Path]:
    """A copy of a run folder after each stage, and inside those that train."""
    run, copies = place / "run", {}
    for stage in STAGES:
        for name, (stopped, most) in INSIDE.items():
            if stopped == stage:
                with contextlib.suppress(Stopped):
                    work(run, stage, most=most)
                copies[name] = Path(shutil.copytree(run, place / name))
        work(run, stage)
        copies[f"after {stage}"] = Path(shutil.copytree(run, place / f"after-{stage}"))
    return copies


def results(run: Path) -> str:
    """Hash of the rows of a run, without what a clock measures."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items() if not any(word in key for word in FREE)}
        return [plain(part) for part in value] if isinstance(value, list) else value

    rows = plain(json.loads((run / "results.json").read_text()))
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def cases(copies: dict[str, Path]) -> Iterator[tuple[str, str, str]]:
    """Every stage, file and damage."""
    for stage, folder in copies.items():
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"):
            for name in DAMAGE:
                yield stage, path.relative_to(folder).as_posix(), name


def attack(copies: dict[str, Path], case: tuple[str, str, str], place: Path, wanted: str) -> str:
    """One word for what the rest of the run made of a damaged file."""
    stage, name, damage = case
    # Always the same path: folders are named in messages and configurations.
    run = place / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(copies[stage], run)
    changed = DAMAGE[damage]((run / name).read_bytes())
    if changed is None:
        (run / name).unlink()
    else:
        (run / name).write_bytes(changed)
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            work(run, *STAGES)
        except ReflectRLError as error:
            return "refused" if str(error) else "unexpected"
    return "exact" if results(run) == wanted else "silent"


def attempts(place: Path, seed: int, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Try the cases of these numbers, in an order of this seed."""
    copies = make_stages(place)
    wanted = results(copies["after eval"])
    every = list(cases(copies))
    random.Random(seed).shuffle(every)
    # Every job ends with a collection, which would walk through all that is imported in each case.
    gc.freeze()
    try:
        for number in numbers:
            case = every[number % len(every)]
            yield attempt(
                f"damage {case[0]}",
                number,
                f"seed {seed}, case {number}: {' '.join(case)}",
                lambda case=case: attack(copies, case, place, wanted),
            )
    finally:
        gc.unfreeze()
