"""`reflect-rl locate PATH "question"`: which file answers a question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field
from rich.console import Console

from reflect_locate.repositories.ingest import ingest, left_out_counts
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree
from reflect_rl.cli.flags import parse_options
from reflect_rl.config import Frozen
from reflect_rl.errors import ConfigError

if TYPE_CHECKING:
    from reflect_locate.finder import Answer, FoundFile

__all__ = ["LocateOptions", "PlayerOptions", "parse_locate", "printable", "run", "told_left_out"]

VERB = "locate"
USAGE = 'reflect-rl locate PATH "question"'


class PlayerOptions(Frozen):
    """Player that looks for files, and how it searches."""

    model: Path | None = None
    """Player or run folder (unset: the player that comes with this package)."""
    unit: str = ""
    """Unit of a run folder, for example `starts-100/seed-0` (empty: the run's first)."""
    method: str = ""
    """Trained method of a run folder that plays (empty: the last one that its configuration names)."""
    episodes: int = Field(8, ge=0, le=1000)
    """Sampled episodes of each question, besides a greedy one."""
    search: bool | None = None
    """Look words up in an index (`--search`), or only walk and read (`--no-search`); unset: as in training."""
    threshold: float | None = Field(None, ge=0, le=1)
    """Confidence below which nothing is found (unset: the player's)."""
    seed: int = Field(0, ge=0)
    """Seed of the sampled episodes."""


class LocateOptions(PlayerOptions):
    """Find the file of a folder, an archive or a git revision that answers a question."""

    top_k: int = Field(5, ge=1, le=1000)
    """Most files to show."""
    as_json: bool = Field(False, alias="json")
    """Print a JSON list of objects with `path`, `score`, `walk`, `reasons` and more; `[]` = not found."""
    seconds: float = Field(60, gt=0, le=86_400)
    """Longest search; episodes that are not finished then do not count."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: the path, the question, then flags.
        console: where the answer is printed.

    Raises:
        UserError: a mistake in the arguments, a tree that cannot be read, or no player.
        SystemExit: the help was asked for (0).
    """
    path, question, options = parse_locate(arguments)
    # With `--json` stdout holds the list alone, so that other programs can read it.
    notes = console if not options.as_json else Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

    # Imported after the arguments are parsed: `--help` must not wait for torch.
    from reflect_locate.finder import SearchOptions, check_question, locate
    from reflect_locate.trained_player import load_player
    from reflect_rl.runs.workers import silence

    # Before the folder is read and the model loaded, which take seconds.
    check_question(question)
    snapshot = ingest(path)
    notes.print(told_left_out(snapshot), style="dim")
    silence()
    player = load_player(options.model, options.unit, options.method)
    effort = SearchOptions(options.episodes, options.seconds, options.search, options.seed)
    answer = locate(player, Tree(snapshot), question, effort, options.threshold)
    if options.as_json:
        # Not found is an empty list: a program must not take a doubtful file for an answer.
        rows = [entry.to_json() for entry in answer.files[: options.top_k]] if answer.found else []
        console.print(json.dumps(rows, indent=2), soft_wrap=True)
    else:
        _show(answer, options.top_k, console)


def parse_locate(arguments: Sequence[str]) -> tuple[str, str, LocateOptions]:
    """Path, question and options of a call.

    Raises:
        ConfigError: a wrong flag or value, or no path or question.
        SystemExit: the help was asked for (0).
    """
    named, options = parse_options(USAGE.replace('"question"', "QUESTION"), LocateOptions, arguments)
    if len(named) != 2:
        # Several words mean that the shell has split the question.
        remedy = "Put quotes around the question." if len(named) > 2 else "A path and a question are needed."
        raise ConfigError(f"{USAGE}: got {len(named)} of 2 words before the flags. {remedy}")
    return named[0], named[1], options


def told_left_out(snapshot: Snapshot) -> str:
    """Summary of a snapshot, for example `flask: 198 files; left out: binary 12, ignored 3`."""
    counts = ", ".join(f"{reason} {count}" for reason, count in left_out_counts(snapshot.left_out).items())
    return printable(f"{snapshot.name}: {len(snapshot.files)} files; left out: {counts or 'nothing'}")


def printable(text: str) -> str:
    """The text without control characters, with which a name could steer the terminal."""
    # Escape sequences in a file's name could rewrite the terminal or its title.
    return "".join(letter if letter.isprintable() else "·" for letter in text)


def _show(answer: Answer, top_k: int, console: Console) -> None:
    cost = f"{answer.episodes} episodes in {answer.seconds:.1f} s"
    if not answer.found:
        console.print(
            f"not found: confidence {answer.confidence:.2f} is below {answer.threshold:.2f} ({cost}). "
            "Other words may help; --threshold 0 shows the best guesses."
        )
        return
    for number, entry in enumerate(answer.files[:top_k], start=1):
        _show_file(number, entry, console)
    console.print(f"confidence {answer.confidence:.2f}; {cost}", style="dim")


def _show_file(number: int, entry: FoundFile, console: Console) -> None:
    console.print(printable(f"{number}. {entry.score:.2f}  {entry.path}"), style="bold")
    if entry.walk:
        console.print(printable(f"      walk: {'; '.join(entry.walk)}"))
    for reason in entry.reasons:
        console.print(printable(f"       why: {reason}"))
