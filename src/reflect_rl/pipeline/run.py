"""Do the jobs of a run, several at a time, each in a process of its own.

A job's process has its own threads and random state, so the number of workers changes no result. An interruption loses at
most the work since each job's last checkpoint.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol

from reflect_rl.core.config import parse
from reflect_rl.core.store import read_json, write_json
from reflect_rl.pipeline.config import RunConfig
from reflect_rl.pipeline.folder import close_run
from reflect_rl.pipeline.jobs import Job, Kind, execute, plan

__all__ = ["Display", "gather", "run_jobs"]


class Display(Protocol):
    """What shows progress."""

    def started(self, job: Job) -> None:
        """A job begins."""
        ...

    def advanced(self, title: str, done: int, total: int, note: str) -> None:
        """A job got further."""
        ...

    def finished(self, job: Job, seconds: float) -> None:
        """A job is done."""
        ...


def run_jobs(config: RunConfig, kinds: Sequence[Kind], display: Display) -> None:
    """Do all unfinished jobs of these kinds.

    Raises:
        RunFolderError: a job needs something that no job of these kinds makes.
        ReflectRLError: a job failed; the others that were running are finished first.
    """
    waiting = [job for job in plan(config) if job.kind in kinds and not job.done]
    if not waiting:
        return
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        messages = manager.Queue()
        pool = ProcessPoolExecutor(
            min(config.workers, len(waiting)), mp_context=context, initializer=_prepare, initargs=(config.threads,)
        )
        try:
            _work(pool, config, waiting, messages, display)
        except BaseException:
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()


def _work(pool: ProcessPoolExecutor, config: RunConfig, waiting: list[Job], messages: Any, display: Display) -> None:
    running: dict[Future[float], Job] = {}
    values = config.model_dump(mode="json")
    own = {job.folder for job in waiting}
    while waiting or running:
        # A free worker takes the first job whose needs are met; needs that no job makes fail inside `execute`, with the remedy.
        for job in list(waiting):
            if len(running) == config.workers:
                break
            if not any(need in own for need in job.needs):
                waiting.remove(job)
                display.started(job)
                running[pool.submit(_do, job, values, messages)] = job
        finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
        _show(messages, display)
        for future in finished:
            job = running.pop(future)
            seconds = future.result()
            own.discard(job.folder)
            _log_stage(config.output_dir, job, seconds)
            display.finished(job, seconds)


def _show(messages: Any, display: Display) -> None:
    while True:
        try:
            display.advanced(*messages.get_nowait())
        except queue.Empty:
            return


def _log_stage(folder: Path, job: Job, seconds: float) -> None:
    card = read_json(folder / "run.json", "Run `reflect-rl run` again.")
    stages = [s for s in card.get("stages", []) if (s["unit"], s["job"]) != (job.unit.name, f"{job.kind} {job.name}".strip())]
    stages.append({"unit": job.unit.name, "job": f"{job.kind} {job.name}".strip(), "seconds": round(seconds, 2)})
    write_json(folder / "run.json", card | {"stages": stages})


def _prepare(threads: int) -> None:
    """Runs once in each worker."""
    import signal
    import warnings

    import torch
    from transformers.utils import logging

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore")


def _do(job: Job, values: dict[str, Any], messages: Any) -> float:
    """In a worker: the configuration travels as JSON, because its class is made for the chosen variations at run time."""
    started = time.perf_counter()
    last = 0.0

    def progress(done: int, total: int, note: str) -> None:
        nonlocal last
        now = time.perf_counter()
        if done == total or now - last > 0.2:
            last = now
            messages.put((job.title, done, total, note))

    execute(job, parse(RunConfig, values), progress)
    return time.perf_counter() - started


def gather(config: RunConfig) -> list[dict[str, Any]]:
    """Write `results.json` from the evaluations that are finished, and return its rows."""
    results: list[dict[str, Any]] = []
    missing = 0
    for job in plan(config):
        if job.kind == "eval":
            if job.done:
                results += read_json(job.folder / "rows.json", "Run `reflect-rl eval` again.")
            else:
                missing += 1
    write_json(config.output_dir / "results.json", results)
    if not missing:
        close_run(config.output_dir)
    return results


