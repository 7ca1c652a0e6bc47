"""An evaluation that was interrupted plays only the games that had not ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reflect_rl.config import parse
from reflect_rl.evaluation import evaluate as evaluation
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import PLAYED, Job
from reflect_rl.runs.stages import execute, plan
from reflect_rl.runs.start import open_run

GAMES = 28
"""Episodes of an evaluation: the test tasks of two modes, each twice."""


def config(folder: Path, **evaluated: Any) -> RunConfig:
    values = {
        "output_dir": str(folder),
        "methods": ["random"],
        "environment": {"name": "corridor"},
        "evaluation": {"repetitions": 2, "num_envs": 4} | evaluated,
    }
    return parse(RunConfig, values)


def evaluation_of(run: RunConfig) -> Job:
    open_run(run, "")
    (job,) = (job for job in plan(run) if job.kind == "eval")
    return job


def files(job: Job) -> list[Any]:
    rows = json.loads((job.folder / "rows.json").read_text())
    for row in rows:
        row.pop("turns_per_second", None)  # the time of play differs
    return [rows, (job.folder / "episodes.jsonl").read_text()]


class Killed(BaseException):
    """Ends everything, as a kill does."""


@pytest.fixture
def played(monkeypatch) -> list[int]:
    """Seeds of the episodes that are played."""
    seeds = []
    play = evaluation.play

    def watched(spec, requests, *players, **rest):
        seeds.extend(request.seed for request in requests)
        return play(spec, requests, *players, **rest)

    monkeypatch.setattr(evaluation, "play", watched)
    return seeds


def interrupt(job: Job, run: RunConfig, ended: int) -> None:
    """Kill the evaluation when so many more of its games have ended."""
    told = []

    def kill(_: int, __: int, note: str) -> None:
        told.append(note)
        if sum(note.endswith(" won") for note in told) == ended:
            raise Killed

    with pytest.raises(Killed):
        execute(job, run, kill)
    assert not job.done


@pytest.mark.parametrize("ended", [1, 9, GAMES])
def test_games_that_had_ended_are_not_played_again(tmp_path, played, ended):
    whole = config(tmp_path / "whole")
    execute(evaluation_of(whole), whole, lambda *_: None)
    assert len(played) == GAMES
    run = config(tmp_path / "killed")
    job = evaluation_of(run)
    interrupt(job, run, ended)
    played.clear()
    told = []
    execute(job, run, lambda *what: told.append(what[2]))
    assert len(played) == GAMES - ended
    assert files(job) == files(evaluation_of(whole))
    assert not (job.folder / PLAYED).exists()
    # Those that had ended before are counted.
    assert ended > 1 or " of 2 won" in told[0]


def test_an_evaluation_that_is_killed_twice_goes_on_from_both(tmp_path, played):
    run = config(tmp_path)
    job = evaluation_of(run)
    interrupt(job, run, 5)
    # A kill can cut the last line short; that game is played again.
    path = job.folder / PLAYED
    path.write_text(path.read_text()[:-20])
    played.clear()
    interrupt(job, run, 3)
    played.clear()
    execute(job, run, lambda *_: None)
    assert len(played) == GAMES - 7


@pytest.mark.parametrize("damage", ["settings", "code", "file", "foreign", "row", "no episode"])
def test_games_of_other_settings_players_or_code_are_played_again(tmp_path, played, monkeypatch, damage):
    run = config(tmp_path)
    job = evaluation_of(run)
    interrupt(job, run, 5)
    path = job.folder / PLAYED
    if damage == "settings":
        run = config(tmp_path, num_envs=5)
        (job,) = (job for job in plan(run) if job.kind == "eval")
    elif damage == "code":
        monkeypatch.setattr("reflect_rl.runs.played.code_sha256", lambda: "other")
    elif damage == "file":
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], "{", *lines[1:]]))
    elif damage == "foreign":
        path.write_bytes(b"\xff")
    else:
        row = {} if damage == "row" else {"mode": "near", "decoding": "sampled", "turns": 3}
        path.write_text(path.read_text() + json.dumps(row) + "\n")
    played.clear()
    execute(job, run, lambda *_: None)
    assert len(played) == GAMES


def test_games_of_another_model_are_played_again(tmp_path, played):
    few = {"steps": 1, "batch_size": 2}
    values = {
        "output_dir": str(tmp_path),
        "methods": ["sft"],
        "environment": {"name": "corridor"},
        "model": {"embedded": {"hidden_size": 16, "layers": 1}},
        "data": {"demonstration_starts": [2]},
        "sft": {"base": few, "policy_plain": few},
        "evaluation": {"repetitions": 2, "num_envs": 4, "decodings": ["sampled"]},
    }
    run = parse(RunConfig, values)
    open_run(run, "")
    jobs = {job.kind: job for job in plan(run)}
    for job in plan(run)[:-1]:
        execute(job, run, lambda *_: None)
    interrupt(jobs["eval"], run, 3)
    mark = jobs["sft"].folder / "done"
    # As if it had been trained again, and become another.
    mark.write_text(mark.read_text().replace("\n", "\n\n"))
    played.clear()
    execute(jobs["eval"], run, lambda *_: None)
    assert len(played) == GAMES
