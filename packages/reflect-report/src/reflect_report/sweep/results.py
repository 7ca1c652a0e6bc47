"""Table of a sweep: validation success of each setting over its seeds, and the setting that it selects.

A setting is selected by its validation success alone. Rows of another split are read only for settings that were
selected, or where all were asked for, and change no order.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from reflect_report.runs import decoding_rank, describe
from reflect_report.sweep.axes import Values, name_of
from reflect_report.tables import terminal_text
from reflect_rl.config import Frozen
from reflect_rl.evaluation.evaluate import ResultRow, wilson_interval
from reflect_rl.store import write_bytes, write_json

TABLE, SHEET = "table.json", "table.csv"


class Score(Frozen):
    """Success of one method under one condition, all seeds pooled."""

    episodes: int
    successes: int
    success_rate: float
    ci95: tuple[float, float]
    """Wilson's interval, which takes episodes as independent."""
    lowest: float
    """Rate of the worst seed."""
    highest: float
    """Rate of the best seed."""
    seeds: int

    @classmethod
    def of(cls, rows: Sequence[ResultRow]) -> Score:
        """The score of the rows of one setting, one for each seed and budget."""
        episodes, successes = sum(row.episodes for row in rows), sum(row.successes for row in rows)
        rates = [row.successes / row.episodes for row in rows if row.episodes] or [0.0]
        return cls(
            episodes=episodes,
            successes=successes,
            success_rate=successes / episodes if episodes else 0.0,
            ci95=wilson_interval(successes, episodes),
            lowest=min(rates),
            highest=max(rates),
            seeds=len(rows),
        )


class CellRow(Frozen):
    """A cell and what became of it."""

    name: str
    values: dict[str, str]
    state: str
    """`done`, `failed`, `stopped` (a search gave it up), or `waiting`."""
    reason: str = ""
    validation: Score | None = None
    test: Score | None = None


class SettingRow(Frozen):
    """A setting: all cells that differ in the seed alone."""

    name: str
    values: dict[str, str]
    state: str
    """`done` if all its cells are; else the state of the first that is not."""
    cells: int
    validation: Score | None = None
    """Score of the cells that are done."""
    test: Score | None = None


class SweepTable(Frozen):
    """Results of a sweep."""

    schema_version: int = 1
    method: str
    """Method whose success counts."""
    mode: str
    horizon: int
    decoding: str
    split: str
    """Split of the column `test`: the configuration's own."""
    sentence: str
    """Result in words."""
    selected: str | None
    """Name of the setting with the highest validation success; None: none can be selected."""
    settings: tuple[SettingRow, ...]
    cells: tuple[CellRow, ...]


class Condition(Frozen):
    """Part of an evaluation that is looked at."""

    method: str
    mode: str = ""
    horizon: int = 0
    decoding: str = ""

    def matches(self, row: ResultRow) -> bool:
        """Tell whether a row of results is of this condition."""
        return (row.method, row.mode, row.horizon, row.decoding) == (
            self.method,
            self.mode,
            self.horizon,
            self.decoding,
        )


def condition_of(rows: Sequence[ResultRow], method: str, mode: str = "") -> Condition:
    """The condition that a sweep looks at: the hardest mode, the longest horizon, the most random decoding."""
    own = [row for row in rows if row.method == method]
    if not own:
        return Condition(method=method, mode=mode)
    return Condition(
        method=method,
        # The last mode is the hardest, as modes are evaluated from easy to hard; a `full` one comes before all.
        mode=mode or ("full" if any(row.mode == "full" for row in own) else own[-1].mode),
        horizon=max(row.horizon for row in own),
        decoding=min({row.decoding for row in own}, key=decoding_rank),
    )


def tabulate(
    cells: Sequence[CellRow], settings: Mapping[str, Values], condition: Condition, split: str, obstacles: Sequence[str]
) -> SweepTable:
    """The table of a sweep, with the selected setting.

    Args:
        cells: in the order of the sweep.
        settings: setting of each cell, by the cell's name.
        condition: what of the evaluations is looked at.
        split: of the scores `test`.
        obstacles: varied fields that forbid to compare success; with one, nothing is selected.
    """
    groups: dict[str, list[CellRow]] = {}
    for cell in cells:
        groups.setdefault(name_of(settings[cell.name]), []).append(cell)
    rows = [_setting(name, dict(settings[group[0].name]), group) for name, group in groups.items()]
    # Settings that lack a seed would be compared by their luckier ones; the first of equal ones counts.
    whole = [row for row in rows if row.state == "done" and row.validation is not None]
    best = max(whole, key=_rate) if whole and not obstacles else None
    return SweepTable(
        **condition.model_dump(),
        split=split,
        sentence=_sentence(rows, best, condition, split, obstacles),
        selected=None if best is None else best.name,
        settings=tuple(rows),
        cells=tuple(cells),
    )


def _rate(row: SettingRow) -> float:
    return -1.0 if row.validation is None else row.validation.success_rate


def _setting(name: str, values: dict[str, str], cells: Sequence[CellRow]) -> SettingRow:
    state = next((cell.state for cell in cells if cell.state != "done"), "done")
    return SettingRow(
        name=name,
        values=values,
        state=state,
        cells=len(cells),
        validation=_pooled([cell.validation for cell in cells]),
        # A test over some of the seeds would be read as one over all.
        test=_pooled([cell.test for cell in cells]) if all(cell.test is not None for cell in cells) else None,
    )


def _pooled(scores: Sequence[Score | None]) -> Score | None:
    known = [score for score in scores if score is not None]
    if not known:
        return None
    episodes, successes = sum(s.episodes for s in known), sum(s.successes for s in known)
    return Score(
        episodes=episodes,
        successes=successes,
        success_rate=successes / episodes if episodes else 0.0,
        ci95=wilson_interval(successes, episodes),
        lowest=min(s.lowest for s in known),
        highest=max(s.highest for s in known),
        seeds=sum(s.seeds for s in known),
    )


def _sentence(
    rows: Sequence[SettingRow],
    best: SettingRow | None,
    condition: Condition,
    split: str,
    obstacles: Sequence[str],
) -> str:
    where = f"{describe(condition.method).title}, mode {condition.mode}, horizon {condition.horizon}"
    if obstacles:
        return f"Nothing is selected: {', '.join(obstacles)} changes what is played or counted."
    if best is None or best.validation is None:
        return f"Nothing is selected: no setting is done with all its seeds ({where})."
    text = (
        f"{best.name or 'The one setting'} wins {_interval(best.validation)} of {best.validation.episodes:,} validation"
    )
    text += f" episodes ({where}, {condition.decoding}), the most of {len(rows)} setting{'s' * (len(rows) != 1)}"
    equal = [row.name for row in rows if row is not best and row.state == "done" and _rate(row) == _rate(best)]
    if equal:
        text += f", as {' and '.join(equal[:3])} does; the first of equal ones is taken"
    if len(rows) > 1:
        text += ". The best of several is lucky as well as good, so this number is too high"
    if best.test is not None:
        text += f". On the {split} split it wins {_interval(best.test)} of {best.test.episodes:,} episodes"
    return f"{text}."


def _interval(score: Score) -> str:
    return f"{100 * score.success_rate:.1f}% [{100 * score.ci95[0]:.0f}, {100 * score.ci95[1]:.0f}]"


def terminal_sweep(table: SweepTable) -> Table:
    """The settings for a `rich` console, in the order of the sweep; the selected one has a star."""
    shown = Table(box=SIMPLE_HEAD)
    fields = list(table.settings[0].values) if table.settings else []
    has_test = any(row.test is not None for row in table.settings)
    for name in ("", *fields, "state", "seeds", "validation, %", *([f"{table.split}, %"] if has_test else [])):
        shown.add_column(terminal_text(name), justify="right" if name.endswith("%") else "left")
    for row in table.settings:
        scores = [row.validation, *([row.test] if has_test else [])]
        cells = ("*" if row.name == table.selected else "", *row.values.values(), row.state, _seeds(row))
        shown.add_row(
            *map(terminal_text, (*cells, *("" if s is None else _interval(s).replace("%", "") for s in scores)))
        )
    return shown


def _seeds(row: SettingRow) -> str:
    return "" if row.validation is None else str(row.validation.seeds)


def write_table(folder: Path, table: SweepTable) -> None:
    """Write `table.json` and `table.csv`, a line for each setting."""
    write_json(folder / TABLE, table.model_dump(mode="json"))
    text = io.StringIO(newline="")
    sheet = csv.writer(text)
    fields = list(table.settings[0].values) if table.settings else []
    sheet.writerow([*fields, "state", "selected", *_columns("validation"), *_columns(table.split)])
    for row in table.settings:
        selected = int(row.name == table.selected)
        sheet.writerow([*row.values.values(), row.state, selected, *_figures(row.validation), *_figures(row.test)])
    write_bytes(folder / SHEET, text.getvalue().encode())


def _columns(split: str) -> list[str]:
    return [f"{split}_{name}" for name in ("seeds", "episodes", "successes", "rate", "lo", "hi", "lowest", "highest")]


def _figures(score: Score | None) -> list[object]:
    if score is None:
        return [""] * 8
    return [
        *(score.seeds, score.episodes, score.successes, score.success_rate, *score.ci95),
        *(score.lowest, score.highest),
    ]
