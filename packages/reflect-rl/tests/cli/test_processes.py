"""Interruptions and failures of the worker processes."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_run import ROOT, SMOKE, TINY

from reflect_rl.errors import ModelError, ReflectRLError
from reflect_rl.runs import run as jobs, workers

ON_LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def session_members(leader: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found


def wait_until(fact, seconds=600):
    end = time.monotonic() + seconds
    while not fact() and time.monotonic() < end:
        time.sleep(0.1)
    assert fact()


class Run:
    """A command in a session of its own."""

    def __init__(self, folder):
        words = ["run", str(SMOKE), "--output-dir", str(folder), "--methods", "sft", *TINY]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reflect_rl.cli.main", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    def has_workers(self):
        # Itself, the resource tracker, the fork server where there is one, and a worker.
        return len(session_members(self.process.pid)) > 2 + workers.can_fork()

    def end(self):
        output, errors = self.process.communicate(timeout=900)
        return self.process.returncode, output, errors


@ON_LINUX
def test_a_run_that_is_terminated_says_how_to_go_on_and_leaves_nobody_behind(tmp_path):
    run = Run(tmp_path / "run")
    wait_until(run.has_workers)
    run.process.send_signal(signal.SIGTERM)  # what a scheduler sends before it kills
    code, _, errors = run.end()
    assert (code, errors) == (143, "\nended by SIGTERM; the same command goes on from the last checkpoint.\n")
    wait_until(lambda: not session_members(run.process.pid), seconds=30)


@ON_LINUX
def test_a_run_outlives_a_kill_and_ctrl_c(tmp_path):
    folder = tmp_path / "run"
    first = Run(folder)
    data = folder / "starts-4/seed-0/data/done"
    wait_until(data.exists)
    first.process.kill()
    assert first.end()[0] == -signal.SIGKILL
    # Nobody is left to tell the workers; they notice.
    wait_until(lambda: not session_members(first.process.pid), seconds=30)
    made = data.stat().st_mtime_ns

    second = Run(folder)
    wait_until(second.has_workers)
    os.killpg(second.process.pid, signal.SIGINT)  # what the terminal sends to all processes of the command
    code, _, errors = second.end()
    assert (code, errors) == (130, "\ninterrupted; the same command goes on from the last checkpoint.\n")
    wait_until(lambda: not session_members(second.process.pid), seconds=30)

    code, output, errors = Run(folder).end()
    assert (code, errors) == (0, "")
    assert "starts-4/seed-0 data" not in output
    assert data.stat().st_mtime_ns == made


def fails_with(fault, call, toml, tmp_path, monkeypatch, *words):
    monkeypatch.setenv("FAULT", fault)
    path = toml('methods = ["random"]\n[data]\ndemonstration_starts = [5]\n[environment]\nname = "faulty.game:Faulty"')
    return call("eval", path, "--output-dir", tmp_path / "run", *words)


def test_a_worker_that_is_killed_is_explained(call, toml, tmp_path, monkeypatch):
    answer = fails_with("killed", call, toml, tmp_path, monkeypatch)
    assert answer.code == 1
    assert answer.errors == (
        "error: a worker process was killed during starts-5/seed-0 eval random; most often the memory ran out. Lower "
        "--workers, the batch sizes or the size of the model; the same command goes on from the last checkpoint.\n"
    )


def test_a_fault_in_a_worker_is_one_message_and_a_file_with_the_traceback(call, toml, tmp_path, monkeypatch):
    answer = fails_with("bug", call, toml, tmp_path, monkeypatch)
    file = tmp_path / "run" / "starts-5/seed-0/evaluation/random/error.txt"
    assert answer.code == 1
    assert answer.errors.startswith("error: starts-5/seed-0 eval random: faulty-v1, task near/")
    assert answer.errors.endswith(f", start: ZeroDivisionError: a wall where none should be. Details are in {file}.\n")
    assert "Traceback" not in answer.errors
    assert "Traceback" in file.read_text()


def test_an_environment_that_hangs_beyond_help_is_named_by_the_parent(call, toml, tmp_path, monkeypatch):
    limit = ("--limits.environment-seconds", "0.3")
    answer = fails_with("hangs", call, toml, tmp_path, monkeypatch, *limit)
    file = tmp_path / "run" / "starts-5/seed-0/evaluation/random/hang-0.txt"
    assert answer.code == 1
    assert answer.errors.startswith("error: starts-5/seed-0 eval random: faulty-v1, task near/")
    assert answer.errors.endswith(
        ", start did not come back in time and could not be interrupted, so its process was ended. The stacks of "
        f"all its threads are in {file}. If it needs longer, raise its limit under [limits]. What was finished is "
        "kept; the same command goes on from the last checkpoint.\n"
    )
    assert "in reset\n" in file.read_bytes().decode()


def raised(error, folder):
    with pytest.raises(Exception) as caught, jobs.explained("the job", folder):  # noqa: PT011 (any kind)
        raise error
    # It travels to the parent as a pickle.
    return pickle.loads(pickle.dumps(caught.value))


@ON_LINUX
def test_a_fork_server_that_still_loads_keeps_no_pipe_open(tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(300)\n")
    script = (
        "from reflect_rl.runs import workers\n"
        "workers.PRELOADED, workers.can_fork = 'slow', lambda: True\n"
        "workers.load_ahead()\nprint('done')\n"
    )
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    # Returns at the end of the output, which the fork server and its tracker have open, too.
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True, env=variables
    )
    assert done.stdout == "done\n"


def test_a_full_disk_is_known_by_its_number_however_it_is_told(tmp_path):
    for error in (
        OSError(errno.ENOSPC, "No space left on device", "a"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("write failed: os error 28"),
    ):
        got = raised(error, tmp_path)
        assert isinstance(got, OSError)
        assert got.errno == errno.ENOSPC


def test_a_disk_without_a_free_block_explains_any_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "_is_full", lambda folder: True)
    assert raised(RuntimeError("unexpected pos 64 vs 0"), tmp_path).errno == errno.ENOSPC


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")])
def test_memory_that_ran_out_names_the_remedy(tmp_path, error):
    got = raised(error, tmp_path)
    assert isinstance(got, ReflectRLError)
    assert str(got).startswith("the job: memory ran out")
    assert "Lower --workers" in str(got)


def test_code_that_would_end_the_program_fails_its_job(tmp_path):
    got = raised(SystemExit(), tmp_path)
    assert isinstance(got, ReflectRLError)
    assert str(got).startswith("the job: it called sys.exit(), which would end the whole program.")
    assert str(got).endswith(f"Details are in {tmp_path / 'error.txt'}.")


def test_a_game_that_would_end_the_program_fails(call, toml, tmp_path, monkeypatch):
    answer = fails_with("leaves", call, toml, tmp_path, monkeypatch)
    assert answer.code == 1
    assert ", start: it called sys.exit(), which would end the whole program." in answer.errors


def test_errors_of_this_program_arrive_as_they_were(tmp_path):
    got = raised(ModelError("no model folder 'x'"), tmp_path)
    assert (type(got), str(got)) == (ModelError, "no model folder 'x'")
    assert not (tmp_path / "error.txt").exists()


class UnpicklableError(Exception):
    def __init__(self, first, second):
        super().__init__(first)
        self.second = second


def test_an_exception_that_cannot_travel_is_told_in_words(tmp_path):
    got = raised(UnpicklableError("first line\nsecond line", 2), tmp_path)
    assert str(got).startswith("the job failed: UnpicklableError: first line. Details are in ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_waits_for_the_end_of_a_block_that_holds_it(number):
    reached = []

    def block():
        with workers.hold_interrupts():
            os.kill(os.getpid(), number)
            time.sleep(0.05)
            reached.append("end of the block")

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            block()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert reached == ["end of the block"]
