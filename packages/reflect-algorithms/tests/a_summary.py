"""Rows of results for the tests of scripts."""

from __future__ import annotations

from reflect_report.runs import SummaryRow
from reflect_rl.evaluation.evaluate import wilson_interval

ROW = {
    "benchmark": "dangerous_taxi",
    "label_source": "clean",
    "demonstration_starts": 100,
    "algorithm": "none",
    "model": "embedded",
    "mode": "pickup",
    "split": "test",
    "horizon": 30,
    "fingerprint": "f",
}


def row(method: str, decoding: str, successes: int, episodes: int = 40) -> SummaryRow:
    """Results of a method, so many wins among the episodes."""
    lo, hi = wilson_interval(successes, episodes)
    fields = {name: ROW.get(name) for name in SummaryRow.__dataclass_fields__} | {
        "method": method,
        "decoding": decoding,
        "successes": successes,
        "episodes": episodes,
        "success_rate": successes / episodes,
        "lo": lo,
        "hi": hi,
        "mean": successes / episodes,
        "lowest": 0.0,
        "highest": 1.0,
        "seeds": 3,
    }
    return SummaryRow(**fields)
