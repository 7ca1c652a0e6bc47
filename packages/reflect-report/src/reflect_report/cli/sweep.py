"""`reflect-rl sweep CONFIG --over FIELD=VALUES ...`: a run for each combination, and the best by validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rich.console import Console

from reflect_report.sweep.axes import Axis, combinations, parse_axes
from reflect_report.sweep.search import require_optuna
from reflect_report.sweep.settings import SweepOptions
from reflect_rl.cli.arguments import FLAG, fields_of, parse_arguments, scan
from reflect_rl.envs.base import require_known
from reflect_rl.errors import ConfigError

if TYPE_CHECKING:
    from reflect_report.sweep.conduct import Sweep

OWN = tuple(name for name, _ in fields_of(SweepOptions))
SHOWN = (*OWN, "output_dir", "seeds", "methods", "threads", "rlft.total_turns", "rlft.learning_rate")
KEPT = "the same command goes on from the last checkpoints"


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: a configuration file or run folder, then flags.
        console: where progress and the table are printed.

    Raises:
        ReflectRLError: cells failed; the others are done.
        UserError: a mistake in the arguments; nothing was begun then.
        SystemExit: the help was asked for (0).
    """
    from reflect_rl.runs.workers import load_ahead

    sweep = parse_sweep(arguments, console)
    load_ahead()
    # Imported late: torch takes seconds, for which no mistake in a name must wait.
    from reflect_report.sweep.plan import open_sweep
    from reflect_rl.runs.folder import alone

    facts = {
        "over": {axis.field: list(axis.values) if isinstance(axis, Axis) else [axis.spelling] for axis in sweep.axes},
        "search": bool(sweep.options.search),
    }
    open_sweep(sweep.folder, sweep.command, sweep.base, facts)
    with alone(sweep.folder):
        try:
            sweep.conduct()
        except KeyboardInterrupt as stop:
            raise type(stop)(KEPT) from None


def parse_sweep(arguments: Sequence[str], console: Console) -> Sweep:
    """The sweep that a command describes, with the cells of a grid; nothing is written.

    Args:
        arguments: a configuration file or run folder, then flags.
        console: where the sweep will print.

    Raises:
        UserError: a mistake in the arguments.
        SystemExit: the help was asked for (0).
    """
    words = joined(arguments)
    call = parse_arguments("sweep", words, SweepOptions, SHOWN)
    options = cast(SweepOptions, call.own)
    axes = parse_axes(options.over, searches=options.search > 0)
    rest, names = _without_own(words)
    if options.search:
        require_optuna()
    if "workers" in names:
        raise ConfigError("--workers: each run of a sweep has one process. Give --jobs for several runs at a time.")
    if options.mode:
        require_known(f"mode of {call.config.environment.name}", options.mode, call.config.evaluated_modes)
    from reflect_report.sweep.conduct import Sweep
    from reflect_report.sweep.plan import refuse_fields

    refuse_fields([axis.field for axis in axes], rest)
    # The folder that the file names is that of a run; a sweep has one beside it.
    output = call.config.output_dir
    folder = output if "output_dir" in names else output.with_name(f"{output.name}-sweep")
    command = " ".join(["reflect-rl", "sweep", *arguments])
    sweep = Sweep(tuple(rest), call.config, options, axes, folder, command, console)
    grid = [axis for axis in axes if isinstance(axis, Axis)]
    if not options.search:
        sweep.add(combinations(grid))
        return sweep
    # One cell is made to see that the names are right; what is drawn is checked when it is drawn.
    ends = [axis if isinstance(axis, Axis) else Axis(axis.field, (axis.spelling.partition("..")[0],)) for axis in axes]
    sweep.add([next(combinations(ends))])
    sweep.cells.clear()
    return sweep


def _without_own(words: Sequence[str]) -> tuple[list[str], set[str]]:
    """The words of the run alone, and the names of its flags."""
    named, flags, _ = scan(words)
    if not named:
        raise ConfigError("name a configuration file: reflect-rl sweep configs/taxi/smoke.toml --over seed=0..2")
    rest, names = [*named], set()
    for flag in flags:
        name = flag.spelling.lstrip("-").replace("-", "_")
        names.add(name)
        if name not in (*OWN, "output_dir"):
            rest += [flag.spelling if flag.value is None else f"{flag.spelling}={flag.value}", *flag.words]
    return rest, names


def joined(arguments: Sequence[str]) -> list[str]:
    """The words with all `--over` in one: elsewhere a flag is given once, with all its values.

    >>> joined(["a.toml", "--over", "seed=0..2", "--jobs", "2", "--over=x=1"])
    ['a.toml', '--jobs', '2', '--over', 'seed=0..2', 'x=1']
    """
    words, over, rest = list(arguments), list[str](), list[str]()
    while words:
        word = words.pop(0)
        if word != "--over" and not word.startswith("--over="):
            rest.append(word)
            continue
        over += [word.removeprefix("--over=")] if word != "--over" else []
        while word == "--over" and words and not FLAG.match(words[0]):
            over.append(words.pop(0))
    return [*rest, *(["--over", *over] if over else [])]
