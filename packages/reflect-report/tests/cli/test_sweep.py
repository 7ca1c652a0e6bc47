"""A sweep from the command line: shared work, interruptions, failures, selection."""

import csv
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from reflect_report.sweep.plan import Work
from reflect_report.sweep.work import STOPPED, Crew
from reflect_rl.models import precision
from reflect_rl.models.precision import choose

CONFIG = """
methods = ["random", "sft_reflect", "reflect_rl"]
environment = {name = "corridor", lengths = 2}
model = {embedded = {hidden_size = 16, layers = 1, heads = 2}}
data = {demonstration_starts = [4], perturbed_episodes_per_start = 1}
reflector = {max_new_tokens = 4}
sft = {base = {steps = 2}, policy_reflect = {steps = 2}, reflector = {steps = 2}}
rlft = {total_turns = 40, starts_per_update = 2, validate_every = 1}
"""
SCRIPTS = """
methods = ["random", "oracle"]
environment = {name = "corridor", lengths = 2}
"""


@pytest.fixture
def folder(toml, tmp_path) -> Path:
    toml(CONFIG)
    return tmp_path / "sweep"


def sweep(call, tmp_path: Path, *words: object):
    return call("sweep", tmp_path / "config.toml", "--output-dir", tmp_path / "sweep", "--test", "none", *words)


def weights(folder: Path) -> str:
    (path,) = folder.glob("starts-4/seed-*/rlft/reflect_rl/model/model.safetensors")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_cells_share_data_and_supervised_models_and_have_the_weights_of_a_run(call, folder, tmp_path):
    over = ("--over", "rlft.learning_rate=1e-3,1e-2", "--over", "seed=0..1")
    answer = call("sweep", tmp_path / "config.toml", "--output-dir", folder, *over, "--jobs", 1)
    assert answer.code == 0, answer
    cells = sorted(path.name for path in (folder / "cells").iterdir())
    assert cells == [f"learning_rate={rate},seed={seed}" for rate in ("1e-2", "1e-3") for seed in (0, 1)]
    # One shared folder with both seeds; a cell has taken all of its data and supervised models, and trained online.
    (shared,) = (folder / "shared").iterdir()
    assert {path.name for path in (shared / "starts-4").iterdir()} == {"seed-0", "seed-1"}
    for cell in cells:
        card = json.loads((folder / "cells" / cell / "run.json").read_text())
        assert len(card["start_from"]["jobs"]) == 4
        assert [stage["job"].split()[0] for stage in card["stages"]].count("sft") == 0
        assert {row["split"] for row in json.loads((folder / "cells" / cell / "results.json").read_text())} == {
            "validation"
        }
    table = json.loads((folder / "table.json").read_text())
    # Of the selected setting alone, the test split was played.
    assert sorted(path.name for path in (folder / "test").iterdir()) == [
        f"{table['selected']},seed={k}" for k in (0, 1)
    ]
    best = max(table["settings"], key=lambda row: row["validation"]["success_rate"])
    assert table["selected"] == best["name"]
    assert [row["test"] is not None for row in table["settings"]] == [row == best for row in table["settings"]]
    assert table["sentence"] in " ".join(answer.output.split())
    with (folder / "table.csv").open(newline="") as lines:
        assert [row["selected"] for row in csv.DictReader(lines)].count("1") == 1
    assert "learning_rate" in (folder / "sweep.html").read_text()
    # The same configuration in a run of its own: the same weights bit for bit.
    alone = ("--rlft.learning-rate", "1e-2", "--seeds", 1, "--output-dir", tmp_path / "alone", "--workers", 1)
    assert call("run", tmp_path / "config.toml", *alone).code == 0
    assert weights(folder / "cells" / cells[1]) == weights(tmp_path / "alone")
    # Finished: the same command begins nothing.
    again = call("sweep", tmp_path / "config.toml", "--output-dir", folder, *over, "--jobs", 1)
    assert again.code == 0
    assert "4 cells, 4 of them done" in again.output
    assert "begun" not in again.output
    assert json.loads((folder / "table.json").read_text()) == table


def test_a_shared_folder_takes_what_an_earlier_one_has_finished(call, folder, tmp_path):
    words = ("--over", "sft.policy_reflect.steps=1,2", "--methods", "sft_reflect", "--jobs", 1)
    assert sweep(call, tmp_path, *words).code == 0
    jobs = [json.loads((path / "run.json").read_text()) for path in (folder / "shared").iterdir()]
    done = sorted(sorted(stage["job"] for stage in card["stages"]) for card in jobs)
    # Data, the base and the reflection player are made once; the policy in both.
    assert done == [["data", "sft base", "sft policy_reflect", "sft reflector"], ["sft policy_reflect"]]


def test_a_sweep_of_other_settings_in_its_folder_is_told_as_a_command_gives_them(call, toml, tmp_path):
    toml(SCRIPTS)
    (tmp_path / "sweep").mkdir()
    known = {"schema_version": 1, "facts": {"over": {"seeds": [*"0123456789"]}, "search": False}, "base": {}}
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(known))
    message = sweep(call, tmp_path, "--over", "environment.length=5,6").mistake
    assert "holds a sweep of --over seed=0,1,2,3,..., and this one is of --over environment.length=5,6." in message
    words = ("--over", "seed=0..1", "--workers", 3)
    assert "--workers: each run of a sweep has one process." in sweep(call, tmp_path, *words).mistake


def test_all_cells_compute_in_the_format_of_the_first(call, folder, tmp_path, monkeypatch):
    def seconds(slow: float):
        choose.cache_clear()
        monkeypatch.setattr(precision, "_seconds", lambda device, dtype: slow if dtype is torch.float32 else 1.0)

    try:
        seconds(0.1)
        words = ("--over", "seed=0,1", "--model.precision", "auto", "--jobs", 1)
        assert sweep(call, tmp_path, *words).code == 0
        shutil.rmtree(folder / "cells" / "seed=1")
        # On another day bfloat16 looks faster.
        seconds(10.0)
        assert sweep(call, tmp_path, *words).code == 0
    finally:
        choose.cache_clear()
    configs = sorted(folder.glob("cells/*/config.json"))
    assert [json.loads(path.read_text())["model"]["precision"] for path in configs] == ["float32", "float32"]


def test_a_failed_cell_is_named_and_the_others_are_done(call, folder, tmp_path):
    # Every gradient is larger than the second bound, and training stops there.
    words = ("--over", "rlft.stop_grad_norm=1e4,1e-12", "--methods", "rlft", "--jobs", 1)
    answer = sweep(call, tmp_path, *words)
    assert answer.code == 1
    assert answer.errors.startswith("error: 1 of 2 cells failed, first stop_grad_norm=1e-12: ")
    assert "Traceback" not in answer.errors
    table = json.loads((folder / "table.json").read_text())
    assert [row["state"] for row in table["settings"]] == ["done", "failed"]
    assert table["selected"] == "stop_grad_norm=1e4"
    assert table["cells"][1]["reason"] in " ".join(answer.output.split())


def test_a_killed_sweep_goes_on_where_it_was(call, toml, tmp_path):
    toml(SCRIPTS)
    folder = tmp_path / "sweep"
    words = ["--over", "seed=0..1", "--jobs", "1", "--test", "none", "--output-dir", str(folder)]
    command = [sys.executable, "-m", "reflect_rl", "sweep", str(tmp_path / "config.toml"), *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    mark = folder / "cells" / "seed=0" / "results.json"
    while not mark.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    before = mark.stat().st_mtime_ns
    # Its worker notices that the parent is gone; until then the folders are locked.
    while True:
        answer = call("sweep", tmp_path / "config.toml", *words)
        if answer.code != 2 and "another process is at work" not in answer.errors:
            break
        time.sleep(0.2)
    assert answer.code == 0, answer
    assert "begun   cells/seed=0" not in answer.output
    assert mark.stat().st_mtime_ns == before
    assert [row["state"] for row in json.loads((folder / "table.json").read_text())["cells"]] == ["done", "done"]


def test_a_cell_that_was_killed_before_its_results_were_gathered_counts(call, toml, tmp_path):
    toml(SCRIPTS)
    assert sweep(call, tmp_path, "--over", "seed=0..1", "--jobs", 1).code == 0
    before = json.loads((tmp_path / "sweep" / "table.json").read_text())
    (tmp_path / "sweep" / "cells" / "seed=1" / "results.json").unlink()
    assert sweep(call, tmp_path, "--over", "seed=0..1", "--jobs", 1).code == 0
    assert json.loads((tmp_path / "sweep" / "table.json").read_text()) == before


def test_an_interrupted_sweep_says_how_it_goes_on(toml, tmp_path):
    toml(SCRIPTS)
    folder = tmp_path / "sweep"
    words = ["--over", "seed=0..1", "--jobs", "1", "--test", "none", "--output-dir", str(folder)]
    command = [sys.executable, "-m", "reflect_rl", "sweep", str(tmp_path / "config.toml"), *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not list(folder.glob("cells/*/run.json")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted; the same command goes on from the last checkpoints." in errors
    assert "Traceback" not in errors


def test_scripts_are_compared_without_any_training(call, toml, tmp_path):
    toml(SCRIPTS)
    answer = sweep(call, tmp_path, "--over", "data.label_source=clean,paper", "--method", "oracle", "--jobs", 1)
    assert answer.code == 0, answer
    assert not (tmp_path / "sweep" / "shared").exists()
    # Both play the same: the first is taken.
    assert "label_source=clean wins 100.0%" in " ".join(answer.output.split())
    assert "as label_source=paper does; the first of equal ones is taken" in " ".join(answer.output.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--over", "seed=0..1", "--jobs", "0"), "jobs: 0 is too small. The lowest value is 1."),
        (("--over", "rlft.learning_rat=1e-4"), "unknown flag --rlft.learning-rat (value '1e-4'). Did you mean"),
        (("--over", "rlft.learning_rate=1e-4,2"), "rlft.learning_rate: 2 is too large. The highest value is 1."),
        (("--over", "rlft.learning_rate=x"), "rlft.learning_rate: 'x' is no number."),
        (("--over", "rlft.learning_rate=1e-4,0.0001"), "are the same run. Leave one out."),
        (("--over", "rlft.algorithm.name=ppo,grppo"), "no algorithm named 'grppo'. Did you mean 'grpo'?"),
        (("--over", "methods=random+oracle,randon"), "methods: no method named 'randon'. Did you mean 'random'?"),
        (("--over", "output_dir=a,b"), "output_dir: it cannot be varied, since no result follows from it."),
        (("--over", "evaluation.split=test"), "it cannot be varied, since a sweep selects on the validation split."),
        (("--over", "seed=0..1", "--seeds", "1"), "seeds is varied by --over and set by --seeds."),
        (("--over", "seed=0..1", "--method", "nope"), "--method 'nope' is no method of the cells."),
        (("--over", "seed=0..1", "--mode", "nope"), "no mode of corridor named 'nope'. Known: far, near."),
        (("--over", "x=1", "--over", "x=2"), "--over x is given twice."),
        ((), "--over is missing."),
    ],
)
def test_mistakes_are_one_sentence_and_leave_no_folder(call, toml, tmp_path, words, sentence):
    toml(SCRIPTS)
    message = sweep(call, tmp_path, *words).mistake
    assert sentence in message
    assert message.count("\n") == 1
    assert not (tmp_path / "sweep").exists()


def test_a_file_is_needed_and_another_sweep_in_the_folder_is_refused(call, toml, tmp_path):
    toml(SCRIPTS)
    assert "name a configuration file" in call("sweep", "--over", "seed=0..1").mistake
    (tmp_path / "sweep").mkdir()
    known = {"schema_version": 1, "facts": {"over": {"seeds": ["0", "1", "2"]}, "search": False}, "base": {}}
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(known))
    message = sweep(call, tmp_path, "--over", "seed=0..1").mistake
    assert "holds a sweep of --over seed=0,1,2, and this one is of --over seed=0,1." in message


@pytest.mark.skipif(find_spec("optuna") is None, reason="the extra `search` is not installed")
def test_a_search_draws_runs_and_goes_on_with_its_trials(call, folder, tmp_path):
    words = ("--over", "rlft.learning_rate=1e-4..1e-2:log", "--methods", "rlft", "--jobs", 1)
    assert sweep(call, tmp_path, *words, "--search", 1).code == 0
    (first,) = json.loads((folder / "trials.json").read_text())["trials"]
    assert first["state"] == "done"
    assert 1e-4 <= float(first["values"]["rlft.learning_rate"]) <= 1e-2
    assert len(first["reports"]) >= 2
    assert sweep(call, tmp_path, *words, "--search", 2).code == 0
    trials = json.loads((folder / "trials.json").read_text())["trials"]
    assert trials[0] == first
    assert [trial["state"] for trial in trials] == ["done", "done"]
    assert trials[1]["values"] != first["values"]
    assert len(list((folder / "cells").iterdir())) == 2
    assert len(json.loads((folder / "table.json").read_text())["settings"]) == 2


def test_a_search_without_optuna_says_what_to_install(call, toml, tmp_path, monkeypatch):
    toml(SCRIPTS)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = sweep(call, tmp_path, "--over", "seed=0..1", "--search", 3).mistake
    assert "--search needs the package optuna: pip install 'reflect-report[search]'." in message


def test_a_stopped_work_and_a_killed_process_end_alone(call, toml, tmp_path):
    """The process of one work is ended; the other work, and later ones in its place, are done."""
    from reflect_rl.config import parse
    from reflect_rl.runs.config import RunConfig

    values = {"methods": ["random"], "environment": {"name": "corridor"}, "evaluation": {"repetitions": 10_000}}
    endless = parse(RunConfig, {**values, "output_dir": str(tmp_path / "endless")})
    short = parse(RunConfig, {**values, "evaluation": {}, "output_dir": str(tmp_path / "short")})
    with Crew(1, "reflect-rl sweep") as crew:
        for reason in (STOPPED, "its process was killed"):
            crew.begin(Work("endless", endless, ("eval",)))
            while not (tmp_path / "endless" / "run.json").exists():
                assert crew.ended(0.05) == []
            (pool, _), *_ = crew.busy.values()
            if reason == STOPPED:
                crew.stop("endless")
            else:
                crew.stopped.clear()
                os.kill(next(iter(pool._processes)), signal.SIGKILL)
            (end,) = ended(crew)
            assert end.reason.startswith(reason)
        crew.begin(Work("short", short, ("eval",)))
        (end,) = ended(crew)
        assert end.reason == ""
    assert (tmp_path / "short" / "results.json").exists()


def test_the_process_of_a_work_that_ended_while_it_was_stopped_gets_no_other():
    pool = SimpleNamespace(_processes={1: SimpleNamespace(terminate=lambda: None)}, shutdown=lambda wait: None)
    crew, future = Crew(1, "reflect-rl sweep"), Future()
    crew.free.clear()
    future.set_result(("", 1.0))
    crew.busy[future] = pool, Work("work", None, ())
    crew.stop("work")
    assert [end.reason for end in crew.ended(0)] == [STOPPED]
    assert crew.free == [None]


def ended(crew: Crew):
    while not (found := crew.ended(0.1)):
        pass
    return found
