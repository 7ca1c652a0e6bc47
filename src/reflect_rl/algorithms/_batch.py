"""What an algorithm sees: tensors only. Letters: N turns of a minibatch, A the largest number of admissible actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Algorithm", "Batch", "Loss", "Outputs"]


@dataclass(frozen=True)
class Batch:
    """Turns to learn from."""

    actions: Tensor
    """(N,) index of the chosen action."""
    behaviour_log_probs: Tensor
    """(N,) log-probability of the chosen action when it was chosen."""
    advantages: Tensor
    """(N,) Â_t, constants."""
    returns: Tensor
    """(N,) targets of the value head."""
    replayed: Tensor
    """(N,) True = from the replay of earlier successes."""
    reference_log_probs: Tensor | None = None
    """(N, ≥ A) log π_ref(a|s) of the frozen SFT policy; None when no KL term is used."""

    def select(self, rows: Tensor) -> Batch:
        """The turns with these indices."""
        return self.map(lambda part: part[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with every tensor changed alike."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {name: None if part is None else change(part) for name, part in parts.items()}
        return Batch(**changed)

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Outputs:
    """What the model says now about the same turns."""

    log_probs: Tensor
    """(N, A) log π(a|s), -inf where there is no action."""
    values: Tensor | None = None
    """(N,) V(s), None without a critic."""

    def chosen(self, batch: Batch) -> Tensor:
        """(N,) log π(a_t|s_t)."""
        return self.log_probs.gather(1, batch.actions[:, None])[:, 0]


@dataclass(frozen=True)
class Loss:
    """A scalar to minimise and what to log about it."""

    value: Tensor
    metrics: dict[str, float] = field(default_factory=dict)


class Algorithm(Protocol):
    """An algorithm turns a batch and the model's outputs into a loss."""

    epochs: int
    """Passes over each batch."""

    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """The mean loss over the turns of the batch."""
        ...


def mean_metrics(rows: list[dict[str, float]]) -> dict[str, float]:
    """Mean of each metric over the minibatches that report it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(torch.tensor([row[name] for row in rows if name in row]).mean()) for name in names}
