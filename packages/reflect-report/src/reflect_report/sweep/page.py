"""The page of a sweep: its result, a small chart for each varied field, the table, and what became of each cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from reflect_report.episodes import json_in_html
from reflect_report.frame import library, policy, source, style, templates
from reflect_report.runs import describe
from reflect_report.sweep.axes import SEEDS
from reflect_report.sweep.results import Score, SettingRow, SweepTable
from reflect_rl.evaluation.methods import METHODS
from reflect_rl.store import write_bytes

PAGE = "sweep.html"
COLOURS = tuple(dict.fromkeys(method.colour for method in METHODS if method.model))
MOST_LINES = len(COLOURS)
"""Lines of a chart that have a name and a colour of their own."""
LOG_RATIO = 20.0
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Line:
    """Validation success of settings that differ in one field alone; parallel lists."""

    label: str
    colour: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    lo: tuple[float, ...]
    hi: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Chart of one field."""

    field: str
    names: tuple[str, ...]
    """Values of a field without numbers, whose places are 0, 1, ...; empty for numbers."""
    is_log: bool
    has_names: bool
    """True where its lines are named; of many, none is."""
    lines: tuple[Line, ...]
    selected: tuple[float, float] | None
    """Place of the selected setting."""


def write_page(folder: Path, table: SweepTable, command: str) -> Path:
    """Write the page into the folder of a sweep, and return its path."""
    panels = panels_of(table)
    scripts = [library(), source("script/sweep.js")]
    page = (
        templates()
        .get_template(PAGE)
        .render(
            title=describe(table.method).title,
            table=table,
            fields=list(table.settings[0].values) if table.settings else [],
            has_test=any(row.test is not None for row in table.settings),
            panels=panels,
            data=json_in_html([asdict(panel) for panel in panels]),
            figure=figure_of,
            command=command,
            style=style(),
            scripts=scripts,
            policy=policy(scripts),
        )
    )
    write_bytes(folder / PAGE, page.encode())
    return folder / PAGE


def figure_of(score: Score | None) -> str:
    """A score in a cell of the table, for example `57.8 [49, 66]`."""
    if score is None:
        return ""
    return f"{100 * score.success_rate:.1f} [{100 * score.ci95[0]:.0f}, {100 * score.ci95[1]:.0f}]"


def panels_of(table: SweepTable) -> list[Panel]:
    """A chart for each varied field but the seed, of the settings that have a validation score."""
    rows = [row for row in table.settings if row.validation is not None]
    fields = [field for field in (table.settings[0].values if table.settings else ()) if field != SEEDS]
    return [_panel(field, rows, table.selected) for field in fields if rows]


def _panel(field: str, rows: Sequence[SettingRow], selected: str | None) -> Panel:
    words = list(dict.fromkeys(row.values[field] for row in rows))
    numbers = _numbers(words)
    places: Mapping[str, float] = numbers or {word: float(place) for place, word in enumerate(words)}
    groups: dict[str, list[SettingRow]] = {}
    for row in rows:
        others = ", ".join(f"{name} {value}" for name, value in row.values.items() if name != field)
        groups.setdefault(others, []).append(row)
    named = len(groups) <= MOST_LINES
    lines = [
        _line(
            others if len(groups) > 1 else "validation success",
            COLOURS[k] if named else "#777777",
            group,
            places,
            field,
        )
        for k, (others, group) in enumerate(groups.items())
    ]
    ends = sorted(numbers.values()) if numbers else []
    best = next((row for row in rows if row.name == selected), None)
    return Panel(
        field,
        () if numbers else tuple(words),
        bool(ends) and ends[0] > 0 and ends[-1] / ends[0] >= LOG_RATIO,
        named,
        tuple(lines if named else _packed(lines)),
        None if best is None or best.validation is None else (places[best.values[field]], best.validation.success_rate),
    )


def _numbers(words: Iterable[str]) -> dict[str, float]:
    """The values as numbers; empty where one is none."""
    try:
        found = {word: float(word) for word in words}
    except ValueError:
        return {}
    return found if all(math.isfinite(value) for value in found.values()) else {}


def _line(label: str, colour: str, rows: Sequence[SettingRow], places: Mapping[str, float], field: str) -> Line:
    points = sorted(
        (places[row.values[field]], row.validation.success_rate, *row.validation.ci95)
        for row in rows
        if row.validation is not None
    )
    return Line(label, colour, *zip(*points, strict=True))


def _packed(lines: Sequence[Line]) -> list[Line]:
    """The points of many lines in as few as possible: the library draws each place of a line once."""
    packed: list[dict[float, tuple[float, float, float]]] = []
    for line in lines:
        for x, *values in zip(line.x, line.y, line.lo, line.hi, strict=True):
            room = next((points for points in packed if x not in points), None)
            if room is None:
                packed.append(room := {})
            room[x] = (values[0], values[1], values[2])
    return [
        Line("", lines[0].colour, tuple(sorted(points)), *zip(*(points[x] for x in sorted(points)), strict=True))
        for points in packed
    ]
