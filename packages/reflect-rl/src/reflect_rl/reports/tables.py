"""Tables of success rates: seeds are pooled, each rate has its 95% interval, the paper's figure stands beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.methods import Method
from reflect_rl.evaluation.result import ResultRow, TestedGames
from reflect_rl.reports.lines import decoding_rank, lines_in_order, look_of, with_several_algorithms
from reflect_rl.reports.paper_figures import PAPER_ALGORITHM, PAPER_NOTE, paper_success_percent
from reflect_rl.reports.runs import Run, read_runs, unfinished
from reflect_rl.reports.strata import cost_tables, strata_tables, terminal_part
from reflect_rl.statistics import wilson_interval

__all__ = [
    "Column",
    "Grid",
    "GridRow",
    "SummaryRow",
    "all_horizons",
    "grids",
    "hardest_mode",
    "markdown_lines",
    "markdown_table",
    "summarise",
    "summarise_runs",
    "terminal_table",
]


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """Success of one method and algorithm under one condition, all seeds pooled."""

    benchmark: str
    label_source: str
    demonstration_starts: int
    split: str
    method: str
    algorithm: str
    """RL algorithm that trained the method; `none` without online training."""
    model: str
    mode: str
    horizon: int
    """Longest episode that counts as won, in turns."""
    decoding: str
    successes: int
    episodes: int
    success_rate: float
    """Pooled: successes / episodes."""
    lo: float
    """Lower end of Wilson's 95% interval of the pooled counts, which takes episodes as independent."""
    hi: float
    mean: float
    """Mean of the seeds' rates; equal to the pooled rate when each seed plays the same number of episodes."""
    lowest: float
    """Rate of the worst seed."""
    highest: float
    """Rate of the best seed."""
    seeds: int


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table: a condition."""

    mode: str
    horizon: int
    decoding: str


@dataclass(frozen=True, slots=True)
class GridRow:
    """Line of a table."""

    label: str
    method: str
    algorithm: str
    """RL algorithm; empty where the method occurs with one only."""
    cells: tuple[SummaryRow | None, ...]
    """Results, one per column; None where nothing was measured."""
    paper: tuple[float | None, ...]
    """Figures of the paper in percent, one per paper mode."""

    @property
    def look(self) -> Method:
        """Look of the line."""
        return look_of(self.method, self.algorithm)


@dataclass(frozen=True, slots=True)
class Grid:
    """Table of methods x (mode, horizon, decoding), for one benchmark, label source, data budget and split."""

    benchmark: str
    label_source: str
    demonstration_starts: int
    split: str
    columns: tuple[Column, ...]
    paper_modes: tuple[str, ...]
    """Modes for which the paper prints a figure for one of the methods."""
    rows: tuple[GridRow, ...]

    @property
    def title(self) -> str:
        """The condition that all cells share."""
        starts = f"{self.demonstration_starts} demonstration starts"
        return f"{self.benchmark}, label source {self.label_source}, {starts}, {self.split} split"


def summarise(rows: Iterable[ResultRow]) -> list[SummaryRow]:
    """Results with the seeds of the same condition pooled.

    A row that occurs twice counts once. Sorted by table, then mode (in the order in which
    modes first occur), then method and algorithm (in listing order).

    Raises:
        RunFolderError: two different results claim the same seed of the same condition.
    """
    pools: dict[PooledCondition, dict[int, ResultRow]] = {}
    modes: dict[str, int] = {}
    for row in rows:
        # Modes are evaluated from easy to hard, an order that the alphabet would lose.
        modes.setdefault(row.mode, len(modes))
        seeds = pools.setdefault(_pooled_condition(row), {})
        _refuse_other_games(next(iter(seeds.values()), row), row)
        known = seeds.setdefault(row.seed, row)
        # Counts only: the speed differs each time that the same evaluation is repeated.
        if (known.successes, known.episodes) != (row.successes, row.episodes):
            raise RunFolderError(
                f"two different results for {row.method}, algorithm {row.algorithm}, {row.mode}, horizon "
                f"{row.horizon}, {row.decoding}, seed {row.seed}, label source {row.label_source}, "
                f"{row.demonstration_starts} demonstration starts. "
                "The run folders hold the same experiment with other settings: report them one by one."
            )
    summaries = [_pool(list(seeds.values())) for seeds in pools.values()]
    ranks = {line: rank for rank, line in enumerate(_lines(summaries))}
    return sorted(summaries, key=lambda s: (*_table(s), modes[s.mode], ranks[_line(s)], _column_order(s)))


def _refuse_other_games(first: ResultRow, row: ResultRow) -> None:
    """A rate over two sets of games, or two versions of one, would be none of either."""
    before, now = first.tested, row.tested
    # Results without a version are older than these notes, and nothing can be said about their games.
    if before.version is not None and now.version is not None and before != now:
        raise RunFolderError(
            f"results on different games: {row.benchmark}, {row.split} split, was played as {_games(before)} and as "
            f"{_games(now)}. Report the run folders one by one."
        )


def _games(tested: TestedGames) -> str:
    return ", ".join([f"version {tested.version}", *(f"{key} {value}" for key, value in tested.facts.items())])


class PooledCondition(NamedTuple):
    """Condition that the pooled seeds have in common."""

    benchmark: str
    label_source: str
    demonstration_starts: int
    split: str
    method: str
    algorithm: str
    model: str
    mode: str
    horizon: int
    decoding: str


def _pooled_condition(row: ResultRow) -> PooledCondition:
    return PooledCondition(
        row.benchmark,
        row.label_source,
        row.demonstration_starts,
        row.split,
        row.method,
        row.algorithm,
        row.model,
        row.mode,
        row.horizon,
        row.decoding,
    )


def _line(summary: SummaryRow) -> tuple[str, str, str]:
    return summary.method, summary.algorithm, summary.model


def _lines(summaries: Sequence[SummaryRow]) -> list[tuple[str, str, str]]:
    """Method, algorithm and model of each line of a table, in listing order."""
    known = {_line(s) for s in summaries}
    return [line for pair in lines_in_order(line[:2] for line in known) for line in sorted(known) if line[:2] == pair]


def _table(summary: SummaryRow) -> tuple[str, str, int, str]:
    return summary.benchmark, summary.label_source, summary.demonstration_starts, summary.split


def _column_order(summary: SummaryRow) -> tuple[int, tuple[int, str]]:
    return summary.horizon, decoding_rank(summary.decoding)


def _pool(rows: Sequence[ResultRow]) -> SummaryRow:
    successes, episodes = sum(row.successes for row in rows), sum(row.episodes for row in rows)
    rates = [row.successes / row.episodes for row in rows if row.episodes] or [0.0]
    # Wilson's interval stays inside [0, 1] and keeps a width at 0% and 100%, where the normal one has none.
    lo, hi = wilson_interval(successes, episodes)
    return SummaryRow(
        **_pooled_condition(rows[0])._asdict(),
        successes=successes,
        episodes=episodes,
        success_rate=successes / episodes if episodes else 0.0,
        lo=lo,
        hi=hi,
        mean=sum(rates) / len(rates),
        lowest=min(rates),
        highest=max(rates),
        seeds=len(rows),
    )


def summarise_runs(runs: Sequence[Run]) -> list[SummaryRow]:
    """The pooled results of several runs.

    Raises:
        RunFolderError: two runs hold different results of the same experiment and seed.
    """
    return summarise(row for run in runs for row in run.results)


def all_horizons(summaries: Iterable[SummaryRow]) -> list[int]:
    """Every horizon that was evaluated, shortest first."""
    return sorted({summary.horizon for summary in summaries})


def hardest_mode(summaries: Sequence[SummaryRow]) -> str:
    """`full` where it exists, else the last mode, as modes are evaluated from easy to hard; empty without results."""
    modes = [summary.mode for summary in summaries]
    return "full" if "full" in modes else modes[-1] if modes else ""


def grids(summaries: Sequence[SummaryRow], horizons: Sequence[int] | None = None) -> list[Grid]:
    """Tables of the results: one per benchmark, label source, budget of demonstrations and split.

    Args:
        summaries: as `summarise` returns them.
        horizons: the horizons that get columns; None is the largest.

    Raises:
        RunFolderError: a horizon was not evaluated.
    """
    known = all_horizons(summaries)
    chosen = known[-1:] if horizons is None else list(horizons)
    if unknown := sorted(set(chosen) - set(known)):
        raise RunFolderError(f"no results at horizon {unknown[0]}. Evaluated: {', '.join(map(str, known))}.")
    tables: dict[tuple[str, str, int, str], list[SummaryRow]] = {}
    for summary in summaries:
        if summary.horizon in chosen:
            tables.setdefault(_table(summary), []).append(summary)
    # Over all tables, so that a method has the same label in each of them.
    several = with_several_algorithms((s.method, s.algorithm) for s in summaries)
    return [_grid(key, rows, several) for key, rows in tables.items()]


def _grid(key: tuple[str, str, int, str], summaries: Sequence[SummaryRow], several: Collection[str]) -> Grid:
    modes = list(dict.fromkeys(s.mode for s in summaries))
    conditions = {Column(s.mode, s.horizon, s.decoding): _column_order(s) for s in summaries}
    columns = tuple(sorted(conditions, key=lambda column: (modes.index(column.mode), conditions[column])))
    cells = {(_line(s), Column(s.mode, s.horizon, s.decoding)): s for s in summaries}
    lines = _lines(summaries)
    paper_modes = tuple(
        mode for mode in modes if any(paper_success_percent(key[0], method, mode) is not None for method, *_ in lines)
    )
    rows = []
    for line in lines:
        method, algorithm, model = line[0], line[1] if line[0] in several else "", line[2]
        label = look_of(method, algorithm).title
        # The model is named only where two lines would otherwise have the same label.
        if sum(other[:2] == line[:2] for other in lines) > 1:
            label += f" ({model})"
        paper = tuple(_paper(key[0], method, algorithm, mode) for mode in paper_modes)
        rows.append(GridRow(label, method, algorithm, tuple(cells.get((line, column)) for column in columns), paper))
    return Grid(*key, columns, paper_modes, tuple(rows))


def _paper(benchmark: str, method: str, algorithm: str, mode: str) -> float | None:
    """The paper's figure; with several algorithms it stands beside the paper's own."""
    return None if algorithm not in ("", PAPER_ALGORITHM) else paper_success_percent(benchmark, method, mode)


def terminal_table(run_folders: Sequence[Path], horizons: Sequence[int] | None = None) -> Group:
    """Success in percent with 95% intervals, to be printed by a `rich` console: one table per condition and horizon.

    Costs and strata follow for games that measure them, at the largest horizon.

    Args:
        run_folders: folders that an evaluation has written; their seeds are pooled.
        horizons: the horizons that are shown; None is the largest.

    Raises:
        RunFolderError: a folder holds no results, or a horizon was not evaluated.
    """
    runs = read_runs(run_folders)
    summaries = summarise_runs(runs)
    chosen = all_horizons(summaries)[-1:] if horizons is None else horizons
    parts = [part for horizon in chosen for part in grids(summaries, [horizon])]
    note = [Text(PAPER_NOTE, style="dim")] if any(part.paper_modes for part in parts) else []
    note += [Text(f"{run.folder.name}: {line}") for run in runs for line in unfinished(run)]
    details = map(terminal_part, [*cost_tables(runs), *strata_tables(runs)])
    return Group(*map(_terminal_grid, parts), *note, *details)


def _terminal_grid(grid: Grid) -> Table:
    # `Text`, because `rich` would take the brackets of an interval or a name for markup.
    title = Text(f"{grid.title}, horizon {grid.columns[0].horizon}\nSuccess %, below it the 95% interval")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("method")
    for column in grid.columns:
        table.add_column(Text(f"{column.mode}\n{column.decoding}"), justify="right", no_wrap=True)
    for mode in grid.paper_modes:
        table.add_column(Text(f"{mode}\npaper"), justify="right", no_wrap=True)
    for row in grid.rows:
        # On a line of its own the interval lets the table fit into 80 columns.
        rates = [_cell(cell).replace(" [", "\n[") for cell in row.cells]
        table.add_row(Text(row.label), *map(Text, rates), *map(_percent, row.paper))
    return table


def markdown_table(run_folders: Sequence[Path], horizons: Sequence[int] | None = None) -> str:
    """Success in percent with 95% intervals as Markdown, for documentation: one table per condition.

    Args:
        run_folders: folders that an evaluation has written; their seeds are pooled.
        horizons: the horizons that get columns; None is the largest.

    Raises:
        RunFolderError: a folder holds no results, or a horizon was not evaluated.
    """
    parts = grids(summarise_runs(read_runs(run_folders)), horizons)
    blocks = [_markdown_grid(part) for part in parts]
    if any(part.paper_modes for part in parts):
        blocks.append(PAPER_NOTE)
    return "\n\n".join(blocks) + "\n"


def _markdown_grid(grid: Grid) -> str:
    columns = [f"{column.mode}, h{column.horizon}, {column.decoding}" for column in grid.columns]
    header = ["method", *columns, *(f"{mode}, paper" for mode in grid.paper_modes)]
    rows = [[row.label, *map(_cell, row.cells), *map(_percent, row.paper)] for row in grid.rows]
    return "\n".join([f"Success % [95% interval]: {grid.title}", "", *markdown_lines(header, rows)])


def markdown_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown: the first column to the left, the others to the right."""
    rule = ["---"] + ["---:"] * len(header[1:])
    return [_pipes(header), _pipes(rule), *map(_pipes, rows)]


def _pipes(cells: Iterable[str]) -> str:
    # A bar in a name would begin another cell.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cell(summary: SummaryRow | None) -> str:
    if summary is None:
        return "-"
    # No decimals for the ends: they lie several points apart at the usual numbers of episodes.
    return f"{100 * summary.success_rate:.1f} [{100 * summary.lo:.0f}, {100 * summary.hi:.0f}]"


def _percent(value: float | None) -> str:
    # The paper prints whole percents; a decimal would claim a precision that it does not.
    return "-" if value is None else f"{value:g}"
