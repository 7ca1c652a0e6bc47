"""`reflect-rl export RUN FOLDER`: copy a trained player, and measure from which confidence on its answers are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field
from rich.console import Console
from rich.progress import Progress

from reflect_rl.cli.arguments import parse_options
from reflect_rl.config import Frozen
from reflect_rl.errors import ConfigError, ModelError, UserError

if TYPE_CHECKING:
    from reflect_locate.calibrate import Calibration

VERB = "export"


class ExportOptions(Frozen):
    """Copy a trained player out of a run, for `locate` and `serve`."""

    unit: str = ""
    """Unit with the models, for example `starts-100/seed-0` (empty: the run's first)."""
    method: str = ""
    """Trained method (empty: the last one that the run's configuration names)."""
    questions: int = Field(100, ge=0)
    """Validation questions of the run's task set to which the weights of the evidence are fitted, and on which the
    threshold of `not found` is measured, each with the file in the tree and without it; 0 = keep the defaults."""
    episodes: int = Field(8, ge=0, le=1000)
    """Sampled episodes of each of them, besides a greedy one: as many as will be played in use."""
    seconds: float = Field(60, gt=0)
    """Longest search for each of them."""
    half: bool = False
    """Store weights in 16 bits: half the size, rounded."""
    seed: int = Field(0, ge=0)
    """Seed of the choice of questions, and of the sampled episodes."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: the run folder, the folder for the player, then flags.
        console: where progress and the threshold are printed.

    Raises:
        UserError: a mistake in the arguments, a run without such a player, or answers that set no threshold.
        SystemExit: the help was asked for (0).
    """
    source, target, options = parse_export(arguments)
    # Checked before the calibration, which takes minutes.
    if target.exists():
        raise ModelError(f"{target} exists. Choose another folder for the player, or delete it.")

    # Imported late: `--help` must not wait for torch.
    from reflect_locate.fitting import FITTED
    from reflect_locate.trained_player import export_player
    from reflect_rl.runs.workers import silence

    silence()
    if not options.questions:
        export_player(source, target, options.unit, options.method, half=options.half)
        console.print(f"player: {target} (weights of the evidence and threshold as they were)")
        return
    # Before the copy, so that a calibration that fails leaves no player behind.
    found = _calibrate(source, options, console)
    answers = {"weights": asdict(found.weights), "threshold": found.threshold}
    measured = {"right_shown": found.right_shown, "wrong_withheld": found.wrong_withheld}
    counts = {"right": found.right, "wrong": found.wrong, "questions": options.questions, "episodes": options.episodes}
    notes = {"calibration": measured | counts}
    export_player(source, target, options.unit, options.method, answers, notes, half=options.half)
    weights = asdict(found.weights)
    ratios = ", ".join(f"{kind} {weights[kind]:g}" for kind in FITTED)
    console.print(f"weights of the evidence: {ratios}")
    console.print(
        f"threshold {found.threshold:.2f}: {100 * found.right_shown:.0f}% of {found.right} right answers are shown, "
        f"{100 * found.wrong_withheld:.0f}% of {found.wrong} wrong ones are withheld"
    )
    console.print(f"player: {target}")


def parse_export(arguments: Sequence[str]) -> tuple[Path, Path, ExportOptions]:
    """Run, folder and options of a call.

    Raises:
        ConfigError: a wrong flag or value, or not two folders.
        SystemExit: the help was asked for (0).
    """
    paths, options = parse_options("reflect-rl export RUN FOLDER", ExportOptions, arguments)
    if len(paths) != 2:
        raise ConfigError(f"name a run and a folder for its player: reflect-rl export RUN FOLDER. Got {len(paths)}.")
    return Path(paths[0]), Path(paths[1]), options


def _calibrate(source: Path, options: ExportOptions, console: Console) -> Calibration:
    from reflect_locate.calibrate import calibrate, collect
    from reflect_locate.finder import SearchOptions
    from reflect_locate.questions.task_set import TaskSet
    from reflect_locate.trained_player import load_player
    from reflect_rl.types import stream

    player = load_player(source, options.unit, options.method)
    tasks = TaskSet.load(player.settings.environment.tasks)
    # Validation questions: the threshold is fitted, so test questions must not be used for it.
    usable = [question for question in tasks.questions if question.split == "validation" and question.supported]
    if not usable:
        raise UserError(f"{tasks.folder} has no validation questions. Set --questions 0 to keep the default threshold.")
    # Drawn, because the set is sorted by project and source.
    order = stream(options.seed, "export").permutation(len(usable))[: options.questions]
    effort = SearchOptions(options.episodes, options.seconds, seed=options.seed)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("asking", total=len(order))
        candidates = collect(
            player,
            tasks,
            [usable[index] for index in order],
            effort,
            lambda done, total: bars.update(bar, completed=done, total=total),
        )
    try:
        return calibrate(candidates)
    except ValueError as error:
        raise UserError(f"{error}. Ask more questions (--questions), or none (0) to keep the default.") from None
