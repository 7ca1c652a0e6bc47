"""`reflect-rl bench --json FILE`: a command that this package adds to the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from reflect_bench.bench import bench
from reflect_bench.options import GENERATED, BenchOptions
from reflect_rl.cli.arguments import overridden, show_help, split_words
from reflect_rl.config import parse
from reflect_rl.errors import ConfigError

__all__ = ["run"]

DESCRIPTION = "Measure the speed of training: ratios to loops in the style of the public reference code."


def run(arguments: Sequence[str], console: Console) -> None:
    """Measure speed, ratios to the reference style (`--json FILE`)."""
    words = [word for word in arguments if word not in ("-h", "--help")]
    bench(bench_options(words, wants_help=len(words) < len(arguments)), console)


def bench_options(words: Sequence[str], *, wants_help: bool) -> BenchOptions:
    """What to measure. A benchmark has no configuration file; `--json FILE` is its `file`.

    `--quick` and `--household` need no value.
    """
    paths, flags = split_words("bench", words)
    if paths:
        raise ConfigError(f"bench takes no configuration file, got {paths[0]}. --run FOLDER names a run's players.")
    if "json" in flags:
        flags["file"] = flags.pop("json")
    for name, value in (("quick", "true"), ("household", GENERATED)):
        if flags.get(name) == []:
            flags[name] = [value]
    names: Any = {"json": BenchOptions.model_fields["file"]}
    options = parse(BenchOptions, overridden(BenchOptions, {}, flags, names))
    if wants_help:
        show_help("bench", BenchOptions, options, DESCRIPTION)
    return options
