"""Do the jobs of a run, several at a time, each in a process of its own.

A job's process has its own threads and random state, so the number of workers changes no result. An interruption
loses at most the work since each job's last checkpoint. Workers are quiet, deaf to Ctrl-C, gone when their parent is
gone, and clear about what went wrong in them.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import traceback
import warnings
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from reflect_rl import registry
from reflect_rl.config import parse
from reflect_rl.errors import FaultyEnvironmentError, ReflectRLError, ReflectRLWarning
from reflect_rl.evaluation.check_env import told
from reflect_rl.evaluation.evaluate import ResultRow
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import (
    Job,
    Spent,
    StageTime,
    read_card,
    write_card,
    write_results,
    written_progress,
)
from reflect_rl.runs.stages import execute, missing_needs, plan, unmet
from reflect_rl.runs.workers import hold_interrupts, prepare, stop, worker_context
from reflect_rl.watchdog import Limits, about_exit, hang_in, report_in

ALL = "all jobs"


class _TimeRemaining(TimeRemainingColumn):
    """Time left of a job; for all jobs together it cannot be told, since they are too unlike each other."""

    def render(self, task: Task) -> Text:
        return Text("") if task.description == ALL else super().render(task)


class Bars:
    """Shows the jobs that are at work.

    Args:
        console: where to print.
        jobs: how many jobs there are to do.
    """

    def __init__(self, console: Console, jobs: int) -> None:
        self.console, self.jobs = console, jobs
        self.progress = Progress(
            # No markup: titles and notes hold what games and servers wrote, and brackets in it are no styles.
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=12),
            TaskProgressColumn(text_format_no_percentage="    "),
            TimeElapsedColumn(),
            _TimeRemaining(compact=True),
            TextColumn(
                "{task.fields[note]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
            ),
            console=console,
            expand=True,
            # The bars go away at the end; what stays is a line per job, as in a log file.
            transient=True,
            # In a file, bars would be thousands of lines of control characters.
            disable=not console.is_terminal or jobs == 0,
        )
        self.all = self.progress.add_task(ALL, total=jobs, note=f"0 of {jobs} done")
        self.done = 0
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def started(self, job: Job) -> None:
        """A new bar."""
        self.tasks[job.title] = self.progress.add_task(job.title, total=None, note="starting")

    def advanced(self, title: str, done: int, total: int, note: str) -> None:
        """The bar moves."""
        # A last message of a job may arrive after its end: the two travel on different ways.
        if title in self.tasks:
            self.progress.update(self.tasks[title], completed=done, total=total, note=note)

    def finished(self, job: Job, seconds: float) -> None:
        """The bar becomes a line."""
        self.done += 1
        if job.title in self.tasks:
            self.progress.remove_task(self.tasks.pop(job.title))
        self.progress.update(self.all, completed=self.done, note=f"{self.done} of {self.jobs} done")
        self.console.print(f"done  {job.title}  ({seconds:.1f} s)")


def run_jobs(config: RunConfig, kinds: Sequence[str], display: Bars) -> None:
    """Do all unfinished jobs of these kinds.

    Raises:
        RunFolderError: a job needs something that no job of these kinds makes; nothing was started.
        ReflectRLError: a job failed. The others that were at work are stopped; they go on from their last checkpoints.
    """
    waiting = unfinished(config, kinds)
    if not waiting:
        return
    context = worker_context()
    # A Queue has a feeder thread, which may still hold a message when its worker is ended; SimpleQueue has none.
    messages = context.SimpleQueue()
    _warn_of_game(config, waiting, context)
    pool = ProcessPoolExecutor(
        min(config.workers, len(waiting)),
        mp_context=context,
        initializer=_begin,
        initargs=(config.threads, dict(os.environ), messages),
    )
    try:
        _work(pool, config, waiting, messages, display)
    # KeyboardInterrupt, too. The pool's own way out would wait for jobs that take hours.
    except BaseException:
        stop(pool)
        raise
    pool.shutdown()


GAME_SECONDS, GAME_TASKS = 2.0, 20
"""Most seconds that a look at a user's own game may take before a run, and most tasks of a split that it plays."""


def _warn_of_game(config: RunConfig, waiting: Sequence[Job], context: Any) -> None:
    """Warn of what a game of the user's own breaks of the contract: it would train, and give wrong results."""
    package = config.env.env_class.__module__.partition(".")[0].replace("_", "-")
    known = {"reflect-rl", *registry.COMPANIONS["environments"].values()}
    if package in known or not any(job.kind in ("data", "rlft") for job in waiting):
        return
    found = context.SimpleQueue()
    values = config.model_dump(mode="json", exclude_unset=True)
    # A process of its own: a game that hangs, exits or takes the memory must not do so here.
    looks = context.Process(target=_look_at_game, args=(values, dict(os.environ), found), daemon=True)
    with hold_interrupts():
        looks.start()
    looks.join(GAME_SECONDS)
    looks.kill()
    while not found.empty():
        warnings.warn(found.get(), ReflectRLWarning, stacklevel=2)


def _look_at_game(values: dict[str, Any], variables: dict[str, str], found: Any) -> None:
    """Runs in the process that plays the game. One that fails is told of by the jobs, with its traceback."""
    os.environ.update(variables)
    with suppress(Exception, SystemExit):
        # No limits of its own: their report would stay behind where this process is ended.
        limits = Limits(environment_seconds=0, player_seconds=0)
        for sentence in told(parse(RunConfig, values).env, GAME_TASKS, limits):
            found.put(sentence)


def unfinished(config: RunConfig, kinds: Sequence[str]) -> list[Job]:
    """The jobs of these kinds that are left to do, each after what it needs.

    Raises:
        RunFolderError: a job needs something that no job of these kinds makes.
    """
    jobs = plan(config)
    waiting = [job for job in jobs if job.kind in kinds and not job.done]
    own = {job.folder for job in waiting}
    # Before anything starts: a missing need that shows after the first training would have cost that training's time.
    for job in waiting:
        for folder in missing_needs(job):
            if folder not in own:
                raise unmet(job, folder, jobs)
    return waiting


def _work(pool: ProcessPoolExecutor, config: RunConfig, waiting: list[Job], messages: Any, display: Bars) -> None:
    running: dict[Future[Spent], Job] = {}
    # Pickle finds classes by name and cannot find one that `narrow` made at run time, so plain values travel, and
    # those alone that were set: sections of packages that the run does not use are not even validated.
    values = config.model_dump(mode="json", exclude_unset=True)
    own = {job.folder for job in waiting}
    while waiting or running:
        # A free worker takes the first job whose needs are met.
        for job in list(waiting):
            # The pool would queue more jobs than it has workers, and the display would show them as started.
            if len(running) == config.workers:
                break
            if not any(need in own for need in job.needs):
                waiting.remove(job)
                display.started(job)
                # submit() starts workers, which inherit the blocked Ctrl-C: the parent alone decides what to end.
                with hold_interrupts():
                    running[_submit(pool, job, values)] = job
        # A short wait: the bars move although no job has ended.
        finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
        while not messages.empty():
            display.advanced(*messages.get())
        # Failures last, so that what was finished at the same moment is noted.
        for future in sorted(finished, key=lambda future: future.exception() is not None):
            # One dead worker breaks all futures of a pool, and none says whose it was: all jobs at work are named.
            if isinstance(future.exception(), BrokenProcessPool):
                raise _killed(running.values())
            spent, job = future.result(), running.pop(future)
            # Jobs that need this folder may start from now on.
            own.discard(job.folder)
            # The card is written by the parent alone: two workers that rewrite it would lose each other's lines.
            log_stage(config.output_dir, job, spent)
            display.finished(job, spent.seconds)


def _submit(pool: ProcessPoolExecutor, job: Job, values: dict[str, Any]) -> Future[Spent]:
    try:
        return pool.submit(_do, job, values)
    # A worker that died between two jobs is noticed by the next submit().
    except BrokenProcessPool:
        raise _killed([job]) from None


def _killed(jobs: Collection[Job]) -> ReflectRLError:
    for job in jobs:
        # A process that the watchdog had to end has left its reason there; one that was killed leaves nothing.
        if (hang := hang_in(job.folder)) is not None:
            return ReflectRLError(
                f"{job.title}: {hang} What was finished is kept; the same command goes on from the last checkpoint."
            )
    return ReflectRLError(
        f"a worker process was killed during {', '.join(job.title for job in jobs)}; most often the memory ran out. "
        "Lower --workers, the batch sizes or the size of the model; the same command goes on from the last checkpoint."
    )


def log_stage(folder: Path, job: Job, spent: Spent) -> None:
    """Note in the run card how long a job took, and how much memory."""
    title = f"{job.kind} {job.name}".strip()
    stage = StageTime(unit=job.unit.name, job=title, seconds=round(spent.seconds, 2), peak_gib=round(spent.peak_gib, 2))
    write_card(folder, read_card(folder).with_stage(stage))


# A queue cannot be an argument of a job: only a new process may inherit it, through its initializer.
_inbox: list[Any] = []
"""Queue to the parent, in a worker."""


def _begin(threads: int, variables: dict[str, str], messages: Any) -> None:
    """Runs once in each worker."""
    prepare(threads, variables)
    _inbox.append(messages)


def _do(job: Job, values: dict[str, Any]) -> Spent:
    """Do a job in a worker; the configuration arrives as JSON. Returns what it took."""
    started = time.perf_counter()
    last = 0.0

    def tell(done: int, total: int, note: str) -> None:
        nonlocal last
        now = time.perf_counter()
        # A full pipe blocks its writer, so a job of many short steps does not send them all.
        if done == total or now - last > 0.2:
            last = now
            _inbox[0].put((job.title, done, total, note))

    with explained(job.title, job.folder), written_progress(job.folder, tell) as progress:
        execute(job, parse(RunConfig, values), progress)
    return Spent.since(started)


def gather(config: RunConfig) -> tuple[ResultRow, ...]:
    """Write `results.json` from the evaluations that are finished, and return its rows.

    Where none is finished, nothing is written, so that a `results.json` that came without them stays.

    Raises:
        RunFolderError: the rows of an evaluation are not readable.
    """
    jobs = [job for job in plan(config) if job.kind == "eval"]
    finished = [job.folder for job in jobs if job.done]
    return write_results(config.output_dir, finished, is_whole=len(finished) == len(jobs))


@contextmanager
def explained(title: str, folder: Path) -> Iterator[None]:
    """Turn what goes wrong in a job into an error that survives the way to the parent and can be shown to a user.

    A hang for which the whole process must be ended is told by `reflect_rl.watchdog.hang_in(folder)`.

    Args:
        title: the job.
        folder: where `error.txt` with the traceback of an unexpected failure goes.

    Raises:
        ReflectRLError: as it was raised, or in place of an unexpected failure.
        OSError: a file cannot be read or written; a full disk is always one with `errno.ENOSPC`.
    """
    try:
        # A process that cannot be interrupted is ended by the watchdog, past all handlers below; it reports here.
        with report_in(folder):
            yield
    except FaultyEnvironmentError as error:
        # Its author wants to see where.
        place = "" if error.__cause__ is None else _traceback_file(folder, error)
        # Without the cause: exceptions of games may not survive pickling on their way to the parent.
        raise type(error)(f"{title}: {error}{place}") from None
    except ReflectRLError:
        raise
    except SystemExit as error:
        # It would travel to the parent and end the command there without a word, as if all were done.
        raise ReflectRLError(f"{title}: {about_exit(error)}{_traceback_file(folder, error)}") from None
    except Exception as error:
        # Only exceptions of Python itself are sure to survive pickling.
        if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.errno:
            raise
        raise _explanation(title, folder, error) from None


def _explanation(title: str, folder: Path, error: Exception) -> Exception:
    message = str(error).strip().partition("\n")[0]
    # Libraries in Rust raise their own class for a full disk, and some writers report only that a write failed.
    if "os error 28" in str(error) or "No space left" in str(error) or _is_full(folder):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    if isinstance(error, MemoryError) or "out of memory" in message or "can't allocate memory" in message:
        return ReflectRLError(
            f"{title}: memory ran out ({message or 'MemoryError'}). Lower --workers, the batch sizes or the size of "
            "the model; the same command goes on from the last checkpoint."
        )
    return ReflectRLError(
        f"{title} failed: {type(error).__name__}: {message}.{_traceback_file(folder, error)} "
        "What was finished is kept; the same command goes on from the last checkpoint."
    )


def _traceback_file(folder: Path, error: BaseException) -> str:
    """Write `error.txt`; the sentence that says where it is."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "error.txt").write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        return f" Details are in {folder / 'error.txt'}."
    return ""


def _is_full(folder: Path) -> bool:
    """Tell whether less than a block is free; some libraries report a full disk in words of their own."""
    place = next((path for path in (folder, *folder.parents) if path.exists()), Path())
    with suppress(OSError):
        return shutil.disk_usage(place).free < 4096
    return False
