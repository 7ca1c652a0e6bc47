"""Commands, exit codes, help, and what an import costs."""

import errno
import io
import os
import re
import subprocess
import sys
import warnings

import pytest
from tiny_run import SMOKE

from reflect_rl import registry
from reflect_rl.cli import main as cli
from reflect_rl.cli.help import DESCRIPTIONS
from reflect_rl.errors import FaultyEnvironmentError, ReflectRLWarning, TrainingError
from reflect_rl.evaluation.methods import method_names
from reflect_rl.watchdog import guarded

VERBS = ("run", "data", "sft", "rlft", "eval")
TOOLS = ("bench", "tasks", "locate", "adapt", "export", "serve")


def test_importing_the_package_and_the_entry_point_loads_no_heavy_library():
    # Gymnasium (with numpy) and the base of the settings are loaded: the import registers the games there.
    heavy = "torch", "transformers", "accelerate", "rich.progress", "scipy"
    code = f"import sys, reflect_rl, reflect_rl.cli.main; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_call_without_a_verb_shows_the_verbs_and_is_a_mistake(call):
    answer = call()
    assert answer.code == 2
    assert all(f"\n  {verb} " in answer.output for verb in (*VERBS, *TOOLS))


def test_every_verb_has_a_description_in_the_order_of_the_usage():
    assert tuple(DESCRIPTIONS) == cli.VERBS == VERBS
    shown = re.findall(r"^  (\w+)  +\w", cli.USAGE, re.MULTILINE)
    assert tuple(shown[: len(VERBS)]) == VERBS
    assert set(shown[len(VERBS) :]) == {*registry.names("commands"), *registry.names("stages")}


def test_a_command_of_a_package_that_is_not_installed_names_the_package(call, monkeypatch):
    monkeypatch.setattr(registry, "_installed", lambda kind: {})
    message = call("locate", ".", "who?").mistake
    assert "the command 'locate' comes with the package reflect-locate. Install it: pip install" in message


@pytest.mark.parametrize("verb", TOOLS)
def test_the_tools_explain_themselves_without_a_configuration(call, verb):
    answer = call(verb, "--help")
    assert answer.code == 0
    assert answer.output.startswith(f"usage: reflect-rl {verb}")
    assert "--seed VALUE" in answer.output or verb == "bench"


@pytest.mark.parametrize(
    ("verb", "note"),
    [
        *((verb, "; the same command goes on from the last checkpoint") for verb in ("run", "data", "rlft")),
        *((verb, "") for verb in ("report", "play", "bench", "tasks", "locate", "serve")),
    ],
)
def test_only_commands_that_keep_something_promise_to_go_on(call, monkeypatch, verb, note):
    def press_ctrl_c(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_call", press_ctrl_c)
    answer = call(verb, "x")
    assert (answer.code, answer.errors) == (130, f"\ninterrupted{note}.\n")


@pytest.mark.parametrize(
    ("code", "answer", "errors"),
    [(None, 0, ""), (0, 0, ""), (3, 3, ""), ("the index is \x1b[2J gone", 1, "error: the index is ·[2J gone\n")],
)
def test_a_command_that_ends_by_itself_keeps_its_code_or_its_reason(call, monkeypatch, code, answer, errors):
    monkeypatch.setattr(cli, "_call", lambda *_: sys.exit(code))
    ended = call("locate", "x")
    assert (ended.code, ended.errors) == (answer, errors)


def test_the_place_of_a_failure_outside_of_jobs_can_be_shown(call, monkeypatch):
    def fail(*_):
        guarded("my game, __init__", 0, lambda: 1 / 0)

    monkeypatch.setattr(cli, "_call", fail)
    ended = call("play", "x")
    message = "error: my game, __init__: ZeroDivisionError: division by zero. REFLECT_RL_TRACEBACK=1 shows where.\n"
    assert (ended.code, ended.errors) == (1, message)
    monkeypatch.setenv(cli.TRACEBACK, "1")
    with pytest.raises(FaultyEnvironmentError):
        call("play", "x")


def test_an_installed_command_says_in_its_interrupt_what_is_kept(call, monkeypatch):
    def press_ctrl_c(*_):
        raise KeyboardInterrupt("the files so far are kept")

    monkeypatch.setattr(registry, "find", lambda kind, name: press_ctrl_c)
    assert call("locate", "x").errors == "\ninterrupted; the files so far are kept.\n"


@pytest.mark.parametrize("word", ["-h", "--help", "help"])
def test_the_help_is_no_mistake(call, word):
    assert call(word).code == 0


def test_the_version_is_printed_alone(call):
    assert call("--version").output.strip() == cli.__version__


def test_a_verb_may_be_spelt_with_dashes(call):
    assert "no method of the run trains both players" in call("rlft-both", SMOKE).mistake


def test_a_help_that_nobody_reads_is_no_fault():
    words = [sys.executable, "-m", "reflect_rl", "run", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misspelt_verb_gets_the_nearest_one(call):
    assert "no command 'evall'. Did you mean 'eval'?" in call("evall").mistake


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_every_field_with_its_present_value(call, verb):
    answer = call(verb, SMOKE, "--rlft.num_envs", "17", "--help-all")
    assert answer.code == 0
    words = " ".join(answer.output.split())
    assert "--rlft.total-turns VALUE Training budget in environment turns. (now: 200)" in words
    assert "--rlft.num-envs VALUE Games played at once. (now: 17)" in words
    assert "--prompt.shuffle-labels [true|false] " in words
    assert ("--player" in words) == (verb == "play")
    # A field without a docstring would show its value right after its type.
    assert " VALUE (now" not in words


def test_the_short_help_shows_what_most_runs_change_and_where_the_rest_is(call):
    short, long = (call("run", SMOKE, flag).output for flag in ("--help", "--help-all"))
    assert len(short.splitlines()) < len(long.splitlines()) / 3
    assert "--rlft.total-turns" in short
    assert "--rlft.num-updates-per-batch" not in short
    assert short.endswith("--help-all lists all flags.\n")


def test_the_help_lists_the_installed_names_that_a_flag_chooses_from(call):
    words = " ".join(call("run", "--help").output.split())
    for name, kind in (("environment", "environments"), ("rlft.algorithm", "algorithms")):
        assert f"--{name}.name {{{','.join(registry.names(kind))}}}" in words
    assert "--methods " in words
    assert all(method in words for method in method_names())


def test_the_help_of_play_begins_with_what_it_plays(call):
    flags = re.findall(r"^  --([\w.-]+)", call("play", "--help").output, re.MULTILINE)
    assert flags[:3] == ["player", "mode", "task"]
    # What only trainings have is no part of it.
    assert not {"workers", "seeds", "rlft.total-turns", "data.demonstration-starts"} & set(flags)


def test_the_help_needs_no_configuration_file(call):
    assert call("run", "--help").code == 0


@pytest.mark.parametrize("verb", ["run", "data", "sft", "rlft", "eval"])
def test_the_help_shows_that_a_file_or_folder_is_needed(call, verb):
    assert call(verb, "--help").output.startswith(f"usage: reflect-rl {verb} (CONFIG.toml | RUN_FOLDER) [--flag")
    assert "name a configuration file or a run folder" in call(verb, "--environment.name", "corridor").mistake


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m reflect_rl.cli.main run --help | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (TrainingError("the loss is nan; lower it"), 1, "error: the loss is nan; lower it\n"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a/b"), 1, "error: the disk is full (a/b). Free some space"),
        (
            PermissionError(errno.EACCES, "Permission denied", "a/b"),
            2,
            "error: Permission denied (a/b). Check its rights, and",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "a/b"),
            2,
            "error: Read-only file system (a/b). Make the folder",
        ),
        (MemoryError(), 1, "error: memory ran out."),
        (ZeroDivisionError("by zero"), 1, "error: unexpected ZeroDivisionError: by zero. REFLECT_RL_TRACEBACK=1"),
        (KeyboardInterrupt(), 130, "\ninterrupted; the same command goes on from the last checkpoint.\n"),
        (cli.Terminated(), 143, "\nended by SIGTERM; the same command goes on from the last checkpoint.\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, "stopped: the reader of the output has left; the same"),
    ],
)
def test_each_failure_is_one_message_and_its_exit_code(call, monkeypatch, error, code, message):
    def fail(*_):
        raise error

    monkeypatch.setattr(cli, "_call", fail)
    answer = call("run", "x.toml")
    assert answer.code == code
    assert answer.errors.startswith(message)


def test_a_signal_inside_a_lock_is_still_the_signal(call, monkeypatch):
    """SIGTERM may arrive while a lock is taken, which then complains in its place."""

    def fail(*_):
        try:
            raise cli.Terminated
        finally:
            raise RuntimeError("release unlocked lock")

    monkeypatch.setattr(cli, "_call", fail)
    answer = call("run", "x.toml")
    assert answer.code == 143
    assert answer.errors == "\nended by SIGTERM; the same command goes on from the last checkpoint.\n"


def test_rich_leaves_a_broken_pipe_to_the_program(call, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    assert cli.main(["--version"]) == 141


def test_no_message_steers_the_terminal(call, monkeypatch):
    def fail(*_):
        raise TrainingError("a name with \x1b[2J in it")

    monkeypatch.setattr(cli, "_call", fail)
    assert call("run", "x.toml").errors == "error: a name with ·[2J in it\n"


def test_a_warning_of_the_program_is_one_line(call):
    call("nothing")
    assert warnings.formatwarning(ReflectRLWarning("3 of 4"), ReflectRLWarning, "a.py", 1) == "warning: 3 of 4\n"
    assert warnings.formatwarning("3 of 4", UserWarning, "a.py", 1).startswith("a.py:1: UserWarning: 3 of 4\n")


def test_a_path_that_is_no_text_is_a_mistake(call):
    assert r"'run-\udcff' holds bytes that are no UTF-8 text. Rename" in call("run", "run-\udcff").mistake


def test_a_terminal_without_unicode_gets_question_marks_and_no_error():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = (sys.executable, "-m", "reflect_rl", "play", "--environment.name", "corridor", "--task", "größer")
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, b"no task 'gr??er'" in done.stderr) == (2, True)


def test_a_fault_of_the_program_shows_where_on_request(call, monkeypatch):
    monkeypatch.setenv("REFLECT_RL_TRACEBACK", "1")
    monkeypatch.setattr(cli, "_call", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("run")
