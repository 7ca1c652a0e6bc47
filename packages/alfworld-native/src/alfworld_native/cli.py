"""Command line: `alfworld-native generate`, `check` and `bench`."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from alfworld_native.errors import GameError, HouseholdError
from alfworld_native.generate import GameSplit, generate_games
from alfworld_native.official import write_games
from alfworld_native.record import TASK_TYPES, Wording


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code: 0, 1 if `check` found a difference, 2 for input that cannot be used.

    Args:
        arguments: without the name of the program; None = those of this process.
    """
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        # One line, as for errors: where a warning was raised helps nobody who gave a command.
        warnings.showwarning = lambda message, *_: print(f"alfworld-native: {message}", file=sys.stderr)
        try:
            return int(options.run(options))
        except HouseholdError as error:
            print(f"alfworld-native: {error}", file=sys.stderr)
            return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="alfworld-native", description="Household games of ALFWorld in text.")
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_generate(commands.add_parser("generate", help="write generated games in ALFWorld's layout"))
    _add_check(commands.add_parser("check", help="play games beside TextWorld, and print differences"))
    _add_bench(commands.add_parser("bench", help="measure this package and TextWorld"))
    return parser


def _add_generate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="of the split, for example $ALFWORLD_DATA/json_2.1.1/train")
    parser.add_argument("--split", choices=get_args(GameSplit), default="train")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first game")
    parser.add_argument("--wording", choices=get_args(Wording), default="2.1.1")
    parser.set_defaults(run=_generate)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        nargs="?",
        default="generated:test:10",
        help="a folder in ALFWorld's layout, a .jsonl.xz of compact records, or generated:<split>:<count>[:<seed>]",
    )
    parser.add_argument("--games", type=int, default=10, help="games at most")
    parser.add_argument("--steps", type=int, default=40, help="commands in a game")
    parser.add_argument("--seed", type=int, default=0, help="of the commands")
    parser.add_argument("--wording", choices=get_args(Wording), help="instead of the games' own")
    parser.add_argument("--skip-broken", action="store_true", help="name games that cannot be read, and go on")
    parser.set_defaults(run=_check)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 64, 1024], help="games at a time")
    parser.add_argument("--seconds", type=float, default=5.0, help="playing time of each measurement")
    parser.add_argument("--largest", type=int, default=64, help="games at a time in TextWorld at most; 0 = none")
    parser.set_defaults(run=_bench)


def _generate(options: argparse.Namespace) -> int:
    if options.count < 1 or options.first < 0:
        raise GameError(f"--count must be 1 or more and --first 0 or more, not {options.count} and {options.first}.")
    games = generate_games(options.split, options.count, options.seed, first=options.first)
    written = write_games(games, options.folder, options.wording)
    print(f"{len(written)} games in {options.folder}")
    return 0


def _check(options: argparse.Namespace) -> int:
    # Here, because these load NumPy, which `generate` does without.
    from alfworld_native.compat.games import find_games
    from alfworld_native.lockstep import compare
    from alfworld_native.seeding import stream
    from alfworld_native.textworld import Workers

    if options.games < 1 or options.steps < 1:
        raise GameError(f"--games and --steps must be 1 or more, not {options.games} and {options.steps}.")
    files = find_games(options.source, TASK_TYPES, skip_broken=options.skip_broken)
    for passed in files.passed_over.values():
        if passed.reason == "broken":
            print(f"alfworld-native: {passed}", file=sys.stderr)
    different = commands = won = 0
    paths = files.paths[: options.games]
    with Workers() as workers:
        for number, path in enumerate(paths):
            text = files.read(path)
            wording = options.wording or text.wording
            try:
                found = compare(text, wording, workers, stream(options.seed, "check", number), options.steps)
            except GameError as error:
                raise GameError(f"{files.where(path)} cannot be compared: {error}") from None
            commands, won = commands + found.steps, won + found.won
            print(f"{'different' if found.difference else 'equal'}  {found.steps:4d} commands  {wording}  {path}")
            if found.difference:
                different += 1
                print(f"  {found.difference.field} after {' / '.join(found.difference.commands) or 'the opening'}")
                print(f"  here:      {found.difference.native!r}\n  TextWorld: {found.difference.textworld!r}")
    print(f"{len(paths)} games ({won} won), {commands} commands, {different} games with a difference")
    return int(bool(different))


def _bench(options: argparse.Namespace) -> int:
    from alfworld_native.bench import measure, table

    if min(options.sizes) < 1:
        raise GameError(f"--sizes must be 1 or more, not {min(options.sizes)}.")
    # Not `options.seconds <= 0`: NaN is neither above nor below anything.
    if not 0 < options.seconds < math.inf:
        raise GameError(f"--seconds must be a number above 0 with an end, not {options.seconds}.")
    print(table(measure(options.sizes, options.seconds, options.largest)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
