"""A reflection player whose pair wins too little is trained again in another order of its rows."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
import torch

from reflect_rl.config import parse
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import ConfigError
from reflect_rl.evaluation.methods import Method
from reflect_rl.runs import attempts as module
from reflect_rl.runs.attempts import FILE, Attempt, train_until_good
from reflect_rl.runs.check import check
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Job, units
from reflect_rl.runs.stages import execute, plan
from reflect_rl.runs.start import open_run

STEPS = 6


def config(folder, methods=("sft_reflect",), **reflector: Any) -> RunConfig:
    few = {"steps": 2, "batch_size": 4}
    values = {
        "output_dir": str(folder),
        "methods": list(methods),
        "environment": {"name": "corridor"},
        "model": {"embedded": {"hidden_size": 16, "layers": 1}},
        "data": {"demonstration_starts": [4]},
        "reflector": {"max_new_tokens": 4},
        "sft": {"base": few, "policy_reflect": few, "reflector": few | {"steps": STEPS, "save_steps": 2} | reflector},
    }
    return parse(RunConfig, values)


def train(run: RunConfig, progress=lambda *_: None) -> dict[str, Job]:
    """Data and supervised training; the jobs by name."""
    open_run(run, "")
    jobs = {job.name: job for job in plan(run) if job.kind in ("data", "sft")}
    for job in jobs.values():
        if not job.done:
            execute(job, run, progress)
    return jobs


def weights(job: Job) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(job.unit.model("reflector") / "model.safetensors")


def equal(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def shares(monkeypatch, *won: float) -> None:
    """Let the pair win these shares of the validation games, one attempt after the other."""
    left = iter(won)
    monkeypatch.setattr(module, "play_pair", lambda *_: {"easy": 1.0, "hard": next(left)})


@pytest.mark.parametrize(
    ("won", "kept"),
    [((1.0,), 1), ((0.9, 0.975), 2), ((0.9, 0.5, 0.7), 1), ((0.5, 0.9, 0.7), 2), ((0.5, 0.5, 0.5), 1)],
)
def test_the_first_good_attempt_is_kept_or_else_the_best(tmp_path, monkeypatch, won, kept):
    shares(monkeypatch, *won)
    run = config(tmp_path, attempts=3)
    (unit,) = units(run)
    job = Job(unit, "sft", "reflector", tmp_path / "job")
    model = train_until_good(job, run, lambda number, _: number, lambda *_: None)
    assert model == kept
    found = [Attempt.model_validate(row) for row in json.loads((job.folder / FILE).read_text())]
    assert [(attempt.number, attempt.lowest) for attempt in found] == list(enumerate(won, 1))


def test_a_further_attempt_has_another_order_and_the_first_is_the_training_without_attempts(tmp_path, monkeypatch):
    trained = {}
    for number, won in enumerate([[1.0], [0.9, 1.0], [0.8, 0.9, 1.0]]):
        shares(monkeypatch, *won)
        trained[number] = weights(train(config(tmp_path / str(number), attempts=3))["reflector"])
    plain = weights(train(config(tmp_path / "plain"))["reflector"])
    assert equal(trained[0], plain)
    assert not any(equal(left, right) for left, right in pairwise(trained.values()))


def test_the_pair_is_judged_by_its_games(tmp_path):
    told = []
    jobs = train(config(tmp_path, attempts=2, retrain_below=1.0), lambda *what: told.append(what))
    rows = json.loads((jobs["reflector"].folder / FILE).read_text())
    # A player of six steps wins no game, so both attempts are made.
    assert [row["number"] for row in rows] == [1, 2]
    assert all(0 <= share < 1 for row in rows for share in row["won"].values())
    assert any(note.startswith("attempt 2 of at most 2, loss") for _, _, note in told)
    # Checkpoints are of no use when the model is on the disk.
    assert not list(jobs["reflector"].folder.rglob("step-*"))


class Killed(BaseException):
    """Ends everything, as a kill does."""


@pytest.mark.parametrize("step", [3, 5, STEPS])
def test_an_interrupted_attempt_goes_on_to_the_same_player(tmp_path, monkeypatch, step):
    def kill(done: int, _: int, note: str) -> None:
        if note.startswith("attempt 2") and done == step:
            raise Killed

    shares(monkeypatch, 0.5, 0.7)
    whole = train(config(tmp_path / "whole", attempts=2))["reflector"]
    run = config(tmp_path / "killed", attempts=2)
    shares(monkeypatch, 0.5, 0.7)
    with pytest.raises(Killed):
        train(run, kill)
    # The first attempt is read from its last checkpoint, and judged again.
    shares(monkeypatch, 0.5, 0.7)
    killed = train(run)["reflector"]
    assert equal(weights(whole), weights(killed))
    assert (whole.folder / FILE).read_text() == (killed.folder / FILE).read_text()


def test_the_policy_that_judges_is_trained_before(tmp_path):
    run = config(tmp_path, ("sft", "sft_reflect", "sft_reflect_no_negatives"), attempts=2)
    jobs = [job for job in plan(run) if job.kind == "sft"]
    names = [job.name for job in jobs]
    for job in jobs:
        if job.name.startswith("reflector"):
            policy = job.name.replace("reflector", "policy_reflect")
            assert job.unit.sft(policy) in job.needs
            assert names.index(policy) < names.index(job.name)


def test_attempts_without_validation_games_are_refused(tmp_path, monkeypatch):
    tasks = Corridor.tasks
    monkeypatch.setattr(
        Corridor, "tasks", lambda game, mode, split: () if split == "validation" else tasks(game, mode, split)
    )
    with pytest.raises(ConfigError, match=r"judged by validation games, and mode 'near' of corridor has none"):
        check(config(tmp_path, ("sft_reflect",), attempts=2))
    check(config(tmp_path, ("sft_reflect",), attempts=1))


def test_attempts_without_a_policy_that_reads_are_refused(tmp_path, monkeypatch):
    theirs = ModuleType("theirs")
    theirs.ALONE = Method("alone", "Online RL from the base", reflector="reflector", online=True)
    monkeypatch.setitem(sys.modules, "theirs", theirs)
    alone = "theirs:ALONE"
    with pytest.raises(ConfigError, match=r"sft\.reflector\.attempts: .* Add 'sft_reflect' to methods"):
        check(config(tmp_path, (alone,), attempts=2))
    check(config(tmp_path, (alone,), attempts=1))
    check(config(tmp_path, (alone, "sft_reflect"), attempts=2))
