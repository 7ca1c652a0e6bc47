"""The figures as a table for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table

Result = Mapping[str, Any]

ROWS: dict[str, Callable[[Result], str]] = {
    "whole online training": lambda r: f"{r['whole_rlft_ratio']:.1f}x",
    "rollout": lambda r: f"{r['rollout_ratio']:.1f}x",
    "update": lambda r: f"{r['update_ratio']:.1f}x",
    "scoring, |A| 20, |s| 500": lambda r: f"{r['scoring_ratio_a20_s500']:.1f}x",
    "supervised training, x a plain loop": lambda r: f"{r['sft_ratio']:.1f}x",
    "rows/s, ours": lambda r: f"{r['sft_rows_per_second']['ours']:.1f}",
    "turns/s, ours": lambda r: f"{r['turns_per_second']['ours']:.1f}",
    "turns/s, reference style": lambda r: f"{r['turns_per_second']['reference']:.2f}",
    "turns/s of rollouts, ours": lambda r: f"{r['rollout_turns_per_second']['ours']:.1f}",
    "episodes/hour, ours": lambda r: f"{r['episodes_per_hour']['ours']:,.0f}",
    "time in model arithmetic": lambda r: f"{r['model_share']:.0%}",
    "update, of the matmul peak": lambda r: f"{r['update_matmul_fraction']:.0%}",
    "matmul peak, GFLOP/s": lambda r: f"{r['matmul_peak_gflops']:,.0f}",
    "peak memory, MB": lambda r: f"{r['peak_memory_mb']:,.0f}",
    "reflections from memory": lambda r: f"{r['memo_hit_rate']:.0%}",
    "tokens of a reflection": lambda r: f"{r['mean_reflection_tokens']:.0f}",
    "different prompts": lambda r: f"{r['unique_prompt_share']:.0%}",
}


def in_words(threads: int) -> str:
    """A number of threads."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


def table_of(document: Mapping[str, Any]) -> Table:
    """A column for each measurement; `x` = times as fast as the reference style."""
    host = document["machine"]
    table = Table(title=f"{host['gpu'] or host['processor']}, {host['cores']} cores", title_justify="left")
    table.add_column("")
    for result in document["results"]:
        table.add_column(f"{result['shape']}\n{in_words(result['threads'])}, {result['weights']}", justify="right")
    for name, show in ROWS.items():
        table.add_row(name, *(show(result) for result in document["results"]))
    return table
