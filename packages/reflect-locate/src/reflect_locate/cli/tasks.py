"""`reflect-rl tasks PATH...`: questions about files, made from the files themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from reflect_locate.questions.benchmark import check
from reflect_locate.questions.build import build_task_set, preview
from reflect_locate.questions.card import card_tables
from reflect_locate.questions.config import TasksConfig
from reflect_locate.repositories.ingest import check_named
from reflect_rl.cli.arguments import parse_options
from reflect_rl.config import parse, read_toml
from reflect_rl.errors import ConfigError

SWITCHES = ("check_benchmark", "dry_run")
"""Settings that do something else than build a task set."""

KNOWN, UNKNOWN = 0, 1
"""Exit codes of the check of the benchmark: it is the known one, or it is not or cannot be told."""


class TasksOptions(TasksConfig):
    """Make questions about files from the files themselves."""

    check_benchmark: bool = False
    """Build the benchmark from the standard library of the running Python, write nothing, and say whether it is the
    known one of this Python version (exit code 0) or not (1)."""
    dry_run: bool = False
    """Read the corpora, and show what would be sent to the endpoint, how much, and the first request in full; send and
    write nothing."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: a TOML file or corpora, then flags.
        console: where the card is printed.

    Raises:
        UserError: a mistake in the arguments, or a corpus that cannot be read.
        SystemExit: the help was asked for (0), or the benchmark was checked: it is the known one (0), or not (1).
    """
    options = parse_tasks(arguments)
    if options.check_benchmark:
        is_known, told = check()
        console.print(told)
        raise SystemExit(KNOWN if is_known else UNKNOWN)
    # The switches are no settings of a task set and must not reach its card.
    config = parse(TasksConfig, options.model_dump(exclude=set(SWITCHES)))
    if options.dry_run:
        console.print(preview(config))
        return
    tasks = build_task_set(config, console.print)
    console.print(card_tables(tasks.card))
    console.print(f"task set: {tasks.folder}  (identity {tasks.identity[:12]}; the whole card is in card.json)")


def parse_tasks(arguments: Sequence[str]) -> TasksOptions:
    """The options of a call.

    Raises:
        ConfigError: a wrong key or value, or several configuration files.
        SystemExit: the help was asked for (0).
    """
    return parse_options("reflect-rl tasks [CONFIG.toml | CORPUS...]", TasksOptions, arguments, _values)[1]


def _values(named: Sequence[str]) -> dict[str, Any]:
    """Settings of the configuration file, or the corpora that were named."""
    for word in named:
        check_named(word)
    paths = [Path(word) for word in named]
    files = [path for path in paths if path.suffix == ".toml"]
    # A corpus is a path too, so only the ending `.toml` tells a configuration.
    if not files:
        return {"corpora": [str(path) for path in paths]} if paths else {}
    if len(paths) > 1:
        raise ConfigError(f"name one configuration file, or corpora, got {', '.join(map(str, paths))}.")
    return read_toml(files[0])
