"""Workers: what they print, what they have loaded, and which environment they see."""

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from reflect_rl.runs import workers

FORKS = pytest.mark.skipif(not workers.forks(), reason="no fork server here")
LOADED = "'reflect_rl.runs.stages' in __import__('sys').modules"


def test_a_worker_shows_own_warnings_as_one_line_and_no_others():
    code = (
        "import warnings; from reflect_rl.runs.workers import silence;"
        "from reflect_rl.training.metrics import TrackerWarning; silence();"
        "warnings.warn('of a library', UserWarning); warnings.warn('of this program', TrackerWarning)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "warning: of this program\n")


@FORKS
def test_a_worker_of_the_fork_server_finds_the_libraries_loaded():
    with ProcessPoolExecutor(1, mp_context=workers.worker_context()) as pool:
        assert pool.submit(eval, LOADED).result()


def test_a_worker_sees_the_environment_that_its_parent_has_now(monkeypatch):
    context = workers.worker_context()
    monkeypatch.setenv("REFLECT_RL_TEST", "before")
    workers.load_ahead()
    for value in ("one", None):
        monkeypatch.setenv("REFLECT_RL_TEST", value) if value else monkeypatch.delenv("REFLECT_RL_TEST")
        begin = {"initializer": workers.prepare, "initargs": (1, dict(os.environ))}
        with ProcessPoolExecutor(1, mp_context=context, **begin) as pool:
            assert pool.submit(os.getenv, "REFLECT_RL_TEST").result() == value


def test_where_a_fork_is_not_safe_each_worker_loads_for_itself(monkeypatch):
    monkeypatch.setattr(workers, "forks", lambda: False)
    assert workers.worker_context().get_start_method() == "spawn"
