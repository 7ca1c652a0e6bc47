"""A run that begins with the supervised models of another one takes finished jobs whole, and writes nothing there."""

from __future__ import annotations

import errno
import json
import re
import shutil
from dataclasses import replace

import pytest

from reflect_rl.config import parse
from reflect_rl.envs import corridor
from reflect_rl.errors import RunFolderError, UserError
from reflect_rl.runs import start
from reflect_rl.runs.config import RunConfig, fingerprint
from reflect_rl.runs.demonstrate import examples_of
from reflect_rl.runs.folder import alone
from reflect_rl.runs.stages import plan
from reflect_rl.runs.start import begin, open_run

UNIT = "starts-2/seed-0"
JOBS = ("data", "sft base", "sft reflector", "sft policy_reflect")
MODELS = {"data": "untrained", "sft base": "base", "sft reflector": "reflector", "sft policy_reflect": "policy_reflect"}


def values(folder, **changes):
    return {
        "output_dir": str(folder),
        "methods": ["reflect_rl"],
        "environment": {"name": "corridor"},
        "data": {"demonstration_starts": [2]},
        **changes,
    }


def config(folder, **changes) -> RunConfig:
    return parse(RunConfig, values(folder, **changes))


@pytest.fixture
def source(tmp_path):
    """A run whose four jobs before online training are finished."""
    return finished(tmp_path / "source")


def finished(folder, **changes):
    open_run(config(folder, **changes), "")
    for job in plan(config(folder, **changes)):
        if job.kind in ("data", "sft"):
            job.folder.mkdir(parents=True)
            (job.folder / "metrics.jsonl").write_text(f"{job.name}\n")
            (job.folder / "tracking.json").write_text("{}")
            if job.kind == "data":
                for name in ("base", "reflector", "policy_plain", "policy_reflect"):
                    job.unit.dataset(name).write_text(f"rows of {name}\n")
            (job.folder / "done").touch()
            model = job.unit.model(MODELS[f"{job.kind} {job.name}".strip()])
            model.mkdir(parents=True)
            (model / "model.safetensors").write_text(f"weights of {model.name}")
    return folder


def here(source, tmp_path, **changes) -> RunConfig:
    return config(tmp_path / "run", start_from=str(source), **changes)


def state(folder):
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def done(run):
    return {f"{job.kind} {job.name}".strip() for job in plan(run) if job.done}


def test_finished_jobs_are_taken_and_the_other_run_stays_as_it_is(source, tmp_path):
    before = state(source)
    run = here(source, tmp_path)
    assert begin(run, "the command") == [f"{UNIT} {name}" for name in JOBS]
    assert done(run) == set(JOBS)
    unit = tmp_path / "run" / UNIT
    assert (unit / "models" / "reflector" / "model.safetensors").read_text() == "weights of reflector"
    assert (unit / "sft" / "policy_reflect" / "metrics.jsonl").read_text() == "policy_reflect\n"
    assert not list(unit.rglob("tracking.json"))
    assert not (unit / ".copy").exists()
    assert state(source) == before


def test_the_run_card_says_what_was_taken_and_from_where(source, tmp_path):
    run = here(source, tmp_path)
    begin(run, "")
    card = json.loads((tmp_path / "run" / "run.json").read_text())["start_from"]
    origin = json.loads((source / "run.json").read_text())
    assert card["folder"] == str(source)
    assert card["jobs"] == [f"{UNIT} {name}" for name in JOBS]
    assert card["config_hash"] == origin["config_hash"]
    assert card["versions"] == origin["versions"]


def test_files_that_grow_are_not_shared_with_the_other_run(source, tmp_path):
    begin(here(source, tmp_path), "")
    for name in ("metrics.jsonl", "done"):
        path = f"{UNIT}/sft/reflector/{name}"
        assert (source / path).stat().st_ino != (tmp_path / "run" / path).stat().st_ino


def test_models_are_copied_where_files_cannot_be_shared(source, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(start.os, "link", refuse)
    begin(here(source, tmp_path), "")
    path = f"{UNIT}/models/base/model.safetensors"
    assert (tmp_path / "run" / path).read_text() == "weights of base"
    assert (source / path).stat().st_nlink == 1


@pytest.fixture
def trained(source):
    """The same run after online training."""
    (job,) = (job for job in plan(config(source)) if job.kind == "rlft")
    (job.folder / "model").mkdir(parents=True)
    (job.folder / "model" / "model.safetensors").write_text("weights of the policy")
    (job.folder / "metrics.jsonl").write_text("{}\n")
    (job.folder / "done").touch()
    return source


def test_only_an_evaluation_takes_what_was_trained_online(trained, tmp_path):
    run = here(trained, tmp_path)
    begin(run, "")
    assert done(run) == set(JOBS)
    begin(run, "", evaluates=True)
    assert done(run) == {*JOBS, "rlft reflect_rl"}
    path = f"{UNIT}/rlft/reflect_rl"
    assert (tmp_path / "run" / path / "model" / "model.safetensors").read_text() == "weights of the policy"
    shared = [name for name in ("model/model.safetensors", "metrics.jsonl") if is_shared(trained, tmp_path, path, name)]
    assert shared == ["model/model.safetensors"]


def is_shared(source, tmp_path, path, name):
    return (source / path / name).stat().st_ino == (tmp_path / "run" / path / name).stat().st_ino


def test_online_training_without_its_model_is_not_taken(trained, tmp_path):
    shutil.rmtree(trained / UNIT / "rlft" / "reflect_rl" / "model")
    run = here(trained, tmp_path)
    begin(run, "", evaluates=True)
    assert done(run) == set(JOBS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rlft": {"total_turns": 7}}, "rlft.total_turns is"),
        ({"reflector": {"max_new_tokens": 7}}, "reflector.max_new_tokens is 96 there and 7 here"),
        (
            {"environment": {"name": "corridor", "max_episode_steps": 7}},
            "environment.max_episode_steps is 20 there and 7 here.*evaluation.horizons says how many turns are played",
        ),
    ],
)
def test_an_evaluation_changes_nothing_that_players_were_trained_by(trained, tmp_path, changes, message):
    with pytest.raises(RunFolderError, match=f"the models of .* were made with other settings: {message}"):
        begin(here(trained, tmp_path, **changes), "", evaluates=True)
    assert not (tmp_path / "run").exists()


def test_an_evaluation_may_play_fewer_modes_and_a_training_may_not_leave_out_fewer_starts(trained, tmp_path):
    run = here(trained, tmp_path, evaluation={"modes": ["far"]})
    with pytest.raises(RunFolderError, match=r"evaluation.modes is \['far', 'near'\] there and \['far'\] here"):
        begin(run, "")
    begin(run, "", evaluates=True)
    assert "rlft reflect_rl" in done(run)


def test_an_evaluation_plays_no_mode_whose_starts_were_trained_on(source, tmp_path):
    values = json.loads((source / "config.json").read_text())
    values["evaluation"]["modes"] = ["near"]
    (source / "config.json").write_text(json.dumps(values))
    run = here(source, tmp_path, evaluation={"modes": ["near", "far"]})
    with pytest.raises(RunFolderError, match=r"evaluation.modes is \['near'\] there and \['far', 'near'\] here"):
        begin(run, "", evaluates=True)


def other_games(trained, tmp_path, monkeypatch) -> RunConfig:
    """An evaluation that changes a setting which its game leaves free."""
    monkeypatch.setattr(corridor.Corridor, "evaluation_only", ("max_episode_steps",))
    return here(trained, tmp_path, environment={"name": "corridor", "max_episode_steps": 7})


def test_an_evaluation_may_play_other_games(trained, tmp_path, monkeypatch):
    run = other_games(trained, tmp_path, monkeypatch)
    with pytest.raises(RunFolderError, match=r"environment\.max_episode_steps is 20 there and 7 here"):
        begin(run, "")
    begin(run, "", evaluates=True)
    assert "rlft reflect_rl" in done(run)


def test_an_evaluation_on_other_games_needs_the_rules_of_the_training(trained, tmp_path, monkeypatch):
    card = json.loads((trained / "run.json").read_text())
    (trained / "run.json").write_text(json.dumps(card | {"fingerprint": "0123"}))
    with pytest.raises(RunFolderError, match="the fingerprint of rules, texts, tasks and prompts is 0123 there"):
        begin(other_games(trained, tmp_path, monkeypatch), "", evaluates=True)


def test_the_games_of_the_training_need_not_be_at_hand(trained, tmp_path, monkeypatch):
    run, known = other_games(trained, tmp_path, monkeypatch), start.fingerprint

    def missing(of):
        if of.environment.max_episode_steps == 20:
            raise UserError("there is no folder")
        return known(of)

    monkeypatch.setattr(start, "fingerprint", missing)
    begin(run, "", evaluates=True)
    assert "rlft reflect_rl" in done(run)


@pytest.mark.parametrize(
    ("changes", "is_selected"),
    [
        ({"rlft": {"keep": "best"}}, True),
        ({"sft": {"reflector": {"attempts": 2}}, "methods": ["sft_reflect"]}, True),
        # Supervised players are kept as they come, and what is called validation may have chosen.
        ({"rlft": {"keep": "best"}, "methods": ["sft_reflect"]}, False),
        ({"rlft": {"keep": "best"}, "evaluation": {"split": "validation"}}, False),
        ({}, False),
    ],
)
def test_players_are_not_tested_on_games_that_selected_them(tmp_path, monkeypatch, changes, is_selected):
    tasks = corridor.Corridor.tasks

    def swapped(game, mode, split):
        usual = corridor.Corridor(game.config.model_copy(update={"split_seed": 0}))
        there = {"validation": "test", "test": "validation"}.get(split, split) if game.config.split_seed else split
        return tuple(replace(task, split=split) for task in tasks(usual, mode, there))

    monkeypatch.setattr(corridor.Corridor, "tasks", swapped)
    monkeypatch.setattr(corridor.Corridor, "evaluation_only", ("split_seed",))
    open_run(config(tmp_path / "source", **changes), "")
    run = here(tmp_path / "source", tmp_path, **changes, environment={"name": "corridor", "split_seed": 1})
    if not is_selected:
        begin(run, "", evaluates=True)
        return
    count = sum(len(run.env.tasks(mode, "test")) for mode in ("near", "far"))
    with pytest.raises(RunFolderError, match=f"were selected on {count} of what they would be tested on, such as"):
        begin(run, "", evaluates=True)
    assert not (tmp_path / "run").exists()


def test_algorithms_and_methods_of_a_stranger_are_neither_needed_nor_imported_where_models_are_taken(source, tmp_path):
    file = source / "config.json"
    values = json.loads(file.read_text())
    changed = {"methods": ["reflect_rl", "left_here:METHOD"], "rlft": {"algorithm": {"name": "left_here:Mine"}}}
    file.write_text(json.dumps(values | changed))
    assert begin(here(source, tmp_path), "") == [f"{UNIT} {name}" for name in JOBS]
    with pytest.raises(RunFolderError, match="names 'left_here:METHOD', which no installed distribution provides"):
        begin(config(tmp_path / "other", start_from=str(source)), "", evaluates=True)


def test_what_is_not_finished_there_is_left_to_this_run(source, tmp_path):
    (source / UNIT / "sft" / "reflector" / "done").unlink()
    run = here(source, tmp_path)
    begin(run, "")
    assert done(run) == {"data", "sft base", "sft policy_reflect"}


def test_jobs_whose_needs_are_made_anew_are_not_taken(source, tmp_path):
    (source / UNIT / "sft" / "base" / "done").unlink()  # reflector and policy begin with the base model
    run = here(source, tmp_path)
    begin(run, "")
    assert done(run) == {"data"}


def test_a_job_whose_model_was_deleted_is_not_taken(source, tmp_path):
    shutil.rmtree(source / UNIT / "models" / "reflector")
    run = here(source, tmp_path)
    begin(run, "")
    assert done(run) == {"data", "sft base", "sft policy_reflect"}


def test_data_that_lack_a_data_set_of_these_methods_are_made_here(source, tmp_path):
    (source / UNIT / "data" / "policy_reflect.jsonl").unlink()
    run = here(source, tmp_path)
    assert begin(run, "") == []  # a model of the other run would not know the words of the new data
    plain = config(tmp_path / "plain", start_from=str(source), methods=["sft"])
    assert begin(plain, "") == [f"{UNIT} {name}" for name in JOBS[:2]]
    # What was trained there is played without any data.
    evaluation = config(tmp_path / "evaluation", start_from=str(source))
    assert begin(evaluation, "", evaluates=True) == [f"{UNIT} {name}" for name in JOBS]


def test_data_sets_that_nobody_can_make_are_refused_before_anything_is_written(tmp_path):
    changes = {"data": {"demonstration_starts": [2], "label_source": "successes"}}
    source = finished(tmp_path / "source", **changes)
    (source / UNIT / "data" / "policy_reflect.jsonl").unlink()
    said = r"source lacks data sets of these methods, and those of 'reflect_rl' cannot be made here: .*\. Or leave this"
    with pytest.raises(RunFolderError, match=said):
        begin(here(source, tmp_path, **changes), "")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("taken", [False, True])
def test_a_missing_data_set_says_how_it_is_made_anew(source, tmp_path, taken):
    run = here(source, tmp_path)
    if taken:
        begin(run, "")
    (job,) = (job for job in plan(run if taken else config(source)) if job.kind == "data")
    job.unit.dataset("policy_reflect").unlink()
    remedy = f"Delete {job.folder / 'done'} and run `reflect-rl data` again."
    if taken:
        remedy = f"Its data come from {source}. Delete {job.unit.folder} and give the same command again."
    with pytest.raises(RunFolderError, match=rf"policy_reflect\.jsonl is missing\. {re.escape(remedy)}$"):
        examples_of(job.unit, "policy_reflect")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_the_folder_that_is_written(source, tmp_path, monkeypatch, error):
    def fail(origin, target):
        raise OSError(error, "No space left on device", origin)

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", fail)
        with pytest.raises(OSError, match="No space left") as raised:
            begin(here(source, tmp_path), "")
    assert (raised.value.errno, raised.value.filename) == (error, str(tmp_path / "run" / UNIT / "data"))
    assert len(begin(here(source, tmp_path), "")) == len(JOBS)


def test_files_that_cannot_be_read_keep_their_cause(source, tmp_path, monkeypatch):
    def fail(origin, target):
        raise PermissionError(errno.EACCES, "Permission denied", origin)

    monkeypatch.setattr("shutil.copyfile", fail)
    with pytest.raises(PermissionError) as raised:
        begin(here(source, tmp_path), "")
    assert raised.value.filename.startswith(str(source / UNIT / "data"))


def test_folders_inside_of_a_job_are_taken_and_checkpoints_stay(source, tmp_path):
    job = source / UNIT / "sft" / "base"
    for name in ("deep/er/file.txt", "checkpoints/step-1/weights", "deep/half.new"):
        (job / name).parent.mkdir(parents=True, exist_ok=True)
        (job / name).write_text(name)
    begin(here(source, tmp_path), "")
    taken = tmp_path / "run" / UNIT / "sft" / "base"
    assert {path.relative_to(taken).as_posix() for path in taken.rglob("*") if path.is_file()} == {
        "deep/er/file.txt", "metrics.jsonl", "done",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"rlft": {"total_turns": 7}}, "With `--start-from {folder}` another run uses its data, and the supervised"),
        ({"methods": ["sft"]}, "With `--start-from {folder}` another run uses its data, and the supervised"),
        ({"sft": {"base": {"steps": 5}}}, "With `--start-from {folder}` another run uses its data, and the supervised"),
        ({"evaluation": {"repetitions": 7}}, "`reflect-rl eval {folder} --output-dir NEW`, with these settings as"),
        # The data follow from it.
        ({"data": {"demonstration_starts": [3]}}, ""),
        ({"rlft": {"total_turns": 7}, "seeds": [1]}, ""),
    ],
)
def test_a_changed_setting_says_how_the_run_is_used_with_it(trained, changes, remedy):
    (job,) = (job for job in plan(config(trained)) if job.kind == "eval")
    job.folder.mkdir(parents=True)
    (job.folder / "done").touch()
    said = re.escape("Choose another --output-dir, or delete the folder." + (remedy and " ")) + (
        re.escape(remedy.format(folder=trained)) or "$"
    )
    with pytest.raises(RunFolderError, match=said):
        open_run(config(trained, **changes), "")


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({"base": {"steps": 5}}, {"data"}),
        ({"reflector": {"steps": 5}}, {"data", "sft base", "sft policy_reflect"}),
        ({"policy_reflect": {"steps": 5}}, {"data", "sft base", "sft reflector"}),
        ({"policy_plain": {"steps": 5}}, set(JOBS)),
        ({"base": {"save_steps": 5}, "reflector": {"save_steps": 7}}, set(JOBS)),
        ({"reflector": {"attempts": 3}}, {"data", "sft base", "sft policy_reflect"}),
    ],
)
def test_models_that_were_trained_with_other_settings_are_left_to_this_run(source, tmp_path, changes, taken):
    run = here(source, tmp_path, sft=changes)
    begin(run, "")
    assert done(run) == taken
    for job in plan(run):  # as if this run had made them meanwhile
        job.folder.mkdir(parents=True, exist_ok=True)
        if job.name in ("base", "reflector"):
            (job.folder / "done").touch()
    begin(run, "")
    assert done(run) == taken | {"sft base", "sft reflector"}


def test_an_evaluation_refuses_players_that_were_trained_with_other_settings(trained, tmp_path):
    with pytest.raises(RunFolderError, match=r"sft.policy_plain.steps is 1000 there and 5 here"):
        begin(here(trained, tmp_path, sft={"policy_plain": {"steps": 5}}), "", evaluates=True)
    begin(here(trained, tmp_path, sft={"policy_plain": {"save_steps": 5}}), "", evaluates=True)


def test_a_copy_that_was_interrupted_leaves_no_job_behind_and_is_made_good(source, tmp_path, monkeypatch):
    run = here(source, tmp_path)
    copied, copyfile = [], shutil.copyfile

    def stop_after_the_data(origin, target):
        copied.append(origin)
        if "sft" in origin:
            raise KeyboardInterrupt
        copyfile(origin, target)

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", stop_after_the_data)
        with pytest.raises(KeyboardInterrupt):
            begin(run, "")
    assert done(run) == {"data"}  # its files; the next one is the first of `sft base`, whose model is shared
    assert not (tmp_path / "run" / UNIT / "sft" / "base").exists()
    assert begin(run, "") == [f"{UNIT} {name}" for name in JOBS[1:]]
    card = json.loads((tmp_path / "run" / "run.json").read_text())["start_from"]
    assert card["jobs"] == [f"{UNIT} {name}" for name in JOBS]


def test_own_finished_jobs_stay_and_then_the_other_run_is_not_needed(source, tmp_path):
    run = here(source, tmp_path)
    begin(run, "")
    mine = tmp_path / "run" / UNIT / "sft" / "base" / "metrics.jsonl"
    mine.write_text("mine")
    shutil.rmtree(source)
    assert begin(run, "") == []
    assert mine.read_text() == "mine"


def test_online_training_and_evaluation_may_differ(source, tmp_path):
    run = here(source, tmp_path, rlft={"algorithm": {"name": "reinforce"}}, evaluation={"repetitions": 1}, workers=1)
    assert len(begin(run, "")) == len(JOBS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"environment": {"name": "corridor", "max_episode_steps": 7}},
            "environment.max_episode_steps is 20 there and 7 here",
        ),
        ({"prompt": {"shuffle_labels": True}}, "prompt.shuffle_labels is False there and True here"),
        ({"model": {"embedded": {"layers": 1}}}, "model.embedded.layers is 3 there and 1 here"),
        (
            {"data": {"demonstration_starts": [2], "label_source": "paper"}},
            "data.label_source is 'clean' there and 'paper' here",
        ),
        ({"data": {"demonstration_starts": [3]}}, r"data.demonstration_starts is \[2\] there and \[3\] here"),
        ({"seeds": [0, 1]}, r"seeds is \[0\] there and \[0, 1\] here"),
    ],
)
def test_other_settings_are_refused_by_name_before_anything_is_written(source, tmp_path, changes, message):
    with pytest.raises(RunFolderError, match=message):
        begin(here(source, tmp_path, **changes), "")
    assert not (tmp_path / "run").exists()


def test_other_rules_of_the_game_are_refused_by_the_fingerprint(source, tmp_path):
    card = json.loads((source / "run.json").read_text())
    (source / "run.json").write_text(json.dumps(card | {"fingerprint": "of other texts"}))
    with pytest.raises(RunFolderError, match="fingerprint of rules, texts, tasks and prompts is of other texts there"):
        begin(here(source, tmp_path), "")


def test_a_fingerprint_is_that_of_older_results_unless_rows_are_copied(tmp_path):
    def mark(**data: int) -> str:
        return fingerprint(parse(RunConfig, {"environment": {"name": "corridor"}, "methods": ["sft"], "data": data}))

    # As version 0.2.0 gave it before there were copies. With another text of the corridor, write the new one here.
    assert mark() == mark(renumbered_copies=0) == "59b2af7b982fcdb1"
    assert mark(renumbered_copies=2) != mark()


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match=r"config.json is missing. It is needed for start_from"):
        begin(here(tmp_path / "nowhere", tmp_path), "")


def test_a_run_cannot_begin_with_itself(source):
    with pytest.raises(RunFolderError, match="is the folder of this run itself"):
        begin(config(source, start_from=str(source), methods=["reflect_rl", "sft"]), "")


def test_a_setting_that_the_other_run_did_not_know_has_its_default_there(source, tmp_path):
    written = json.loads((source / "config.json").read_text())
    del written["sft"]["base"]["save_steps"]
    (source / "config.json").write_text(json.dumps(written))
    assert len(begin(here(source, tmp_path), "")) == len(JOBS)


def test_another_command_changes_nothing_in_the_folder_of_a_run_that_is_at_work(tmp_path):
    folder = tmp_path / "run"
    open_run(config(folder), "first")
    (folder / "starts-2" / "seed-0" / "data").mkdir(parents=True)
    (folder / "starts-2" / "seed-0" / "data" / "base.jsonl").write_text("half of them\n")
    before = state(folder)
    other = config(folder, data={"demonstration_starts": [2], "perturbation": 0.9})
    with alone(folder), pytest.raises(RunFolderError, match="another process is at work"):
        open_run(other, "second")
    assert state(folder) == before
    # Nobody is at work now, and nothing was finished: a start that failed is corrected.
    open_run(other, "second")
    assert json.loads((folder / "config.json").read_text())["data"]["perturbation"] == 0.9


@pytest.mark.parametrize(("note", "is_note"), [("hang-0.txt", True), ("error.txt", True), ("x.safetensors", False)])
def test_a_training_that_left_only_notes_can_be_corrected(tmp_path, note, is_note):
    folder = tmp_path / "run"
    open_run(config(folder), "")
    place = folder / "starts-2" / "seed-0" / "rlft" / "reflect_rl"
    place.mkdir(parents=True)
    (place / note).write_text("a note")
    other = config(folder, rlft={"learning_rate": 0.5})
    if is_note:
        open_run(other, "")
        return
    with pytest.raises(RunFolderError, match=r"rlft\.learning_rate"):
        open_run(other, "")


def test_settings_that_were_changed_by_hand_are_refused(tmp_path):
    folder = tmp_path / "run"
    open_run(config(folder), "")
    written = json.loads((folder / "config.json").read_text())
    changed = {**written, "rlft": {**written["rlft"], "learning_rate": 0.5}}
    (folder / "config.json").write_text(json.dumps(changed))
    for other in (config(folder), config(folder, rlft={"learning_rate": 0.5})):
        with pytest.raises(RunFolderError, match=r"config\.json was changed since the run began \(by the hash in run"):
            open_run(other, "")
    # Free settings may be changed there, as on the command line.
    (folder / "config.json").write_text(json.dumps({**written, "workers": 2}))
    open_run(config(folder), "")
    # Deleted, it is written again.
    (folder / "config.json").unlink()
    open_run(config(folder), "")
    assert json.loads((folder / "config.json").read_text()) == written
