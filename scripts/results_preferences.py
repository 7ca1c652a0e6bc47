"""Success against the number of pairs and against wrong answers: copies of result files, tables and two figures.

    python scripts/results_preferences.py runs/preferences/true-0 runs/preferences/pairs-100-0 ...

The files of each run, the cards of its pairs and models, and the metrics of online RL on the learned reward are copied
to docs/results/preferences/<run>/. Runs with equal `preferences.pairs` are pooled over their seeds. Runs without pairs
are the reference: online RL on the true reward. From the copies `pairs.svg` and `optimisation.svg` are made there, and
tables are printed in Markdown, for docs/results/preferences.md.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from make_results import RESULTS, copied
from matplotlib.figure import Figure
from results_figures import INK, STYLE, save, success_against, svg_of

from reflect_report.runs import SummaryRow, all_horizons, look_of, read_runs, summarise_runs
from reflect_report.tables import markdown_lines
from reflect_rl.evaluation.evaluate import wilson_interval

GROUP = RESULTS / "preferences"
CARDS = {"reward": "reward/card.json", "dpo": "learn/dpo/card.json", "rrhf": "learn/rrhf/card.json"}
ONLINE = ("rlhf", "ppo_max")
TRUE = "sft_rlft"
"""Method that learns from the game's own reward."""
NUMBERS = ("turns", "reward/kl", "reward/learned_return", "reward/true_return", "rollout/success_rate")


class Setting(NamedTuple):
    """The pairs that runs learned from; their order is that of the columns."""

    noise: float
    count: int

    @property
    def label(self) -> str:
        """Name of a column.

        >>> Setting(0.3, 1600).label
        '1,600 pairs, 30% wrong'
        """
        return f"{self.count:,} pairs" + (f", {100 * self.noise:.0f}% wrong" if self.noise else "")


def main(folders: Sequence[Path]) -> None:
    """Copy, draw and print."""
    settings, reference = grouped([_copy(folder) for folder in folders])
    rows = {setting: _rows(copies) for setting, copies in settings.items()}
    true = [row for row in _rows(reference) if row.method == TRUE] if reference else []
    save(picture(rows, true), GROUP / "pairs.svg")
    curves = {setting: {name: curve(copies, name) for name in ONLINE} for setting, copies in settings.items()}
    save(optimisation(curves), GROUP / "optimisation.svg")
    print(success(rows, true), accuracies(settings), ends(curves), sep="\n", end="")


def _copy(run: Path) -> Path:
    """The files that the page is about."""
    place = copied(run, GROUP / run.name)
    for unit in sorted(run.glob("starts-*/seed-*")):
        for name, part in {"pairs": "pairs/card.json", **CARDS}.items():
            if (unit / part).is_file():
                shutil.copy(unit / part, place / f"{name}.json")
        for name in ONLINE:
            metrics = unit / "learn" / name / "metrics.jsonl"
            if metrics.is_file():
                kept = [{key: round(row[key], 4) for key in NUMBERS} for row in _jsonl(metrics)]
                (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    return place


def grouped(copies: Iterable[Path]) -> tuple[dict[Setting, list[Path]], list[Path]]:
    """The runs by their pairs, and those without any."""
    settings: dict[Setting, list[Path]] = defaultdict(list)
    reference = []
    for copy in copies:
        pairs = json.loads((copy / "config.json").read_text(encoding="utf-8"))["preferences"]["pairs"]
        if (copy / "pairs.json").is_file():
            settings[Setting(pairs["noise"], pairs["count"])].append(copy)
        else:
            reference.append(copy)
    return dict(sorted(settings.items())), reference


def _rows(copies: Sequence[Path]) -> list[SummaryRow]:
    rows = summarise_runs(read_runs(copies))
    longest = max(all_horizons(rows))
    return [row for row in rows if row.horizon == longest]


def success(rows: Mapping[Setting, Sequence[SummaryRow]], true: Sequence[SummaryRow]) -> str:
    """Markdown: a line for each method and decoding, a column for each setting."""
    found = {(row.method, row.decoding) for group in rows.values() for row in group}
    lines = []
    for method, decoding in sorted(found, key=lambda key: (look_of(key[0]).place, key[1] != "sampled")):
        cells = [
            next((r for r in group if (r.method, r.decoding) == (method, decoding)), None) for group in rows.values()
        ]
        lines.append([look_of(method).title, decoding, *(_share(row) for row in cells)])
    for row in true:
        lines.append(["online RL on the true reward", row.decoding, _share(row), *("" for _ in range(len(rows) - 1))])
    return "\n".join(markdown_lines(["method", "play", *(setting.label for setting in rows)], lines)) + "\n"


def _share(row: SummaryRow | None) -> str:
    return "-" if row is None else f"{100 * row.success_rate:.1f} [{100 * row.lo:.0f}, {100 * row.hi:.0f}]"


def accuracies(settings: Mapping[Setting, Sequence[Path]]) -> str:
    """Markdown: share of held-out pairs that are ranked as the true reward ranks them, seeds pooled."""
    lines = []
    for name in CARDS:
        cells = []
        for copies in settings.values():
            cards = [json.loads((copy / f"{name}.json").read_text(encoding="utf-8")) for copy in copies]
            total = sum(card["held_out_pairs"] for card in cards)
            right = round(sum(card["true_pair_accuracy"] * card["held_out_pairs"] for card in cards))
            low, high = wilson_interval(right, total)
            cells.append(f"{100 * right / total:.1f} [{100 * low:.0f}, {100 * high:.0f}]")
        lines.append([name, *cells])
    learned = [
        f"{sum(json.loads((copy / 'pairs.json').read_text(encoding='utf-8'))['learned'] for copy in c) / len(c):,.0f}"
        for c in settings.values()
    ]
    return (
        "\n".join(markdown_lines(["model", *(s.label for s in settings)], [["learned from", *learned], *lines])) + "\n"
    )


def curve(copies: Iterable[Path], method: str, parts: int = 8) -> list[dict[str, float]]:
    """Metrics of online RL in so many equal parts of the training, means over the seeds."""
    runs = [_jsonl(copy / f"{method}.jsonl") for copy in copies if (copy / f"{method}.jsonl").is_file()]
    found = []
    for part in range(parts if runs else 0):
        rows = [row for run in runs for row in run[len(run) * part // parts : len(run) * (part + 1) // parts]]
        found.append({name: sum(row[name] for row in rows) / len(rows) for name in NUMBERS})
    return found


def ends(curves: Mapping[Setting, Mapping[str, Sequence[Mapping[str, float]]]]) -> str:
    """Markdown: the first and the last part of each online training."""
    lines = [
        [look_of(name).title, setting.label, when, *(f"{row[number]:.2f}" for number in NUMBERS[1:])]
        for setting, by_method in curves.items()
        for name, rows in by_method.items()
        for when, row in zip(("first", "last"), (rows[0], rows[-1]) if rows else (), strict=False)
    ]
    header = ["method", "pairs", "eighth", "divergence, nats", "learned return", "true return", "won"]
    return "\n".join(markdown_lines(header, lines)) + "\n"


def picture(rows: Mapping[Setting, Sequence[SummaryRow]], true: Sequence[SummaryRow]) -> str:
    """Success in each setting; the grey line is online RL on the true reward."""
    labels = [setting.label.replace(", ", "\n") for setting in rows]
    sampled = [row.success_rate for row in true if row.decoding == "sampled"]
    reference = {"online RL on the true reward": sampled * len(rows)} if sampled else {}
    shown = [[row for row in group if row.method != "random"] for group in rows.values()]
    return success_against(labels, shown, "sampled", references=reference)


def optimisation(curves: Mapping[Setting, Mapping[str, Sequence[Mapping[str, float]]]]) -> str:
    """Learned and true return of online RL against the divergence from the supervised policy, a row for each method."""
    with mpl.rc_context(STYLE):
        canvas = Figure(figsize=(7.6, 5.2), layout="constrained")
        panels = canvas.subplots(len(ONLINE), 2, sharex=True, sharey="col")
        for line, method in zip(panels, ONLINE, strict=True):
            for axes, name in zip(line, ("reward/learned_return", "reward/true_return"), strict=True):
                for k, (setting, by_method) in enumerate(curves.items()):
                    rows = by_method[method]
                    colour = mpl.colormaps["viridis"](0.9 * k / max(1, len(curves) - 1))
                    xs, ys = [row["reward/kl"] for row in rows], [row[name] for row in rows]
                    axes.plot(xs, ys, color=colour, marker="o", markersize=3, label=setting.label)
                axes.set_title(f"{look_of(method).title}: {name.partition('/')[2].replace('_', ' ')}")
                axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        for axes in panels[-1]:
            axes.set_xlabel("divergence, nats an episode")
        handles, labels = panels[0][0].get_legend_handles_labels()
        canvas.legend(handles, labels, fontsize=7.5, loc="outside lower center", ncols=3)
        return svg_of(canvas)


def _jsonl(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main([Path(word) for word in sys.argv[1:]])
