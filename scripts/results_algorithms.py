"""The table that compares RL algorithms: what each reaches, what it costs, and what it adds to its supervised start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reflect_report.episodes import Comparison, compare, read_verdicts
from reflect_report.runs import (
    Run,
    SummaryRow,
    decoding_rank,
    describe_algorithm,
    hardest_mode,
    lines_in_order,
    look_of,
    read_runs,
    setting,
    start_of,
    summarise_runs,
)
from reflect_report.tables import markdown_lines
from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.methods import REFERENCE, find_method

START = start_of(find_method(REFERENCE))
NOTE = (
    "Passes: over the turns of each update. Seconds: wall-clock time of online training, mean of the seeds. "
    "Difference: sampled success minus that of the supervised start on the same starts and seeds, in percentage "
    "points, with Newcombe's 95% interval for paired rates."
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Settings and budget of one algorithm, over all runs that used it. Empty where no file tells."""

    turns: tuple[int, ...]
    """Budget in environment turns; more than one value if the runs differ."""
    passes: tuple[int, ...]
    """Optimiser passes over the turns of an update."""
    seconds: tuple[float, ...]
    """Online training of each unit, wall-clock."""


def algorithm_table(run_folders: Sequence[Path]) -> str:
    """Markdown: a line per algorithm of Reflect-RL at the largest horizon, below its supervised start.

    One table per benchmark, label source, number of demonstration starts, split and model. Success is the mean of the
    seeds' rates, with Wilson's 95% interval of the pooled counts.

    Args:
        run_folders: folders that an evaluation has written; one of them should have evaluated the supervised start.

    Raises:
        RunFolderError: a folder holds no results, two contradict each other, or none has results of Reflect-RL.
    """
    runs = read_runs(run_folders)
    summaries = summarise_runs(runs)
    if not summaries:
        raise RunFolderError(f"no results of {REFERENCE} yet. Name a run folder that evaluated it.")
    horizon, mode = max(s.horizon for s in summaries), hardest_mode(summaries)
    comparisons = compare((v for run in runs for v in read_verdicts(run)[0]), mode, horizon)
    parts: dict[tuple[str, str, int, str, str], list[SummaryRow]] = {}
    for s in summaries:
        if s.horizon == horizon and s.method in (START, REFERENCE):
            parts.setdefault((s.benchmark, s.label_source, s.demonstration_starts, s.split, s.model), []).append(s)
    # The supervised start alone is no comparison: a table needs a line that online training produced.
    blocks = [
        _block(part, mode, runs, comparisons) for part in parts.values() if any(s.method == REFERENCE for s in part)
    ]
    if not blocks:
        raise RunFolderError(f"no results of {REFERENCE} at horizon {horizon}. Name a run folder that evaluated it.")
    return "\n\n".join([*blocks, NOTE]) + "\n"


def _block(part: Sequence[SummaryRow], hardest: str, runs: Sequence[Run], comparisons: Sequence[Comparison]) -> str:
    first = part[0]
    seeds = max(s.seeds for s in part)
    title = f"{first.benchmark}, label source {first.label_source}, {first.demonstration_starts} demonstration starts"
    columns = [(hardest, decoding) for decoding in sorted({s.decoding for s in part}, key=decoding_rank)]
    columns += [(mode, "sampled") for mode in dict.fromkeys(s.mode for s in part) if mode != hardest]
    header = ["algorithm", *(f"{mode}, h{first.horizon}, {decoding}" for mode, decoding in columns)]
    header += ["turns", "passes", "seconds", "difference to the start"]
    rows = []
    for method, algorithm in lines_in_order((s.method, s.algorithm) for s in part):
        cells = {(s.mode, s.decoding): s for s in part if (s.method, s.algorithm) == (method, algorithm)}
        row = [_rate(cells.get(column)) for column in columns]
        if method == START:
            # The start had no online training, so it has no cost and no difference to itself.
            rows.append([f"none ({look_of(START).title})", *row, "-", "-", "-", "-"])
            continue
        cost = training_cost(runs, algorithm, first.label_source, first.demonstration_starts)
        rows.append(
            [describe_algorithm(algorithm).label, *row, *_costs(cost), _difference(first, algorithm, comparisons)]
        )
    caption = f"Success % [95% interval], {seeds} seed(s): {title}, {first.split} split, model {first.model}"
    return "\n".join([caption, "", *markdown_lines(header, rows)])


def training_cost(runs: Sequence[Run], algorithm: str, label_source: str, demonstration_starts: int) -> Cost:
    """Turns, optimiser passes and seconds of the Reflect-RL trainings by one algorithm.

    An algorithm without `epochs` passes once over the turns of an update.
    """
    # Dicts as ordered sets: the runs are expected to agree, and where they do not, the reader sees every value.
    turns: dict[int, None] = {}
    passes: dict[int, None] = {}
    seconds = []
    for run in runs:
        units = {
            row.demonstration_starts
            for row in run.results
            if (row.method, row.label_source) == (REFERENCE, label_source)
        }
        if run.algorithm(REFERENCE) != algorithm or demonstration_starts not in units:
            continue
        if setting(run.config, "rlft", "algorithm") is not None:
            turns[int(setting(run.config, "rlft", "total_turns") or 0)] = None
            passes[int(setting(run.config, "rlft", "algorithm", "epochs") or 1)] = None
        for stage in run.card.stages if run.card is not None else ():
            # The slash ends the number: `starts-1` would also match `starts-10`.
            if stage.job == f"rlft {REFERENCE}" and stage.unit.startswith(f"starts-{demonstration_starts}/"):
                seconds.append(stage.seconds)
    return Cost(tuple(turns), tuple(passes), tuple(seconds))


def _costs(cost: Cost) -> list[str]:
    seconds = f"{sum(cost.seconds) / len(cost.seconds):,.0f}" if cost.seconds else "-"
    turns, passes = (" / ".join(f"{value:,}" for value in values) or "-" for values in (cost.turns, cost.passes))
    return [turns, passes, seconds]


def _rate(summary: SummaryRow | None) -> str:
    if summary is None:
        return "-"
    # The interval is that of the pooled counts: a mean of a few seeds has no useful interval of its own.
    # Its ends go without decimals, as they lie several points apart.
    return f"{100 * summary.mean:.1f} [{100 * summary.lo:.0f}, {100 * summary.hi:.0f}]"


def _difference(first: SummaryRow, algorithm: str, comparisons: Sequence[Comparison]) -> str:
    for c in comparisons:
        same = (c.label_source, c.demonstration_starts, c.decoding) == (
            first.label_source,
            first.demonstration_starts,
            "sampled",
        )
        if same and (c.algorithm, c.method) == (algorithm, START):
            result = c.result
            return f"{100 * result.difference:+.1f} [{100 * result.lo:+.1f}, {100 * result.hi:+.1f}]"
    return "-"
