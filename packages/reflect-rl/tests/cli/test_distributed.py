"""The whole pipeline by two processes that a launcher started, against one process."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_processes import ON_LINUX, session_members, wait_until
from tiny_run import ROOT

pytestmark = ON_LINUX

UNIT = "starts-6/seed-0"
TOLERANCE = 2e-5
"""Largest difference of a metric of a training."""

CONFIG = """
methods = ["random", "sft", "reflect_rl"]
environment = {name = "corridor", lengths = 2, max_episode_steps = 6}
model.embedded = {hidden_size = 16, layers = 1, heads = 2, vocabulary_size = 400}
reflector.max_new_tokens = 8
data.demonstration_starts = [6]
evaluation = {horizons = [3, 6], repetitions = 2}
[sft]
base = {steps = 4, batch_size = 8, save_steps = 2}
reflector = {steps = 4, batch_size = 8, attempts = 2, retrain_below = 1.0}
policy_plain = {steps = 4, batch_size = 8}
policy_reflect = {steps = 4, batch_size = 8}
[rlft]
total_turns = 100
starts_per_update = 4
episodes_per_start = 2
checkpoint_every = 1
curriculum = {name = "uniform", modes = ["near", "far"]}
"""

TWO = ("-m", "accelerate.commands.launch", "--config_file", str(ROOT / "configs/accelerate/ddp_2_processes.yaml"))


class Launch:
    """A command in a session of its own."""

    def __init__(self, *words: object, launcher: tuple[str, ...] = TWO) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *launcher, "-m", "reflect_rl", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )

    def end(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=300)
        return self.process.returncode, output, errors


def rows(run: Path) -> list[dict]:
    """The results, without the clock."""
    table = json.loads((run / "results.json").read_text())
    return [{name: value for name, value in row.items() if name != "turns_per_second"} for row in table]


def metrics(folder: Path) -> list[dict]:
    table = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    hidden = ("time/", "memory/", "reflector/")  # each process counts for itself what it memoised
    return [{name: value for name, value in row.items() if not name.startswith(hidden)} for row in table]


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("config") / "tiny.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def alone(config, tmp_path_factory) -> Path:
    """A run by one process."""
    folder = tmp_path_factory.mktemp("runs") / "alone"
    code, _, errors = Launch("run", config, "--output-dir", folder, "--workers", 1, launcher=()).end()
    assert (code, errors) == (0, "")
    return folder


@pytest.fixture(scope="module")
def together(config, tmp_path_factory) -> Path:
    """A run by two processes whose launcher was killed in the middle, and what the same command then said."""
    folder = tmp_path_factory.mktemp("runs") / "together"
    first = Launch("run", config, "--output-dir", folder)
    wait_until((folder / UNIT / "sft/base/metrics.jsonl").exists)
    first.process.kill()
    wait_until(lambda: not session_members(first.process.pid), seconds=30)
    assert not (folder / "results.json").exists()
    code, output, errors = Launch("run", config, "--output-dir", folder).end()
    assert code == 0, errors
    done = [line.rpartition("  (")[0] for line in output.splitlines() if line.startswith("done  ")]
    assert f"done  {UNIT} data" not in done
    assert sorted(set(done)) == sorted(done)
    assert output.splitlines()[-1] == f"report: {folder / 'report.html'}"
    return folder


def test_two_processes_have_the_results_of_one(alone, together):
    assert len(rows(alone)) == 20
    assert rows(together) == rows(alone)
    assert json.loads((together / "run.json").read_text())["finished"] is not None


def test_two_processes_judge_a_reflection_player_as_one(alone, together):
    one, two = (json.loads((run / UNIT / "sft/reflector/attempts.json").read_text()) for run in (alone, together))
    assert one == two
    assert [attempt["number"] for attempt in one] == [1, 2]


@pytest.mark.parametrize(
    "job",
    [
        "sft/base",
        "sft/reflector",
        "sft/reflector/attempt-2",
        "sft/policy_plain",
        "sft/policy_reflect",
        "rlft/reflect_rl",
    ],
)
def test_two_processes_train_as_one(alone, together, job):
    one, two = metrics(alone / UNIT / job), metrics(together / UNIT / job)
    assert len(one) == len(two) > 1
    for row, other in zip(one, two, strict=True):
        assert other == {k: v if isinstance(v, str) else pytest.approx(v, abs=TOLERANCE) for k, v in row.items()}


def test_evaluations_are_dealt_out(config, together, tmp_path):
    run = Path(shutil.copytree(together, tmp_path / "run"))
    shutil.rmtree(run / UNIT / "evaluation")
    (run / "results.json").unlink()
    code, output, errors = Launch("eval", config, "--output-dir", run).end()
    assert code == 0, errors
    assert sorted(line.split()[3] for line in output.splitlines()) == ["random", "reflect_rl", "sft"]
    assert rows(run) == rows(together)


def test_the_failure_of_one_process_ends_all_with_its_message(config, together, tmp_path):
    """The first process evaluates two methods and then waits; the model that the second one needs is broken."""
    run = Path(shutil.copytree(together, tmp_path / "run"))
    shutil.rmtree(run / UNIT / "evaluation")
    (run / UNIT / "models/policy_plain/model.safetensors").write_bytes(b"")
    started = time.monotonic()
    launch = Launch("eval", config, "--output-dir", run)
    code, _, errors = launch.end()
    assert code != 0
    told = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert len(told) == 1, errors
    assert "policy_plain" in told[0]
    assert "and run `reflect-rl sft` again." in told[0]
    assert "Traceback" not in errors.partition("error: ")[0]
    assert not session_members(launch.process.pid)
    assert time.monotonic() - started < 90


def test_a_mistake_that_all_processes_see_is_told_once(config, tmp_path):
    code, output, errors = Launch("run", config, "--output-dir", tmp_path / "run", "--rlft.num_envs", "0").end()
    assert code != 0
    assert output == ""
    assert [line.partition(" ")[0] for line in errors.splitlines() if "num_envs" in line] == ["error:"]
