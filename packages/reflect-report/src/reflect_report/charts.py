"""Charts of the page: metrics of the trainings, and success against the number of demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from reflect_report.runs import Curve, SummaryRow, all_horizons, lines_in_order, look_of, with_several_algorithms
from reflect_rl.evaluation.methods import METHODS

MAX_POINTS = 400
"""Points of a line in a chart."""
HOUSEKEEPING = ("time/", "memory/", "model/", "update", "step", "turns", "episodes")
"""Beginnings of metrics that say nothing about learning."""
COLOURS = tuple(dict.fromkeys(method.colour for method in METHODS if method.model))
"""Colours of lines that are no methods."""

Points = Sequence[tuple[float, float]]
Group = tuple[str, int]
"""Label source and number of demonstration starts."""


def training_charts(curves: Sequence[Curve], x: str) -> list[dict[str, Any]]:
    """One chart per label source and budget, with every metric of the trainings to choose from."""
    groups: dict[Group, list[Curve]] = {}
    for curve in curves:
        groups.setdefault((curve.label_source, curve.demonstration_starts), []).append(curve)
    return [chart for key, group in sorted(groups.items()) if (chart := _chart(key, group, x))["measures"]]


def installed_charts(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Charts of the trainings of installed stages: those that play, and those that do not, of each stage."""
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        groups.setdefault((curve.stage, curve.axis), []).append(curve)
    return [
        chart | {"title": f"{stage}: {chart['title']}"}
        for (stage, axis), group in sorted(groups.items())
        for chart in training_charts(group, axis)
    ]


def _chart(group: Group, curves: Sequence[Curve], x: str) -> dict[str, Any]:
    several = with_several_algorithms((curve.name, curve.algorithm) for curve in curves)
    trainings: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        trainings.setdefault((curve.name, curve.algorithm), []).append(curve)
    measures = {}
    for key in measures_of(curves):
        lines = []
        for number, line in enumerate(lines_in_order(trainings)):
            seeds = [points for curve in trainings[line] if (points := curve.series(x, key))]
            look = look_of(line[0], line[1] if line[0] in several else "")
            label, colour, dashed = look.title, look.colour, look.dashed
            # Supervised models are named after data sets, which are no methods.
            if curves[0].stage == "sft":
                label, colour, dashed = line[0], COLOURS[number % len(COLOURS)], False
            lines += [_line(label, colour, dashed, seeds)] if seeds else []
        if lines:
            measures[key] = lines
    numbers = ", ".join(map(str, sorted({curve.seed for curve in curves})))
    title = f"Label source {group[0]}, {group[1]} demonstration starts, seed {numbers}"
    axis = "environment turns" if x == "turns" else "optimiser steps"
    return {"title": title, "x": axis, "measures": measures, "stages": _stages(curves[0])}


def measures_of(curves: Sequence[Curve]) -> list[str]:
    """Names of metrics that change, those of success first, validation in the hardest mode before all."""
    values: dict[str, set[float]] = {}
    for key, value in (item for curve in curves for row in curve.rows for item in row.items()):
        if isinstance(value, (int, float)) and not key.startswith(HOUSEKEEPING):
            values.setdefault(key, set()).add(value)
    keys = [key for key, known in values.items() if len(known) > 1 or "success_rate" in key]
    modes = [key for key in keys if key.startswith("validation/") and key.endswith("/success_rate")]
    first = [*(key for key in modes if "/full/" in key), *reversed(modes), "rollout/success_rate", "loss"]
    return list(dict.fromkeys([*(key for key in first if key in keys), *keys]))


def first_measures(chart: dict[str, Any]) -> dict[str, Any]:
    """The chart with its first two metrics alone."""
    return chart | {"measures": dict(list(chart["measures"].items())[:2])}


def _line(label: str, colour: str, dashed: bool, seeds: Sequence[Points]) -> dict[str, Any]:
    x, values = on_common_grid(seeds)
    parts = {"x": x, "y": values.mean(axis=0)}
    if len(seeds) > 1:
        parts |= {"lo": values.min(axis=0), "hi": values.max(axis=0)}
    # Five digits are more than a screen shows. JSON has no NaN: a broken training leaves a gap.
    numbers = {name: [float(f"{v:.5g}") if np.isfinite(v) else None for v in part] for name, part in parts.items()}
    return {"label": label, "colour": colour, "dashed": dashed, **numbers}


def on_common_grid(seeds: Sequence[Points]) -> tuple[np.ndarray, np.ndarray]:
    """x, shape (points,), and the value of each seed there, shape (seeds, points), linearly interpolated."""
    arrays = [np.asarray(points, dtype=float).T for points in seeds]
    # Seeds log at different turns. Only the range that all reached is drawn: beyond it `np.interp` repeats the
    # last value, which looks like a plateau.
    first, last = max(x[0] for x, _ in arrays), min(x[-1] for x, _ in arrays)
    count = min(MAX_POINTS, max(len(x) for x, _ in arrays))
    longest = max((x for x, _ in arrays), key=len)
    # Seeds without common turns, as after an early stop, give one point rather than a grid that runs backwards.
    evenly = np.linspace(first, max(first, last), count)
    # A single seed keeps its measured points: markers on interpolated ones would show what nobody measured.
    grid = longest if len(arrays) == 1 and len(longest) <= MAX_POINTS else evenly
    return grid, np.stack([np.interp(grid, x, y) for x, y in arrays])


def _stages(curve: Curve) -> list[tuple[str, float]]:
    """Name and last turn of each stage of the curriculum; empty with one stage, which tells nothing."""
    rows = [row for row in curve.rows if row.get("stage") is not None and isinstance(row.get("turns"), (int, float))]
    stages = [(str(name), float(list(group)[-1]["turns"])) for name, group in groupby(rows, lambda row: row["stage"])]
    return stages if len(stages) > 1 else []


def budget_charts(summaries: Sequence[SummaryRow]) -> list[dict[str, Any]]:
    """Success at the longest horizon against the number of demonstration starts, where there are several numbers."""
    groups: dict[tuple[str, str, str], list[SummaryRow]] = {}
    for s in summaries:
        groups.setdefault((s.benchmark, s.label_source, s.split), []).append(s)
    charts = []
    for (benchmark, label_source, split), rows in groups.items():
        # Points of a line must share a horizon, and two games need not.
        group = [s for s in rows if s.horizon == all_horizons(rows)[-1]]
        if len({s.demonstration_starts for s in group}) < 2:
            continue
        several = with_several_algorithms((s.method, s.algorithm) for s in group)
        measures: dict[str, list[dict[str, Any]]] = {}
        # Modes go from easy to hard: the hardest is shown first.
        for mode, decoding in reversed(dict.fromkeys((s.mode, s.decoding) for s in group)):
            for method, algorithm in lines_in_order((s.method, s.algorithm) for s in group):
                key = (method, algorithm, mode, decoding)
                points = sorted(
                    (s.demonstration_starts, s.success_rate, s.lo, s.hi)
                    for s in group
                    if (s.method, s.algorithm, s.mode, s.decoding) == key
                )
                look = look_of(method, algorithm if method in several else "")
                if points:
                    named: dict[str, Any] = {"label": look.title, "colour": look.colour, "dashed": look.dashed}
                    line = named | dict(zip(("x", "y", "lo", "hi"), zip(*points, strict=True), strict=True))
                    measures.setdefault(f"success rate, {mode}, {decoding}", []).append(line)
        title = f"{benchmark}, label source {label_source}, {split} split"
        charts.append({"title": title, "x": "demonstration starts", "measures": measures, "stages": [], "logX": True})
    return charts
