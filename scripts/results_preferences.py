"""Copy runs that learned from preferences to docs/results/preferences, and print their tables.

    python scripts/results_preferences.py RUN_FOLDER ...

Of each run the results, the settings, the cards of pairs and models, and the metrics of online RL on the learned reward
are copied. The tables are printed in Markdown, for docs/results/preferences.md.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "preferences"
PARTS = ("pairs/card.json", "reward/card.json", "learn/dpo/card.json", "learn/rrhf/card.json")
METRICS = "learn/rlhf/metrics.jsonl"


def copied(run: Path) -> Path:
    """Copy what the page is about; the folder of the copies."""
    place = RESULTS / run.name
    place.mkdir(parents=True, exist_ok=True)
    for name in ("results.json", "run.json", "config.json"):
        # Folders of this machine say nothing to a reader.
        text = (run / name).read_text().replace(str(run.resolve().parent), "runs")
        (place / name).write_text(text)
    for unit in sorted(run.glob("starts-*/seed-*")):
        for part in (*PARTS, METRICS):
            if (unit / part).is_file():
                shutil.copy(unit / part, place / f"{unit.name}-{part.replace('/', '-')}")
    return place


def percent(value: float, low: float, high: float) -> str:
    """A share with its interval."""
    return f"{100 * value:.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def success(place: Path) -> None:
    """Print the rows of a run."""
    rows = json.loads((place / "results.json").read_text())
    longest = max(row["horizon"] for row in rows)
    for row in (row for row in rows if row["horizon"] == longest):
        share = percent(row["success_rate"], *row["ci95"])
        print(f"| {place.name} | `{row['method']}` | {row['decoding']} | {share} | {row['episodes']} |")


def accuracy(place: Path) -> None:
    """Print the accuracy on held-out starts."""
    for path in sorted(place.glob("*-card.json")):
        card = json.loads(path.read_text())
        if "pair_accuracy" in card:
            share = percent(card["pair_accuracy"], *card["interval"])
            print(f"| {place.name} | {path.stem.removesuffix('-card')} | {card['pairs']} | {share} |")


def curve(place: Path, rows: int = 5) -> None:
    """Print learned and true return over the divergence, in so many equal parts of the training."""
    for path in sorted(place.glob("*-metrics.jsonl")):
        metrics = [json.loads(line) for line in path.read_text().splitlines()]
        names = ("turns", "reward/kl", "reward/learned_return", "reward/true_return", "rollout/success_rate")
        size = max(1, len(metrics) // rows)
        for k in range(0, len(metrics) - size + 1, size):
            part = metrics[k : k + size]
            means = (sum(row[name] for row in part) / len(part) for name in names)
            print(f"| {place.name} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")


if __name__ == "__main__":
    places = [copied(Path(name)) for name in sys.argv[1:]]
    for table in (success, accuracy, curve):
        for each in places:
            table(each)
        print()
