"""Workers: what they print, what they have loaded, and which environment they see."""

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from reflect_rl.runs import workers

FORKS = pytest.mark.skipif(not workers.can_fork(), reason="no fork server here")


def test_a_worker_shows_own_warnings_as_one_line_and_no_others():
    code = (
        "import warnings; from reflect_rl.runs.workers import silence;"
        "from reflect_rl.training.metrics import TrackerWarning; silence();"
        "warnings.warn('of a library', UserWarning); warnings.warn('of this program', TrackerWarning)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "warning: of this program\n")


def in_a_process(code, folder=None, **variables):
    """What Python prints in a process of its own."""
    words = [sys.executable, "-c", code]
    environment = os.environ | variables
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


POOL = """
import os, signal, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from reflect_rl.runs import workers
# As of an installed command, whose path holds no working directory.
sys.path.remove("")
workers.load_ahead()
with workers.hold_interrupts():
    pool = ProcessPoolExecutor(1, mp_context=workers.worker_context())
    worker, parent = (pool.submit(function).result() for function in (os.getpid, os.getppid))
"""


@FORKS
def test_neither_the_fork_server_nor_its_workers_hear_ctrl_c():
    code = """
for process in (worker, parent):
    held = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "SigBlk" in line]
    print(bool(int(held[0].split()[1], 16) >> (signal.SIGINT - 1) & 1))
"""
    assert in_a_process(POOL + code) == ["True", "True"]


@FORKS
def test_ctrl_c_is_heard_while_libraries_are_loaded(tmp_path):
    (tmp_path / "endless.py").write_text("import time; time.sleep(600)")
    code = """
import os, signal, sys, threading
from multiprocessing import forkserver
from reflect_rl.runs import workers
workers.PRELOADED = "endless"
workers.load_ahead()
try:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    workers.worker_context()
except KeyboardInterrupt:
    print("heard")
os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
"""
    assert in_a_process(code, folder=tmp_path) == ["heard"]


@FORKS
def test_libraries_are_loaded_before_a_worker_starts_and_none_from_the_working_directory(tmp_path):
    # A module of the standard library that the libraries import.
    (tmp_path / "colorsys.py").write_text("print('of a stranger')")
    code = """
print(pool.submit(eval, "'reflect_rl.runs.train' in __import__('sys').modules").result())
print(pool.submit(eval, "__import__('colorsys').__file__").result())
"""
    loaded, file = in_a_process(POOL + code, folder=tmp_path)
    assert loaded == "True"
    assert not file.startswith(str(tmp_path))


def test_a_fork_server_whose_command_has_ended_says_nothing(tmp_path):
    environment = os.environ | {workers.LOADED: str(tmp_path / "deleted" / "loaded")}
    command = [sys.executable, "-c", f"import {workers.PRELOADED}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_run_is_planned_begun_and_looked_at_without_torch(tmp_path):
    code = """
import sys
from reflect_rl.config import parse
from reflect_rl.runs.check import feasible, settle
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.run import gather, unfinished
from reflect_rl.runs.stages import stages
from reflect_rl.runs.start import begin
config, _ = settle(parse(RunConfig, {"output_dir": sys.argv[1], "methods": METHODS}), trains=True)
config, _ = feasible(config)
list(begin(config, "", evaluates=False))
kinds = {job.kind for job in unfinished(config, list(stages()))}
gather(config)
print(*sorted(kinds), "torch" in sys.modules)
"""
    # One method of each stage: those of other packages are planned, too.
    methods = '["reflect_rl", "bc", "rlhf", "reflect_rl_both"]'
    seen = in_a_process(code.replace("METHODS", methods).replace("sys.argv[1]", repr(str(tmp_path / "run"))))
    assert seen == ["data", "eval", "learn", "log", "pairs", "reward", "rlft", "rlft_both", "sft", "False"]


def test_where_no_socket_can_be_made_each_worker_loads_for_itself(tmp_path):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    code = "print(workers.worker_context().get_start_method(), parent == os.getpid())"
    assert in_a_process(POOL + code, TMPDIR=str(deep)) == ["spawn", "True"]


def test_a_worker_sees_the_environment_that_its_parent_has_now(monkeypatch):
    monkeypatch.setenv("REFLECT_RL_TEST", "before")
    workers.load_ahead()
    for value in ("one", None):
        monkeypatch.setenv("REFLECT_RL_TEST", value) if value else monkeypatch.delenv("REFLECT_RL_TEST")
        begin = {"initializer": workers.prepare, "initargs": (1, dict(os.environ))}
        with ProcessPoolExecutor(1, mp_context=workers.worker_context(), **begin) as pool:
            assert pool.submit(os.getenv, "REFLECT_RL_TEST").result() == value


def test_the_processes_of_a_pool_end_and_the_pool_says_so():
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    future = pool.submit(time.sleep, 30)
    workers.end_processes(pool)
    with pytest.raises(BrokenProcessPool):
        future.result(60)
    # A pool that is shut down has no processes, as one that has not begun.
    pool.shutdown()
    workers.end_processes(pool)


@FORKS
def test_where_a_library_would_be_loaded_otherwise_now_each_worker_loads_for_itself(monkeypatch):
    monkeypatch.setenv("HF_HOME", "one")
    # Another test may have started the fork server with other variables already.
    monkeypatch.setattr(workers._Server, "inherited", workers._inherited())
    assert workers.worker_context().get_start_method() == "forkserver"
    monkeypatch.setenv("HF_HOME", "two")
    assert workers.worker_context().get_start_method() == "spawn"


def test_where_a_fork_is_not_safe_each_worker_loads_for_itself(monkeypatch):
    monkeypatch.setattr(workers, "can_fork", lambda: False)
    monkeypatch.setattr(workers._Server, "inherited", None)
    assert workers.worker_context().get_start_method() == "spawn"
