"""`reflect-rl VERB [CONFIG] [FLAGS]`. A user's mistake is one message and exit code 2, never a traceback."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from reflect_rl import __version__, registry
from reflect_rl.errors import (
    FaultyEnvironmentError,
    ReflectRLError,
    ReflectRLWarning,
    UserError,
    printable,
    suggestion,
)
from reflect_rl.launch import QUIET, keep_few_kernels, process_count, process_rank, wait_to_speak
from reflect_rl.paths import expanded

if TYPE_CHECKING:
    from rich.console import Console

    from reflect_rl.runs.config import RunConfig
    from reflect_rl.runs.run import Bars

VERBS = ("run", "data", "sft", "rlft", "eval")
"""Verbs that keep what they have when they are interrupted; so do stages of other packages."""

USAGE = f"""\
reflect-rl {__version__}: two-player online RL fine-tuning of language models, local first.

usage: reflect-rl VERB [CONFIG.toml | RUN_FOLDER] [--any.field VALUE ...]
  run       generate data, train, evaluate and report: all stages
  data      demonstrations and supervised data sets
  sft       supervised training of the reflection player and the policies
  rlft      online RL fine-tuning
  eval      evaluate every method, write results.json
  play      show one episode turn by turn, or play one yourself
  report    write results.json and report.html of one run or several; --live serves the page of runs under way
  status    what runs do at this moment: progress, success so far, speed, time left, memory
  watch     the same, refreshed until they are over
  sweep     a run for each value of some settings, and the best by validation
  prefer    say which of two episodes is better, for reward models
  new       a package to start from, for an environment or an algorithm of your own
  model     download a pretrained model by its short name, or list these names
  bench     measure the speed of training (no configuration; --json FILE)

  annotate  reflections of the demonstrations by a language model
  log       play the episodes that `learn` trains on
  pairs     choose between episodes or actions, for `reward` and `learn`
  reward    train a model of the reward on these pairs
  learn     train policies on logs, a solver's answers or pairs
  rlft_both  online RL of both players
  tasks     make questions from repositories: docstrings, documents, git history
  locate    find the file of a repository that answers a question
  adapt     fit the ranking of locate to a repository of your own
  export    take a trained player out of a run, for `locate` and `serve`
  serve     answer editors and coding agents: an MCP server
  train_reader  train the model of `locate --deep` on such questions

`reflect-rl VERB --help` explains the usual settings, --help-all all; --dry-run of `run`, `data`, `rlft`, `eval` and
stages of packages shows what would be sent to a server. First contact:
  reflect-rl play --player human && reflect-rl run configs/taxi/smoke.toml
"""

DONE, FAILED, MISTAKE, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143
"""Exit codes; the last three are 128 + SIGINT, SIGPIPE and SIGTERM, as in a shell."""

TRACEBACK = "REFLECT_RL_TRACEBACK"
"""Environment variable: set to show the traceback of a fault of this program."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: the way out is that of Ctrl-C, and its message and exit code are its own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0 done, 1 failed, 2 a mistake in the input, 130 interrupted."""
    # First of all: oneDNN reads its variable when it computes something for the first time.
    keep_few_kernels()
    words = list(sys.argv[1:] if arguments is None else arguments)
    verb = words[0] if words else ""
    for stream in (sys.stdout, sys.stderr):
        # A terminal of another encoding (LC_ALL=C) gets a question mark for a letter that it lacks, and no error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # Signals can be handled in the main thread alone; another one is an embedding program's.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    warnings.formatwarning = _warning_line
    try:
        return _dispatch(words)
    except SystemExit as stop:  # the help is shown
        return _exit_code(stop)
    except KeyboardInterrupt as stop:
        return _ended(stop, verb)
    except BrokenPipeError:
        _close_output()
        # `report RUN | head` ends as every filter does; a training that stops is told.
        if verb in VERBS and process_rank() == 0:
            with suppress(OSError):
                _tell("stopped: the reader of the output has left; the same command goes on from there.")
        return BROKEN_PIPE
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        # Raised inside a lock, the signal comes out as that lock's complaint.
        if isinstance(error.__context__, Terminated):
            return _ended(error.__context__, verb)
        # The launcher ends the processes that wait here; they have nothing more to say.
        if process_count() > 1 and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # All processes of a launch may fail of one cause; a user is to read it once.
        wait_to_speak(error)
        # Values in a message may come from somebody else's file, and could steer the terminal.
        _tell(f"error: {printable(_message(error))}")
        return MISTAKE if isinstance(error, UserError) or _is_refused(error) else FAILED
    finally:
        _drop_unwritten_notes()


_LIBRARY_LINES = warnings.formatwarning


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """One line for a warning of this program; those of libraries say where they come from."""
    if issubclass(category, ReflectRLWarning):
        return f"warning: {printable(str(message))}\n"
    return _LIBRARY_LINES(message, category, filename, lineno, line)


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return int(stop.code or DONE)
    # As in Python itself: anything but a number is the reason of a failure.
    _tell(f"error: {printable(str(stop.code))}")
    return FAILED


def _ended(stop: KeyboardInterrupt, verb: str) -> int:
    # A launcher sends the signal to all processes; one message is enough.
    if process_rank() == 0:
        # A command of another package says in its interrupt what is kept; no other one is known to keep anything.
        goes_on = verb in (*VERBS, *registry.names("stages"))
        kept = "the same command goes on from the last checkpoint" if goes_on else str(stop)
        what = "ended by SIGTERM" if isinstance(stop, Terminated) else "interrupted"
        _tell(f"\n{what}{'; ' if kept else ''}{kept}.")
    return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


def _tell(message: str) -> None:
    # To stderr, so that results in a pipe stay clean. Whether it is closed or its disk full changes no exit code.
    if sys.stderr is not None:
        with suppress(OSError):
            print(message, file=sys.stderr, flush=True)


def _drop_unwritten_notes() -> None:
    """Drop what stderr did not take: Python would try again as it ends, fail, and exit with 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


REFUSALS = {
    errno.EROFS: "Make the folder writable",
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.EISDIR: "Move this folder away, where a file belongs",
    errno.ENOTDIR: "Move this file away, where a folder belongs",
}
"""Remedies of the user for errors of the system, besides rights."""


def _is_refused(error: Exception) -> bool:
    """Tell whether a file or folder may not be written or read, or not have its name, which the user can change."""
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, *REFUSALS)


def _message(error: Exception) -> str:
    if isinstance(error, ReflectRLError):
        # A failure in a job has its traceback in a file, and the cause that comes from a worker has none.
        raised_here = isinstance(error, FaultyEnvironmentError) and getattr(error.__cause__, "__traceback__", None)
        return f"{error} {TRACEBACK}=1 shows where." if raised_here else str(error)
    if isinstance(error, OSError) and error.errno:
        place = f" ({error.filename})" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"the disk is full{place}. Free some space; the same command goes on from where it was."
        if _is_refused(error):
            # Rights may lack for reading as well.
            remedy = REFUSALS.get(error.errno, "Check its rights")
            return f"{error.strerror}{place}. {remedy}, and give the same command again."
        return f"{error.strerror}{place}. What was finished is kept; the same command goes on from there."
    if isinstance(error, MemoryError):
        return "memory ran out. Lower the batch sizes or the size of the model."
    return f"unexpected {type(error).__name__}: {error}. {TRACEBACK}=1 shows where; please report it."


def _close_output() -> None:
    """The reader of a pipe has left; nothing more may be written, not even at exit."""
    with suppress(OSError, ValueError):
        # Python flushes stdout when it ends, and would report the broken pipe again there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: Sequence[str]) -> int:
    for word in words:
        # Bytes that are no UTF-8 come as lone surrogates, which no file of a run can hold.
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UserError(
                f"{word!a} holds bytes that are no UTF-8 text. Rename the file or folder, or write the word in UTF-8."
            )
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE, end="", flush=True)
        return DONE if words else MISTAKE
    if words[0] == "--version":
        print(__version__, flush=True)
        return DONE
    # With dashes as well, as flags are spelt.
    verb = words[0].replace("-", "_")
    added = [*registry.names("stages"), *registry.names("commands")]
    # Names of commands that another package would add are let through: looking them up names that package.
    if sentence := "" if verb in added else registry.companion("stages", verb):
        raise UserError(sentence[0].upper() + sentence[1:])
    if verb not in (*VERBS, *added, *registry.COMPANIONS["commands"]):
        raise UserError(f"no command {words[0]!r}. {suggestion(words[0], [*VERBS, *added])}")
    _call(verb, words[1:])
    return DONE


def _call(verb: str, arguments: Sequence[str]) -> None:
    # Imports stand in functions here: torch takes seconds, for which no misspelt verb should wait.
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    command = None if verb in (*VERBS, *registry.names("stages")) else registry.find("commands", verb)
    if isinstance(command, registry.PlainCommand):
        # It expands the paths among its words itself: another word may be a question about `~/.netrc`.
        command(arguments)
        return
    # No shell expands a quoted `~/runs`, and a folder named `~` is dangerous to delete.
    arguments = [str(expanded(word)) if word.startswith("~/") and " " not in word else word for word in arguments]
    if command is not None:
        command(arguments, _console())
        return
    from reflect_rl.cli.arguments import parse_arguments

    call = parse_arguments(verb, arguments)
    if call.dry_run:
        _show_requests(verb, call.config, _console())
    else:
        _stages(verb, call.config, " ".join(["reflect-rl", verb, *arguments]), _console())


def _console() -> Console:
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> NoReturn:
            raise BrokenPipeError  # `main` says what happened; rich would end the program without a word

    # No markup, since `[data]` is a table and not a style.
    return Output(highlight=False, soft_wrap=True, markup=False, emoji=False)


def _stages(verb: str, config: RunConfig, command: str, console: Console) -> None:
    from reflect_rl.runs.workers import load_ahead

    if process_count() == 1:
        # It takes seconds, in which this process looks at the settings.
        load_ahead()

    from reflect_rl.runs.check import feasible, settle
    from reflect_rl.runs.folder import alone
    from reflect_rl.runs.run import Bars, gather
    from reflect_rl.runs.stages import plan, stages, stages_of
    from reflect_rl.runs.start import begin

    # Before the folder is opened: what is decided here is written into its config.json.
    config, notes = settle(config, trains=verb in ("run", "sft", "rlft"))
    config, left_out = feasible(config)
    learns = any(config.method(name).model for name in config.methods)
    # Without a player that learns, demonstrations would be made for nobody.
    kinds = ("eval",) if verb == "run" and not learns else stages_of(verb)
    _refuse_idle(verb, config)
    if process_rank() > 0:
        # The main process opens the folder, shows progress and reports.
        _run_jobs(config, kinds, Bars(console, 0))
        return
    for note in (*notes, *left_out):
        console.print(note)
    for title in begin(config, command, evaluates=verb == "eval"):
        console.print(f"taken {title}  (from {config.start_from})")
    # Counted after `begin`, which may have taken finished jobs from another run.
    jobs = sum(job.kind in kinds and not job.done for job in plan(config))
    # The lock before the bars: a refusal is then one line and not one under an empty bar.
    with alone(config.output_dir), Bars(console, jobs) as bars:
        _run_jobs(config, kinds, bars)
    for stage in (stages()[kind] for kind in kinds):
        if stage.concerns(config) and (summary := stage.summary(config)):
            console.print(summary)
    if verb in ("run", "eval"):
        gather(config)
    if not jobs and verb != "run":
        console.print(f"nothing to do: all jobs of `{verb}` are done in {config.output_dir}")
    if verb == "run":
        _show_results(config.output_dir, console)


def _run_jobs(config: RunConfig, kinds: Sequence[str], bars: Bars) -> None:
    """Do the jobs with the workers of this process, or together with the others of a launch."""
    if process_count() > 1:
        # Imported late: it loads torch, which the parent of workers does without.
        from reflect_rl.runs.distributed import run_jobs_distributed

        run_jobs_distributed(config, kinds, bars)
    else:
        from reflect_rl.runs.run import run_jobs

        run_jobs(config, kinds, bars)


def _show_requests(verb: str, config: RunConfig, console: Console) -> None:
    """Print the requests that the stages of a command would send to a server; send and write nothing."""
    from reflect_rl.runs.check import check
    from reflect_rl.runs.config import PreviewsRequests, used_parts
    from reflect_rl.runs.stages import stages_of

    # A dry run opens no folder, so nothing else has looked at the configuration.
    check(config)
    _refuse_idle(verb, config)
    asking = [part for part in used_parts(config) if isinstance(part, PreviewsRequests)]
    # Each text once: a policy and a reflector may share a server, and both tell of it.
    texts = dict.fromkeys(text for part in asking for text in part.preview(config, stages_of(verb)))
    console.print("\n\n".join(texts) or "Nothing of this run asks a server: nothing would be sent.")


def _refuse_idle(verb: str, config: RunConfig) -> None:
    """Refuse a command that names a stage which has nothing to do in this run."""
    from reflect_rl.runs.stages import stages

    stage = stages().get(verb)
    if stage is not None and (reason := stage.refusal(config)):
        raise UserError(reason)


def _show_results(folder: Path, console: Console) -> None:
    """The tables and pages of all installed reports; where there is none, the results and what to install."""
    from reflect_rl.runs.config import write_report

    for name in registry.names("reports"):
        report = write_report(name, [folder], folder)
        console.print(report.tables)
        console.print(f"report: {report.page}")
    if not registry.names("reports"):
        console.print(f"results: {folder / 'results.json'}")
        console.print(f"no report is written: {registry.companion('reports', 'page')}")


if __name__ == "__main__":
    sys.exit(main())
