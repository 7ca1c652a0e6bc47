"""Success against the quality of the log: copies of result files, a table and a figure.

    python scripts/results_offline.py runs/offline/random-0 runs/offline/random-1 runs/offline/expert-0 ...

The files of each run, and the card of its log, are copied to docs/results/offline/<run>/. From the copies the figure
`quality.svg` is made there, and a table is printed. Runs of the same quality (`offline.log.quality`) are pooled.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from make_results import RESULTS, copied
from results_figures import save, success_against

from reflect_report.runs import SummaryRow, all_horizons, look_of, read_runs, summarise_runs
from reflect_report.tables import markdown_lines

GROUP = RESULTS / "offline"
QUALITIES = ("random", "mixed", "expert")
LOG = "log.json"
"""Name of the copy of the log's card."""


@dataclass(frozen=True)
class Part:
    """The runs on logs of one quality."""

    won: float
    """Share of the logs' episodes that are won."""
    rows: Sequence[SummaryRow]
    """Results at the longest horizon, seeds pooled."""

    def of(self, method: str, decoding: str) -> SummaryRow | None:
        """The results of a method."""
        return next((row for row in self.rows if (row.method, row.decoding) == (method, decoding)), None)


def main(folders: Sequence[Path]) -> None:
    """Copy, draw and print."""
    copies = []
    for folder in folders:
        copy = copied(folder, GROUP / folder.name)
        cards = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("starts-*/seed-*/log/card.json")]
        (copy / LOG).write_text(json.dumps(cards, indent=2) + "\n", encoding="utf-8")
        copies.append(copy)
    parts = parts_of(copies)
    save(figure(parts, "greedy"), GROUP / "quality.svg")
    print(table(parts), end="")


def parts_of(copies: Iterable[Path]) -> dict[str, Part]:
    """The runs by the quality of their logs, in the order of `QUALITIES`."""
    groups: dict[str, list[Path]] = {quality: [] for quality in QUALITIES}
    for copy in copies:
        settings = json.loads((copy / "config.json").read_text(encoding="utf-8"))
        groups[settings["offline"]["log"]["quality"]].append(copy)
    return {quality: _part(group) for quality, group in groups.items() if group}


def _part(group: Sequence[Path]) -> Part:
    cards = [card for copy in group for card in json.loads((copy / LOG).read_text(encoding="utf-8"))]
    rows = summarise_runs(read_runs(group))
    longest = max(all_horizons(rows))
    won = sum(card["won"] for card in cards) / sum(card["episodes"] for card in cards)
    return Part(won, [row for row in rows if row.horizon == longest])


def methods_of(parts: Mapping[str, Part]) -> list[str]:
    """Methods with results, in listing order."""
    found = {row.method for part in parts.values() for row in part.rows}
    return sorted(found, key=lambda name: look_of(name).place)


def table(parts: Mapping[str, Part]) -> str:
    """Markdown: a line for each method and decoding, a column for each quality."""
    lines = [
        [look_of(method).title, decoding, *(_cell(part.of(method, decoding)) for part in parts.values())]
        for method in methods_of(parts)
        for decoding in ("sampled", "greedy")
        if any(part.of(method, decoding) for part in parts.values())
    ]
    log = ["the log itself", "", *(f"{100 * part.won:.1f}" for part in parts.values())]
    header = ["method", "play", *(f"{quality} log" for quality in parts)]
    return "\n".join(markdown_lines(header, [log, *lines])) + "\n"


def _cell(row: SummaryRow | None) -> str:
    if row is None:
        return "-"
    return f"{100 * row.success_rate:.1f} [{100 * row.lo:.1f}, {100 * row.hi:.1f}]"


def figure(parts: Mapping[str, Part], decoding: str) -> str:
    """Success against the quality of the log, with 95% intervals; the grey line is the log itself."""
    labels = [f"{quality} log" for quality in parts]
    won = {"the log itself": [part.won for part in parts.values()]}
    return success_against(labels, [part.rows for part in parts.values()], decoding, references=won)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main([Path(word) for word in sys.argv[1:]])
