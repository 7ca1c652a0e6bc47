"""The page of runs that are at work: read again when their files change, and written nowhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from reflect_report.files import version_of
from reflect_report.page import Page, read_page, render
from reflect_report.runs import read_runs
from reflect_report.status import RunStatus, is_at_work, read_progress, read_status
from reflect_rl.errors import UserError
from reflect_rl.runs.folder import PROGRESS

FILES = (
    *("config.json", "run.json", "results.json", f"annotation/{PROGRESS}"),
    # A job of any stage has a folder in its unit, or in that of its stage.
    *(f"starts-*/seed-*/{job}/{name}" for job in ("*", "*/*") for name in ("done", PROGRESS, "metrics.jsonl")),
    *(f"starts-*/seed-*/evaluation/*/{name}" for name in ("rows.json", "episodes.jsonl")),
)
"""Files that a page is made of, as patterns inside a run folder."""
SECONDS = 1.0
"""Least time between two looks at the files, however many pages ask."""
SHARE = 5
"""A page that took a second to make is not made again for this many seconds, so that a run keeps its processor."""


@dataclass(frozen=True, slots=True)
class Look:
    """The page as it was when it was last made."""

    page: Page
    summary: str
    """State of the runs, in one sentence."""
    fault: str = ""
    """Why the folders cannot be read at this moment; empty if they can."""


class LivePage:
    """The page of run folders, made again when one of their files has changed.

    Args:
        folders: the run folders.
        clock: seconds.

    Raises:
        RunFolderError: a folder is no run folder, or two contradict each other.
    """

    def __init__(self, folders: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        # A later change of the working directory must not lead elsewhere.
        self.folders = [folder.resolve() for folder in folders]
        self.makings = 0
        """Times that the page was made."""
        self._clock = clock
        self._lock = Lock()
        self._known = self._state()
        self._look = self._make()
        self._next = clock() + SECONDS

    def look(self) -> Look:
        """The page as of now, or of a moment ago."""
        # Whoever asks while the page is made for somebody else gets the last one at once.
        if self._lock.acquire(blocking=False):
            try:
                if self._clock() >= self._next:
                    self._refresh()
            finally:
                self._lock.release()
        return self._look

    def _refresh(self) -> None:
        began = self._clock()
        state = self._state()
        if state != self._known:
            try:
                self._look = self._make()
            # A run deletes and renames files while they are read; half a file is whole a moment later.
            except (UserError, OSError) as error:
                self._look = replace(self._look, fault=str(error).strip())
            self._known = state
        now = self._clock()
        self._next = now + max(SECONDS, SHARE * (now - began))

    def _state(self) -> tuple[object, ...]:
        """All that the page depends on: versions of files, and which processes are at work."""
        return tuple(part for folder in self.folders for part in _state_of(folder))

    def _make(self) -> Look:
        self.makings += 1
        runs = read_runs(self.folders, at_work=True)
        states = [read_status(run.folder) for run in runs]
        page = read_page(runs)
        sections = dict(page.sections)
        # Right after the result: who watches a run asks first how it stands.
        result = sections.pop("result")
        sections = {"result": result, "now": render("now", states=states), **sections}
        return Look(replace(page, sections=sections), " ".join(map(_summary, states)))


def _state_of(folder: Path) -> Iterator[object]:
    yield folder.is_dir(), is_at_work(folder)
    for pattern in FILES:
        for path in sorted(folder.glob(pattern)):
            try:
                yield path, version_of(path)
            except OSError:
                # It was there a moment ago: the next look tells.
                yield path, None
            if path.name == PROGRESS:
                # A process that is killed changes no file.
                written = read_progress(path.parent)
                yield written is not None and written.is_running


def _summary(state: RunStatus) -> str:
    """A sentence such as `taxi: running, 3 jobs done in 12.0 s; rlft reflect_rl 45% of 16,000.`, for the first job."""
    jobs = [f"{job.title} {job.progress}" for job in state.at_work if job.state == "running"]
    return "; ".join([state.headline, *jobs[:1]]) + "."
