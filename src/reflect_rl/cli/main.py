"""`reflect-rl VERB [CONFIG] [FLAGS]`. A user's mistake is one message and exit code 2, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from reflect_rl import __version__
from reflect_rl.core.errors import ReflectRLError, UserError, suggestion

__all__ = ["main"]

VERBS = ("run", "data", "sft", "rlft", "eval", "report", "play")

USAGE = f"""\
reflect-rl {__version__}: two-player online RL fine-tuning of language models, local first.

usage: reflect-rl VERB [CONFIG.toml] [--output-dir DIR] [--any.field VALUE ...]

  run     generate data, train, evaluate and report: all stages
  data    demonstrations and supervised data sets
  sft     supervised training of the reflection player and the policies
  rlft    online RL fine-tuning
  eval    evaluate every method, write results.json
  report  write results.json and report.html (several run folders: one page for all)
  play    show one episode turn by turn, or play one yourself

`reflect-rl VERB --help` explains every field. First contact: reflect-rl run configs/taxi/smoke.toml
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0 done, 1 failed, 2 a mistake in the input, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    console = Console(highlight=False, soft_wrap=True)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    if not words or words[0] in ("-h", "--help", "help"):
        console.print(escape(USAGE), end="")
        return 0 if words else 2
    if words[0] == "--version":
        console.print(__version__)
        return 0
    if words[0] not in VERBS:
        errors.print(escape(f"error: no command {words[0]!r}. {suggestion(words[0], VERBS)}"))
        return 2
    try:
        return _call(words[0], words[1:], console)
    except UserError as error:
        errors.print("error: " + escape(str(error)))
        return 2
    except ReflectRLError as error:
        errors.print("error: " + escape(str(error)))
        return 1
    except KeyboardInterrupt:
        errors.print("interrupted; the same command goes on from the last checkpoint.")
        return 130
    except OSError as error:
        errors.print(escape(f"error: {error.strerror or error}: {error.filename or ''}. {_os_remedy(error)}"))
        return 1


def _os_remedy(error: OSError) -> str:
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The disk is full. Free some space; the same command goes on from the last checkpoint."
    return "What was finished is kept; the same command goes on from there."


def _call(verb: str, arguments: list[str], console: Console) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from reflect_rl.cli.arguments import parse_arguments

    call = parse_arguments(verb, arguments)
    command = " ".join(["reflect-rl", verb, *arguments])
    if verb == "play":
        from reflect_rl.cli.play import show

        show(call.config, call.play, console)
        return 0
    if verb == "report" and len(call.folders) > 1:
        _report(list(call.folders), _combined_folder(call.folders, arguments), console)
        return 0
    _stages(verb, call.config, command, console)
    return 0


def _combined_folder(folders: Sequence[Path], arguments: Sequence[str]) -> Path:
    """Where the page of several runs goes: --output-dir, or the first run's folder."""
    if "--output-dir" in arguments:
        return Path(arguments[list(arguments).index("--output-dir") + 1])
    return folders[0]


def _stages(verb: str, config: "RunConfig", command: str, console: Console) -> None:  # noqa: F821, UP037
    from reflect_rl.cli.progress import Bars
    from reflect_rl.pipeline.folder import open_run
    from reflect_rl.pipeline.jobs import KINDS
    from reflect_rl.pipeline.run import gather, run_jobs

    if verb != "report":
        open_run(config, command)
        kinds = KINDS if verb == "run" else tuple(kind for kind in KINDS if kind == verb)
        with Bars(console) as bars:
            run_jobs(config, kinds, bars)
    if verb in ("run", "eval", "report"):
        gather(config)
    if verb in ("run", "report"):
        _report([config.output_dir], config.output_dir, console)


def _report(folders: list[Path], target: Path, console: Console) -> None:
    from reflect_rl.reports.page import write_report
    from reflect_rl.reports.tables import terminal_table

    target.mkdir(parents=True, exist_ok=True)
    page = write_report(folders, target / "report.html")
    console.print(terminal_table(folders))
    console.print(f"report: {escape(str(page))}")


if __name__ == "__main__":
    sys.exit(main())
