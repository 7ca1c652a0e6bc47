"""`reflect-rl status` and `watch`: what is told of a run that is at work, stopped, failed, or over."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reflect_report.cli import status as verbs
from reflect_report.status import is_at_work, read_progress, read_status, status_table
from reflect_rl.errors import ReflectRLError, ReflectRLWarning, RunFolderError, UserError
from reflect_rl.runs.folder import LOCK, PROGRESS, alone, written_progress

from .conftest import result_row, write_json, write_lines


def silent(done: int, total: int, note: str) -> None:
    """Progress that nobody sees."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two methods and one seed that has just begun."""
    config = {"methods": ["sft", "reflect_rl"], "seeds": [0], "data": {"demonstration_starts": [100]}}
    write_json(tmp_path / "run" / "config.json", config | {"rlft": {"total_turns": 4000, "algorithm": {"name": "ppo"}}})
    card = {"schema_version": 2, "benchmark": "dangerous_taxi"}
    stages = [{"unit": "starts-100/seed-0", "job": "data", "seconds": 75.0}]
    write_json(tmp_path / "run" / "run.json", card | {"stages": stages})
    data = tmp_path / "run" / "starts-100" / "seed-0" / "data"
    data.mkdir(parents=True)
    (data / "done").touch()
    return tmp_path / "run"


def training(run: Path, **changes: Any) -> Path:
    """Online training that has begun: 40 of 60 and 90 of 100 episodes won, in this order."""
    folder = run / "starts-100" / "seed-0" / "rlft" / "reflect_rl"
    rows = [
        {"turns": 500, "episodes": 60, "rollout/success_rate": 40 / 60},
        {"turns": 1000, "episodes": 160, "rollout/success_rate": 0.9}
        | {"time/turns_per_second": 70.4, "time/seconds_left": 75.0, "memory/peak_gib": 1.25},
    ]
    write_lines(folder / "metrics.jsonl", rows)
    with written_progress(folder, silent) as progress:
        progress(4000, 4000, "won 90%")
        written = json.loads((folder / PROGRESS).read_text())
    write_json(folder / PROGRESS, written | {"done": 1000} | changes)
    return folder


def ended_process() -> int:
    """Number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_job_at_work(run: Path) -> None:
    training(run)
    state = read_status(run)
    data, online = state.jobs
    assert (data.title, data.state) == ("starts-100/seed-0 data", "done")
    assert (online.title, online.state) == ("starts-100/seed-0 rlft reflect_rl", "running")
    assert (online.progress, online.speed) == ("25% of 4,000", "70 turns/s")
    assert (online.left, online.memory, online.note) == ("1 min 15 s", "1.2 GiB", "won 90%")
    # The last hundred episodes are those of the last row: Wilson for 90/100 is [82.6, 94.5].
    assert online.success == "90.0 [83, 94] of 100"
    assert state.missing == (
        "not evaluated yet: SFT",
        "not evaluated yet: Reflect-RL; online training is at 1,000 of 4,000 turns",
    )
    assert state.is_running
    assert state.seconds == 75.0


def test_a_job_whose_process_is_gone_has_stopped(run: Path) -> None:
    training(run, process=ended_process())
    online = read_status(run).jobs[1]
    # Nobody works, so there is no time left to tell.
    assert (online.state, online.left, online.progress) == ("stopped", "", "25% of 4,000")


def test_a_process_that_is_younger_than_the_job_is_another_one(run: Path) -> None:
    training(run, began=1.0)
    assert read_status(run).jobs[1].state == "stopped"


@pytest.mark.parametrize(("age", "state"), [(5, "running"), (3600, "stopped")])
def test_on_another_machine_a_job_runs_while_it_writes(run: Path, age: float, state: str) -> None:
    training(run, machine="another", process=1, updated=time.time() - age)
    assert read_status(run).jobs[1].state == state


def test_a_job_that_fails_says_why_and_one_that_ends_leaves_no_progress(tmp_path: Path) -> None:
    def fail() -> None:
        raise ReflectRLError("the server does not answer.")

    with pytest.raises(ReflectRLError), written_progress(tmp_path, silent):
        fail()
    left = read_progress(tmp_path)
    assert left is not None
    assert (left.process, left.is_running, left.warnings) == (0, False, ("the server does not answer.",))
    with written_progress(tmp_path, silent):
        assert (tmp_path / PROGRESS).exists()
    assert not (tmp_path / PROGRESS).exists()


def test_warnings_are_shown_and_the_last_three_are_kept(tmp_path: Path) -> None:
    shown: list[str] = []
    told: list[tuple[int, int, str]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: shown.append(str(message))  # type: ignore[assignment]
        with written_progress(tmp_path, lambda *words: told.append(words)) as progress:
            for number in range(5):
                warnings.warn(f"warning {number}", ReflectRLWarning, stacklevel=1)
            progress(1, 1, "end")
            left = read_progress(tmp_path)
    assert shown == [f"warning {number}" for number in range(5)]
    assert told == [(1, 1, "end")]
    assert left is not None
    assert left.warnings == ("warning 2", "warning 3", "warning 4")


def test_of_several_processes_one_writes(tmp_path: Path) -> None:
    with written_progress(tmp_path, silent, writes=False) as progress:
        progress(1, 1, "")
        assert list(tmp_path.iterdir()) == []


def test_evaluations_count_as_soon_as_they_are_done(run: Path) -> None:
    folder = run / "starts-100" / "seed-0" / "evaluation" / "sft"
    rows = [result_row(method="sft", horizon=horizon, successes=wins) for horizon, wins in ((15, 2), (30, 5))]
    write_json(folder / "rows.json", rows)
    state = read_status(run)
    # Wilson for 5/10 is [23.7, 76.3].
    assert state.results == (("SFT: full, horizon 30, sampled", "50.0 [24, 76] of 10"),)
    assert state.missing == ("not evaluated yet: Reflect-RL",)
    assert not state.is_running


@pytest.mark.parametrize("text", ["", "{", "[]", '{"done": "x"}'])
def test_files_of_no_use_are_told_and_hide_nothing(run: Path, text: str) -> None:
    folder = training(run)
    (folder / PROGRESS).write_text(text)
    rows = run / "starts-100" / "seed-0" / "evaluation" / "sft" / "rows.json"
    rows.parent.mkdir(parents=True)
    rows.write_text(text)
    state = read_status(run)
    assert [job.state for job in state.jobs] == ["done"]
    assert any("rows.json" in line for line in state.faults)


def test_several_runs_and_hostile_texts(run: Path) -> None:
    training(run, note="[bold]note[/bold]\x1b[2J", warnings=["[red]careful[/red]"])
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(status_table([read_status(run), read_status(run)]))
    shown = console.export_text()
    assert shown.count("run: running, 1 job done in 1 min 15 s") == 2
    assert "[bold]note[/bold]·[2J" in shown
    assert "warning of starts-100/seed-0 rlft reflect_rl: [red]careful[/red]" in shown


def test_jobs_that_have_not_begun_wait(run: Path) -> None:
    training(run)
    unit = "starts-100/seed-0"
    state = read_status(run, (f"{unit} data", f"{unit} rlft reflect_rl", f"{unit} eval sft", f"{unit} eval reflect_rl"))
    assert [(job.title, job.state) for job in state.jobs[2:]] == [
        (f"{unit} eval sft", "waiting"),
        (f"{unit} eval reflect_rl", "waiting"),
    ]
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(status_table([state]))
    assert f"not begun: {unit} eval sft, {unit} eval reflect_rl" in console.export_text()


def test_jobs_of_installed_stages_stand_between_supervised_training_and_evaluation(run: Path) -> None:
    unit = run / "starts-100" / "seed-0"
    for place in ("sft/policy_plain", "learn/mine", "pairs", "evaluation/sft"):
        (unit / place).mkdir(parents=True)
        (unit / place / "done").touch()
    with written_progress(unit / "reward", silent) as progress:
        progress(200, 200, "loss 0.5")
        written = json.loads((unit / "reward" / PROGRESS).read_text())
    write_json(unit / "reward" / PROGRESS, written | {"done": 50})
    write_lines(unit / "reward" / "metrics.jsonl", [{"step": 50, "loss": 0.5, "time/tokens_per_second": 1234.0}])
    jobs = read_status(run, ("starts-100/seed-0 pairs", "starts-100/seed-0 learn other")).jobs
    assert [(job.title.removeprefix("starts-100/seed-0 "), job.state) for job in jobs] == [
        ("data", "done"),
        ("sft policy_plain", "done"),
        ("learn mine", "done"),
        ("pairs", "done"),
        ("reward", "running"),
        ("eval sft", "done"),
        ("learn other", "waiting"),
    ]
    (reward,) = (job for job in jobs if job.state == "running")
    assert (reward.progress, reward.speed) == ("25% of 200", "1,234 tokens/s")


def test_the_plan_of_a_run_names_its_jobs_as_their_folders_do(run: Path) -> None:
    titles = verbs.planned(run)
    assert "starts-100/seed-0 data" in titles
    assert "starts-100/seed-0 rlft reflect_rl" in titles
    assert titles[-2:] == ("starts-100/seed-0 eval sft", "starts-100/seed-0 eval reflect_rl")


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="other systems do not tell who holds a lock")
def test_a_run_between_two_jobs_is_starting(run: Path) -> None:
    console = Console(width=160, file=io.StringIO(), record=True)
    with alone(run):
        state = read_status(run)
    console.print(status_table([state]))
    assert state.is_running
    assert "run: starting, 1 job done" in console.export_text()
    assert not read_status(run).is_running


def test_the_verbs(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=120)
    verbs.status([str(run)], console)
    assert "run: no job at work, 1 job done" in console.file.getvalue()  # type: ignore[attr-defined]
    for verb in (verbs.status, verbs.watch):
        with pytest.raises(UserError, match="needs a run folder"):
            verb([], console)
        with pytest.raises(RunFolderError, match="no run folder"):
            verb([str(run / "nowhere")], console)
    looks: list[int] = []

    def finish(seconds: float) -> None:
        """The run goes on while the watcher sleeps: at the second look it is over."""
        looks.append(1)
        methods = ("sft", "reflect_rl")[: len(looks)]
        for method in methods:
            path = run / "starts-100" / "seed-0" / "evaluation" / method / "rows.json"
            write_json(path, [result_row(method=method)])

    monkeypatch.setattr(verbs.time, "sleep", finish)
    verbs.watch([str(run)], console)
    assert len(looks) == 2
    assert "Reflect-RL: full, horizon 30, sampled" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_lock_of_another_file_with_the_same_number_is_not_this_run(run, tmp_path, monkeypatch):
    with alone(run):
        assert is_at_work(run)
    # This process holds the lock of another file that has the same number on another file system.
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / LOCK
    own = (run / LOCK).stat()
    with alone(tmp_path / "other"):
        locks = Path("/proc/locks").read_text().replace(f":{other.stat().st_ino} ", f":{own.st_ino} ")
        read = Path.read_text
        monkeypatch.setattr(
            Path, "read_text", lambda path, **given: locks if str(path) == "/proc/locks" else read(path, **given)
        )
        assert not is_at_work(run)


def test_a_process_that_no_process_has_is_no_progress(run):
    folder = training(run, process=-4)
    assert read_progress(folder) is None
    read_status(run)
