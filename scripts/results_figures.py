"""Static figures for the documentation, as SVG text: learning curves, results, and success against demonstrations.

The page of a run draws its own charts in the browser. Backgrounds are transparent and ink is `currentColor`, so that a
figure inside a page follows its light or dark theme.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reflect_report.charts import Points, on_common_grid
from reflect_report.runs import (
    Curve,
    SummaryRow,
    algorithms_in_order,
    describe_algorithm,
    in_order,
    lines_in_order,
    look_of,
    with_several_algorithms,
)
from reflect_report.tables import Grid, GridRow
from reflect_rl.evaluation.methods import Method

INK = "#010203"
"""Placeholder for the colour of text and axes; in a finished figure it is `currentColor`."""
MARKERS = "os^vDPX*"
BAR_ALPHA = (0.95, 0.45)
"""Opacity of the first decoding and of the others."""
PAPER_DIAMOND: Any = {
    "marker": "D",
    "markersize": 5,
    "color": "none",
    "markeredgecolor": INK,
    "markerfacecolor": "#F0E442",
    "clip_on": False,
}
BUDGET_METHODS = ("sft_reflect_no_negatives", "sft_reflect", "reflect_rl_no_negatives", "reflect_rl")
STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    # Text stays text: it can be searched and read aloud, and it takes the font of the page.
    "svg.fonttype": "none",
    # Otherwise ids of clip paths are random, and the same report would differ at each writing.
    "svg.hashsalt": "reflect-rl",
    "text.color": INK,
    "text.parse_math": False,  # names from files may hold a dollar sign
    "xtick.color": INK,
    "ytick.color": INK,
}


DARK = "<style>@media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }</style>"


def save(svg: str, path: Path) -> Path:
    """Write a figure to a file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # As a picture it takes no colour from the page around it, so it has to know a dark one by itself.
    path.write_text(svg.replace(">", f">{DARK}", 1), encoding="utf-8")
    return path


def figure_learning_curves(curves: Sequence[Curve]) -> str | None:
    """Success against environment turns, one panel per RL method; None if no curve has a success rate.

    Methods that were trained with several algorithms are left to `figure_algorithm_curves`.

    Thin line: success of the rollouts that the method learns from, in the mode of the stage. Lines with markers:
    validation success per mode. With several seeds the line is their mean and the band their minimum and maximum, over
    the turns that all of them reached. Shades are the curriculum stages of the first seed.

    Args:
        curves: trainings with the same label source and number of demonstration starts.
    """
    several = with_several_algorithms((curve.name, curve.algorithm) for curve in curves)
    curves = [curve for curve in _with_success(curves) if curve.name not in several]
    if not curves:
        return None
    methods = in_order(curve.name for curve in curves)
    markers = _validation_markers(curves)
    with mpl.rc_context(STYLE):
        figure, panels = _panels(len(methods), height=2.7, per_row=2)
        for axes, method in zip(panels, methods, strict=True):
            _learning_panel(axes, method, [curve for curve in curves if curve.name == method], markers)
        lines = [Line2D([], [], color=INK, linewidth=0.8, label="rollout")]
        lines += [
            Line2D([], [], color=INK, marker=marker, markersize=4, label=f"validation, {key.split('/')[1]}")
            for key, marker in markers.items()
        ]
        figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
        return svg_of(figure)


def _with_success(curves: Sequence[Curve]) -> list[Curve]:
    return [curve for curve in curves if any("success_rate" in key for row in curve.rows for key in row)]


def figure_algorithm_curves(curves: Sequence[Curve]) -> str | None:
    """Success against environment turns of the methods that were trained with several algorithms, a line for each.

    One panel for the rollouts that are learnt from, and one for each mode of validation. With several seeds the line is
    their mean and the band their minimum and maximum, over the turns that all of them reached. None if no method has
    several algorithms.

    Args:
        curves: trainings with the same label source and number of demonstration starts.
    """
    several = with_several_algorithms((curve.name, curve.algorithm) for curve in curves)
    curves = [curve for curve in _with_success(curves) if curve.name in several]
    if not curves:
        return None
    measures = {"rollout/success_rate": "rollout"}
    measures |= {key: f"validation, {key.split('/')[1]}" for key in _validation_markers(curves)}
    parts = [(method, key) for method in in_order(curve.name for curve in curves) for key in measures]
    names = algorithms_in_order(curve.algorithm for curve in curves)
    with mpl.rc_context(STYLE):
        figure, panels = _panels(len(parts), height=2.7, per_row=len(measures) if len(measures) < 4 else 2)
        for axes, (method, key) in zip(panels, parts, strict=True):
            own = [curve for curve in curves if curve.name == method]
            for name in names:
                seeds = [curve.series("turns", key) for curve in own if curve.algorithm == name]
                marker = None if key == "rollout/success_rate" else "o"
                _seed_band(axes, seeds, describe_algorithm(name).colour, marker, width=1.2, opacity=0.1)
            _success_axes(axes, f"{look_of(method).title}, {measures[key]}", top=1.03)
            axes.locator_params(axis="x", nbins=4)
        looks = [describe_algorithm(name) for name in names]
        lines = [Line2D([], [], color=look.colour, label=look.label) for look in looks]
        figure.legend(handles=lines, loc="outside lower center", ncols=min(len(lines), 8))
        return svg_of(figure)


def _success_axes(axes: Axes, title: str, top: float) -> None:
    # A little below 0, so that a line or marker at 0% is not hidden by the axis.
    axes.set(title=title, ylim=(-0.03, top), xlabel="environment turns", ylabel="success rate")
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.grid(color=INK, alpha=0.12, linewidth=0.6)


def _learning_panel(axes: Axes, method: str, curves: Sequence[Curve], markers: Mapping[str, str]) -> None:
    look = look_of(method)
    _shade_stages(axes, curves[0])
    _seed_band(axes, [c.series("turns", "rollout/success_rate") for c in curves], look.colour, width=0.8)
    for key, marker in markers.items():
        _seed_band(axes, [curve.series("turns", key) for curve in curves], look.colour, marker=marker)
    # Room above 100% for the names of the curriculum stages.
    _success_axes(axes, look.title, top=1.15)


def _validation_markers(curves: Sequence[Curve]) -> dict[str, str]:
    keys = {key: None for curve in curves for row in curve.rows for key in row}
    validations = [key for key in keys if re.fullmatch(r"validation/.+/success_rate", key)]
    return {key: MARKERS[rank % len(MARKERS)] for rank, key in enumerate(validations)}


def _shade_stages(axes: Axes, curve: Curve) -> None:
    rows = [row for row in curve.rows if row.get("stage") is not None and isinstance(row.get("turns"), (int, float))]
    stages = [(str(name), list(group)) for name, group in groupby(rows, key=lambda row: row["stage"])]
    # A single stage would shade the whole panel and tell nothing.
    if len(stages) < 2:
        return
    start = 0.0
    for number, (name, group) in enumerate(stages):
        end = float(group[-1]["turns"])
        axes.axvspan(start, end, color=INK, alpha=0.08 if number % 2 else 0.02, linewidth=0)
        axes.text((start + end) / 2, 1.05, name, ha="center", va="bottom", fontsize=7)
        start = end


def _seed_band(
    axes: Axes,
    seeds: Sequence[Points],
    colour: str,
    marker: str | None = None,
    width: float = 1.6,
    opacity: float = 0.18,
) -> None:
    seeds = [points for points in seeds if points]
    if not seeds:
        return
    x, values = on_common_grid(seeds)
    axes.plot(x, values.mean(axis=0), color=colour, linewidth=width, marker=marker, markersize=4)
    if len(seeds) > 1:
        axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=colour, alpha=opacity, linewidth=0)


def figure_results(grid: Grid) -> str:
    """Success of every method as bars with 95% intervals, one panel per mode; a diamond is the paper's figure.

    Args:
        grid: a table with one horizon.
    """
    modes = list(dict.fromkeys(column.mode for column in grid.columns))
    decodings = list(dict.fromkeys(column.decoding for column in grid.columns))
    with mpl.rc_context(STYLE):
        height = 0.8 + len(grid.rows) * (0.12 + 0.17 * len(decodings))
        figure, panels = _panels(len(modes), height=height, per_row=len(modes), sharey=True)
        for axes, mode in zip(panels, modes, strict=True):
            for line, row in enumerate(grid.rows):
                _result_bars(axes, grid, row, line, mode, decodings)
            # Beyond 100, so that the cap of an interval that ends there is whole.
            axes.set(title=mode, xlim=(0, 104), xlabel="success, %")
            axes.set_yticks(range(len(grid.rows)), [row.label for row in grid.rows])
            axes.grid(color=INK, alpha=0.12, linewidth=0.6, axis="x")
            # By default matplotlib draws the grid over bars.
            axes.set_axisbelow(True)
        # The y axis grows upwards, a table downwards. The panels share the axis: inverting one inverts all.
        panels[0].invert_yaxis()
        figure.legend(handles=_bar_legend(decodings, bool(grid.paper_modes)), loc="outside lower center", ncols=3)
        return svg_of(figure)


def _bar_legend(decodings: Sequence[str], with_paper: bool) -> list[Artist]:
    handles: list[Artist] = [
        Patch(facecolor=("#777777", BAR_ALPHA[min(rank, 1)]), label=decoding) for rank, decoding in enumerate(decodings)
    ]
    if with_paper:
        handles.append(Line2D([], [], label="paper, horizon 15", **PAPER_DIAMOND))
    return handles


def _result_bars(axes: Axes, grid: Grid, row: GridRow, line: int, mode: str, decodings: Sequence[str]) -> None:
    look = row.look
    thickness = 0.8 / len(decodings)
    for column, summary in zip(grid.columns, row.cells, strict=True):
        if column.mode != mode or summary is None:
            continue
        rank = decodings.index(column.decoding)
        y = line - 0.4 + thickness * (rank + 0.5)
        rate = 100 * summary.success_rate
        # matplotlib refuses negative lengths, which rounding can make where an end equals the rate.
        errors = [[max(0.0, rate - 100 * summary.lo)], [max(0.0, 100 * summary.hi - rate)]]
        axes.barh(
            y,
            rate,
            height=thickness * 0.88,
            facecolor=(look.colour, BAR_ALPHA[min(rank, 1)]),
            edgecolor=INK if look.dashed else "none",
            hatch="////" if look.dashed else None,
            linewidth=0,
        )
        axes.errorbar(rate, y, xerr=errors, color=INK, linewidth=1, capsize=2)
    if mode in grid.paper_modes and (paper := row.paper[grid.paper_modes.index(mode)]) is not None:
        axes.plot(paper, line, **PAPER_DIAMOND)


@dataclass(frozen=True, slots=True)
class Pair:
    """Success of the same players on the same games before and after online RL; without it, why there is none."""

    title: str
    before: SummaryRow | None = None
    after: SummaryRow | None = None


def figure_before_after(columns: Sequence[str], lines: Mapping[str, Sequence[Pair]]) -> str:
    """Success before and after online RL with 95% intervals; dots are the worst and the best seed.

    Args:
        columns: titles of the columns.
        lines: the panels of each line, as many as there are columns.
    """
    with mpl.rc_context(STYLE):
        # Not by pyplot, which keeps every figure in memory and may look for a display.
        figure = Figure(figsize=(9.6, 2.3 * len(lines)), layout="constrained")
        grid = figure.subplots(len(lines), len(columns), squeeze=False, sharey=True)
        for axes, column in zip(grid[0], columns, strict=True):
            axes.annotate(column, (0.5, 1.26), xycoords="axes fraction", ha="center", va="bottom", fontsize=10)
        for own, (name, pairs) in zip(grid, lines.items(), strict=True):
            for axes, pair in zip(own, pairs, strict=True):
                _before_after_panel(axes, pair)
            own[0].set_ylabel(f"{name}\nsuccess, %")
        return svg_of(figure)


def _before_after_panel(axes: Axes, pair: Pair) -> None:
    axes.set(ylim=(0, 112), xlim=(-0.6, 1.6))
    if pair.before is None or pair.after is None:
        axes.text(0.5, 50, pair.title, ha="center", va="center", fontsize=8)
        axes.set_xticks([])
        axes.tick_params(left=False)
        axes.spines[["left", "bottom"]].set_visible(False)
        return
    axes.set_title(pair.title, fontsize=8)
    for place, summary in enumerate((pair.before, pair.after)):
        rate, look = 100 * summary.success_rate, look_of(summary.method)
        errors = [[max(0.0, rate - 100 * summary.lo)], [max(0.0, 100 * summary.hi - rate)]]
        axes.bar(place, rate, width=0.62, facecolor=(look.colour, BAR_ALPHA[0]), linewidth=0)
        axes.errorbar(place, rate, yerr=errors, color=INK, linewidth=1, capsize=3)
        if summary.seeds > 1:
            ends = [100 * summary.lowest, 100 * summary.highest]
            axes.plot([place + 0.2] * 2, ends, marker="o", markersize=2.5, color=INK, linestyle="none")
        axes.text(place, 100 * summary.hi + 2, f"{rate:.0f}", ha="center", va="bottom", fontsize=8)
    axes.set_xticks([0, 1], ["before", "after"])
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.grid(color=INK, alpha=0.12, linewidth=0.6, axis="y")
    # By default matplotlib draws the grid over bars.
    axes.set_axisbelow(True)


def figure_demonstration_budget(summaries: Sequence[SummaryRow], mode: str) -> str | None:
    """Success at the largest horizon against the number of demonstration starts, one panel per decoding.

    None unless at least two budgets were run. Dashed lines: trained without negative examples.

    Args:
        summaries: pooled results with the same benchmark, label source and split.
        mode: the mode to show.
    """
    chosen = [s for s in summaries if s.method in BUDGET_METHODS and s.mode == mode]
    chosen = [s for s in chosen if s.horizon == max(other.horizon for other in chosen)]
    budgets = sorted({s.demonstration_starts for s in chosen})
    # The axis is logarithmic: it has no place for zero demonstrations.
    if len(budgets) < 2 or budgets[0] < 1:
        return None
    decodings = list(dict.fromkeys(s.decoding for s in chosen))
    lines = lines_in_order((s.method, s.algorithm) for s in chosen)
    several = with_several_algorithms(lines)
    with mpl.rc_context(STYLE):
        figure, panels = _panels(len(decodings), height=3.0, per_row=2, sharey=True)
        for axes, decoding in zip(panels, decodings, strict=True):
            for rank, (method, algorithm) in enumerate(lines):
                points = [s for s in chosen if (s.method, s.algorithm, s.decoding) == (method, algorithm, decoding)]
                look = look_of(method, algorithm if method in several else "")
                _budget_line(axes, points, look, shift=1 + 0.02 * (rank - (len(lines) - 1) / 2))
            axes.set(title=f"{mode}, horizon {chosen[0].horizon}, {decoding}", xscale="log", ylim=(-3, 103))
            axes.set(xlabel="demonstration starts", ylabel="success, %")
            axes.set_xticks(budgets, [str(budget) for budget in budgets])
            # A logarithmic axis would label ticks between the budgets, which no run had.
            axes.minorticks_off()
            axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        panels[-1].legend(fontsize=7.5, loc="best")
        return svg_of(figure)


def _budget_line(axes: Axes, points: Sequence[SummaryRow], look: Method, shift: float) -> None:
    if not points:
        return
    points = sorted(points, key=lambda s: s.demonstration_starts)
    rates = [100 * s.success_rate for s in points]
    errors = [
        [max(0.0, r - 100 * s.lo) for r, s in zip(rates, points, strict=True)],
        [max(0.0, 100 * s.hi - r) for r, s in zip(rates, points, strict=True)],
    ]
    axes.errorbar(
        [s.demonstration_starts * shift for s in points],  # so that bars of equal budgets do not hide one another
        rates,
        yerr=errors,
        color=look.colour,
        linestyle="--" if look.dashed else "-",
        marker="o",
        markersize=4,
        markerfacecolor="none" if look.dashed else look.colour,
        capsize=2,
        label=look.title,
    )


def _panels(count: int, height: float, per_row: int, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    columns = min(count, per_row)
    lines = -(-count // columns)
    # Not by pyplot, which keeps every figure in memory and may look for a display.
    figure = Figure(figsize=(9.6 if count > 1 else 6.4, height * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=sharey)
    panels = list(grid.flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


def svg_of(figure: Figure) -> str:
    """A finished figure as SVG text, in the ink of the page around it."""
    buffer = io.StringIO()
    # A date would make two writings of one report differ.
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    # An XML declaration and a doctype must not stand inside an HTML page.
    svg = svg[svg.index("<svg") :]
    # matplotlib writes this block even when its entries are removed, with addresses that a page has no use for.
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[A-Za-z0-9_.]+">', "<g>", svg)  # ids would repeat when figures share a page
    # matplotlib knows no `currentColor`, so figures are drawn in a colour that nothing else has.
    return svg.replace(INK, "currentColor").replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif")


def success_against(
    labels: Sequence[str],
    groups: Sequence[Sequence[SummaryRow]],
    decoding: str,
    xlabel: str = "",
    references: Mapping[str, Sequence[float]] | None = None,
) -> str:
    """Success of each method with its 95% interval, in several settings side by side.

    Args:
        labels: names of the settings.
        groups: results in each of them.
        decoding: that is drawn.
        xlabel: name of what the settings differ in.
        references: further lines, a share for each setting.
    """
    with mpl.rc_context(STYLE):
        canvas = Figure(figsize=(7.6, 3.4), layout="constrained")
        axes = canvas.subplots()
        for k, (name, shares) in enumerate((references or {}).items()):
            style = (":", "--", "-.")[k % 3]
            heights = [100 * share for share in shares]
            axes.plot(range(len(labels)), heights, color=INK, alpha=0.5, linestyle=style, marker="_", label=name)
        found = {row.method for rows in groups for row in rows if row.decoding == decoding}
        methods = sorted(found, key=lambda name: look_of(name).place)
        for rank, method in enumerate(methods):
            look, shift = look_of(method), 0.06 * (rank - (len(methods) - 1) / 2)
            points = [
                (place, row)
                for place, rows in enumerate(groups)
                for row in rows
                if (row.method, row.decoding) == (method, decoding)
            ]
            rates = [100 * row.success_rate for _, row in points]
            errors = [
                [100 * (row.success_rate - row.lo) for _, row in points],
                [100 * (row.hi - row.success_rate) for _, row in points],
            ]
            # Beside one another, so that bars of equal settings do not hide one another.
            xs = [place + shift for place, _ in points]
            axes.errorbar(
                xs, rates, yerr=errors, color=look.colour, marker="o", markersize=4, capsize=2, label=look.title
            )
        axes.set_xticks(range(len(labels)), labels)
        axes.set(xlabel=xlabel, ylabel=f"success, %, {decoding}", ylim=(-3, 103))
        axes.grid(color=INK, alpha=0.12, linewidth=0.6, axis="y")
        canvas.legend(fontsize=7.5, loc="outside right upper")
        return svg_of(canvas)
