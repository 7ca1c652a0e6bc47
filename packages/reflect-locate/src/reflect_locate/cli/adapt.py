"""`reflect-rl adapt PATH`: fit the ranking to a repository of one's own, and say whether that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from reflect_rl.cli.arguments import parse_options
from reflect_rl.config import Frozen
from reflect_rl.errors import ConfigError, UserError

if TYPE_CHECKING:
    from reflect_locate.adapt import Adapted, BeforeAfter, Era

VERB = "adapt"
QUICK_MINUTES = 0.1
"""Minutes below which an estimate says only that it is quick."""


class AdaptOptions(Frozen):
    """Fit the ranking to a git repository, and compare it before and after on commits that came later."""

    output_dir: Path | None = None
    """Folder for the result (unset: `runs/adapt-NAME`)."""
    questions: int = Field(300, ge=10, le=10_000)
    """Most later commits, and most sentences of documents, that are asked before and after."""
    seed: int = Field(0, ge=0)
    """Draws the sentences of documents."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: the repository, then flags.
        console: where progress and the table are printed.

    Raises:
        UserError: a mistake in the arguments, no folder for the result, no git repository, or one with too short a
            history.
        SystemExit: the help was asked for (0).
    """
    source, options = parse_adapt(arguments)

    # Imported after the arguments are parsed: `--help` and a mistyped flag must not wait for it.
    from reflect_locate.adapt import adapt, eras_of, estimate, figures
    from reflect_locate.adapted_ranking import COMPARISON, FILE
    from reflect_locate.cli.locate import printable_line
    from reflect_locate.repositories.ingest import check_named, split_revision
    from reflect_rl.store import write_json, write_jsonl

    check_named(source)
    place, revision = split_revision(source)
    if place.is_file():
        raise ConfigError(f"{str(place)!r} is a file. Give the top folder of a git checkout.")
    if not place.is_dir():
        raise ConfigError(f"there is no folder {str(place)!r}. Give the top folder of a git checkout.")
    place, revision = place.resolve(), revision or "HEAD"
    folder = options.output_dir or Path("runs") / f"adapt-{place.name.removesuffix('.git')}"
    is_new = _made(folder)
    if any(folder.iterdir()) and not (folder / COMPARISON).is_file():
        raise ConfigError(f"{str(folder)!r} holds something else than a result of adapt. Choose another --output-dir.")
    console.print(printable_line(f"reading the history of {place}"), highlight=False, markup=False)
    try:
        expected = estimate(place, revision, options.questions, options.seed)
        console.print(f"{expected.commits} commits; all in all {told_minutes(expected.minutes)}")
        fitted, tested = eras_of(place, revision, options.questions, options.seed)
    except UserError:
        # A repository that is refused leaves no empty folder behind.
        if is_new:
            folder.rmdir()
        raise
    # Each of those that are measured is asked twice.
    steps = len(fitted.questions) + 2 * len(tested.questions)
    console.print(told_before(fitted, tested, steps * expected.seconds_each / 60))
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("asking", total=steps)
        adapted = adapt(place, fitted, tested, revision, lambda: bars.advance(bar))
    # First, as it tells a later call whose folder this is.
    write_json(folder / COMPARISON, figures(adapted))
    write_jsonl(folder / "answers.jsonl", [asdict(outcome) for outcome in adapted.outcomes])
    # Written only if it helps, so that what is there is always worth using.
    if adapted.helps:
        adapted.ranking.save(folder)
    console.print(comparison_table(adapted.comparisons))
    told = verdict(adapted, folder, is_there=(folder / FILE).exists())
    console.print(printable_line(told), highlight=False, markup=False)


def parse_adapt(arguments: Sequence[str]) -> tuple[str, AdaptOptions]:
    """Repository and options of a call.

    Raises:
        ConfigError: a wrong flag or value, or not one repository.
        SystemExit: the help was asked for (0).
    """
    paths, options = parse_options("reflect-rl adapt PATH", AdaptOptions, arguments)
    if len(paths) != 1:
        raise ConfigError(f"name one repository: reflect-rl adapt PATH. Got {len(paths)}.")
    return paths[0], options


def _made(folder: Path) -> bool:
    """Make the folder for the result, before minutes are spent on it; tell whether it was missing.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write the result to {str(folder)!r}: {error.strerror or error}. Choose another --output-dir."
        ) from None
    return is_new


def told_before(fitted: Era, tested: Era, minutes: float) -> str:
    """Sentence that says what will be done, and how many minutes it will take."""
    return (
        f"fitting to {len(fitted.commits)} commits and {len(fitted.documents)} sentences of documents; measuring on "
        f"{len(tested.commits)} later commits and {len(tested.documents)} other sentences: {told_minutes(minutes)}"
    )


def told_minutes(minutes: float) -> str:
    """A length of time in words.

    >>> told_minutes(2.54), told_minutes(0.05)
    ('about 2.5 minutes', 'a few seconds')
    """
    return f"about {minutes:.1f} minutes" if minutes >= QUICK_MINUTES else "a few seconds"


def comparison_table(comparisons: Sequence[BeforeAfter]) -> Table:
    """Rates before and after in percent, and their differences with 95% intervals (see `adapt.compare`)."""
    # Narrow enough for 80 columns: the intervals of the rates are in the JSON.
    table = Table(box=SIMPLE_HEAD)
    for name in ("right", "n", "before %", "after %", "difference (95%)"):
        table.add_column(name, justify="left" if name == "right" else "right")
    for entry in comparisons:
        sides = [f"{100 * count / entry.questions:.1f}" for count, _ in (entry.before, entry.after)]
        table.add_row(entry.name, str(entry.questions), *sides, _difference(entry))
    return table


def _difference(entry: BeforeAfter) -> str:
    change = entry.difference
    return f"{100 * change.difference:+.1f} ({100 * change.lo:+.1f} to {100 * change.hi:+.1f})"


def verdict(adapted: Adapted, folder: Path, *, is_there: bool) -> str:
    """The result in a sentence or two.

    Args:
        adapted: the result.
        folder: where it is.
        is_there: whether that folder has an adapted ranking.
    """
    if adapted.helps:
        return f'Adapting helped. Use it: reflect-rl locate PATH "question" --adapted {folder}'
    kept = f"the ranking of an earlier call stays in {folder}" if is_there else "nothing was kept"
    first = adapted.comparisons[0]
    return (
        f"Adapting did not help: {first.questions} later commits show {_difference(first)} points at the first file, "
        f"so {kept}. `locate` works as before."
    )
