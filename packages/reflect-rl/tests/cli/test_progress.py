"""Bars in a terminal, plain lines elsewhere."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from reflect_rl.runs.folder import Job, Unit
from reflect_rl.runs.run import Bars

UNIT = Unit(Path("runs/x"), 100, 0)
JOB = Job(UNIT, "sft", "policy_plain", UNIT.sft("policy_plain"))


def shown(*, terminal: bool) -> str:
    file = io.StringIO()
    # Whatever terminal the tests run in; nothing is redrawn in a dumb one.
    plain: dict[str, Any] = {"color_system": None, "highlight": False, "markup": False, "_environ": {"TERM": "xterm"}}
    console = Console(file=file, force_terminal=terminal, width=100, **plain)
    with Bars(console, jobs=2) as bars:
        bars.started(JOB)
        bars.advanced(JOB.title, 1, 4, "loss [0.5]")
        bars.progress.refresh()
        bars.finished(JOB, 1.25)
    return file.getvalue()


def test_without_a_terminal_there_is_a_line_per_finished_job_and_nothing_else():
    assert shown(terminal=False) == "done  starts-100/seed-0 sft policy_plain  (1.2 s)\n"


def test_a_terminal_shows_the_share_that_is_done_and_the_note_as_it_is():
    text = shown(terminal=True)
    assert " 25%" in text
    assert "loss [0.5]" in text
    assert "0 of 2 done" in text
    assert "1 of 2 done" in text


def test_an_unknown_job_moves_no_bar():
    with Bars(Console(file=io.StringIO()), jobs=1) as bars:
        bars.advanced("from a job that has ended", 1, 2, "")
        assert list(bars.tasks) == []
