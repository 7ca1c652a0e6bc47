"""Questions, and the folder that holds a set of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reflect_locate.questions.task_set import Question, TaskSet, TaskSetError
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError
from reflect_rl.errors import UserError

FILES = Snapshot("flask-3", {"app.py": "Runs the app.\n", "src/web/views.py": "Shows pages.\n"})
ASKED = Question(
    "flask-3/moddoc/0",
    "Shows pages",
    "flask",
    "flask-3",
    ("src/web/views.py",),
    "moddoc",
    leak="tokens",
    folder_leak=True,
    supported=False,
    spans={"src/web/views.py": ((0, 12),)},
    time=1_700_000_000,
    split="test",
)
PLAIN = Question("flask-3/symdoc/1", "Runs it", "flask", "flask-3", ("app.py",), "symdoc")


def saved(folder: Path) -> TaskSet:
    return TaskSet.save(folder, [ASKED, PLAIN], [FILES], {"made_from": "flask"})


def test_what_is_saved_is_loaded(tmp_path: Path):
    first, again = saved(tmp_path), TaskSet.load(tmp_path)
    assert first.questions == again.questions == (ASKED, PLAIN)
    assert again.question("flask-3/symdoc/1") == PLAIN
    assert again.snapshot("flask-3").identity == FILES.identity
    assert again.card["made_from"] == "flask"
    assert first.identity == again.identity == again.card["identity"]


def test_the_depth_is_the_number_of_folders_above_the_target():
    assert (ASKED.depth, PLAIN.depth) == (2, 0)


def test_a_snapshot_is_read_once(tmp_path: Path):
    tasks = saved(tmp_path)
    assert tasks.snapshot("flask-3") is tasks.snapshot("flask-3")


def test_another_question_or_another_file_gives_another_identity(tmp_path: Path):
    other_text = TaskSet.save(tmp_path / "a", [replace(ASKED, text="Shows sites"), PLAIN], [FILES], {})
    other_file = TaskSet.save(tmp_path / "b", [ASKED, PLAIN], [Snapshot("flask-3", {"app.py": ""})], {})
    other_card = TaskSet.save(tmp_path / "c", [ASKED, PLAIN], [FILES], {"made_from": "elsewhere"})
    assert other_card.identity == saved(tmp_path / "d").identity
    assert len({other_card.identity, other_text.identity, other_file.identity}) == 3


def test_two_questions_of_one_key_and_missing_snapshots_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="same key"):
        TaskSet.save(tmp_path, [ASKED, ASKED], [FILES], {})
    with pytest.raises(ValueError, match="no snapshot named 'flask-3'"):
        TaskSet.save(tmp_path, [ASKED], [], {})
    with pytest.raises(TaskSetError):
        TaskSet.load(tmp_path)


def test_an_unknown_question_is_refused_by_name(tmp_path: Path):
    with pytest.raises(TaskSetError, match=r"no question 'flask-3/moddoc/9'.*reflect-rl tasks"):
        saved(tmp_path).question("flask-3/moddoc/9")


def test_a_folder_without_a_task_set_is_refused_with_the_remedy(tmp_path: Path):
    with pytest.raises(TaskSetError, match=r"no task set in .*nowhere.*reflect-rl tasks"):
        TaskSet.load(tmp_path / "nowhere")


def test_a_task_set_that_was_changed_is_refused(tmp_path: Path):
    saved(tmp_path)
    place = tmp_path / "questions.jsonl"
    place.write_text(place.read_text().replace("Shows pages", "Shows nothing"))
    with pytest.raises(TaskSetError, match="was changed since it was made"):
        TaskSet.load(tmp_path)


@pytest.mark.parametrize("content", ["{}\n{}\n", "[1]\n[2]\n", '{"key": "a"}\n{"key": "b"}\n', "no json\n{}\n"])
def test_a_corrupt_list_of_questions_is_refused(tmp_path: Path, content: str):
    saved(tmp_path)
    (tmp_path / "questions.jsonl").write_text(content)
    with pytest.raises(UserError):
        TaskSet.load(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"snapshots": 3}', "no json"])
def test_a_corrupt_card_is_refused(tmp_path: Path, content: str):
    saved(tmp_path)
    (tmp_path / "card.json").write_text(content)
    with pytest.raises(UserError):
        TaskSet.load(tmp_path)


def test_a_snapshot_that_is_gone_is_missed_when_it_is_asked_for(tmp_path: Path):
    tasks = saved(tmp_path)
    (tmp_path / "snapshots" / "flask-3.json.gz").unlink()
    with pytest.raises(SnapshotError, match="flask-3"):
        tasks.snapshot("flask-3")


def test_the_list_is_written_last_and_in_plain_lines(tmp_path: Path):
    saved(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text().splitlines()]
    assert [row["key"] for row in rows] == [ASKED.key, PLAIN.key]
    assert rows[0]["spans"] == {"src/web/views.py": [[0, 12]]}


def test_subjects_of_commits_are_drawn_where_they_are_wanted(tmp_path: Path):
    masked = replace(ASKED, supported=True, spans={"src/web/views.py": ((0, 11),)}, split="train")
    commit = replace(masked, key="flask-3/git1/0", source="git1", text="Show pages sooner", spans={})
    # A sentence of the tree without its place cannot be masked.
    there = [masked, commit, replace(masked, key="flask-3/moddoc/1", text="Shows a page", spans={})]
    tasks = TaskSet.save(tmp_path, there, [FILES], {})
    assert [question.key for question in tasks.draw("train", 9, 0)] == [masked.key]
    assert {question.key for question in tasks.draw("train", 9, 0, commits=True)} == {masked.key, commit.key}
