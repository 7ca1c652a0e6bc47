"""`reflect-rl bench --json FILE`: a command that this package adds to the core."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from reflect_bench.bench import bench
from reflect_bench.options import BenchOptions
from reflect_rl.cli.arguments import parse_options
from reflect_rl.errors import ConfigError


def run(arguments: Sequence[str], console: Console) -> None:
    """Measure speed, ratios to the reference style (`--json FILE`)."""
    bench(bench_options(arguments), console)


def bench_options(arguments: Sequence[str]) -> BenchOptions:
    """Options of a measurement. `--quick` and `--household` need no value.

    Raises:
        ConfigError: a wrong flag or value, or a configuration file, which a benchmark does not have.
        SystemExit: the help was asked for (0).
    """
    named, options = parse_options("reflect-rl bench", BenchOptions, arguments)
    if named:
        raise ConfigError(f"bench takes no configuration file, got {named[0]}. --run FOLDER names a run's players.")
    return options
