"""`reflect-rl report`: one run or several, finished or not."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

import reflect_rl
from reflect_rl import registry


def rows(run: Path) -> list[dict]:
    return json.loads((run / "results.json").read_text())


def test_a_run_ends_with_its_tables_and_its_page(finished, call, tmp_path):
    config = finished.parent / "config.toml"
    answer = call("run", config, "--output-dir", tmp_path / "other")
    assert answer.code == 0, answer
    lines = answer.output.splitlines()
    assert lines[-1] == f"report: {tmp_path / 'other' / 'report.html'}"
    assert ["Oracle", "-", "100.0", "-", "100.0"] in [line.split() for line in lines]
    assert (tmp_path / "other" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.fixture
def absent(monkeypatch):
    """This package is not installed."""
    installed = registry._installed
    monkeypatch.setattr(registry, "_installed", lambda kind: {} if kind == "reports" else installed(kind))


def test_without_this_package_a_run_ends_with_the_place_of_its_results(finished, call, tmp_path, absent):
    answer = call("run", finished.parent / "config.toml", "--output-dir", tmp_path / "other")
    assert answer.code == 0, answer
    assert answer.output.splitlines()[-2:] == [
        f"results: {tmp_path / 'other' / 'results.json'}",
        "no report is written: the report 'page' comes with the package reflect-report. "
        "Install it: pip install reflect-report.",
    ]
    assert {row["method"] for row in rows(tmp_path / "other")} == {"random", "oracle"}
    assert not (tmp_path / "other" / "report.html").exists()


def test_without_this_package_python_says_what_to_install(run, absent):
    with pytest.raises(reflect_rl.UserError, match=r"Install it: pip install reflect-report\."):
        reflect_rl.report(run)


def test_from_python_the_page_has_a_path(run):
    (run / "report.html").unlink()
    assert reflect_rl.report(run) == run / "report.html"
    assert (run / "report.html").stat().st_size > 0


def test_two_folders_make_one_report(call, run, tmp_path):
    other = Path(shutil.copytree(run, tmp_path / "other"))
    # A run made from Python: results alone, without the evaluations that they would be compared with.
    shutil.rmtree(other / "starts-4")
    (other / "results.json").write_text(json.dumps([row | {"seed": 1} for row in rows(run)]))
    answer = call("report", run, other, "--output-dir", tmp_path / "both")
    assert answer.code == 0, answer
    page = (tmp_path / "both" / "report.html").read_text(encoding="utf-8")
    assert "2 seed(s)" in page
    assert rows(other)[0]["seed"] == 1


def test_results_that_came_without_their_evaluations_are_kept(call, run):
    shutil.rmtree(run / "starts-4")
    before = (run / "results.json").read_text()
    assert call("report", run).code == 0
    assert (run / "results.json").read_text() == before


def test_a_report_may_go_elsewhere(call, run, tmp_path):
    (run / "report.html").unlink()
    assert call("report", run, "--output-dir", tmp_path / "page").code == 0
    assert (tmp_path / "page" / "report.html").exists()
    assert not (run / "report.html").exists()
    assert "it is a file" in call("report", run, "--output-dir", run / "results.json").mistake


def test_a_finished_run_that_nobody_may_write_is_reported_elsewhere_and_evaluated(call, run, tmp_path):
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.rglob("*") if path.is_file()}
    assert call("report", run, "--output-dir", tmp_path / "page").code == 0
    assert call("eval", run).code == 0
    # The time at which the run was finished stays, too.
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in before} == before


@pytest.mark.parametrize(
    ("reason", "message"),
    [(errno.EROFS, "--output-dir FOLDER` writes it elsewhere"), (errno.ENOSPC, "the disk is full")],
)
def test_a_page_that_cannot_be_written_leaves_the_one_that_is_there(call, run, monkeypatch, reason, message):
    def refuse(file: int) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr("os.fsync", refuse)
    (run / "report.html").write_text("old")
    answer = call("report", run)
    assert answer.code == (1 if reason == errno.ENOSPC else 2)
    assert message in answer.errors
    assert (run / "report.html").read_text() == "old"


def test_a_run_may_be_named_by_its_configuration_or_by_its_flag(call, run, toml):
    path = toml(f'output_dir = "{run}"')
    for words in ((path,), ("--output-dir", run)):
        (run / "report.html").unlink()
        assert call("report", *words).code == 0
        assert (run / "report.html").exists()


def test_results_are_gathered_anew(call, run):
    (run / "results.json").unlink()
    assert call("report", run).code == 0
    assert {row["method"] for row in rows(run)} == {"random", "oracle"}


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_game_of_ones_own_need_not_be_at_hand(call, run, toml, tmp_path, monkeypatch, interrupted):
    """A report reads files: the module lies in the current folder, and is not imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_game.py").write_text("raise AssertionError")
    settings = json.loads((run / "config.json").read_text())
    settings["environment"]["name"] = "own_game:Game"
    (run / "config.json").write_text(json.dumps(settings))
    before = rows(run)
    if interrupted:
        shutil.rmtree(*run.glob("starts-4/seed-*/evaluation/oracle"))
    (run / "results.json").unlink()
    for place in (run, toml(f'output_dir = "{run}"\nenvironment = {{name = "own_game:Game"}}')):
        answer = call("report", place)
        assert answer.code == 0, answer
        assert ("not evaluated yet: Oracle" in answer.output) is interrupted
    assert rows(run) == [row for row in before if not interrupted or row["method"] == "random"]


def test_settings_of_other_kinds_are_no_fault_of_the_report(call, run):
    settings = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(settings | {"methods": [["a"], None], "seeds": 3}))
    assert call("report", run).code == 0
    (run / "config.json").write_text('{"output_dir": "\\ud800"}')
    assert "config.json is not readable" in call("report", run).mistake


def test_broken_rows_name_the_evaluation_to_do_again(call, run):
    (folder,) = run.glob("starts-4/seed-*/evaluation/oracle")
    (folder / "rows.json").write_text("[1]")
    assert f"Delete {folder / 'done'} and run `reflect-rl eval` again." in call("report", run).mistake


def test_places_without_results(call, toml, tmp_path):
    run = tmp_path / "run"
    assert "no run folder 'nowhere'" in call("report", "nowhere").mistake
    assert "name a run folder or its configuration file" in call("report").mistake
    assert f"no run folder '{run}'" in call("report", toml(f'output_dir = "{run}"')).mistake
    run.mkdir()
    assert "is no run folder. Name one that `reflect-rl run` has written." in call("report", run).mistake
    (run / "config.json").write_text("{}")
    assert "is no run folder. Name one that `reflect-rl run` has written." in call("report", run).mistake
    assert not (run / "results.json").exists()


def test_names_in_results_do_not_steer_the_terminal(call, run):
    shutil.rmtree(run / "starts-4")
    hostile = [row | {"method": "wild\x1b[2J", "benchmark": "corridor\x1b]0;x\x07"} for row in rows(run)]
    hostile = [row for row in hostile if row["decoding"] == "greedy"]
    (run / "results.json").write_text(json.dumps(hostile))
    answer = call("report", run)
    assert answer.code == 0, answer
    assert "wild·[2J" in answer.output
    assert not {"\x1b", "\x07"} & set(answer.output)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", 5), "--port 5 does nothing without --live."),
        (("--live", "--output-dir", "elsewhere"), "--live writes no page, so --output-dir does nothing."),
    ],
)
def test_flags_that_would_do_nothing_are_refused(call, run, words, message):
    assert message in call("report", run, *words).mistake


def test_the_help(call):
    answer = call("report", "--help")
    assert answer.code == 0
    assert "--output-dir VALUE" in answer.output
