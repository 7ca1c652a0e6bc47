"""The report of a run, or of several: one HTML page that needs no network and no other file."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from reflect_report.charts import budget_charts, first_measures, installed_charts, training_charts
from reflect_report.episodes import Comparison, Verdict, compare, json_in_html, read_verdicts, sample
from reflect_report.frame import library, percent, policy, source, style, templates
from reflect_report.runs import (
    Curve,
    Run,
    SummaryRow,
    all_horizons,
    describe,
    hardest_mode,
    installed_stages,
    look_of,
    read_curves,
    read_runs,
    start_of,
    summarise_runs,
)
from reflect_report.tables import (
    PAPER_NOTE,
    Cell,
    Grid,
    PlainTable,
    cost_tables,
    grids,
    strata_tables,
    terminal_table,
    unfinished,
)
from reflect_rl.errors import UserError
from reflect_rl.evaluation.methods import REFERENCE, REFERENCES
from reflect_rl.runs.config import Report
from reflect_rl.store import write_bytes

MAX_EPISODE_CHARACTERS, MAX_CHART_CHARACTERS = 6_000_000, 4_000_000
"""Shares of the page that episodes and curves may take."""
CARD_KEYS = ("benchmark", "created", "finished", "git_commit", "seeds", "fingerprint", "config_hash", "hardware")
SECTIONS = ("result", "curves", "episodes", "tables", "conditions")
"""Parts of the page in their order, each with a template of its own."""
SCRIPTS = ("script/page.js", "script/charts.js", "script/episodes.js")
LIVE_SCRIPT = "script/live.js"


@dataclass(frozen=True, slots=True)
class Header:
    """Provenance of a run, and the command that repeats it."""

    folder: str
    command: str
    facts: tuple[tuple[str, str], ...]
    versions: str
    config: str


@dataclass(frozen=True, slots=True)
class Rate:
    """Line of the figure of results: success, and where online RL followed, success before it."""

    label: str
    after: SummaryRow
    before: SummaryRow | None
    start: str
    """Label of the start of online training."""

    @property
    def is_online(self) -> bool:
        """True if online RL trained the method, also where its start was not evaluated."""
        return describe(self.after.method).online


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome under one condition: a sentence and the lines of a figure."""

    title: str
    sentence: str
    rates: tuple[Rate, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is not put together yet."""

    title: str
    sections: Mapping[str, str]
    """HTML of each section, in their order."""

    @property
    def versions(self) -> dict[str, str]:
        """Sums of the sections, which differ where the sections do."""
        return {name: sha256(html.encode()).hexdigest()[:16] for name, html in self.sections.items()}


def report(run_folders: Sequence[Path], folder: Path) -> Report:
    """Write `report.html` into a folder (entry point `page` of `reflect_rl.reports`).

    Args:
        run_folders: folders that an evaluation has written; the same conditions are pooled over their seeds.
        folder: where the page is written.

    Raises:
        RunFolderError: a run folder holds no results, or two contradict each other.
        UserError: there is a file in the place of the folder, or nobody may write there.
    """
    # Before the page is computed, which takes long for large runs.
    if folder.exists() and not folder.is_dir():
        raise UserError(f"cannot write the report to {folder}: it is a file. Choose another --output-dir.")
    return Report(write_report(run_folders, folder / "report.html"), terminal_table(run_folders))


def write_report(run_folders: Sequence[Path], output: Path) -> Path:
    """Write the page and return its path.

    Args:
        run_folders: folders that an evaluation has written; the same conditions are pooled over their seeds.
        output: the HTML file, or a folder that gets `report.html`.

    Raises:
        RunFolderError: a folder is no run folder with results, or two folders contradict each other.
        UserError: nobody may write there.
        OSError: the disk is full; a page that was there stays.
    """
    output = output / "report.html" if output.is_dir() else output
    text = html_of(read_page(read_runs(run_folders)))
    try:
        write_bytes(output, text.encode())
    except OSError as error:
        # For a full disk another folder is no remedy; the command line has a sentence of its own for it.
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        runs = " ".join(map(str, run_folders))
        raise UserError(
            f"cannot write {output}: {error.strerror or error}. `reflect-rl report {runs} --output-dir FOLDER` writes "
            "it elsewhere."
        ) from None
    return output


def read_page(runs: Sequence[Run]) -> Page:
    """The sections of the page of some runs.

    Raises:
        RunFolderError: two runs contradict each other.
    """
    context = _context(runs)
    return Page(context["title"], {name: render(name, **context) for name in SECTIONS})


def render(section: str, **context: Any) -> str:
    """HTML of one section."""
    return templates().get_template(f"{section}.html").render(context)


def html_of(page: Page, live: bool = False) -> str:
    """The page as one file.

    Args:
        page: its sections.
        live: whether the page asks the server that it came from for newer sections.
    """
    scripts = [library(), "".join(map(source, (*SCRIPTS, LIVE_SCRIPT) if live else SCRIPTS))]
    return (
        templates()
        .get_template("page.html")
        .render(
            title=page.title,
            sections=page.sections,
            versions=page.versions,
            live=live,
            style=style(),
            scripts=scripts,
            policy=policy(scripts, asks=live),
        )
    )


def _context(runs: Sequence[Run]) -> dict[str, Any]:
    summaries = summarise_runs(runs)
    horizons = all_horizons(summaries)
    # Largest horizon first: a browser selects the first option of a list.
    tables = [(horizon, grids(summaries, [horizon])) for horizon in reversed(horizons)]
    verdicts, notes = _verdicts(runs)
    hardest, comparisons = _compared(summaries, verdicts)
    sft, rlft = (_curves(runs, stage) for stage in ("sft", "rlft"))
    # Each stage once, though several runs have it.
    others = [c for stage in sorted({s for run in runs for s in installed_stages(run)}) for c in _curves(runs, stage)]
    notes = [f"{run.folder.name}: {line}." for run in runs for line in unfinished(run)] + notes
    notes += [
        f"{curve.name}, seed {curve.seed}, {curve.demonstration_starts} starts: "
        f"{curve.skipped_lines} unreadable lines of metrics.jsonl are left out."
        for curve in (*sft, *rlft, *others)
        if curve.skipped_lines
    ]
    episodes, shown = sample(verdicts, MAX_EPISODE_CHARACTERS)
    charts = {
        "learning": training_charts(rlft, "turns"),
        "installed": installed_charts(others),
        "budget": budget_charts(summaries),
        "losses": training_charts(sft, "step"),
    }
    if sum(len(json_in_html(chart)) for part in charts.values() for chart in part) > MAX_CHART_CHARACTERS:
        charts = {name: [first_measures(chart) for chart in part] for name, part in charts.items()}
    return {
        "title": ", ".join(dict.fromkeys(_benchmarks(runs))),
        "outcomes": [
            outcome
            for grid in grids(summaries)
            if (outcome := _outcome(grid, hardest[grid.benchmark, grid.split][0], comparisons))
        ],
        "notes": notes,
        "charts": charts,
        "chart_data": json_in_html([chart for part in charts.values() for chart in part]),
        "episodes": episodes,
        "episodes_shown": shown,
        "episodes_played": len(verdicts),
        "tables": [(horizon, [grid.table() for grid in parts]) for horizon, parts in tables],
        "paper_note": PAPER_NOTE if any(grid.paper_modes for _, parts in tables for grid in parts) else "",
        "details": [*cost_tables(runs), *strata_tables(runs)],
        "paired": [_paired(title, pairs) for title, pairs in groupby(comparisons, lambda c: _pair_title(c, hardest))],
        "paired_condition": _paired_condition(list(hardest.values())),
        "times": [times for run in runs if (times := _stage_times(run)) is not None],
        "headers": [_header(run) for run in runs],
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


def _compared(
    summaries: Sequence[SummaryRow], verdicts: Sequence[Verdict]
) -> tuple[dict[tuple[str, str], tuple[str, int]], list[Comparison]]:
    """Hardest mode of each benchmark and split with the longest horizon at which methods meet, and the comparisons."""
    found: dict[tuple[str, str], list[SummaryRow]] = {}
    for summary in summaries:
        found.setdefault((summary.benchmark, summary.split), []).append(summary)
    hardest, comparisons = {}, list[Comparison]()
    # Two games need not share a mode or a horizon.
    for key, rows in found.items():
        mode, own = hardest_mode(rows), [v for v in verdicts if (v.benchmark, v.split) == key]
        horizons = sorted({row.horizon for row in rows if row.mode == mode}, reverse=True)
        hardest[key] = mode, horizons[0]
        # One method may have been played longer than those that it is compared with.
        for horizon in horizons:
            if pairs := [c for name in REFERENCES for c in compare(own, mode, horizon, name)]:
                hardest[key] = mode, horizon
                comparisons += pairs
                break
    return hardest, comparisons


def _outcome(grid: Grid, mode: str, comparisons: Sequence[Comparison]) -> Outcome | None:
    """Success in the hardest mode, in the most random decoding that a method was evaluated in; None without it."""
    found = {row.label: next((s for s in row.cells if s is not None and s.mode == mode), None) for row in grid.rows}
    cells = {label: summary for label, summary in found.items() if summary is not None}
    # With several models the own one first; models that were loaded from elsewhere may have another name.
    starts = {key: label for label, s in cells.items() for key in ((s.method, ""), (s.method, s.model))}
    rates = []
    for label, summary in cells.items():
        method = start_of(describe(summary.method))
        start = starts.get((method, summary.model), starts.get((method, ""), ""))
        rates.append(Rate(label, summary, cells.get(start), start))
    if not rates:
        return None
    # The start of another line is a mark in that line.
    merged = {rate.start for rate in rates}
    main = max(rates, key=lambda rate: (rate.after.method == REFERENCE, rate.before is not None, rates.index(rate)))
    return Outcome(
        f"{grid.title}, mode {mode}, horizon {main.after.horizon}",
        _sentence(main, comparisons),
        tuple(rate for rate in rates if rate.label not in merged),
    )


def _sentence(rate: Rate, comparisons: Sequence[Comparison]) -> str:
    after, before = rate.after, rate.before
    text = f"{rate.label} wins {_interval(after)} of {after.episodes:,} episodes"
    text += f" ({after.split} split, mode {after.mode}, horizon {after.horizon}, {after.decoding})"
    if before is None:
        return f"{text}."
    text += f"; before online RL, as {rate.start}, it wins {_interval(before)}"
    key = (*after.table, after.mode, after.horizon, after.decoding, *after.line, before.method)
    for c in comparisons:
        condition = (c.benchmark, c.label_source, c.demonstration_starts, c.split, c.mode, c.horizon, c.decoding)
        if (*condition, c.reference, c.algorithm, c.model, c.method) == key:
            text += f": a difference of {_points(c.result.difference)} points on the same {c.result.pairs:,} starts"
            text += f" (95% interval {_points(c.result.lo)} to {_points(c.result.hi)}, p {_p_value(c.result.p_value)})"
    return f"{text}."


def _interval(summary: SummaryRow) -> str:
    return f"{percent(summary.success_rate)}% [{100 * summary.lo:.0f}, {100 * summary.hi:.0f}]"


def _paired_condition(conditions: Sequence[tuple[str, int]]) -> str:
    """Mode and horizon of all paired comparisons; where they differ, the headings tell them."""
    mode, horizon = conditions[0] if conditions else ("", 0)
    return (
        f"Mode {mode}, horizon {horizon}"
        if len(set(conditions)) == 1
        else "Each in its hardest mode, at its largest horizon"
    )


def _pair_title(c: Comparison, hardest: Mapping[tuple[str, str], tuple[str, int]]) -> str:
    """Heading of a paired comparison, with those parts of its condition that the report has several of."""
    parts = [c.benchmark] if len({benchmark for benchmark, _ in hardest}) > 1 else []
    parts += [f"label source {c.label_source}", f"{c.demonstration_starts} demonstration starts"]
    parts += [f"{c.split} split"] if len({split for _, split in hardest}) > 1 else []
    parts += [f"mode {c.mode}, horizon {c.horizon}"] if len(set(hardest.values())) > 1 else []
    return f"{look_of(c.reference).title}: {', '.join(parts)}"


def _paired(title: str, comparisons: Iterator[Comparison]) -> PlainTable:
    """A reference against the other methods; where there are several of its algorithms or models, each of them."""
    pairs = list(comparisons)
    algorithms, models = len({c.algorithm for c in pairs}) > 1, len({c.model for c in pairs}) > 1
    rows = []
    for c in pairs:
        r = c.result
        cells = [str(r.pairs), percent(c.reference_rate), percent(c.method_rate), _points(r.difference)]
        cells += [f"{_points(r.lo)} to {_points(r.hi)}", _p_value(r.p_value).removeprefix("= ")]
        ours = [c.algorithm_label] * algorithms + [c.model] * models
        label = f"{', '.join(ours)} against {c.label}".lstrip()
        rows.append((f"{label}, {c.decoding}", tuple(map(Cell, cells))))
    header = ("pairs", f"{look_of(pairs[0].reference).title}, %", "other, %", "difference", "95% interval", "p")
    return PlainTable(title, "", header, tuple(rows))


def _stage_times(run: Run) -> PlainTable | None:
    """Seconds and memory of each job of a run, over its seeds and budgets."""
    seconds: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    for stage in () if run.card is None else run.card.stages:
        seconds.setdefault(stage.job, []).append(stage.seconds)
        memory[stage.job] = max(memory.get(stage.job, 0.0), stage.peak_gib)
    rows = []
    for job, taken in seconds.items():
        figures = [str(len(taken)), *map(duration, (sum(taken), sum(taken) / len(taken), max(taken)))]
        # Cards of earlier versions do not have it.
        figures.append(f"{memory[job]:.1f}" if memory[job] else "")
        rows.append((job, tuple(map(Cell, figures))))
    total = duration(sum(sum(taken) for taken in seconds.values()))
    header = ("times done", "together", "mean", "longest", "memory, GiB")
    return PlainTable(f"{run.folder.name}: {total} in total", "", header, tuple(rows)) if rows else None


def _header(run: Run) -> Header:
    card = run.card
    facts: Mapping[str, Any] = {} if card is None else {key: getattr(card, key) for key in CARD_KEYS}
    return Header(
        folder=run.folder.name,
        command="" if card is None else card.command,
        facts=tuple((key.replace("_", " "), _text(value)) for key, value in facts.items() if value not in (None, ())),
        versions="" if card is None else ", ".join(f"{name} {number}" for name, number in card.versions.items()),
        config=json.dumps(run.config, indent=2, ensure_ascii=False) if run.config else "",
    )


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _points(difference: float) -> str:
    """A difference of rates in percentage points, always with its sign."""
    # A hyphen is narrower than the plus sign: columns would not line up, and a line could break after it.
    return f"{100 * difference:+.1f}".replace("-", "\N{MINUS SIGN}")


def _p_value(value: float) -> str:
    # Three decimals would show 0.000, and no p-value is zero.
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def duration(seconds: float) -> str:
    """`3725` as `1 h 02 min`, `75` as `1 min 15 s`, `4.2` as `4.2 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    # Rounded before the division: afterwards, 119.7 seconds would read "1 min 60 s".
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
