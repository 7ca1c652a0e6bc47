"""The report of a run, or of several: one HTML page that needs no network and no other file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reflect_rl.evaluation.methods import REFERENCE, REFERENCES
from reflect_rl.reports.episodes import Comparison, Verdict, compare, read_verdicts, sample
from reflect_rl.reports.figures import (
    figure_algorithm_curves,
    figure_demonstration_budget,
    figure_learning_curves,
    figure_results,
    figure_sft_losses,
)
from reflect_rl.reports.lines import look_of
from reflect_rl.reports.paper_figures import PAPER_NOTE
from reflect_rl.reports.runs import Curve, Run, read_curves, read_runs, unfinished
from reflect_rl.reports.strata import cost_tables, strata_tables
from reflect_rl.reports.tables import SummaryRow, all_horizons, grids, hardest_mode, summarise_runs

__all__ = ["write_report"]

MAX_EPISODE_CHARACTERS = 2_000_000
"""Share of the page that episodes may take; the page stays below 3 MB."""

CARD_KEYS = ("benchmark", "created", "finished", "git_commit", "seeds", "fingerprint", "config_hash", "hardware")


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure with its heading."""

    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class Header:
    """Provenance of a run, and the command that repeats it."""

    folder: str
    command: str
    facts: tuple[tuple[str, str], ...]
    versions: str
    config: str


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds per job of one run: a line per unit, a column per job."""

    folder: str
    jobs: tuple[str, ...]
    lines: tuple[tuple[str, tuple[float | None, ...]], ...]
    total: float


def write_report(run_folders: Sequence[Path], output: Path) -> Path:
    """Write the page and return its path.

    Args:
        run_folders: folders that an evaluation has written; the same conditions are pooled over their seeds.
        output: the HTML file, or a folder that gets `report.html`.

    Raises:
        RunFolderError: a folder is no run folder with results, or two folders contradict each other.
    """
    output = output / "report.html" if output.is_dir() else output
    page = _environment().get_template("page.html").render(_context(read_runs(run_folders)))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page, encoding="utf-8")
    return output


def _environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).parent)
    # Names and texts come from files, which may hold HTML. A misspelt name in the template fails instead of
    # leaving a hole in the page.
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(percent=_percent, points=_points, duration=_duration, p_value=_p_value)
    return environment


def _context(runs: Sequence[Run]) -> dict[str, Any]:
    summaries = summarise_runs(runs)
    horizons = all_horizons(summaries)
    # Largest horizon first: a browser selects the first option of a list.
    tables = [(horizon, grids(summaries, [horizon])) for horizon in reversed(horizons)]
    verdicts, notes = _verdicts(runs)
    mode = hardest_mode(summaries)
    sft, rlft = (_curves(runs, stage) for stage in ("sft", "rlft"))
    notes = [f"{run.folder.name}: {line}." for run in runs for line in unfinished(run)] + notes
    notes += [
        f"{curve.name}, seed {curve.seed}, {curve.demonstration_starts} starts: "
        f"{curve.skipped_lines} unreadable lines of metrics.jsonl are left out."
        for curve in (*sft, *rlft)
        if curve.skipped_lines
    ]
    episodes, episodes_per_condition = sample(verdicts, MAX_EPISODE_CHARACTERS)
    parent = Path(__file__).parent
    return {
        "title": ", ".join(dict.fromkeys(_benchmarks(runs))),
        "headers": [_header(run) for run in runs],
        "tables": tables,
        # The largest horizon only: bars for each would repeat the tables.
        "bars": [Figure(grid.title, figure_results(grid)) for _, parts in tables[:1] for grid in parts],
        "details": [*cost_tables(runs), *strata_tables(runs)],
        "hatched": any(row.look.dashed for _, parts in tables for grid in parts for row in grid.rows),
        "paper_note": PAPER_NOTE if any(grid.paper_modes for _, parts in tables for grid in parts) else "",
        "several_algorithms": any(row.algorithm for _, parts in tables for grid in parts for row in grid.rows),
        "several_seeds": any(summary.seeds > 1 for summary in summaries),
        "mode": mode,
        "horizon": horizons[-1] if horizons else None,
        "comparisons": _by_condition(
            # A slice, as there is no horizon before the first evaluation of a run is done.
            [c for name in REFERENCES for last in horizons[-1:] for c in compare(verdicts, mode, last, name)]
        ),
        "learning": _figures(rlft, figure_learning_curves),
        "algorithms": _figures(rlft, figure_algorithm_curves),
        "losses": _figures(sft, figure_sft_losses),
        "budgets": _budget_figures(summaries, mode),
        "times": [times for run in runs if (times := _stage_times(run)) is not None],
        "notes": notes,
        "episodes": episodes,
        "episodes_per_condition": episodes_per_condition,
        "has_episodes": bool(verdicts),
        # Inline, because the page must work as a single file, without a network.
        "css": (parent / "page.css").read_text(encoding="utf-8"),
        "javascript": (parent / "page.js").read_text(encoding="utf-8"),
    }


def _benchmarks(runs: Sequence[Run]) -> Iterator[str]:
    """Names of the environments, with repetitions."""
    for run in runs:
        yield from (row.benchmark for row in run.results)
        if not run.results and run.card is not None:
            # A run without results still needs a title for its page.
            yield run.card.benchmark


def _curves(runs: Sequence[Run], stage: str) -> list[Curve]:
    """Each training once: runs with the same start hold copies of its supervised metrics."""
    curves: list[Curve] = []
    for run in runs:
        curves += [curve for curve in read_curves(run, stage) if curve not in curves]
    return curves


def _verdicts(runs: Sequence[Run]) -> tuple[list[Verdict], list[str]]:
    verdicts: list[Verdict] = []
    notes = []
    for run in runs:
        found, skipped = read_verdicts(run)
        verdicts += found
        for path, count in skipped.items():
            notes.append(f"{path.relative_to(run.folder)}: {count} unreadable lines are left out.")
    return verdicts, notes


def _by_condition(comparisons: Sequence[Comparison]) -> list[tuple[str, list[Comparison]]]:
    parts: dict[str, list[Comparison]] = {}
    for c in comparisons:
        title = f"Label source {c.label_source}, {c.demonstration_starts} demonstration starts"
        if c.reference != REFERENCE:
            title = f"{look_of(c.reference).title}. {title}"
        parts.setdefault(title, []).append(c)
    return list(parts.items())


def _figures(curves: Iterable[Curve], draw: Any) -> list[Figure]:
    groups: dict[tuple[str, int], list[Curve]] = {}
    for curve in curves:
        groups.setdefault((curve.label_source, curve.demonstration_starts), []).append(curve)
    figures = []
    for (label_source, starts), group in sorted(groups.items()):
        seeds = sorted({curve.seed for curve in group})
        title = f"Label source {label_source}, {starts} demonstration starts, seed {', '.join(map(str, seeds))}"
        if (svg := draw(group)) is not None:
            figures.append(Figure(title, svg))
    return figures


def _budget_figures(summaries: Sequence[SummaryRow], mode: str) -> list[Figure]:
    groups: dict[tuple[str, str, str], list[SummaryRow]] = {}
    for summary in summaries:
        groups.setdefault((summary.benchmark, summary.label_source, summary.split), []).append(summary)
    drawn = [(key, figure_demonstration_budget(group, mode)) for key, group in groups.items()]
    return [Figure(f"{key[0]}, label source {key[1]}, {key[2]} split", svg) for key, svg in drawn if svg is not None]


def _header(run: Run) -> Header:
    card = run.card
    facts = {} if card is None else {key: getattr(card, key) for key in CARD_KEYS}
    return Header(
        folder=run.folder.name,
        command="" if card is None else card.command,
        facts=tuple((key.replace("_", " "), _text(value)) for key, value in facts.items() if value not in (None, ())),
        versions="" if card is None else ", ".join(f"{name} {number}" for name, number in card.versions.items()),
        config=json.dumps(run.config, indent=2, ensure_ascii=False) if run.config else "",
    )


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _stage_times(run: Run) -> StageTimes | None:
    stages = () if run.card is None else run.card.stages
    seconds: dict[str, dict[str, float]] = {}
    for stage in stages:
        taken = seconds.setdefault(stage.unit, {})
        taken[stage.job] = taken.get(stage.job, 0.0) + stage.seconds
    if not seconds:
        return None
    jobs = tuple(dict.fromkeys(stage.job for stage in stages))
    lines = tuple((unit, tuple(taken.get(job) for job in jobs)) for unit, taken in seconds.items())
    return StageTimes(run.folder.name, jobs, lines, sum(sum(taken.values()) for taken in seconds.values()))


def _percent(rate: float) -> str:
    """`0.578` as `57.8`."""
    return f"{100 * rate:.1f}"


def _points(difference: float) -> str:
    """A difference of rates in percentage points, always with its sign."""
    # A hyphen is narrower than the plus sign: columns would not line up, and a line could break after it.
    return f"{100 * difference:+.1f}".replace("-", "\N{MINUS SIGN}")


def _p_value(value: float) -> str:
    # Three decimals would show 0.000, and no p-value is zero.
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _duration(seconds: float | None) -> str:
    """`3725` as `1 h 02 min`, `75` as `1 min 15 s`, `4.2` as `4.2 s`."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    # Rounded before the division: afterwards, 119.7 seconds would read "1 min 60 s".
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
