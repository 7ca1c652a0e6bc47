"""Works of a sweep, several at a time, each in a process of its own that may fail alone.

A process does one work after the other, so that libraries are loaded once. It is deaf to Ctrl-C, and it ends when its
parent has ended, whatever ended that. A work that is interrupted goes on from its last checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from reflect_report.sweep.plan import Work
from reflect_rl.errors import ReflectRLError

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

KILLED = "its process was killed; most often the memory ran out. Lower --jobs, or the size of the model"
STOPPED = "stopped"
"""Reason of a work that `Crew.stop` has ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A work that has ended."""

    work: Work
    reason: str
    """Sentence on its failure; empty where all went well."""
    seconds: float = 0.0


class Crew:
    """Processes that do works; a context that ends them all.

    Args:
        jobs: number of processes.
        command: for the run cards.
    """

    def __init__(self, jobs: int, command: str) -> None:
        self.command = command
        self.free: list[ProcessPoolExecutor | None] = [None] * jobs
        """Processes without work; None: not started yet, or ended."""
        self.busy: dict[Future[tuple[str, float]], tuple[ProcessPoolExecutor, Work]] = {}
        self.stopped: set[str] = set()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from reflect_rl.runs.workers import stop

        pools = [pool for pool in self.free if pool is not None] + [pool for pool, _ in self.busy.values()]
        for pool in pools:
            stop(pool)

    def begin(self, work: Work) -> None:
        """Give a work to a free process."""
        from reflect_rl.runs.workers import hold_interrupts, prepare, worker_context

        pool = self.free.pop()
        if pool is None:
            # A pool of one: where a process dies, exactly its own work has failed.
            pool = ProcessPoolExecutor(
                1,
                mp_context=worker_context(),
                initializer=prepare,
                initargs=(work.config.threads, dict(os.environ)),
            )
        with hold_interrupts():
            future = pool.submit(_do, _Order.of(work, self.command))
        self.busy[future] = pool, work

    def ended(self, seconds: float) -> list[Ended]:
        """The works that have ended meanwhile.

        Args:
            seconds: longest time to wait for the first.
        """
        finished, _ = wait(self.busy, timeout=seconds, return_when=FIRST_COMPLETED)
        found = []
        for future in finished:
            pool, work = self.busy.pop(future)
            error, was_stopped = future.exception(), work.name in self.stopped
            # A work may end by itself while it is stopped; its process is ended all the same.
            if error is None and not was_stopped:
                self.free.append(pool)
                reason, taken = future.result()
                found.append(Ended(work, reason, taken))
                continue
            pool.shutdown(wait=False)
            self.free.append(None)
            told = KILLED if isinstance(error, BrokenProcessPool) else f"{type(error).__name__}: {error}"
            found.append(Ended(work, STOPPED if was_stopped else told))
        return found

    def stop(self, name: str) -> None:
        """End a work that is being done; it ends with the reason `STOPPED`."""
        from reflect_rl.runs.workers import end_processes

        for pool, work in self.busy.values():
            if work.name == name:
                self.stopped.add(name)
                # Only its processes: the future then fails, and `ended` tells it like any other.
                end_processes(pool)


def do_all(crew: Crew, works: Sequence[Work], begun: Callable[[Work], None], ended: Callable[[Ended], None]) -> None:
    """Do works; one that fails does not stop the others.

    Args:
        crew: who does them.
        works: in the order in which they are preferred, each after those that it waits for.
        begun: called when a work begins.
        ended: called when a work has ended.
    """
    waiting, unfinished = list(works), {work.name for work in works}
    while waiting or crew.busy:
        for work in list(waiting):
            if crew.free and not unfinished.intersection(work.after):
                waiting.remove(work)
                begun(work)
                crew.begin(work)
        for end in crew.ended(1.0):
            unfinished.discard(end.work.name)
            ended(end)


@dataclass(frozen=True, slots=True)
class _Order:
    """A work as it travels to another process: plain values, since classes made at run time cannot be pickled."""

    values: dict[str, Any]
    kinds: tuple[str, ...]
    sources: tuple[Path, ...]
    evaluates: bool
    command: str

    @classmethod
    def of(cls, work: Work, command: str) -> _Order:
        values = work.config.model_dump(mode="json", exclude_unset=True)
        return cls(values, work.kinds, work.sources, work.evaluates, command)


def _do(order: _Order) -> tuple[str, float]:
    """Do a work in its process: a sentence on what went wrong (empty: nothing did), and its seconds."""
    from reflect_rl.config import parse
    from reflect_rl.runs.config import RunConfig

    started = time.perf_counter()
    try:
        reason = _run(parse(RunConfig, order.values), order)
    except (ReflectRLError, OSError) as error:
        reason = _sentence(error)
    return reason, time.perf_counter() - started


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error} ({error.filename or 'no file'})"
    return str(error)


def _run(config: RunConfig, order: _Order) -> str:
    """Do the jobs of a run folder in this process; the first failure."""
    from reflect_rl.runs.check import settle
    from reflect_rl.runs.folder import Spent, alone, written_progress
    from reflect_rl.runs.run import explained, gather, log_stage, unfinished
    from reflect_rl.runs.stages import execute, missing_needs
    from reflect_rl.runs.start import begin

    settle(config, trains="sft" in order.kinds)
    # Each source in turn: a job is taken where it was finished with the same settings.
    for source in order.sources or (config.start_from,):
        begin(config.model_copy(update={"start_from": source}), order.command, evaluates=order.evaluates)
    reasons = []
    with alone(config.output_dir):
        for job in unfinished(config, order.kinds):
            started = time.perf_counter()
            # Other seeds and methods go on without what has failed.
            if missing_needs(job):
                continue
            try:
                with explained(job.title, job.folder), written_progress(job.folder, _tell_nobody) as progress:
                    execute(job, config, progress)
            except (ReflectRLError, OSError) as error:
                reasons.append(_sentence(error))
                continue
            log_stage(config.output_dir, job, Spent.since(started))
    if "eval" in order.kinds:
        gather(config)
    return reasons[0] if reasons else ""


def _tell_nobody(done: int, total: int, note: str) -> None:
    """Progress is in the job's folder, where `reflect-rl watch` finds it."""
