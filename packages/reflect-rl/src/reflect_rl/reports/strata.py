"""Tables of what some games measure besides success: costs of an episode, and success by strata of the tasks.

They are made from the parts `measures` and `strata` of result rows (`evaluation.measures`); rows without them, of games
that measure nothing, give no table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from reflect_rl.evaluation.result import ResultRow, Stratum
from reflect_rl.reports.lines import decoding_rank, lines_in_order, look_of, with_several_algorithms
from reflect_rl.reports.runs import Run
from reflect_rl.statistics import wilson_interval

__all__ = ["Cell", "PlainTable", "cost_tables", "strata_tables", "terminal_part"]


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


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, and below it what it rests on."""

    figure: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class PlainTable:
    """A table of one condition: a line per method and decoding."""

    title: str
    note: str
    header: tuple[str, ...]
    """Names of the columns after the first."""
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Label and cells of each line."""


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
        longest[_table(row)] = max(longest.get(_table(row), 0), row.horizon)
    for table, horizon in longest.items():
        chosen = [row for row in rows if _table(row) == table and row.horizon == horizon]
        benchmark, label_source, starts, split, mode = table
        title = f"{benchmark} {mode}, label source {label_source}, {starts} demonstration starts, {split} split"
        title += f", horizon {horizon}"
        yield title, _lines(chosen)


def _table(row: ResultRow) -> tuple[str, ...]:
    return row.benchmark, row.label_source, str(row.demonstration_starts), row.split, row.mode


def _lines(rows: Sequence[ResultRow]) -> dict[str, list[ResultRow]]:
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


SMALL = 0.05
"""Below it one decimal would be none."""

WIDE = 6
"""Columns beyond which a table for a terminal is turned, if that makes it narrower."""


def terminal_part(part: PlainTable) -> Table:
    """A table for a `rich` console; one with many columns and few lines is turned, so that no name is cut."""
    table = Table(title=Text(f"{part.title}\n{part.note}"), title_justify="left", box=SIMPLE_HEAD)
    texts = [[f"{cell.figure}\n{cell.below}".rstrip() for cell in cells] for _, cells in part.rows]
    header, lines = list(part.header), [(label, *cells) for (label, _), cells in zip(part.rows, texts, strict=True)]
    # Turning helps only if there are fewer lines than columns.
    is_turned = len(header) > max(WIDE, len(lines))
    if is_turned:
        lines = [(name, *cells) for name, *cells in zip(header, *texts, strict=True)]
        header = [label for label, _ in part.rows]
    table.add_column("measure" if is_turned else "method", no_wrap=is_turned)
    for name in header:
        # `Text`, because `rich` would take brackets in a name for markup.
        table.add_column(Text(name.replace(", " if is_turned else ": ", "\n")), justify="right")
    for line in lines:
        table.add_row(*map(Text, line))
    return table
