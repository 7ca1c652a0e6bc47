"""`reflect-rl adapt`, from a repository to the verdict; and what it says about mistakes."""

import json

import pytest
from rich.console import Console

from git_repository import Repository, told
from reflect_locate.adapt import Estimate
from reflect_locate.cli.adapt import parse_adapt, run
from reflect_locate.cli.locate import run as locate
from reflect_locate.cli.serve import run as serve
from reflect_rl.errors import ConfigError, UserError
from reflect_rl.registry import PlainCommand
from tiny_player import write_files


@pytest.fixture
def call(tmp_path, capsys):
    """Calls a verb; what it prints."""

    def call(verb, *words):
        console = Console(width=160, highlight=False, soft_wrap=True, markup=False)
        verb([str(word) for word in words], *(() if isinstance(verb, PlainCommand) else (console,)))
        return capsys.readouterr().out

    return call


def test_a_repository_is_learned_and_used(call, tmp_path, monkeypatch):
    # However busy the machine is.
    monkeypatch.setattr("reflect_locate.cli.adapt.QUICK_MINUTES", float("inf"))
    mine = told(Repository(tmp_path / "mine")).folder
    said = call(run, mine, "--output-dir", tmp_path / "out")
    assert said.splitlines()[:2] == [f"reading the history of {mine}", "61 commits; all in all a few seconds"]
    # 12 commits of each part, and no sentence of C files.
    assert "fitting to 12 commits and 0 sentences" in said
    assert "measuring on 12 later commits and 0 other sentences: a few seconds" in said
    assert "before %" in said
    assert f'Adapting helped. Use it: reflect-rl locate PATH "question" --adapted {tmp_path / "out"}' in said
    table = json.loads((tmp_path / "out/adapted.json").read_text())
    assert (table["helps"], table["comparisons"][0]["after"][0]) == (True, 12)
    rows = [json.loads(line) for line in (tmp_path / "out/answers.jsonl").read_text().splitlines()]
    assert [row["after"] for row in rows] == [1] * 12
    # Threshold 0, because the history alone is no more than a guess.
    shown = call(
        locate,
        mine,
        "Who lifts with harbour cranes?",
        "--no-cache",
        "--json",
        "--threshold",
        0,
        "--adapted",
        tmp_path / "out",
    )
    assert (json.loads(shown)[0]["path"], json.loads(shown)[0]["history"]) == ("m4.c", 1.0)
    # Of another repository it is not used, and that is said.
    arguments = ("harbour limits", "--no-cache", "--json", "--threshold", 0)
    stove = write_files(tmp_path / "stove", {"b.py": "limits = 3\n", "m4.c": "int harbour;\n"})
    plain = call(locate, stove, *arguments)
    assert call(locate, stove, *arguments, "--adapted", tmp_path / "out") == plain
    told_all = call(locate, stove, "harbour limits", "--no-cache", "--threshold", 0, "--adapted", tmp_path / "out")
    assert f"warning: stove has 1 of the 5 files that the ranking of {str(mine)!r} knows, so it is not used" in told_all
    told_mine = call(locate, mine, "harbour x", "--no-cache", "--threshold", 0, "--adapted", tmp_path / "out")
    assert "adapted: mine has 5 of the 5 files" in told_mine
    # The same call writes the same ranking.
    first = (tmp_path / "out/ranking.json").read_bytes()
    call(run, mine, "--output-dir", tmp_path / "out")
    assert (tmp_path / "out/ranking.json").read_bytes() == first


def test_the_time_is_told_before_the_history_is_read(call, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("reflect_locate.adapt.estimate", lambda *_: Estimate(61, 12.34, 1.0))
    monkeypatch.setattr("reflect_locate.adapt.eras_of", lambda *_: pytest.fail(capsys.readouterr().out))
    with pytest.raises(pytest.fail.Exception, match=r"61 commits; all in all about 12\.3 minutes"):
        call(run, Repository(tmp_path / "mine").folder, "--output-dir", tmp_path / "out")


def test_what_does_not_help_is_not_kept(call, tmp_path):
    mine = told(Repository(tmp_path / "mine"), is_telling=False).folder
    said = call(run, mine, "--output-dir", tmp_path / "out")
    assert "Adapting did not help: 12 later commits show" in said
    assert "so nothing was kept" in said
    assert not (tmp_path / "out/ranking.json").exists()
    # One of an earlier call, which had helped, is not touched.
    (tmp_path / "out/ranking.json").write_text("earlier")
    assert "the ranking of an earlier call stays" in call(run, mine, "--output-dir", tmp_path / "out")
    assert (tmp_path / "out/ranking.json").read_text() == "earlier"


def test_a_repository_without_history_is_refused(call, tmp_path):
    with pytest.raises(UserError, match="kettle"):
        call(run, write_files(tmp_path / "kettle"), "--output-dir", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_output_folder_that_cannot_be_made_is_refused_before_the_history_is_read(call, tmp_path, monkeypatch):
    monkeypatch.setattr("reflect_locate.adapt.eras_of", lambda *_: pytest.fail("the history was read"))
    mine, file = Repository(tmp_path / "mine").folder, tmp_path / "out"
    file.write_text("a file")
    for folder in (file, file / "inner", tmp_path / ("x" * 300)):
        with pytest.raises(
            ConfigError, match=rf"cannot write the result to '{folder}': .*\. Choose another --output-dir"
        ):
            call(run, mine, "--output-dir", folder)
    assert file.read_text() == "a file"


def test_a_folder_that_was_there_stays_when_a_repository_is_refused(call, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="kettle"):
        call(run, write_files(tmp_path / "kettle"), "--output-dir", tmp_path / "out")
    assert (tmp_path / "out").is_dir()


def test_files_of_somebody_else_are_not_replaced(call, tmp_path, monkeypatch):
    monkeypatch.setattr("reflect_locate.adapt.eras_of", lambda *_: pytest.fail("the history was read"))
    mine, out = Repository(tmp_path / "mine").folder, tmp_path / "out"
    out.mkdir()
    (out / "answers.jsonl").write_text("precious")
    with pytest.raises(ConfigError, match=r"'.*out' holds something else than a result of adapt\. Choose another"):
        call(run, mine, "--output-dir", out)
    assert [(file.name, file.read_text()) for file in out.iterdir()] == [("answers.jsonl", "precious")]


def test_an_empty_path_is_not_the_current_folder(call, tmp_path, monkeypatch):
    monkeypatch.chdir(told(Repository(tmp_path / "mine")).folder)
    with pytest.raises(UserError, match=r"the path is empty\. Name a folder"):
        call(run, "", "--output-dir", tmp_path / "out")


def test_a_name_cannot_steer_the_terminal(call, tmp_path, monkeypatch):
    mine = told(Repository(tmp_path / "esc\x1b[31mred[bold]")).folder
    monkeypatch.chdir(tmp_path)
    said = call(run, mine)
    assert said.count("esc·[31mred[bold]") == 2
    assert "Adapting helped. Use it: " in said
    assert "\x1b" not in said


@pytest.mark.parametrize("count", ["-5", "0", str(10**400)])
def test_a_damaged_ranking_is_named(call, tmp_path, count):
    write_files(tmp_path / "kettle")
    said = f'{{"src/limits.py": {{"rate": {count}}}}}'
    (tmp_path / "ranking.json").write_text(f'{{"repository": "", "commit": "", "weights": {{}}, "said": {said}}}')
    with pytest.raises(UserError, match=r"ranking\.json holds no adapted ranking: "):
        call(locate, tmp_path / "kettle", "Where are limits?", "--adapted", tmp_path)


def test_a_folder_that_is_not_there_is_named(call, tmp_path):
    with pytest.raises(ConfigError, match=r"there is no folder '.*nowhere'\. Give the top folder of a git checkout"):
        call(run, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "name one repository"), (["a", "b"], "Got 2"), (["a", "--questions", "3"], "questions")],
)
def test_mistakes_in_the_words_are_named(words, message):
    with pytest.raises(ConfigError, match=message):
        parse_adapt(words)


def test_an_adapted_ranking_excludes_models_and_other_folders(call, tmp_path):
    write_files(tmp_path / "kettle")
    with pytest.raises(ConfigError, match="Choose one"):
        call(locate, tmp_path / "kettle", "Where are limits?", "--adapted", tmp_path, "--walk")
    with pytest.raises(UserError, match="no adapted ranking"):
        call(locate, tmp_path / "kettle", "Where are limits?", "--adapted", tmp_path)
    (tmp_path / "ranking.json").write_text('{"repository": "", "commit": "", "weights": {}, "said": {}}')
    with pytest.raises(ConfigError, match="2 folders are named"):
        call(serve, tmp_path / "kettle", tmp_path, "--adapted", tmp_path)
