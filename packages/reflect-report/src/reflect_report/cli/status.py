"""`reflect-rl status RUN...` and `watch RUN...`: what runs do, from another terminal, during them and afterwards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.live import Live

from reflect_report.status import RunStatus, read_status, status_table
from reflect_rl.errors import UserError

USAGE = """\
usage: reflect-rl status RUN_FOLDER ...   each job: progress, success so far, speed, time left, memory, last warning
       reflect-rl watch RUN_FOLDER ...    the same, refreshed until the run is over
"""

SECONDS = 2.0
"""Time between two looks."""
GRACE = 30.0
"""Seconds without a job at work after which a run counts as ended; a new worker takes some of them to begin."""


def status(arguments: Sequence[str], console: Console) -> None:
    """The verb `status`.

    Args:
        arguments: run folders.
        console: where the state is printed.

    Raises:
        UserError: no folder is named, or one is no run folder.
    """
    folders = _folders("status", arguments, console)
    if folders:
        _plain(console).print(status_table(_look(folders)))


def watch(arguments: Sequence[str], console: Console) -> None:
    """The verb `watch`.

    Args:
        arguments: run folders.
        console: where the state is shown, and left when no job is at work any more.

    Raises:
        UserError: no folder is named, or one is no run folder.
    """
    folders = _folders("watch", arguments, console)
    if not folders:
        return
    runs = _look(folders)
    with Live(status_table(runs), console=_plain(console), refresh_per_second=4) as live:
        seen = time.monotonic()
        while time.monotonic() - seen < GRACE and not all(_is_over(run) for run in runs):
            time.sleep(SECONDS)
            runs = _look(folders)
            live.update(status_table(runs))
            if any(run.is_running for run in runs):
                seen = time.monotonic()


def _folders(verb: str, arguments: Sequence[str], console: Console) -> list[Path]:
    if not arguments:
        raise UserError(f"`reflect-rl {verb}` needs a run folder, for example: reflect-rl {verb} runs/taxi-smoke")
    if {"-h", "--help", "--help-all"} & {*arguments}:
        console.print(USAGE, end="")
        return []
    if flags := [word for word in arguments if word.startswith("-")]:
        raise UserError(f"`reflect-rl {verb}` takes run folders and no flags, got {flags[0]}.")
    return [Path(word) for word in arguments]


def _look(folders: Sequence[Path]) -> list[RunStatus]:
    return [read_status(folder, planned(folder)) for folder in folders]


@cache
def planned(folder: Path) -> tuple[str, ...]:
    """Titles of all jobs of a run; none where its settings need what is not installed here."""
    # Imported late: it loads torch, for which a mistake in a name must not wait.
    from reflect_rl.config import parse
    from reflect_rl.runs.config import RunConfig, values_of_run
    from reflect_rl.runs.stages import plan

    if not (folder / "config.json").is_file():
        return ()
    try:
        return tuple(job.title for job in plan(parse(RunConfig, values_of_run(folder))))
    except UserError:
        # Results that were written can be shown all the same.
        return ()


def _is_over(run: RunStatus) -> bool:
    return not run.is_running and not run.missing and bool(run.results)


NO_TERMINAL = 80
"""Columns where nothing tells how many there are."""


def _plain(console: Console) -> Console:
    """A console that fits tables to the terminal, which the one for messages does not."""
    fitting = Console(file=console.file, highlight=False, markup=False, emoji=False)
    # COLUMNS=0 means that the width is not known; nothing fits into none.
    fitting.width = fitting.width or NO_TERMINAL
    return fitting
