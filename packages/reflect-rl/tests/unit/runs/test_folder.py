"""Whose a run folder is: the same settings go on, others are refused once something was made with them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from reflect_rl.config import parse
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import RunFolderError
from reflect_rl.runs.config import RunConfig, fingerprint
from reflect_rl.runs.folder import Job, Spent, StageTime, Unit, read_card, write_card
from reflect_rl.runs.run import log_stage
from reflect_rl.runs.stages import plan
from reflect_rl.runs.start import open_run

UNIT = "starts-2/seed-0"


def config(folder: Path, **changes: Any) -> RunConfig:
    values = {"output_dir": str(folder), "environment": {"name": "corridor"}, "methods": ["random", "reflect_rl"]}
    return parse(RunConfig, {**values, "data": {"demonstration_starts": [2]}, **changes})


def left(folder: Path, *names: str) -> None:
    """Files that a job has left."""
    for name in names:
        (folder / UNIT / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / UNIT / name).touch()


def configured(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text()))


def test_a_start_that_failed_can_be_corrected_in_the_same_folder(tmp_path):
    open_run(config(tmp_path, model={"path": "no/such/model"}), "first")
    left(tmp_path, "data/error.txt")
    before = read_card(tmp_path)
    open_run(config(tmp_path), "second")
    assert configured(tmp_path)["model"]["path"] == "embedded"
    assert (before.command, read_card(tmp_path).command) == ("first", "second")
    assert before.config_hash != read_card(tmp_path).config_hash
    assert not (tmp_path / UNIT / "data").exists()


def test_a_setting_of_training_can_be_corrected_before_anything_is_trained(tmp_path):
    """Demonstrations do not follow from it, so they stay."""
    open_run(config(tmp_path, sft={"base": {"learning_rate": 0.9}}), "")
    left(tmp_path, "data/done", "sft/base/error.txt", "sft/base/metrics.jsonl")
    open_run(config(tmp_path), "")
    assert configured(tmp_path)["sft"]["base"]["learning_rate"] != 0.9
    assert (tmp_path / UNIT / "data/done").exists()
    assert not (tmp_path / UNIT / "sft").exists()


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"model": {"path": "other"}}, "data/done"),
        ({"sft": {"base": {"learning_rate": 0.5}}}, "sft/base/checkpoints/step-1/weights.safetensors"),
        ({"sft": {"base": {"learning_rate": 0.5}}}, "evaluation/random/rows.json"),
        ({"rlft": {"total_turns": 7}}, "rlft/reflect_rl/done"),
    ],
)
def test_what_was_made_with_a_setting_keeps_it(tmp_path, changes, made):
    open_run(config(tmp_path), "")
    left(tmp_path, made)
    with pytest.raises(RunFolderError, match=r"holds a run with other settings: .* there and .* here"):
        open_run(config(tmp_path, **changes), "")
    assert (tmp_path / UNIT / made).exists()
    assert parse(RunConfig, configured(tmp_path)).model_dump() == config(tmp_path).model_dump()


def test_online_training_can_be_corrected_after_supervised_training(tmp_path):
    open_run(config(tmp_path), "")
    left(tmp_path, "data/done", "sft/base/done")
    open_run(config(tmp_path, rlft={"total_turns": 7}), "")
    assert configured(tmp_path)["rlft"]["total_turns"] == 7
    assert (tmp_path / UNIT / "sft/base/done").exists()


@pytest.mark.parametrize("attempts", [1, 2])
def test_attempts_that_were_judged_with_a_reflection_player_keep_its_settings(tmp_path, attempts):
    sft = {"sft": {"reflector": {"attempts": attempts}}, "methods": ["sft_reflect"]}
    open_run(config(tmp_path, **sft), "")
    left(tmp_path, "data/done", "sft/reflector/done")
    changed = config(tmp_path, **sft, reflector={"max_new_tokens": 7})
    if attempts == 1:
        open_run(changed, "")
        return
    with pytest.raises(RunFolderError, match=r"other settings: reflector.max_new_tokens"):
        open_run(changed, "")


def test_a_folder_of_another_version_is_refused_in_one_sentence(tmp_path):
    open_run(config(tmp_path), "")
    old = json.loads((tmp_path / "run.json").read_text())
    del old["schema_version"]
    (tmp_path / "run.json").write_text(json.dumps(old))
    with pytest.raises(RunFolderError) as raised:
        open_run(config(tmp_path), "")
    assert str(raised.value) == (
        f"{tmp_path} is a run folder of another version of this program (schema 1, and 2 is read here). Choose "
        "another --output-dir, or delete the folder."
    )


def test_a_card_is_read_as_it_was_written_and_holds_the_latest_time_of_a_job(tmp_path):
    open_run(config(tmp_path), "reflect-rl run x.toml")
    card = read_card(tmp_path)
    assert (card.benchmark, card.command, card.seeds) == ("corridor", "reflect-rl run x.toml", (0,))
    for seconds in (3.0, 4.0):
        card = card.with_stage(StageTime(unit=UNIT, job="data", seconds=seconds))
    write_card(tmp_path, card)
    assert read_card(tmp_path) == card
    assert [stage.seconds for stage in card.stages] == [4.0]


def test_a_job_leaves_its_time_and_its_memory_in_the_card(tmp_path):
    open_run(config(tmp_path), "reflect-rl run x.toml")
    spent = Spent.since(time.perf_counter() - 2)
    job = Job(Unit(tmp_path, 2, 0), "data", "", tmp_path / UNIT / "data")
    log_stage(tmp_path, job, spent)
    (stage,) = read_card(tmp_path).stages
    assert stage.seconds >= 2
    # A process with torch takes more than a tenth of a GiB.
    assert stage.peak_gib == round(spent.peak_gib, 2) > 0.05


def other_tasks(monkeypatch) -> None:
    """The same settings, with a training task less behind them."""
    tasks = Corridor.tasks
    monkeypatch.setattr(Corridor, "tasks", lambda game, mode, split: tasks(game, mode, split)[split == "train" :])


def test_a_run_whose_games_have_changed_does_not_go_on(tmp_path, monkeypatch):
    open_run(config(tmp_path), "")
    left(tmp_path, "data/done")
    open_run(config(tmp_path), "")
    other_tasks(monkeypatch)
    for changes in ({}, {"rlft": {"total_turns": 7}}):
        with pytest.raises(RunFolderError, match=r"the games of .* have changed since it began"):
            open_run(config(tmp_path, **changes), "")
    (tmp_path / "config.json").unlink()
    with pytest.raises(RunFolderError, match=r"the games of .* have changed since it began, under the same settings"):
        open_run(config(tmp_path), "")


def test_before_anything_was_made_games_may_change(tmp_path, monkeypatch):
    open_run(config(tmp_path), "")
    before = read_card(tmp_path).fingerprint
    left(tmp_path, "data/error.txt")
    other_tasks(monkeypatch)
    open_run(config(tmp_path), "")
    assert read_card(tmp_path).fingerprint != before


def test_a_finished_run_needs_no_games(tmp_path, monkeypatch):
    run = config(tmp_path)
    open_run(run, "")
    for job in plan(run):
        job.folder.mkdir(parents=True)
        (job.folder / "done").touch()
    other_tasks(monkeypatch)
    open_run(config(tmp_path), "")


def test_older_folders_go_on(tmp_path, monkeypatch):
    """Those without a fingerprint, and those that were begun before a setting existed."""
    open_run(config(tmp_path), "")
    left(tmp_path, "data/done")
    written = configured(tmp_path)
    del written["environment"]["max_episode_steps"]
    (tmp_path / "config.json").write_text(json.dumps(written))
    card = read_card(tmp_path).model_copy(update={"code_sha256": "of an older version"})
    write_card(tmp_path, card.model_copy(update={"fingerprint": fingerprint(config(tmp_path), written)}))
    assert read_card(tmp_path).fingerprint != card.fingerprint
    open_run(config(tmp_path), "")
    write_card(tmp_path, card.model_copy(update={"fingerprint": None}))
    other_tasks(monkeypatch)
    open_run(config(tmp_path), "")
