"""From folders to a task set, through the verb too."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from reflect_locate.cli.tasks import parse_tasks, run
from reflect_locate.questions import benchmark
from reflect_locate.questions.build import build, build_task_set
from reflect_locate.questions.config import TasksConfig
from reflect_locate.questions.task_set import TaskSet
from reflect_locate.repositories.corpora import corpus
from reflect_locate.repositories.snapshot import SnapshotError
from reflect_rl.config import parse, read_toml
from reflect_rl.errors import ConfigError, UserError

CONFIGS = Path(__file__).parents[4] / "configs" / "autoexplore"
METALS = ("copper", "silver", "iron", "marble", "wooden", "golden", "plastic", "leather", "paper", "velvet")
PARTS = ("valve", "engine", "window", "bottle", "ladder", "carpet", "lantern", "anchor", "pencil", "kettle")


def project(folder: Path, name: str, salt: str) -> str:
    """A folder of ten modules, each with one sentence about itself."""
    for metal, part in zip(METALS, PARTS, strict=True):
        path = folder / name / "src" / "pkg" / f"m_{part[:2]}{len(part)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""Repair {metal} {part}s {salt} quickly."""\n\nTEXT = "{part}"\n')
    return str(folder / name)


@pytest.fixture
def three(tmp_path) -> list[str]:
    return [
        project(tmp_path, name, salt) for name, salt in (("one", "indoors"), ("two", "outdoors"), ("six", "abroad"))
    ]


def silent(_: str) -> None:
    """Nobody is told."""


def test_a_single_folder_is_divided_by_files(tmp_path, three):
    built = build(TasksConfig(corpora=(three[0],)), silent)
    splits = [q.split for q in built.questions]
    assert [splits.count(split) for split in ("train", "validation", "test")] == [7, 1, 2]
    assert len({q.targets for q in built.questions}) == 10


def test_several_folders_are_divided_as_wholes(three):
    built = build(TasksConfig(corpora=tuple(three)), silent)
    splits = {(q.repository, q.split) for q in built.questions}
    assert len(built.questions) == 30
    assert len(splits) == 3
    assert {split for _, split in splits} == {"train", "validation", "test"}


def test_the_same_settings_give_the_same_bytes(tmp_path, three):
    for name in ("first", "second"):
        build_task_set(TasksConfig(train=tuple(three[:2]), test=(three[2],), output_dir=tmp_path / name), silent)
    files = sorted(p.relative_to(tmp_path / "first") for p in (tmp_path / "first").rglob("*") if p.is_file())
    assert len(files) == 5
    for file in files:
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_the_card_adds_up(tmp_path, three):
    tasks = build_task_set(TasksConfig(train=tuple(three[:2]), test=(three[2],), output_dir=tmp_path / "t"), silent)
    card = json.loads((tmp_path / "t" / "card.json").read_text())
    assert card["questions"] == len(tasks.questions) == 30
    assert card["splits"]["train"]["questions"] == 20
    assert card["splits"]["test"]["depths"] == {"2": 10}
    assert card["splits"]["test"]["usable_depths"]["3"] == 0
    for row in card["filtered"].values():
        assert row["found"] == sum(count for reason, count in row.items() if reason != "found")
    assert [entry["questions"] for entry in card["corpora"]] == [10, 10, 10]
    assert [entry["identity"] for entry in card["corpora"]] == [
        tasks.snapshot(entry["snapshot"]).identity for entry in card["corpora"]
    ]


def test_corpora_of_one_name_get_different_snapshots(tmp_path):
    specs = []
    for parent, name, salt in (("a", "left", "indoors"), ("b", "right", "outdoors")):
        spec = project(tmp_path / parent, "src", salt)
        Path(spec, "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
        specs.append(spec)
    built = build(TasksConfig(train=(specs[0],), test=(specs[1],)), silent)
    assert [snapshot.name for snapshot in built.snapshots] == ["src", "src-2"]
    assert {(q.repository, q.snapshot) for q in built.questions} == {("left", "src"), ("right", "src-2")}


def test_one_project_in_two_splits_is_refused(tmp_path):
    one, other = (project(tmp_path / place, "shop", place) for place in ("a", "b"))
    with pytest.raises(ConfigError, match="the same project, 'shop'") as error:
        build(TasksConfig(train=(one,), test=(other,)), silent)
    assert one in str(error.value)
    assert other in str(error.value)


def test_most_questions_of_a_project(three):
    config = TasksConfig(train=tuple(three), max_questions_per_repository=4)
    built = build(config, silent)
    per_project = [sum(q.repository == name for q in built.questions) for name in ("one", "two", "six")]
    assert per_project == [4, 4, 4]
    assert built.questions == build(config, silent).questions
    assert built.questions != build(config.model_copy(update={"seed": 1}), silent).questions


def test_files_that_do_not_parse_are_counted(three):
    Path(three[0], "old.py").write_text('print "old"\n')
    built = build(TasksConfig(test=(three[0],)), silent)
    assert built.card["corpora"][0]["unparsed"] == 1


def test_an_old_task_set_is_replaced_and_other_folders_are_left_alone(tmp_path, three):
    folder = tmp_path / "set"
    build_task_set(TasksConfig(test=tuple(three[:2]), output_dir=folder), silent)
    build_task_set(TasksConfig(test=(three[2],), output_dir=folder), silent)
    assert [path.name for path in (folder / "snapshots").iterdir()] == ["six.json.gz"]
    assert len(TaskSet.load(folder).questions) == 10
    with pytest.raises(ConfigError, match="holds something else"):
        build_task_set(TasksConfig(test=(three[2],), output_dir=Path(three[0])), silent)


def days_of_commits(tmp_path, name="shop", salt="indoors") -> Path:
    """A project whose files are changed on sixty days, one a day."""
    top = Path(project(tmp_path, name, salt))
    files = sorted(top.rglob("*.py"))
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*words: str, day: int = 0) -> None:
        date = f"{1_700_000_000 + day * 86_400} +0000"
        dates = {"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
        settings = ("-c", "user.name=A", "-c", "user.email=a@b.example")
        subprocess.run(
            ["git", *settings, *words], cwd=top, env={**environment, **dates}, check=True, capture_output=True
        )

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "Begin")
    for day in range(1, 61):
        file = files[day % len(files)]
        file.write_text(file.read_text() + f"LINE{day} = {day}\n")
        git("commit", "-qam", f"Polish {METALS[day % 10]} {PARTS[day // 10]} {salt} hinges twice", day=day)
    return top


def day_of(question) -> int:
    return round((question.time - 1_700_000_000) / 86_400)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
def test_a_history_is_divided_by_time(tmp_path):
    top = days_of_commits(tmp_path)
    built = build(TasksConfig(corpora=(str(top),), filters={"per_file": 10}), silent)
    days = {
        split: [day_of(q) for q in built.questions if q.split == split and q.time]
        for split in ("train", "validation", "test")
    }
    # The newest fifth of 60 commits is the test; the tree is the one before them.
    assert sorted(days["test"]) == list(range(49, 61))
    assert max(days["train"]) < min(days["validation"]) <= max(days["validation"]) == 48
    assert "LINE49" not in "".join(built.snapshots[0].files.values())
    assert "LINE48" in "".join(built.snapshots[0].files.values())
    assert {q.split for q in built.questions if q.time is None} == {"train"}
    by_file = build(TasksConfig(corpora=(str(top),), divide="files"), silent)
    assert "LINE60" in "".join(by_file.snapshots[0].files.values())
    # A commit whose file is learned from in another version would tell about it.
    assert {q.time for q in by_file.questions} == {None}


@needs_git
@pytest.mark.parametrize("lists", ["corpora", "train"])
def test_a_commit_is_asked_about_a_tree_before_it(tmp_path, lists):
    top = str(days_of_commits(tmp_path))
    built = build(TasksConfig(**{lists: (top,)}, filters={"per_file": 10}), silent)
    texts = {snapshot.name: "".join(snapshot.files.values()) for snapshot in built.snapshots}
    asked = [question for question in built.questions if question.time is not None]
    assert len(asked) == 24
    for question in asked:
        # The commit of a day writes a line with its number; so does each one before it.
        assert f"LINE{day_of(question)} " not in texts[question.snapshot]
    assert all("LINE36 " in text for text in texts.values())
    # Of the sixty commits the newest fifth is asked about the tree before it, and the fifth before likewise.
    assert sorted(day_of(question) for question in asked) == list(range(37, 61))
    described = {question.snapshot for question in built.questions if question.time is None}
    assert len(described) == 1
    assert ("LINE60 " in texts[described.pop()]) == (lists == "train")


@needs_git
def test_commits_alone_and_files_in_any_language(tmp_path):
    top = days_of_commits(tmp_path)
    for file in top.rglob("*.py"):
        file.rename(file.with_suffix(".rs"))
    subprocess.run(["git", "add", "-A"], cwd=top, check=True, capture_output=True)
    words = ("-c", "user.name=A", "-c", "user.email=a@b.example", "commit", "-qm", "Oxidise")
    subprocess.run(["git", *words], cwd=top, check=True, capture_output=True)
    with pytest.raises(SnapshotError, match=r"other type 10.* `--files locate` reads every text"):
        build(TasksConfig(train=(str(top),), sources=("docstrings",)), silent)
    built = build(TasksConfig(train=(str(top),), sources=("history",), files="locate"), silent)
    # No tree is kept that nothing is asked about, such as the newest.
    assert {snapshot.name for snapshot in built.snapshots} == {question.snapshot for question in built.questions}
    assert all(question.targets[0].endswith(".py") for question in built.questions)
    assert len(corpus(str(top), TasksConfig(train=(str(top),), files="locate").rules).files) == 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"divide": "files", "sources": ("history",)}, "asks no commits"),
        ({"files": "locate", "ingest": {"suffixes": (".py",)}}, "leave out ingest.suffixes"),
    ],
)
def test_settings_that_ask_nothing_or_are_not_used_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TasksConfig(corpora=(".",), **settings)


@needs_git
def test_a_division_by_time_that_cannot_be_made_is_refused(tmp_path):
    top = days_of_commits(tmp_path)
    (top / "inner").mkdir()
    for settings in (
        {"fractions": (0.8, 0.2, 0.0)},
        {"sources": ("docstrings",)},
        {"corpora": (str(top / "inner"),)},
        {"corpora": (), "train": (str(top),)},
    ):
        with pytest.raises(ConfigError, match="divides the history of one git repository"):
            build(TasksConfig(**{"corpora": (str(top),), "divide": "time"} | settings), silent)


@needs_git
def test_no_question_at_all_is_an_error_that_says_why(three):
    subprocess.run(["git", "init", "-q", three[0]], check=True, capture_output=True)
    with pytest.raises(ConfigError, match=r"no question is left of 0 candidates\. .*commit.* Name other"):
        build(TasksConfig(train=(three[0],), sources=("history",)), silent)


@needs_git
def test_commits_of_a_project_are_asked_once(tmp_path):
    top = str(days_of_commits(tmp_path))
    both = ((top,), (top, f"{top}@HEAD"))
    sets = [build(TasksConfig(train=corpora, filters={"per_file": 10}), silent) for corpora in both]
    times = [[question.time for question in built.questions if question.time] for built in sets]
    assert times[0] == times[1]


@needs_git
def test_two_corpora_of_one_project_are_divided_by_files(tmp_path):
    top = days_of_commits(tmp_path)
    copy = shutil.copytree(top, tmp_path / "later" / "shop", ignore=shutil.ignore_patterns(".git"))
    built = build(TasksConfig(corpora=(str(top), str(copy))), silent)
    assert {question.time for question in built.questions} == {None}


def test_a_short_history_is_told_and_divided_by_files(three):
    subprocess.run(["git", "init", "-q", three[0]], check=True, capture_output=True)
    told: list[str] = []
    built = build(TasksConfig(corpora=(three[0],)), told.append)
    assert len(built.questions) == 10
    assert any("commit" in line for line in told[1:])
    with pytest.raises(UserError):
        build(TasksConfig(corpora=(three[0],), divide="time"), silent)


def test_the_verb_builds_and_shows_the_card(tmp_path, three):
    screen = io.StringIO()
    run([three[0], "--output-dir", str(tmp_path / "set")], Console(file=screen, width=100))
    assert len(TaskSet.load(tmp_path / "set").questions) == 10
    assert "10 questions about 10 files" in screen.getvalue()
    assert "moddoc" in screen.getvalue()


def test_the_verb_takes_a_file_with_flags(tmp_path):
    path = tmp_path / "tasks.toml"
    path.write_text('test = ["stdlib"]\nseed = 3\n[filters]\nper_file = 2\n')
    options = parse_tasks([str(path), "--filters.per-file", "5", "--sources", "docstrings", "tables"])
    assert (options.seed, options.filters.per_file, options.test) == (3, 5, ("stdlib",))
    assert options.sources == ("docstrings", "tables")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no corpus is named"),
        (["nowhere"], "nowhere"),
        (["a", "b.toml"], "name one configuration file, or corpora"),
        (["stdlib", "--sorces", "docstrings"], "Did you mean '--sources'"),
        (["stdlib", "--sources", "docstring"], "Did you mean 'docstrings'"),
        (["stdlib", "stdlib"], "named twice"),
        (["stdlib", "--test", "stdlib"], "not in both"),
        (["stdlib", "--fractions", "0.5", "0.5", "0.5"], "add up to 1"),
    ],
)
def test_mistakes_are_named(arguments, message, tmp_path):
    with pytest.raises(UserError, match=message):
        run([*arguments, "--output-dir", str(tmp_path / "set")], Console(file=io.StringIO()))


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("tasks-*.toml")), ids=lambda path: path.stem)
def test_configurations_are_valid(path):
    config = parse(TasksConfig, read_toml(path))
    corpora = (*config.train, *config.validation, *config.test)
    # They promise that nothing has to be installed for them.
    for name in (spec.removeprefix("installed:") for spec in corpora if spec.startswith("installed:")):
        assert importlib.metadata.version(name)


def test_the_benchmark_is_that_of_its_configuration():
    written = parse(TasksConfig, read_toml(CONFIGS / "tasks-stdlib.toml"))
    assert written.model_copy(update={"output_dir": benchmark.BENCHMARK.output_dir}) == benchmark.BENCHMARK


@pytest.mark.parametrize(
    ("known", "code", "told"),
    [
        ({}, 0, "benchmark of Python 3.99.1: 3 questions, the known ones."),
        ({"questions": "other"}, 1, "not the known ones, although the files are"),
        ({"snapshot": "other"}, 1, "files are not those"),
        (None, 1, '{"3.99.1": {"snapshot": "s"'),
    ],
)
def test_the_check_of_the_benchmark_says_what_differs_and_its_exit_code_says_it_too(known, code, told, monkeypatch):
    row = {"snapshot": "s", "questions": "q", "count": 3}
    monkeypatch.setattr(benchmark, "fingerprint", lambda: row)
    monkeypatch.setattr(benchmark.platform, "python_version", lambda: "3.99.1")
    monkeypatch.setattr(benchmark, "known", lambda: {} if known is None else {"3.99.1": row | known})
    shown = io.StringIO()
    with pytest.raises(SystemExit) as stop:
        run(["--check-benchmark"], Console(file=shown, soft_wrap=True))
    assert stop.value.code == code
    assert told in shown.getvalue()


def test_the_known_questions_are_those_that_are_made_today():
    """A change of the questions or their labels, `spans` too, takes a new row in `benchmark.json`."""
    row = benchmark.known().get(platform.python_version())
    if row is None:
        pytest.skip("no row of this version of Python")
    now = benchmark.fingerprint()
    if row["snapshot"] != now["snapshot"]:
        pytest.skip("the distributor of this Python changed its library")
    assert now == row


def test_known_identities_are_well_formed():
    for version, row in benchmark.known().items():
        assert version.count(".") == 2
        assert set(row) == {"snapshot", "questions", "count"}
