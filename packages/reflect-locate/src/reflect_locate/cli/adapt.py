"""`reflect-rl adapt PATH`: fine-tune a player on a repository of one's own, and say what that changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from reflect_rl.cli.arguments import parse_options
from reflect_rl.config import Frozen
from reflect_rl.errors import ConfigError, ReflectRLError

if TYPE_CHECKING:
    from reflect_locate.adapt import BeforeAfter, Outcome
    from reflect_locate.questions.task_set import Question, TaskSet
    from reflect_locate.trained_player import Player
    from reflect_rl.runs.config import RunConfig

VERB = "adapt"


class AdaptOptions(Frozen):
    """Fine-tune a player on a repository, and compare it before and after on questions that were held out."""

    output_dir: Path | None = None
    """Folder for questions, run, measurements and the adapted player (unset: `runs/adapt-NAME`). The same command goes
    on where it was."""
    model: Path | None = None
    """Player or run folder to begin with (unset: the player that comes with this package)."""
    unit: str = ""
    """Unit of a run folder, for example `starts-100/seed-0` (empty: the run's first)."""
    method: str = ""
    """Trained method of a run folder that is adapted (empty: the last one that its configuration names)."""
    starts: int = Field(200, ge=1)
    """Most questions that are demonstrated."""
    sft_steps: int = Field(300, ge=1)
    """Steps of supervised training."""
    rlft_turns: int = Field(6000, ge=1)
    """Turns of online training."""
    questions: int = Field(100, ge=10)
    """Most held-out questions that are asked before and after."""
    episodes: int = Field(4, ge=0, le=1000)
    """Sampled episodes of each of them, besides a greedy one."""
    seconds: float = Field(60, gt=0)
    """Longest search for each of them."""
    threads: int = Field(1, ge=1, le=256)
    """Threads of the training."""
    seed: int = Field(0, ge=0)
    """Root of everything that is drawn."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: the repository, then flags.
        console: where progress and the table are printed.

    Raises:
        UserError: a mistake in the arguments, a repository with too few questions, or no player.
        SystemExit: the help was asked for (0).
    """
    source, options = parse_adapt(arguments)
    try:
        _adapt(source, options, " ".join(["reflect-rl", VERB, *arguments]), console)
    except KeyboardInterrupt:
        # The command line shows the text of the interrupt.
        raise KeyboardInterrupt("the same command goes on from the last checkpoint") from None


def _adapt(source: str, options: AdaptOptions, command: str, console: Console) -> None:
    # Imported after the arguments are parsed: `--help` and a mistyped flag must not wait for torch.
    from reflect_locate.adapt import TrainingAmount, compare, held_out, run_config, task_set_of, write_comparison
    from reflect_locate.trained_player import ADAPTED, export_player, load_player, load_settings
    from reflect_rl.runs.run import silence

    folder = options.output_dir or Path("runs") / f"adapt-{Path(source).expanduser().absolute().name}"
    settings, policy = load_settings(options.model, options.unit, options.method)
    # Questions are made first, since too few of them end the command before anything is trained.
    tasks = task_set_of(source, folder / "tasks", console.print, options.seed)
    questions = held_out(tasks, options.questions, options.seed)
    amount = TrainingAmount(options.starts, options.sft_steps, options.rlft_turns, options.seed, options.threads)
    config = run_config(settings, policy, tasks, folder / "run", amount)
    silence()
    # Measured before training on purpose: a comparison needs the same questions on the untrained player.
    player = load_player(options.model, options.unit, options.method)
    before = _measure(player, tasks, questions, options, folder / "before.jsonl", console)
    target = folder / ADAPTED
    # A finished training is not repeated; the same command goes on with what is missing.
    if not target.exists():
        method = _train(config, command, console)
        # Weights and threshold stay those of the player, so that the comparison is about training alone.
        answers = {"weights": settings.weights.model_dump(), "threshold": settings.threshold}
        export_player(config.output_dir, target, method=method, answers=answers)
    after = _measure(load_player(target), tasks, questions, options, folder / "after.jsonl", console)
    comparisons = compare(before, after)
    write_comparison(folder / "adapted.json", comparisons, {"repository": str(source), "task_set": tasks.identity})
    console.print(comparison_table(comparisons))
    console.print(_verdict(comparisons[0], target))


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


def _measure(
    player: Player,
    tasks: TaskSet,
    questions: Sequence[Question],
    options: AdaptOptions,
    file: Path,
    console: Console,
) -> list[Outcome]:
    from reflect_locate.adapt import measure
    from reflect_locate.finder import SearchOptions

    effort = SearchOptions(options.episodes, options.seconds, seed=options.seed)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(f"asking, {file.stem}", total=len(questions))
        outcomes = measure(
            player, tasks, questions, effort, file, lambda done, total: bars.update(bar, completed=done, total=total)
        )
    right = sum(outcome.first for outcome in outcomes)
    console.print(f"{file.stem}: the first file is right for {right} of {len(outcomes)} held-out questions")
    return outcomes


SUPERVISED = {"reflect_rl_lexical": "sft_lexical", "sft_rlft": "sft"}
"""Method -> the same without online training."""
TOO_LONG = "context holds"
"""Part of the message about a prompt that a model has no room for."""


def _train(config: RunConfig, command: str, console: Console) -> str:
    """Train, and say which method the player is taken from."""
    from reflect_locate.adapt import drop_long_rows
    from reflect_rl.runs.folder import alone
    from reflect_rl.runs.run import Bars, run_jobs
    from reflect_rl.runs.stages import plan
    from reflect_rl.runs.start import begin

    # Without evaluation: `adapt` measures on whole trees, as `locate` works, and not on the run's modes.
    kinds = ("data", "sft", "rlft")
    begin(config, command)
    jobs = sum(job.kind in kinds and not job.done for job in plan(config))
    with alone(config.output_dir), Bars(console, jobs) as bars:
        run_jobs(config, ("data",), bars)
        # Between the data and the training, which would end at the first row that is too long.
        dropped, total = drop_long_rows(config)
        if dropped:
            console.print(f"left out {dropped} of {total} examples that are too long for the model")
        try:
            run_jobs(config, ("sft", "rlft"), bars)
        except ReflectRLError as error:
            # Any other failure is a real one and must reach the user.
            if TOO_LONG not in str(error):
                raise
            console.print(f"online training met a prompt that is too long for the model, so it is left out ({error})")
            # The supervised player is done and useful, so a failed second stage does not lose it.
            return SUPERVISED[config.methods[0]]
    return config.methods[0]


def comparison_table(comparisons: Sequence[BeforeAfter]) -> Table:
    """Rates before and after in percent, with 95% intervals, and their differences (see `adapt.compare`)."""
    table = Table(box=SIMPLE_HEAD)
    for name in ("right", "n", "before %", "after %", "difference (95%)"):
        table.add_column(name, justify="left" if name == "right" else "right")
    for entry in comparisons:
        sides = [_rate(count, entry.questions, interval) for count, interval in (entry.before, entry.after)]
        change = entry.difference
        interval = f"{100 * change.difference:+.1f} ({100 * change.lo:+.1f} to {100 * change.hi:+.1f})"
        table.add_row(entry.name, str(entry.questions), *sides, interval)
    return table


def _rate(count: int, questions: int, interval: tuple[float, float]) -> str:
    return f"{100 * count / questions:.1f} ({100 * interval[0]:.0f} to {100 * interval[1]:.0f})"


def _verdict(main: BeforeAfter, target: Path) -> str:
    if not main.is_clear:
        return (
            f"The difference is within its interval: {main.questions} questions do not show that adapting helped or "
            f"harmed. The adapted player is {target}."
        )
    if main.difference.difference < 0:
        return f"Adapting made it worse. The adapted player is {target}; the one before is the better choice."
    return f'Adapting helped. Use it: reflect-rl locate PATH "question" --model {target}'
