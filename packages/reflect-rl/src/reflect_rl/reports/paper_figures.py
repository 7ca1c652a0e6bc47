"""Success rates that the paper prints, shown beside ours.

Source: Zhou, Du, Li: "Reflect-RL: Two-Player Online RL Fine-Tuning for LMs", ACL 2024 (arXiv 2402.12621), table of
results, rows of GPT-2 XL. DangerousTaxi has horizon 15 there. The paper's column "+dropoff" is our mode `full`. Model,
data and number of updates differ from ours: the figures say where the paper stood and are no target to be matched.
"""

from __future__ import annotations

__all__ = ["PAPER_ALGORITHM", "PAPER_NOTE", "PAPER_SUCCESS_PERCENT", "paper_success_percent"]

PAPER_NOTE = (
    "Paper: Reflect-RL (ACL 2024), GPT-2 XL, horizon 15, the paper's own data and training; "
    "printed for orientation, trained in another way."
)

PAPER_ALGORITHM = "ppo"
"""The algorithm whose line gets the paper's figures where a method was trained with several (section 5)."""

PAPER_SUCCESS_PERCENT: dict[tuple[str, str, str], float] = {
    ("dangerous_taxi", "sft", "pickup"): 7,
    ("dangerous_taxi", "sft", "full"): 0,
    ("dangerous_taxi", "rlft", "pickup"): 2,
    ("dangerous_taxi", "rlft", "full"): 0,
    ("dangerous_taxi", "sft_rlft", "pickup"): 6,
    ("dangerous_taxi", "sft_rlft", "full"): 0,
    ("dangerous_taxi", "reflect_rl", "pickup"): 58,
    ("dangerous_taxi", "reflect_rl", "full"): 29,
}
"""Keyed by (benchmark, method, mode)."""


def paper_success_percent(benchmark: str, method: str, mode: str) -> float | None:
    """The paper's figure, or None where it prints none. A version at the end of the benchmark's name does not matter.

    >>> paper_success_percent("dangerous_taxi-v1", "reflect_rl", "full")
    29
    """
    return PAPER_SUCCESS_PERCENT.get((benchmark.partition("-v")[0], method, mode))
