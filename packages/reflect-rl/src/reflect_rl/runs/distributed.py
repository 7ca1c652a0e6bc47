"""The jobs of a run by several processes that a launcher started, for example `accelerate launch`.

All processes go through the jobs in the same order: supervised and online training are done by all of them together,
demonstrations by the main one, and at the end the evaluations are dealt out.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from reflect_rl.launch import LostProcessError
from reflect_rl.models.load import device_of
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Job, Spent, written_progress
from reflect_rl.runs.run import Bars, explained, log_stage, unfinished
from reflect_rl.runs.stages import execute, stages
from reflect_rl.runs.workers import prepare
from reflect_rl.training.distributed import TIMEOUT, join, leave, refuse_launch, was_lost

PLACE = re.compile(r"^\[\S+\] ")
"""Line of a library's source at the start of a message."""

SOLO_TIMEOUT = timedelta(days=7)
"""Longest wait for a job that another process does alone; if that process ends, the wait ends too."""


def run_jobs_distributed(config: RunConfig, kinds: Sequence[str], display: Bars) -> None:
    """Do all unfinished jobs of these kinds; only the main process's display is told.

    Raises:
        RunFolderError: a job needs something that no job of these kinds makes.
        ConfigError: training cannot be distributed as it was launched.
        LostProcessError: another process has ended or does not answer.
        ReflectRLError: a job failed; the launcher ends the other processes.
    """
    prepare(config.threads)
    # The launcher is a process of another program, so there is no pipe to wait on: its number is looked at.
    threading.Thread(target=_leave_with_launcher, args=(os.getppid(),), daemon=True).start()
    on_cpu = device_of(config.model.device).type == "cpu"
    with _lost_processes_explained():
        # A call of a player that is too slow is to be told by its own process, which knows more.
        state = join(on_cpu, max(TIMEOUT, timedelta(seconds=2 * config.limits.player_seconds)))
        wait = _barrier(state)
        # The main process's list: another one may look when a job has just been finished.
        found: list[list[Job] | None] = [unfinished(config, kinds) if state.is_main_process else None]
        waiting = broadcast_object_list(found)[0] or []
        # Not where nothing is trained: evaluations are dealt out whatever the launch is.
        if any(_launched(job) == "together" for job in waiting):
            refuse_launch(on_cpu)
        for job in waiting:
            # All processes at once or the main one alone; the barrier keeps anyone from reading a half-written folder.
            if (launched := _launched(job)) != "dealt":
                takes_part = launched == "together" or state.is_main_process
                spent = _do(job, config, display, state) if takes_part else Spent(0.0, 0.0)
                wait()
                _note(job, spent, config, display, state)
        evaluations = [job for job in waiting if _launched(job) == "dealt"]
        # By the place in the list that all processes share, so they agree without asking each other.
        own = evaluations[state.process_index :: state.num_processes]
        done = [(job, _do(job, config, display, state)) for job in own]
        wait()
        # The main process alone writes the card, for all.
        for job, spent in gather_object(done):
            _note(job, spent, config, display, state)
        leave()


def _launched(job: Job) -> str:
    return stages()[job.kind].launched


def _barrier(state: PartialState) -> Callable[[], None]:
    """Make the function that waits for all processes, however long one of them works alone."""
    if state.num_processes == 1:
        return lambda: None
    # Under gloo a process that ends closes its connections, at which the others wake up.
    group = torch.distributed.new_group(backend="gloo", timeout=SOLO_TIMEOUT)
    return lambda: torch.distributed.barrier(group)


@contextmanager
def _lost_processes_explained() -> Iterator[None]:
    """Turn what the libraries say when another process is gone into one sentence, a `LostProcessError`."""
    try:
        yield
    except Exception as error:
        if not was_lost(error):
            raise
        first = PLACE.sub("", str(error).strip()).partition("\n")[0].partition(". ")[0]
        # Without the cause: a user cannot do anything with the stack of a broken connection.
        raise LostProcessError(
            f"another process of this launch has ended, or did not answer in time ({first}). Its own message, if there "
            "is one, says why. What was finished is kept; the same command goes on from the last checkpoint."
        ) from None


def _leave_with_launcher(launcher: int) -> None:
    """A launcher that was killed cannot say so; processes that outlived it would train on, seen by nobody."""
    # When the launcher dies, however it dies, the system gives its children another parent.
    while os.getppid() == launcher:
        time.sleep(0.5)
    os._exit(1)


def _do(job: Job, config: RunConfig, display: Bars, state: PartialState) -> Spent:
    started = time.perf_counter()

    def tell(done: int, total: int, note: str) -> None:
        if state.is_main_process:
            display.advanced(job.title, done, total, note)

    if state.is_main_process:
        display.started(job)
    # The inner one acts first: a lost connection is told as such, and not as a fault of the job.
    writes = state.is_main_process or job.kind == "eval"
    with (
        explained(job.title, job.folder),
        written_progress(job.folder, tell, writes) as progress,
        _lost_processes_explained(),
    ):
        execute(job, config, progress)
    return Spent.since(started)


def _note(job: Job, spent: Spent, config: RunConfig, display: Bars, state: PartialState) -> None:
    if state.is_main_process:
        log_stage(config.output_dir, job, spent)
        display.finished(job, spent.seconds)
