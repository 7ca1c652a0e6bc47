"""`reflect-rl locate`."""

import errno
import io
import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from shutil import rmtree

import pytest

from git_repository import Repository
from reflect_locate.cli import locate
from reflect_locate.cli.flags import LocateFlags
from reflect_locate.cli.locate import parse_locate, printable_line, run
from reflect_locate.cli.options import LocateOptions
from reflect_locate.cli.plain_output import PlainOutput
from reflect_locate.small_reader import PACKAGED
from reflect_rl.cli.main import main
from reflect_rl.errors import ConfigError, UserError
from tiny_player import save_tiny_player, write_files

QUESTION = "Where are rate limits parsed?"


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    return save_tiny_player(tmp_path_factory.mktemp("player") / "tiny")


@pytest.fixture
def project(tmp_path):
    return write_files(tmp_path / "kettle", None)


@pytest.fixture
def located(capsys, player):
    """Calls the verb with a player; its output and notes. An answer that is a guess ends it with 1."""

    def located(*words):
        with suppress(SystemExit):
            run([str(word) for word in (*words, "--model", player)])
        return capsys.readouterr()

    return located


def test_json_is_all_that_is_printed(located, project):
    said = located(project, QUESTION, "--json", "--top-k", 2)
    rows = json.loads(said.out)
    assert 1 <= len(rows) <= 2
    evidence = {"named", "read", "match", "path_match", "defined", "stem", "written", "history", "is_test"}
    evidence |= {"is_document", "is_aside", "is_data", "asked", "quoted", "words", "coverage"}
    lines = {"first_line", "last_line", "symbol", "kind", "excerpt_line", "excerpt"}
    assert set(rows[0]) == {"path", "sureness", "confidence", *lines, "score", *evidence, "walk", "reasons", "changed"}
    assert (project / rows[0]["path"]).is_file()
    assert rows == sorted(rows, key=lambda row: -row["score"])
    assert "kettle: 4 files; left out: nothing" in said.err


def test_switches_stand_anywhere(located, project):
    assert json.loads(located("--json", project, QUESTION, "--episodes", 1).out)


def test_the_list_is_never_empty(located, project):
    """No word of the question stands in the tree: a guess, marked so, that begins with the README."""
    rows = json.loads(located(project, "quantum chromodynamics", "--json", "--threshold", 0.5).out)
    assert rows
    assert rows[0]["changed"] is None  # no reader was asked
    assert {row["sureness"] for row in rows} == {"a guess"}


def test_a_person_sees_files_walks_and_reasons(located, project):
    said = located(project, QUESTION, "--episodes", 3).out
    assert "kettle: 4 files" in said
    for part in ("1. ", "walk: ", "why: ", "confidence ", "4 episodes in"):
        assert part in said


def test_a_person_is_told_that_it_is_a_guess(located, project):
    said = located(project, "quantum chromodynamics", "--threshold", 0.5).out
    assert "1. a guess" in said
    assert "a guess: confidence 0.0" in said


@pytest.fixture
def alone(capsys, tmp_path, monkeypatch):
    """Calls the verb without a player, with a cache of its own; its exit code, output and notes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def alone(*words):
        code = 0
        try:
            run([str(word) for word in words])
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return alone


def test_the_index_answers_with_lines_and_the_exit_code_of_grep(alone, project):
    code, out, _ = alone(project, QUESTION)
    assert code == 0
    assert "1. sure     src/limits.py:4-5  function parse_limit\n" in out
    assert "        4  def parse_limit(text: str) -> int:" in out


@pytest.mark.parametrize(
    "question", ["quantum chromodynamics", "Wie entkalkt man den Wasserkocher", "где лимиты", "限制"]
)
def test_a_question_without_a_word_of_the_tree_is_a_guess(alone, project, question):
    code, out, _ = alone(project, question, "--json")
    rows = json.loads(out)
    assert code == 1
    assert [row["path"] for row in rows] == ["README.md", "docs/guide.md", "src/clock.py", "src/limits.py"]
    assert {(row["sureness"], row["score"], row["first_line"]) for row in rows} == {("a guess", 0.0, 1)}


def test_the_cache_is_used_and_can_be_left_out(alone, project, tmp_path):
    first = alone(project, QUESTION)
    assert len(list((tmp_path / "cache/reflect-rl/locate").glob("*.sqlite"))) == 1
    rmtree(tmp_path / "cache")
    assert alone(project, QUESTION, "--no-cache")[:2][0] == first[0]
    assert not (tmp_path / "cache").exists()
    assert sorted(path.name for path in project.iterdir()) == ["README.md", "docs", "src"]


def test_an_index_that_is_damaged_is_rebuilt_and_that_is_said(alone, project, tmp_path):
    alone(project, QUESTION)
    (place,) = (tmp_path / "cache/reflect-rl/locate").glob("*.sqlite")
    place.write_bytes(b"half an index")
    code, out, _ = alone(project, QUESTION)
    assert (code, "index rebuilt" in out) == (0, True)
    assert "index rebuilt" not in alone(project, QUESTION)[1]


@pytest.mark.parametrize("seed", range(4))
def test_an_index_with_bytes_overwritten_in_its_middle_is_rebuilt(alone, tmp_path, seed):
    """Opening reads the list of the texts alone; the words are read when they are asked for."""
    project = write_files(tmp_path / "large", {f"f{n}.py": f"rate limit{n} {f'word{n} ' * 50}\n" for n in range(300)})
    question = "rate limit7 word7"
    first = alone(project, question, "--json")
    (place,) = (tmp_path / "cache/reflect-rl/locate").glob("*.sqlite")
    # The pages of `entries`: each begins with the byte 10 (a leaf of an index) or 2 (an inner node).
    pages, size, rng = bytearray(place.read_bytes()), 4096, random.Random(seed)
    with sqlite3.connect(place) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()
    pages[(root - 1) * size : (root - 1) * size + 64] = rng.randbytes(64)
    place.write_bytes(pages)
    code, out, notes = alone(project, question, "--json")
    assert (code, json.loads(out), "index rebuilt" in notes) == (first[0], json.loads(first[1]), True)
    assert "index rebuilt" not in alone(project, question)[1]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full. Free some space, or write"),
        (OSError(errno.EACCES, "Permission denied", "/x"), "Permission denied (/x). Check the rights"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), "the current folder no longer exists. Change"),
        (MemoryError(), "memory ran out. Ask about a part"),
        (TypeError("odd"), "unexpected TypeError: odd. REFLECT_RL_TRACEBACK=1 shows where"),
    ],
)
def test_a_failure_is_a_mistake_since_1_means_a_guess(call, project, monkeypatch, error, said):
    def failing(*_, **__):
        raise error

    monkeypatch.setattr("reflect_locate.cli.locate.ingest", failing)
    done = call("locate", project, QUESTION)
    assert (done.code, "checkpoint" in done.errors) == (2, False)
    assert said in done.errors


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_cannot_be_written_is_a_mistake(project, tmp_path):
    script = (
        f"import sys; from reflect_rl.cli.main import main; sys.exit(main(['locate', {str(project)!r}, {QUESTION!r}]))"
    )
    with Path("/dev/full").open("w") as full:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False
        )
    assert (done.returncode, done.stderr) == (
        2,
        "error: the disk is full. Free some space, or write the output elsewhere.\n",
    )


@pytest.mark.parametrize(
    ("question", "redirected", "code", "told"),
    [
        (QUESTION, "2>&-", 0, ""),
        (QUESTION, "2>/dev/full", 0, ""),
        # Exit code 1 would be an answer.
        ("  ", "2>&-", 2, ""),
        ("  ", "2>/dev/full", 2, ""),
        (QUESTION, ">&-", 2, "error: the standard output is closed. Give the answer a place, such as `> FILE`.\n"),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_notes_that_cannot_be_written_change_no_answer(project, tmp_path, question, redirected, code, told):
    words = ["locate", str(project), question, "--json"]
    script = f"import sys; from reflect_rl.cli.main import main; sys.exit(main({words!r}))"
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {redirected}', sys.executable, script],
        capture_output=True,
        text=True,
        # Buffered, as it mostly is, stderr is tried once more as Python ends.
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONUNBUFFERED": ""},
        check=False,
    )
    assert (done.returncode, done.stderr.rpartition("nothing\n")[2]) == (code, told)
    assert [entry["path"] for entry in json.loads(done.stdout or "[]")[:1]] == ["src/limits.py"] * (code == 0)


UNNEEDED = (
    *("torch", "transformers", "numpy", "scipy", "tree_sitter", "rich", "filelock"),
    *("reflect_rl.types", "reflect_rl.runs", "reflect_rl.cli.help", "reflect_locate.envs"),
)
SETTINGS = ("pydantic", "reflect_rl.config", "reflect_rl.cli.arguments")


@pytest.mark.parametrize(("flags", "needed"), [((), ()), (("--json",), SETTINGS)])
def test_a_call_loads_only_what_it_needs(project, tmp_path, flags, needed):
    """Without flags there is nothing to check, and in a pipe nothing to style."""
    script = (
        "import sys; from reflect_rl.cli.main import main; "
        f"main({['locate', str(project), QUESTION, *flags]}); "
        f"print([name for name in {UNNEEDED + SETTINGS} if name in sys.modules])"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for loaded in (["filelock", *needed], [*needed]):  # only the first call writes an index
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        assert "src/limits.py" in done.stdout
        assert done.stdout.splitlines()[-1] == str(loaded)


def test_flags_and_no_flags_mean_the_same_defaults():
    for field in fields(LocateOptions):
        assert getattr(LocateFlags(), field.name) == getattr(LocateOptions(), field.name), field.name


def test_lines_are_styled_on_a_terminal_alone(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for stream, said in ((Terminal(), "\x1b[1m1. [a]\x1b[0m\n"), (io.StringIO(), "1. [a]\n")):
        PlainOutput(stream).print("1. [a]", style="bold")
        assert stream.getvalue() == said


def test_what_is_left_out_is_told(located, project):
    (project / ".env").write_text("TOKEN=1")
    (project / "picture.png").write_bytes(b"\0")
    assert (
        "kettle: 4 files; left out: other type 1 (.png 1), secret 1 (.env)"
        in located(project, QUESTION, "--episodes", 0).out
    )


def test_the_confidence_is_told_to_programs_too(alone, project):
    rows = json.loads(alone(project, QUESTION, "--json")[1])
    assert f"sure: confidence {rows[0]['confidence']:.3f};" in alone(project, QUESTION)[1]
    assert len({row["confidence"] for row in rows}) == 1


def test_without_evidence_an_answer_is_a_guess_at_any_threshold(alone, project):
    code, out, _ = alone(project, "quantum chromodynamics", "--json", "--threshold", 0)
    assert (code, json.loads(out)[0]["sureness"]) == (1, "a guess")


def test_a_single_text_is_searched_for_its_lines(alone, project):
    code, out, _ = alone(project / "src/limits.py", QUESTION)
    assert (code, "1. sure     limits.py:4-5  function parse_limit\n" in out) == (0, True)
    assert "index rebuilt" not in alone(project / "src/limits.py", QUESTION)[1]
    (project / "tool").write_bytes(b"\x7fELF\0")
    (project / "secrets.yaml").write_text("a: b")
    for name, message in (
        ("tool", "and no archive, or a damaged one"),
        ("secrets.yaml", "has no file to read. Left out: secret 1"),
    ):
        with pytest.raises(UserError, match=message):
            alone(project / name, QUESTION)


def test_a_text_that_is_too_large_is_called_so(alone, tmp_path):
    (tmp_path / "big.txt").write_text("ö" * 600_000)
    with pytest.raises(UserError, match=r"the text '.*big.txt' has 1200000 bytes, more than the 1000000 of a file"):
        alone(tmp_path / "big.txt", QUESTION)
    (tmp_path / "big.bin").write_bytes(b"\xff\0" * 600_000)
    with pytest.raises(UserError, match="and no archive, or a damaged one"):
        alone(tmp_path / "big.bin", QUESTION)


def test_an_empty_index_is_rebuilt_and_that_is_said(alone, project, tmp_path):
    alone(project, QUESTION)
    (place,) = (tmp_path / "cache/reflect-rl/locate").glob("*.sqlite")
    place.write_bytes(b"")
    assert "index rebuilt" in alone(project, QUESTION)[1]
    assert "index rebuilt" not in alone(project, QUESTION)[1]


def test_the_newest_commit_of_a_bare_repository_is_read(alone, tmp_path):
    repository = Repository(tmp_path / "kettle")
    repository.commit(
        "Kettle", files={"src/limits.py": "def parse_limit(): ...  # rate limits, parsed\n", "a.md": "x\n"}
    )
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "kettle.git"))
    rows = json.loads(alone(tmp_path / "kettle.git", QUESTION, "--json")[1])
    assert [row["path"] for row in rows] == ["src/limits.py"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--reader", "small"], "--reader small does nothing without --deep. Add --deep"),
        (["--episodes", "3"], "--episodes does nothing without a player. Add --walk, or --model PLAYER"),
        (["--no-search"], "--search does nothing without a player"),
        (["--search", "--deep"], "--search does nothing without a player"),
    ],
)
def test_a_flag_without_its_mode_is_refused(project, flags, message):
    with pytest.raises(ConfigError, match=message):
        run([str(project), QUESTION, *flags])


def test_a_reader_that_is_not_there_is_told_before_torch_is_loaded(project):
    script = (
        "import sys; from reflect_rl.cli.main import main; "
        f"main({['locate', str(project), QUESTION, '--deep', '--reader', 'smollm2-135']}); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "there is no folder 'smollm2-135'. Did you mean 'smollm2-135m'" in done.stderr
    assert done.stdout == "False\n"


def test_an_adaptation_that_did_not_help_is_told(project, tmp_path):
    (tmp_path / "adapted.json").write_text("{}")
    with pytest.raises(UserError, match=r"adapting did not help, as '.*adapted.json' says, .* Leave out --adapted"):
        run([str(project), QUESTION, "--adapted", str(tmp_path)])
    (tmp_path / "adapted.json").unlink()
    with pytest.raises(UserError, match="no adapted ranking in"):
        run([str(project), QUESTION, "--adapted", str(tmp_path)])


def test_the_time_is_that_of_the_call(alone, project, monkeypatch):
    """Reading the folder takes longer than the question."""
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("reflect_locate.cli.locate.time.perf_counter", lambda: float(next(clock)))
    said = alone(project, QUESTION)[1]
    assert float(said.rpartition("; ")[2].split()[0]) >= 300  # a start, two looks at the clock in `find`, an end


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("où sont les limites du débit", "limites"),
        ("Größenbeschränkung der Übertragung prüfen", "Größenbeschränkung"),
        ("レート制限はどこで解析されますか", "レート制限"),
        ("速率限制在哪里", "速率限制"),
    ],
)
def test_questions_in_other_languages_find_their_words(alone, tmp_path, question, word):
    files = {"a.py": "x = 1\n", "b.md": f"# {word.title()}\n", "c.py": "# é ü の 1\n"}
    rows = json.loads(alone(write_files(tmp_path / "x", files), question, "--json")[1])
    assert (rows[0]["path"], rows[0]["score"] > 0) == ("b.md", True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", QUESTION], "no folder or archive 'nowhere'"),
        ([".", ""], "the question is empty"),
        (["", QUESTION], "the path is empty. Name a folder"),
    ],
)
def test_what_cannot_be_asked_is_a_mistake(located, words, message):
    with pytest.raises(UserError, match=message):
        located(*words)


def test_an_empty_folder_is_a_mistake(located, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no file to read"):
        located(tmp_path / "empty", QUESTION)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "got 0 of 2"),
        (["."], "got 1 of 2"),
        ([".", "rate", "limits"], "Put quotes around the question"),
        ([".", QUESTION, "--top-k", "0"], "top_k"),
        ([".", QUESTION, "--topk", "3"], "Did you mean '--top-k'"),
        ([".", QUESTION, "--search", "--no-search"], "set the same. Give one of them"),
    ],
)
def test_mistakes_in_the_words_are_named(words, message):
    with pytest.raises(ConfigError, match=message):
        parse_locate(words)


def test_behind_two_dashes_nothing_is_a_flag():
    assert parse_locate(["x", "--", "-v flag"])[:2] == ("x", "-v flag")
    path, question, options = parse_locate(["x", "--json", "--", "--help"])
    assert (path, question, options.as_json) == ("x", "--help", True)
    with pytest.raises(ConfigError, match="got 3 of 2"):
        parse_locate(["x", "--", "-v", "flag"])


def test_flags_have_values():
    path, question, options = parse_locate(["x", QUESTION, "--no-search", "--seconds", "9", "--seed", "4"])
    assert (path, question) == ("x", QUESTION)
    assert (options.search, options.seconds, options.seed, options.as_json) == (False, 9, 4, False)
    assert parse_locate(["x", QUESTION, "--search"])[2].search is True
    assert parse_locate(["x", QUESTION])[2].search is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--json"], True),
        (["--json", "True"], True),
        (["--json", "true", "--seed", "4"], True),
        (["--json=yes"], True),
        (["--json", "False"], False),
        (["--json=0"], False),
    ],
)
def test_a_switch_may_have_a_value(words, expected):
    for place in ([*words, "x", QUESTION], ["x", QUESTION, *words]):
        if "--seed" in words and place[0] != "x":
            continue  # flags with values stand behind the path and the question
        path, question, options = parse_locate(place)
        assert (path, question, options.as_json) == ("x", QUESTION, expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json=maybe"], "--json is a switch: write --json, or --json false, not '--json=maybe'"),
        (["--json", "--json"], "--json is given twice"),
        (["--search", "false", "--no-search"], "set the same. Give one of them"),
    ],
)
def test_a_switch_that_says_nothing_clear_is_refused(words, message):
    with pytest.raises(ConfigError, match=message):
        parse_locate(["x", QUESTION, *words])


def test_the_help_names_all_flags(capsys):
    with pytest.raises(SystemExit) as stop:
        parse_locate(["--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0
    assert all(flag in said for flag in ("--top-k", "--json", "--model", "--episodes", "--threshold", "--seed"))


def test_the_verb_answers_and_a_mistake_is_one_message(call, project, player):
    answer = call("locate", project, QUESTION, "--json", "--model", player, "--episodes", 1)
    assert answer.code == 0
    assert json.loads(answer.output)
    assert "got 1 of 2 words" in call("locate", project).mistake
    assert "no folder or archive 'nowhere'" in call("locate", "nowhere", QUESTION, "--model", player).mistake
    assert "neither a player" in call("locate", project, QUESTION, "--model", project).mistake


def test_deep_says_what_the_model_changed(project, player, capsys):
    (project / "src/rates.py").write_text("# Rates.\n")
    with suppress(SystemExit):
        run([str(project), QUESTION, "--deep", "--reader", str(player / "policy"), "--json", "--no-cache"])
    said = capsys.readouterr()
    rows = json.loads(said.out)
    assert rows[0]["changed"].startswith(f"the reader puts {rows[0]['path']} first, ")
    assert {row["changed"] for row in rows} == {rows[0]["changed"]}
    assert f"{rows[0]['changed']}\n" in said.err
    assert max(row["read"] for row in rows) == 1.0
    assert all(0 < row["read"] <= 1 for row in rows)


def test_deep_and_a_player_exclude_each_other(project, player):
    with pytest.raises(ConfigError, match="--deep ranks what the index found"):
        run([str(project), QUESTION, "--deep", "--model", str(player)])


NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@pytest.mark.parametrize(
    ("flags", "given", "threads"),
    [
        (["--deep"], {}, ["1", "1", "1", "1"]),
        (["--deep", "--reader", str(PACKAGED)], {}, ["1", "1", "1", "1"]),
        (["--deep"], {"MKL_NUM_THREADS": "2"}, ["1", "1", "2", "1"]),
        # It counts for all libraries.
        (["--deep"], {"OMP_NUM_THREADS": "2"}, ["2", None, None, None]),
        ([], {}, [None] * 4),
    ],
)
def test_the_small_reader_computes_with_one_thread(project, tmp_path, flags, given, threads):
    """More of them spin on a busy machine; numpy reads the variables when it is loaded."""
    script = (
        "import os, sys; from reflect_rl.cli.main import main; "
        "sys.addaudithook(lambda event, said: event == 'import' and said[0] == 'numpy' and "
        f"print([os.environ.get(name) for name in {NAMES}], file=sys.stderr)); "
        f"main({['locate', str(project), QUESTION, *flags]}); "
        f"print([os.environ.get(name) for name in {NAMES}])"
    )
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), **given}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == str(threads)
    assert done.stderr.splitlines()[:1] == ([str(threads)] if flags else [])


def test_the_library_leaves_the_number_of_threads_alone():
    script = (
        "import os; from reflect_locate.rereading import open_reader; open_reader(); "
        f"print([os.environ.get(name) for name in {NAMES}])"
    )
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == f"{[None] * 4}\n"


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("what is in src/kettles.py?", "src/kettles.py"),
        ("what is in kettle.py?", ""),
        ("where is cups.py read", ""),
        ("what is kettles.rb", ""),
    ],
)
def test_a_file_that_a_question_names_and_that_is_not_there_is_told(tmp_path, capsys, question, named):
    (tmp_path / "kettle.py").write_text("def boil():\n    return open('cups.py').read()\n")
    with suppress(SystemExit):
        run([str(tmp_path), question, "--no-cache"])
    told = f"no file that is read here is called {named}; the answer goes by the words."
    said = capsys.readouterr().out
    assert (told in said) if named else ("no file that is read" not in said)


def test_without_a_home_folder_questions_are_answered_without_a_cache(project, capsys, monkeypatch):
    def homeless(*_, **__):
        raise RuntimeError("no home")

    monkeypatch.setattr("platformdirs.user_cache_path", homeless)
    run([str(project), QUESTION])
    said = capsys.readouterr().out
    assert "no cache: this user has no home folder, and XDG_CACHE_HOME names no other" in said
    assert "src/limits.py:4-5" in said


def test_a_folder_whose_name_begins_with_a_tilde_is_read(tmp_path, capsys, monkeypatch):
    write_files(tmp_path / "~no-such-user", None)
    monkeypatch.chdir(tmp_path)
    run(["~no-such-user", QUESTION, "--no-cache"])
    assert "src/limits.py:4-5" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["~/kettle", "~/.kettlerc"], ["--", "~/kettle", "~/.kettlerc"]])
def test_a_path_in_the_home_folder_is_found_and_a_question_stays_as_it_is(tmp_path, capsys, monkeypatch, words):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_files(tmp_path / "kettle", {"settings.py": 'PLACE = "~/.kettlerc"\n', "tea.py": "x = 1\n"})
    parsed = []
    monkeypatch.setattr(locate, "parse_locate", lambda words: parsed.append(parse_locate(words)) or parsed[0])
    main(["locate", "--no-cache", *words])
    assert parsed[0][:2] == ("~/kettle", "~/.kettlerc")
    assert "settings.py:1" in capsys.readouterr().out


def test_a_path_is_printed_as_it_can_be_opened(tmp_path, capsys):
    write_files(tmp_path / "kettle", {"使い\u3000方.md": "# Boil water\n"})
    run([str(tmp_path / "kettle"), "boil water", "--no-cache"])
    assert "使い\u3000方.md:1-1" in capsys.readouterr().out
    assert printable_line("a\u00a0b\x1b[2J\u200b\u2028\n") == "a\u00a0b·[2J···"


def test_what_is_no_file_is_told_as_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"pipe' is no file or folder but a device, a pipe or a socket\. Give a folder"):
        run([str(tmp_path / "pipe"), QUESTION])
