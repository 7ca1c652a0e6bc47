"""Supervised training: ours, and the same rows in a plain loop of transformers.

Both add up the gradient of one batch of demonstrations. Ours cuts the batch by tokens and projects only the positions
that are targets onto the vocabulary; the plain loop pads the whole batch and takes the loss that the model returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from reflect_bench.clock import now
from reflect_rl.data.generate import Row
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import completion_losses, micro_batches, token_budget

BATCH = 16
"""Rows of a batch."""
IGNORED = -100
"""Label of a token that is no target, in transformers."""

Example = tuple[list[int], list[int]]
"""Tokens of a row; 1 where a token is a target, else 0."""


def measure_supervised(
    model: LanguageModel, rows: Sequence[Row], pairs: int, report: Callable[[str], None]
) -> dict[str, Any]:
    """Rows per second of both, best of some batches, and the largest difference of a gradient.

    Args:
        model: a trainable model; its gradients are cleared.
        rows: demonstrations; `BATCH` of them, spread evenly, are the batch.
        pairs: times that each is measured, one after the other.
        report: called with what is being measured.
    """
    batch = [_example(model, row) for row in rows[:: max(1, len(rows) // BATCH)][:BATCH]]
    model.model.train()
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    gradients: dict[str, list[torch.Tensor]] = {}
    for _ in range(pairs):
        for name, work in (("ours", _ours), ("plain", _plain)):
            report(f"supervised training, {name}")
            model.model.zero_grad(set_to_none=True)
            started = now(model.device)
            work(model, batch)
            seconds[name].append(now(model.device) - started)
            gradients[name] = [p.grad.float().clone() for p in model.model.parameters() if p.grad is not None]
    model.model.zero_grad(set_to_none=True)
    model.model.eval()
    ours, plain = (min(seconds[name]) for name in ("ours", "plain"))
    difference = sum(float((a - b).square().sum()) for a, b in zip(gradients["ours"], gradients["plain"], strict=True))
    whole = sum(float(gradient.square().sum()) for gradient in gradients["plain"])
    return {
        "sft_ratio": plain / ours,
        "sft_rows_per_second": {"ours": len(batch) / ours, "plain": len(batch) / plain},
        "sft_seconds": seconds,
        "sft_gradient_difference": (difference / whole) ** 0.5,
    }


def _example(model: LanguageModel, row: Row) -> Example:
    prompt, (answer,) = model.encode_answers(row.prompt, [row.completion])
    return [*prompt, *answer], [0] * len(prompt) + [1] * len(answer)


def _ours(model: LanguageModel, batch: Sequence[Example]) -> None:
    targets = sum(sum(mask) for _, mask in batch)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed):
        for part in micro_batches([len(ids) for ids, _ in batch], token_budget(model)):
            losses = completion_losses(model, [batch[i][0] for i in part], [batch[i][1] for i in part])
            (losses.sum() / targets).backward()


def _plain(model: LanguageModel, batch: Sequence[Example]) -> None:
    width = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([ids + [model.pad_id] * (width - len(ids)) for ids, _ in batch], device=model.device)
    mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in batch], device=model.device)
    labels = torch.tensor(
        [
            [token if target else IGNORED for token, target in zip(ids, targets, strict=True)]
            + [IGNORED] * (width - len(ids))
            for ids, targets in batch
        ],
        device=model.device,
    )
    network: Any = model.model
    with torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed):
        loss = network(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
    loss.backward()
