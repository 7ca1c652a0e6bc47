"""The critic's head: V(s), or Q(s, ·), from the hidden state of the prompt's last position."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

__all__ = ["ValueHead"]


class ValueHead(nn.Module):
    """Linear or one-hidden-layer head with one output (V) or one per action (Q).

    The hidden state is detached by default: on small models a value gradient into the trunk destroys the policy. The
    output layer starts at zero, so that the first advantages are plain returns.
    """

    def __init__(
        self, hidden_size: int, kind: Literal["linear", "mlp"] = "linear", detached: bool = True, outputs: int = 1
    ) -> None:
        super().__init__()
        self.detached = detached
        last = nn.Linear(hidden_size, outputs)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = last if kind == "linear" else nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.Tanh(), last)

    def forward(self, hidden: Tensor) -> Tensor:
        """Values (N, outputs) of hidden states (N, H), in float32."""
        hidden = hidden.detach() if self.detached else hidden
        values: Tensor = self.layers(hidden.to(torch.float32))
        return values
