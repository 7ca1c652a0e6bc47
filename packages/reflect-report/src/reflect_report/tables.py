"""Tables of a report: success rates beside the paper's, costs of an episode, and success by strata of the tasks.

A table is made once (`PlainTable`) and shown three ways: in a terminal, as Markdown, and on the page. Costs and strata
come from the parts `measures` and `strata` of result rows (`evaluation.evaluate`); other games have none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from reflect_report.runs import (
    Run,
    SummaryRow,
    all_horizons,
    asked,
    at_longest,
    decoding_rank,
    finite,
    lines_in_order,
    lines_of,
    look_of,
    read_curves,
    read_runs,
    setting,
    summarise_runs,
    with_several_algorithms,
)
from reflect_rl.errors import RunFolderError, printable
from reflect_rl.evaluation.evaluate import ResultRow, Stratum, wilson_interval
from reflect_rl.evaluation.methods import Method

PAPER_NOTE = (
    "Paper: Reflect-RL (ACL 2024), GPT-2 XL, horizon 15, the paper's own data and training; "
    "printed for orientation, trained in another way."
)

PAPER_ALGORITHM = "ppo"
"""The algorithm whose line gets the paper's figures where a method was trained with several (section 5)."""

PAPER_SUCCESS_PERCENT: dict[tuple[str, str], dict[str, float]] = {
    ("dangerous_taxi", "sft"): {"pickup": 7, "full": 0},
    ("dangerous_taxi", "rlft"): {"pickup": 2, "full": 0},
    ("dangerous_taxi", "sft_rlft"): {"pickup": 6, "full": 0},
    ("dangerous_taxi", "reflect_rl"): {"pickup": 58, "full": 29},
}
"""Success by mode, keyed by (benchmark, method).

Source: Zhou, Du, Li: "Reflect-RL: Two-Player Online RL Fine-Tuning for LMs", ACL 2024 (arXiv 2402.12621), table of
results, rows of GPT-2 XL. The paper's column "+dropoff" is our mode `full`.
"""

MEASURES = {
    "spl": ("SPL, %", 100.0),
    "success_at_5": ("success@5, %", 100.0),
    "mrr": ("MRR, %", 100.0),
    "wrong_answers": ("wrong answers, %", 100.0),
    "timeouts": ("no answer, %", 100.0),
    "files_read": ("files read", 1.0),
    "characters_read": ("characters read", 1.0),
    "seconds_per_episode": ("ms", 1000.0),
    "invalid_answers": ("invalid answers", 1.0),
    "answers": ("answers", 1.0),
    "prompt_tokens": ("prompt tokens", 1.0),
    "completion_tokens": ("answer tokens", 1.0),
    "cost": ("price of 1,000", 1000.0),
    "seconds_per_answer": ("ms per answer", 1000.0),
    "seconds_per_answer_p95": ("ms per answer, p95", 1000.0),
}
"""Name of a measure for readers, and the factor of its unit; others are shown under their own names, after these."""
NOTES = {
    "": "Means over episodes, lost ones included.",
    "spl": "SPL: success x shortest / played turns.",
    "answers": "Chat models: to the largest horizon, as if every answer were asked anew; price of 1,000 episodes.",
}
"""Note below a table that has the measure."""

SMALL = 0.05
"""Below it one decimal would be none."""

WIDE = 6
"""Columns beyond which a table is turned, if that makes it narrower."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, and below it what it rests on."""

    figure: str
    below: str = ""
    seeds: str = ""
    """The worst and the best seed, where there are several."""
    hint: str = ""
    """Counts, for a tooltip."""


@dataclass(frozen=True, slots=True)
class PlainTable:
    """A table of one condition: a line per method."""

    title: str
    note: str
    header: tuple[str, ...]
    """Names of the columns after the first; a colon begins the second line of a name."""
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Label and cells of each line."""

    @property
    def is_wide(self) -> bool:
        """True if the table has many columns and fewer lines, so that turning it makes it narrower."""
        return len(self.header) > max(WIDE, len(self.rows))

    def turned(self) -> PlainTable:
        """The table with its columns as lines."""
        columns = zip(self.header, *(cells for _, cells in self.rows), strict=True)
        rows = tuple((name, tuple(cells)) for name, *cells in columns)
        return PlainTable(self.title, self.note, tuple(label for label, _ in self.rows), rows)


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

    def table(self) -> PlainTable:
        """The table of a grid with one horizon, as it is shown."""
        header = [f"{column.mode}: {column.decoding}" for column in self.columns]
        rows = [(row.label, (*map(_success, row.cells), *map(_paper_cell, row.paper))) for row in self.rows]
        return PlainTable(
            f"{self.title}, horizon {self.columns[0].horizon}",
            "Success %, below it the 95% interval",
            (*header, *(f"{mode}: paper" for mode in self.paper_modes)),
            tuple(rows),
        )


def grids(summaries: Sequence[SummaryRow], horizons: Sequence[int] | None = None) -> list[Grid]:
    """Tables of the results: one per benchmark, label source, budget of demonstrations and split.

    Args:
        summaries: as `summarise` returns them.
        horizons: the horizons that get columns; None is the longest of each table and mode.

    Raises:
        RunFolderError: a horizon was not evaluated.
    """
    known = all_horizons(summaries)
    if unknown := sorted(set(horizons or ()) - set(known)):
        raise RunFolderError(f"no results at horizon {unknown[0]}. Evaluated: {', '.join(map(str, known))}.")
    chosen = at_longest(summaries) if horizons is None else [s for s in summaries if s.horizon in horizons]
    tables: dict[tuple[str, str, int, str], list[SummaryRow]] = {}
    for summary in chosen:
        tables.setdefault(summary.table, []).append(summary)
    # Over all tables, so that a method has the same label in each of them.
    several = with_several_algorithms((s.method, s.algorithm) for s in summaries)
    return [_grid(key, rows, several) for key, rows in tables.items()]


def _grid(key: tuple[str, str, int, str], summaries: Sequence[SummaryRow], several: Collection[str]) -> Grid:
    modes = list(dict.fromkeys(s.mode for s in summaries))
    conditions = {Column(s.mode, s.horizon, s.decoding): (s.horizon, decoding_rank(s.decoding)) for s in summaries}
    columns = tuple(sorted(conditions, key=lambda column: (modes.index(column.mode), conditions[column])))
    cells = {(s.line, Column(s.mode, s.horizon, s.decoding)): s for s in summaries}
    lines = lines_of(summaries)
    paper_modes = tuple(
        mode for mode in modes if any(_paper_success(key[0], method, mode) is not None for method, *_ in lines)
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
    return None if algorithm not in ("", PAPER_ALGORITHM) else _paper_success(benchmark, method, mode)


def _success(summary: SummaryRow | None) -> Cell:
    if summary is None:
        return Cell("-")
    seeds = f"seeds {100 * summary.lowest:.0f} to {100 * summary.highest:.0f}" if summary.seeds > 1 else ""
    hint = f"{summary.successes} of {summary.episodes} episodes, {summary.seeds} seed(s), mean over seeds "
    # No decimals for the ends: they lie several points apart at the usual numbers of episodes.
    return Cell(
        f"{100 * summary.success_rate:.1f}",
        f"[{100 * summary.lo:.0f}, {100 * summary.hi:.0f}]",
        seeds,
        f"{hint}{100 * summary.mean:.1f}%",
    )


def _paper_cell(value: float | None) -> Cell:
    # The paper prints whole percents; a decimal would claim a precision that it does not.
    return Cell("-" if value is None else f"{value:g}")


def _paper_success(benchmark: str, method: str, mode: str) -> float | None:
    """The paper's figure, or None where it prints none. A version at the end of the benchmark's name does not matter.

    >>> _paper_success("dangerous_taxi-v1", "reflect_rl", "full")
    29
    """
    return PAPER_SUCCESS_PERCENT.get((benchmark.partition("-v")[0], method), {}).get(mode)


def unfinished(run: Run) -> list[str]:
    """Sentences on the results that the configuration asks for and that are missing, one for each method."""
    names, starts, seeds = asked(run.config)
    present = {(row.method, row.demonstration_starts, row.seed) for row in run.results}
    units = [(budget, seed) for budget in starts for seed in seeds]
    missing = {name: [unit for unit in units if (name, *unit) not in present] for name in names}
    return [
        f"not evaluated yet: {look_of(name).title}"
        + ("" if len(units) == 1 else f" ({len(lacking)} of {len(units)} units)")
        + _progress(run, name)
        for name, lacking in missing.items()
        if lacking
    ]


def _progress(run: Run, name: str) -> str:
    """Progress of the online training of a method; empty where it has none, or has not begun."""
    total = setting(run.config, "rlft", "total_turns")
    turns = [finite(curve.rows[-1].get("turns")) for curve in read_curves(run, "rlft") if curve.name == name]
    known = [int(value) for value in turns if value is not None]
    if not known or not isinstance(total, int):
        return ""
    # The seed that is furthest behind says when the method can be evaluated. The last update may play past the budget.
    return f"; online training is at {min(*known, total):,} of {total:,} turns"


def terminal_table(run_folders: Sequence[Path], horizons: Sequence[int] | None = None) -> Group:
    """Success in percent with 95% intervals, to be printed by a `rich` console: one table per condition and horizon.

    Costs and strata follow for games that measure them, at the longest horizon.

    Args:
        run_folders: folders that an evaluation has written; their seeds are pooled.
        horizons: the horizons that are shown; None is the longest of each condition and mode.

    Raises:
        RunFolderError: a folder holds no results, or a horizon was not evaluated.
    """
    runs = read_runs(run_folders)
    summaries = summarise_runs(runs)
    chosen = [None] if horizons is None else [[horizon] for horizon in horizons]
    parts = [part for horizon in chosen for part in grids(summaries, horizon)]
    note = [Text(PAPER_NOTE, style="dim")] if any(part.paper_modes for part in parts) else []
    note += [terminal_text(f"{run.folder.name}: {line}") for run in runs for line in unfinished(run)]
    details = map(terminal_part, [*cost_tables(runs), *strata_tables(runs)])
    return Group(*(terminal_part(part.table()) for part in parts), *note, *details)


def terminal_text(text: str, style: str = "") -> Text:
    """Text of files, games and servers: its brackets are no styles, and it cannot steer the terminal."""
    return Text(printable(text), style=style)


def terminal_part(part: PlainTable) -> Table:
    """A table for a `rich` console; one with many columns and few lines is turned, so that no name is cut."""
    table = Table(title=terminal_text(f"{part.title}\n{part.note}"), title_justify="left", box=SIMPLE_HEAD)
    shown = part.turned() if part.is_wide else part
    table.add_column("measure" if part.is_wide else "method", no_wrap=part.is_wide)
    for name in shown.header:
        # On lines of their own, the two halves of a name let the table fit into 80 columns.
        table.add_column(terminal_text(name.replace(", " if part.is_wide else ": ", "\n")), justify="right")
    for label, cells in shown.rows:
        table.add_row(terminal_text(label), *(terminal_text(f"{cell.figure}\n{cell.below}".rstrip()) for cell in cells))
    return table


def markdown_table(run_folders: Sequence[Path], horizons: Sequence[int] | None = None) -> str:
    """Success in percent with 95% intervals as Markdown, for documentation: one table per condition.

    Args:
        run_folders: folders that an evaluation has written; their seeds are pooled.
        horizons: the horizons that get columns; None is the longest of each condition and mode.

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
    rows = [
        [row.label, *map(_in_line, row.cells), *(_paper_cell(value).figure for value in row.paper)] for row in grid.rows
    ]
    return "\n".join([f"Success % [95% interval]: {grid.title}", "", *markdown_lines(header, rows)])


def markdown_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown: the first column to the left, the others to the right."""
    rule = ["---"] + ["---:"] * len(header[1:])
    return [_pipes(header), _pipes(rule), *map(_pipes, rows)]


def _pipes(cells: Iterable[str]) -> str:
    # A bar in a name would begin another cell.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _in_line(summary: SummaryRow | None) -> str:
    cell = _success(summary)
    return f"{cell.figure} {cell.below}".rstrip()


def cost_tables(runs: Iterable[Run]) -> list[PlainTable]:
    """Turns and measures of each method at the largest horizon, means over episodes: one table per mode."""
    tables = []
    for title, lines in _conditions(row for run in runs for row in run.results if row.all_measures):
        # A dict, as a set would shuffle columns that are not listed from one run of the program to the next.
        found = dict.fromkeys(name for rows in lines.values() for row in rows for name in row.all_measures)
        names = [*(name for name in MEASURES if name in found), *(name for name in found if name not in MEASURES)]
        header = ("turns", *(MEASURES.get(name, (name.replace("_", " "), 1.0))[0] for name in names))
        rows = [
            (
                label,
                (
                    _mean(_weighted((row.mean_turns, row.episodes) for row in pool)),
                    *(_measure(pool, name) for name in names),
                ),
            )
            for label, pool in lines.items()
        ]
        note = " ".join(text for key, text in NOTES.items() if not key or key in found)
        tables.append(PlainTable(f"Costs, {title}", note, header, tuple(rows)))
    return tables


def strata_tables(runs: Iterable[Run]) -> list[PlainTable]:
    """Success at the largest horizon for each value of each property of the tasks that varies: one table per mode."""
    tables = []
    for title, lines in _conditions(row for run in runs for row in run.results if row.strata):
        strata = [stratum for rows in lines.values() for row in rows for stratum in row.strata]
        columns = _columns(strata)
        if not columns:
            continue
        rows = [(label, tuple(_rate(pool, key, value) for key, value in columns)) for label, pool in lines.items()]
        header = tuple(f"{key}: {value}" for key, value in columns)
        note = "Success in percent; below it Wilson's 95% interval and the number of episodes."
        tables.append(PlainTable(f"Strata, {title}", note, header, tuple(rows)))
    return tables


def _columns(strata: Sequence[Stratum]) -> list[tuple[str, str]]:
    """Property and value, for properties of several values."""
    values: dict[str, set[str]] = {}
    for stratum in strata:
        for key, value in stratum.properties.items():
            values.setdefault(key, set()).add(value)
    # A property with one value everywhere would only repeat the overall rate.
    return [(key, value) for key, known in values.items() if len(known) > 1 for value in sorted(known)]


def _conditions(results: Iterable[ResultRow]) -> Iterable[tuple[str, dict[str, list[ResultRow]]]]:
    """Title of each table, and the rows of each of its lines at the largest horizon, in listing order."""
    rows = list(results)
    longest: dict[tuple[str, ...], int] = {}
    for row in rows:
        # Per table: two benchmarks need not share their longest horizon.
        longest[_strata_table(row)] = max(longest.get(_strata_table(row), 0), row.horizon)
    for table, horizon in longest.items():
        chosen = [row for row in rows if _strata_table(row) == table and row.horizon == horizon]
        benchmark, label_source, starts, split, mode = table
        title = f"{benchmark} {mode}, label source {label_source}, {starts} demonstration starts, {split} split"
        title += f", horizon {horizon}"
        yield title, _strata_lines(chosen)


def _strata_table(row: ResultRow) -> tuple[str, ...]:
    return row.benchmark, row.label_source, str(row.demonstration_starts), row.split, row.mode


def _strata_lines(rows: Sequence[ResultRow]) -> dict[str, list[ResultRow]]:
    """Label -> the rows of its seeds, each seed once."""
    pairs = [(row.method, row.algorithm) for row in rows]
    several = with_several_algorithms(pairs)
    models = sorted({row.model for row in rows if row.model != "none"})
    lines: dict[str, list[ResultRow]] = {}
    for method, algorithm in lines_in_order(pairs):
        own = [row for row, pair in zip(rows, pairs, strict=True) if pair == (method, algorithm)]
        label = look_of(method, algorithm if method in several else "").title
        for decoding in sorted({row.decoding for row in own}, key=decoding_rank):
            for model in sorted({row.model for row in own}):
                # Keyed by seed: a row that two folders hold must not weigh twice.
                seeds = {row.seed: row for row in own if (row.decoding, row.model) == (decoding, model)}
                # A player without a model plays in one way only.
                told = "" if model == "none" else f", {decoding}" + (f", {model}" if len(models) > 1 else "")
                if seeds:
                    lines[label + told] = list(seeds.values())
    return lines


def _weighted(values: Iterable[tuple[float | None, int]]) -> float | None:
    """Mean over the episodes of all seeds, of pairs of a seed's value and its episodes; None where no row has it."""
    # Seeds may differ in their episodes; weighted, the mean is that over all episodes.
    known = [(value, count) for value, count in values if value is not None and count]
    return sum(value * count for value, count in known) / sum(count for _, count in known) if known else None


def _measure(rows: Sequence[ResultRow], name: str) -> Cell:
    value = _weighted((row.all_measures.get(name), row.episodes) for row in rows)
    return _mean(value, MEASURES.get(name, ("", 1.0))[1])


def _mean(value: float | None, factor: float = 1.0) -> Cell:
    if value is None:
        return Cell("-")
    scaled = value * factor
    if 0 < abs(scaled) < SMALL:
        return Cell(f"{scaled:.1g}")
    return Cell(f"{scaled:,.0f}" if abs(scaled) >= 1000 else f"{scaled:.1f}")


def _rate(rows: Sequence[ResultRow], key: str, value: str) -> Cell:
    """Success in all strata of which a property has a value."""
    strata = [stratum for row in rows for stratum in row.strata if stratum.properties.get(key) == value]
    successes, episodes = sum(s.successes for s in strata), sum(s.episodes for s in strata)
    if not episodes:
        return Cell("-")
    # Strata are small and often won or lost as a whole: there Wilson's interval still has a width.
    lo, hi = wilson_interval(successes, episodes)
    return Cell(f"{100 * successes / episodes:.1f}", f"[{100 * lo:.0f}, {100 * hi:.0f}] of {episodes}")
