"""Action scoring: one prompt that lists all actions (`choice_token`) against one text per action (`sum`, SayCan)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

from reflect_bench.clock import now
from reflect_rl.config import Rule
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import score
from reflect_rl.types import stream

GRID = tuple((actions, state_tokens) for state_tokens in (100, 500) for actions in (5, 20, 100))
"""|A| admissible actions, |s| tokens of the state."""
ACTION_TOKENS = 5
"""|a|, as in the paper's comparison."""
LISTED_TOKENS = ACTION_TOKENS + 1
"""An action in the list: its label and its text."""
CONTEXT_TOKENS = 500 + 100 * LISTED_TOKENS + ACTION_TOKENS
"""Context that the longest prompt needs."""

Ids = tuple[int, ...]


def measure_scoring(
    model: LanguageModel, pairs: int, text_tokens: int, report: Callable[[str], None], seed: int = 0
) -> list[dict[str, Any]]:
    """Seconds to score one state, without gradients, for every size of the grid.

    Args:
        model: any model with a context of `CONTEXT_TOKENS`.
        pairs: times that each rule is measured, one after the other; the ratio is the median over the pairs.
        text_tokens: where the texts of all actions have more tokens than this, some of the actions are scored and the
            time is scaled by their number, in which it is linear.
        report: called with what is being measured.
        seed: of the random tokens.
    """
    cells = []
    for actions, state_tokens in GRID:
        report(f"scoring {actions} actions, {state_tokens} tokens")
        measured = max(1, min(actions, text_tokens // (state_tokens + ACTION_TOKENS)))
        cells.append(_cell(model, actions, state_tokens, measured, pairs, stream(seed, "scoring")))
    return cells


def _cell(
    model: LanguageModel, actions: int, state_tokens: int, measured: int, pairs: int, rng: np.random.Generator
) -> dict[str, Any]:
    tokens = len(model.tokenizer)
    labels: list[Ids] = [(int(token),) for token in rng.choice(tokens, actions, replace=False)]
    texts: list[Ids] = [tuple(rng.integers(tokens, size=ACTION_TOKENS).tolist()) for _ in range(measured)]
    listed: Ids = tuple(rng.integers(tokens, size=state_tokens + actions * LISTED_TOKENS).tolist())
    _seconds(model, listed, labels, "choice_token")
    _seconds(model, listed[:state_tokens], texts[:1], "sum")
    choice, total = [], []
    for _ in range(pairs):
        choice.append(_seconds(model, listed, labels, "choice_token"))
        total.append(_seconds(model, listed[:state_tokens], texts, "sum") * actions / measured)
    return {
        "actions": actions,
        "state_tokens": state_tokens,
        "ratio": median(t / c for t, c in zip(total, choice, strict=True)),
        "choice_token_seconds": choice,
        "sum_seconds": total,
        "actions_measured": measured,
    }


@torch.no_grad()
def _seconds(model: LanguageModel, prompt: Ids, actions: list[Ids], rule: Rule) -> float:
    started = now(model.device)
    score(model, [prompt], [actions], rule)
    return now(model.device) - started
