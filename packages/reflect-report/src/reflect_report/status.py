"""The state of runs at this moment, during a run and after it, from what the jobs write into their folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from reflect_report.page import duration
from reflect_report.runs import (
    Curve,
    Run,
    SummaryRow,
    Unit,
    at_longest,
    finite,
    hardest_mode,
    installed_stages,
    look_of,
    read_curves,
    read_run,
    summarise,
)
from reflect_report.tables import terminal_text, unfinished
from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.evaluate import ResultRow, read_rows, wilson_interval
from reflect_rl.runs.folder import LOCK, PROGRESS, JobProgress
from reflect_rl.store import read_json

STAGES = ("data", "sft", "", "rlft", "evaluation")
"""Folders of stages in a unit, in the order in which they are done; those of installed stages where the gap is."""
SHOWN = 8
"""Waiting jobs that are named; of more, the number is told."""
RECENT = 100
"""Episodes that the success of a training under way is counted over, at least."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job of a run."""

    title: str
    state: str
    """`waiting` (it has not begun), `running`, `failed`, `stopped` (its process is gone; the same command goes on),
    `done`."""
    progress: str = ""
    share: float | None = None
    """Share of its work that is done, from 0 to 1; None before it is known how much there is."""
    success: str = ""
    """Percent with Wilson's 95% interval."""
    speed: str = ""
    left: str = ""
    memory: str = ""
    note: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run at one moment."""

    name: str
    jobs: tuple[JobStatus, ...]
    results: tuple[tuple[str, str], ...]
    """Method and success so far."""
    missing: tuple[str, ...]
    """Sentences on what is not evaluated yet."""
    seconds: float
    """Time of the jobs that are done."""
    faults: tuple[str, ...] = ()
    """Sentences on files of no use."""
    is_held: bool = False
    """True if a process has the folder, even one that is between two jobs."""

    @property
    def is_running(self) -> bool:
        """True if a process is at work."""
        return self.is_held or any(job.state == "running" for job in self.jobs)

    @property
    def at_work(self) -> list[JobStatus]:
        """Jobs that have begun and are not done, also those that have stopped or failed."""
        return [job for job in self.jobs if job.state not in ("done", "waiting")]

    @property
    def headline(self) -> str:
        """Name, state and jobs done: `taxi-smoke: running, 3 jobs done in 12.0 s`."""
        done = sum(job.state == "done" for job in self.jobs)
        state = "no job at work"
        if self.is_running:
            state = "running" if any(job.state == "running" for job in self.jobs) else "starting"
        return f"{self.name}: {state}, {done} job{'s' * (done != 1)} done in {duration(self.seconds)}"


def read_status(folder: Path, planned: Sequence[str] = ()) -> RunStatus:
    """Look at a run folder, which may be written meanwhile.

    Args:
        folder: the run folder.
        planned: titles of all jobs of the run; those that have not begun wait.

    Raises:
        RunFolderError: the folder is missing, or is no run folder.
    """
    run = read_run(folder.resolve(), at_work=True)
    curves = [curve for stage in ("sft", "rlft", *installed_stages(run)) for curve in read_curves(run, stage)]
    jobs = []
    places = [("annotation", run.folder / "annotation")]
    places += [place for unit in run.units for place in _job_folders(run, unit)]
    for title, path in places:
        is_done, written = (path / "done").exists(), read_progress(path)
        if not is_done and written is None:
            continue
        curve = next((c for c in curves if path in _folders(run, c)), None)
        jobs.append(_job(title, is_done, written, curve))
    begun = {job.title for job in jobs}
    jobs += [JobStatus(title, "waiting") for title in planned if title not in begun]
    results, faults = _results(run)
    seconds = sum(stage.seconds for stage in run.card.stages) if run.card is not None else 0.0
    evaluated = Run(run.folder, run.card, run.config, tuple(row for _, _, rows in results for row in rows))
    return RunStatus(
        run.folder.name,
        tuple(jobs),
        tuple((title, success) for title, success, _ in results),
        tuple(unfinished(evaluated)),
        seconds,
        tuple(faults),
        is_at_work(run.folder),
    )


def is_at_work(folder: Path) -> bool:
    """True if a process has locked a run folder; False where the system does not tell (Linux does)."""
    # Read and not tried: a lock that is held for a moment only would refuse a run that begins at that moment.
    with suppress(OSError):
        lock = (folder / LOCK).stat()
        rows = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        # `1: FLOCK ADVISORY WRITE 4242 08:02:1234 0 EOF`: the fifth word is the process, the sixth device and file.
        alike = [row[4] for row in rows if len(row) > 5 and row[5].rpartition(":")[2] == str(lock.st_ino)]
        return any(_has_open(process, lock) for process in alike)
    return False


def _has_open(process: str, file: os.stat_result) -> bool:
    """False if a process is known to have another file open than this one, which has the same number elsewhere."""
    # Not by the device of the lock: some file systems name another one in /proc/locks than `stat` does.
    try:
        opened = list(Path("/proc", process, "fd").iterdir())
    except OSError:  # another user's process, or one that has left the lock to its child
        return True
    for place in opened:
        with suppress(OSError):
            if os.path.samestat(place.stat(), file):
                return True
    return False


def read_progress(folder: Path) -> JobProgress | None:
    """Progress of the job of a folder; None where no job has begun, or the file is of no use."""
    try:
        return JobProgress.model_validate(read_json(folder / PROGRESS, ""))
    except (RunFolderError, ValidationError):
        return None


def _job_folders(run: Run, unit: Unit) -> Iterator[tuple[str, Path]]:
    """Title and folder of each job of a unit, whether it has begun or not, in the order in which they are done."""
    folders = {path.name for path in unit.folder.iterdir() if path.is_dir()}
    gap = STAGES.index("")
    for stage in (*STAGES[:gap], *sorted(folders.difference(STAGES)), *STAGES[gap + 1 :]):
        title = f"{unit.folder.relative_to(run.folder).as_posix()} {stage.replace('evaluation', 'eval')}"
        # A stage with one job has no folder for it inside its own.
        yield title, unit.folder / stage
        yield from ((f"{title} {path.name}", path) for path in sorted((unit.folder / stage).glob("*/")))


def _folders(run: Run, curve: Curve) -> tuple[Path, Path]:
    """The two folders that a training may have, see `_job_folders`."""
    stage = run.folder / f"starts-{curve.demonstration_starts}" / f"seed-{curve.seed}" / curve.stage
    return stage, stage / curve.name


def _job(title: str, is_done: bool, written: JobProgress | None, curve: Curve | None) -> JobStatus:
    row = curve.rows[-1] if curve is not None else {}
    success = _rollouts(curve) if curve is not None else ""
    # The mark counts: it is set before the progress goes away.
    if is_done or written is None:
        return JobStatus(title, "done", success=success)
    share = written.done / written.total if written.total else None
    text = "starting" if share is None else f"{100 * share:.0f}% of {written.total:,}"
    memory = finite(row.get("memory/peak_gib")) or written.memory_gib
    running = written.is_running
    left = finite(row.get("time/seconds_left"))
    return JobStatus(
        title,
        "running" if running else "stopped" if written.process else "failed",
        text,
        share,
        success,
        _speed(row),
        duration(left) if running and left is not None else "",
        f"{memory:.1f} GiB" if memory else "",
        written.note,
        written.warnings,
    )


def _speed(row: Mapping[str, Any]) -> str:
    for unit in ("turns", "tokens"):
        if speed := finite(row.get(f"time/{unit}_per_second")):
            return f"{speed:,.0f} {unit}/s"
    return ""


def _rollouts(curve: Curve) -> str:
    """Success of the last rollouts of online training; empty where there are none."""
    episodes, successes = 0.0, 0.0
    rows = [{"episodes": 0}, *(row for row in curve.rows if "rollout/success_rate" in row)]
    for before, row in reversed(list(pairwise(rows))):
        played = (finite(row.get("episodes")) or 0) - (finite(before.get("episodes")) or 0)
        rate = finite(row.get("rollout/success_rate"))
        # Rows of a broken training may hold no number, or no rate.
        if rate is None or not 0 <= rate <= 1 or played <= 0:
            continue
        episodes, successes = episodes + played, successes + rate * played
        if episodes >= RECENT:
            break
    return _rate(round(successes), round(episodes)) if episodes else ""


def _rate(successes: int, episodes: int) -> str:
    lo, hi = wilson_interval(successes, episodes)
    return f"{100 * successes / episodes:.1f} [{100 * lo:.0f}, {100 * hi:.0f}] of {episodes:,}"


def _results(run: Run) -> tuple[list[tuple[str, str, list[ResultRow]]], list[str]]:
    """Title, success and rows of each method that an evaluation is done of, and sentences on files of no use."""
    rows: list[ResultRow] = []
    faults = []
    for unit in run.units:
        for path in sorted(unit.folder.glob("evaluation/*/rows.json")):
            try:
                rows += read_rows(path, "")
            except RunFolderError as error:
                faults.append(str(error).strip())
    # A copy of the results alone has no units.
    games: dict[tuple[str, str], list[SummaryRow]] = {}
    for s in at_longest(summarise(rows or run.results)):
        games.setdefault((s.benchmark, s.split), []).append(s)
    found: dict[str, tuple[str, str, list[ResultRow]]] = {}
    for (benchmark, split), summaries in games.items():
        game = f"{benchmark}, {split} split, " if len(games) > 1 else ""
        mode = hardest_mode(summaries)
        for s in summaries:
            # Sorted: of a method, its most random decoding counts.
            if s.mode == mode and s.episodes:
                title = f"{look_of(s.method).title}: {game}{s.mode}, horizon {s.horizon}, {s.decoding}"
                own = [row for row in rows or run.results if row.method == s.method]
                found.setdefault(s.method + s.model + str(s.table), (title, _rate(s.successes, s.episodes), own))
    return list(found.values()), faults


def status_table(runs: Sequence[RunStatus]) -> Group:
    """The runs for a `rich` console: jobs at work, results so far, what is missing, and the last warnings."""
    return Group(*(part for run in runs for part in _parts(run)))


def _parts(run: RunStatus) -> Iterator[Table | Text]:
    waiting = [job.title for job in run.jobs if job.state == "waiting"]
    others = run.at_work
    yield terminal_text(run.headline, style="bold")
    if others:
        table = Table(box=SIMPLE_HEAD)
        for name in ("job", "state", "progress", "success, %", "speed", "left", "memory"):
            table.add_column(name)
        for job in others:
            cells = (job.title, job.state, job.progress, job.success, job.speed, job.left, job.memory)
            table.add_row(*map(terminal_text, cells))
        yield table
    for job in others:
        if job.note not in ("", job.progress):
            yield terminal_text(f"  {job.title}: {job.note}")
    if waiting:
        more = f" and {len(waiting) - SHOWN} more" if len(waiting) > SHOWN else ""
        yield terminal_text(f"  not begun: {', '.join(waiting[:SHOWN])}{more}")
    if run.results:
        table = Table(box=SIMPLE_HEAD)
        table.add_column("evaluated")
        table.add_column("success, %")
        for title, success in run.results:
            table.add_row(terminal_text(title), terminal_text(success))
        yield table
    for line in (*run.faults, *run.missing):
        yield terminal_text(f"  {line}")
    for job in run.jobs:
        for warning in job.warnings[-1:]:
            yield terminal_text(f"  warning of {job.title}: {warning}")
