"""A finished run is evaluated on other games by one command, into a folder of its own."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tiny_run import TINY_MODEL

from alfworld_layout import write_official
from alfworld_native.generate import generate_games
from reflect_locate.questions.task_set import TaskSet
from reflect_report.runs import read_runs, summarise_runs
from reflect_rl.cli.main import main
from three_projects import save_three_projects

UNIT = "starts-4/seed-0"
CONFIG = """
methods = ["advice", "reflect_rl"]
workers = 1

[environment]
name = "alfworld"
generated_games = 4
most_validation_games = 1

[model.embedded]
context_tokens = 2048

[evaluation]
horizons = [2]
decodings = ["greedy"]
"""

FILES = """
methods = ["advice", "sft_lexical"]
workers = 1

[environment]
name = "autoexplore"
tasks = {tasks}
modes = ["d1k8"]
test_tasks = 4

[model.embedded]
hidden_size = 16
layers = 1
context_tokens = 2048

[data]
modes = ["d1k8"]
demonstration_starts = [4]

[sft.base]
steps = 2
[sft.policy_lexical]
steps = 2

[evaluation]
horizons = [15]
decodings = ["greedy"]
"""


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """Games in the layout of `alfworld-download`: one in each split, three in new rooms."""
    folder = tmp_path_factory.mktemp("alfworld")
    splits = ("train", "valid_train", "valid_seen", *["valid_unseen"] * 3)
    for number, (split, game) in enumerate(zip(splits, generate_games("test", 6, seed=7), strict=True)):
        key = f"{game.task_type}-{game.subject}-{number}/trial_{number}"
        write_official(folder / "json_2.1.1" / split, replace(game, key=key))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was trained and tested on generated games."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "config.toml").write_text(CONFIG)
    assert main(["run", str(folder / "config.toml"), "--output-dir", str(folder / "run"), *TINY_MODEL]) == 0
    return folder / "run"


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def rows(folder):
    return json.loads((folder / "results.json").read_text())


def unseen(run, official):
    """The flags of an evaluation on the rooms that are not in training."""
    target = run.parent / "unseen"
    return target, (
        *("--output-dir", target),
        *("--environment.games", official, "--environment.test-games", "valid_unseen"),
    )


@pytest.fixture(scope="module")
def evaluated(run, official):
    """The run's folder before and after an evaluation elsewhere, and where that is."""
    before = files(run)
    target, flags = unseen(run, official)
    code = main([str(word) for word in ("eval", run, *flags)])
    return code, before, target


def test_one_command_plays_the_trained_players_on_other_games(evaluated, run):
    code, before, target = evaluated
    assert code == 0
    assert files(run) == before
    table = rows(target)
    assert {(row["method"], row["episodes"]) for row in table} == {("advice", 3), ("reflect_rl", 3)}
    assert {row["tested"]["facts"]["games"] for row in table} == {"valid_unseen"}
    assert {row["tested"]["facts"]["games"] for row in rows(run)} == {"generated"}
    played = (target / UNIT / "evaluation" / "reflect_rl" / "episodes.jsonl").read_text().splitlines()
    assert {json.loads(line)["task"]["data"]["from"] for line in played} == {"valid_unseen"}


def test_the_players_are_those_that_were_trained(evaluated, run):
    _, _, target = evaluated
    for model in (f"{UNIT}/models/reflector", f"{UNIT}/rlft/reflect_rl/model"):
        weights = [(folder / model / "model.safetensors").read_bytes() for folder in (run, target)]
        assert weights[0] == weights[1]
    card = json.loads((target / "run.json").read_text())["start_from"]
    assert card["folder"] == str(run)
    assert f"{UNIT} rlft reflect_rl" in card["jobs"]


def test_the_same_command_does_nothing_twice(evaluated, run, official, call):
    _, _, target = evaluated
    before = files(target / UNIT)
    answer = call("eval", run, *unseen(run, official)[1])
    assert (answer.code, answer.output) == (0, f"nothing to do: all jobs of `eval` are done in {target}\n")
    assert files(target / UNIT) == before


def test_results_on_different_games_are_not_pooled(evaluated, run, call, tmp_path):
    _, _, target = evaluated
    message = call("report", run, target, "--output-dir", tmp_path).mistake
    assert "results on different games: alfworld, test split, was played as" in message
    assert len(summarise_runs(read_runs([target]))) == 2


def test_the_run_itself_stays_what_it_is(run, call):
    message = call("eval", run, "--environment.room-size", "0.5").mistake
    assert "environment.room_size is 1.0 there and 0.5 here. Choose another --output-dir" in message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--environment.max-episode-steps", 20), "environment.max_episode_steps is 50 there and 20 here"),
        (("--environment.validation-games", "generated"), "environment.validation_games is 'valid_train' there"),
        (("--environment.wording", "2.1.2"), "environment.wording is '2.1.1' there and '2.1.2' here"),
        (("--rlft.total-turns", 7), "rlft.total_turns is 8 there and 7 here"),
        (("--environment.games", "no/such/folder"), "there is no folder no/such/folder with ALFWorld's games"),
    ],
)
def test_what_players_were_trained_by_cannot_be_changed(run, call, tmp_path, flags, message):
    assert message in call("eval", run, "--output-dir", tmp_path / "other", *flags).mistake
    assert not (tmp_path / "other").exists()


def test_valid_train_is_evaluated_as_validation_and_never_as_the_test(run, official, call, tmp_path):
    elsewhere = ("eval", run, "--output-dir", tmp_path / "other", "--environment.games", official)
    tested = ("--environment.test-games", "valid_train")
    message = call(*elsewhere, *tested).mistake
    assert "or evaluate a finished run with --evaluation.split validation and another test_games" in message
    # What selected a run with games of ALFWorld must not become its test by another choice of validation games.
    message = call(*elsewhere, *tested, "--environment.validation-games", "generated").mistake
    assert "environment.validation_games is 'valid_train' there and 'generated' here" in message
    flags = ("--evaluation.split", "validation", "--environment.most-validation-games", 5)
    assert call(*elsewhere, *flags).code == 0
    table = rows(tmp_path / "other")
    assert {(row["split"], row["tested"]["facts"]["games"]) for row in table} == {("validation", "valid_train")}


def test_training_does_not_begin_with_a_run_on_other_games(run, call):
    flags = ("--start-from", run, "--output-dir", run.parent / "another", "--environment.split-seed", 1)
    message = call("sft", run, *flags).mistake
    assert "the data and supervised models of" in message
    assert "environment.split_seed is 0 there and 1 here" in message


def test_players_that_find_files_answer_other_questions(tmp_path, call):
    tasks = save_three_projects(tmp_path / "tasks", folders=8, files=6).folder
    (tmp_path / "config.toml").write_text(FILES.format(tasks=json.dumps(str(tasks))))
    run, other = tmp_path / "run", tmp_path / "other"
    assert call("run", tmp_path / "config.toml", "--output-dir", run).code == 0
    answer = call("eval", run, "--output-dir", other, "--environment.hard", "true", "--environment.test-tasks", 3)
    assert answer.code == 0, answer.errors
    (before, after), card = (rows(folder) for folder in (run, other)), json.loads((other / "run.json").read_text())
    assert {row["tested"]["facts"]["source_sentence"] for row in before} == {"in the file"}
    assert {row["tested"]["facts"]["source_sentence"] for row in after} == {"masked"}
    assert {row["episodes"] for row in after} == {3}
    assert f"{UNIT} sft policy_lexical" in card["start_from"]["jobs"]
    assert "results on different games" in call("report", run, other, "--output-dir", tmp_path / "page").mistake
    message = call("eval", run, "--output-dir", tmp_path / "third", "--environment.search", "true").mistake
    assert "environment.search is False there and True here" in message


def test_players_are_not_tested_on_repositories_that_they_were_trained_on(tmp_path, call):
    tasks = save_three_projects(tmp_path / "tasks", folders=8, files=6)
    (tmp_path / "config.toml").write_text(FILES.format(tasks=json.dumps(str(tasks.folder))))
    run = tmp_path / "run"
    assert call("run", tmp_path / "config.toml", "--output-dir", run).code == 0
    # The same projects, in another set, in which what was trained on is the test.
    turned = {"train": "test", "validation": "validation", "test": "train"}
    again = [replace(question, split=turned[question.split]) for question in tasks.questions]
    snapshots = {question.snapshot: tasks.snapshot(question.snapshot) for question in again}
    other = TaskSet.save(tmp_path / "turned", again, snapshots.values(), {"settings": {}})
    flags = ("--output-dir", tmp_path / "elsewhere", "--environment.tasks", other.folder)
    message = call("eval", run, *flags).mistake
    assert "were trained on 1 of what they would be tested on, such as 'alder'" in message
    assert not (tmp_path / "elsewhere").exists()
    # On the others they may be tested.
    assert call("eval", run, *flags, "--evaluation.split", "validation").code == 0
