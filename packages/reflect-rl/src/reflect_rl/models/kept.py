"""Keys and values of prompts that a frozen model has read, for later prompts that begin alike.

In raw text the states of an episode grow from turn to turn: each begins with the whole state of the turn before. Read
on from there, a turn costs what is new in it.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from reflect_rl.models.prefixes import Ids, common

KEPT_BYTES = 2**30
"""Most bytes of keys and values that are kept: forty states of 1,000 tokens with SmolLM2-135M in bfloat16."""


@dataclass(frozen=True)
class Batch:
    """Prompts that were read together, padded on the left."""

    prompts: Sequence[Ids]
    layers: Sequence[tuple[Tensor, Tensor]]
    """Keys and values of each layer, (N, heads, at least `width`, d)."""
    width: int
    """Tokens of the longest prompt."""

    @property
    def bytes(self) -> int:
        """Memory that it holds."""
        return sum(part.numel() * part.element_size() for layer in self.layers for part in layer)


@dataclass(frozen=True)
class Beginning:
    """Tokens that a prompt begins with and that have been read."""

    batch: Batch
    row: int
    tokens: int
    """How many there are, at least one fewer than the prompt has."""

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, (heads, tokens, d)."""
        start = self.batch.width - len(self.batch.prompts[self.row])
        columns = slice(start, start + self.tokens)
        return [(keys[self.row, :, columns], values[self.row, :, columns]) for keys, values in self.batch.layers]


class Kept:
    """Batches of prompts that were read; the oldest go first where they take more than `most_bytes`."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self.most_bytes = most_bytes
        self._batches = deque[Batch]()
        self._sorted: list[tuple[Ids, int, Batch]] = []

    def add(self, batch: Batch) -> None:
        """Keep a batch, if it fits at all."""
        self._batches.append(batch)
        held = sum(one.bytes for one in self._batches)
        while held > self.most_bytes:
            held -= self._batches.popleft().bytes
        places = [(prompt, row, one) for one in self._batches for row, prompt in enumerate(one.prompts)]
        self._sorted = sorted(places, key=lambda place: place[0])

    def beginning(self, prompt: Ids) -> Beginning | None:
        """The longest beginning of a prompt that is kept."""
        # Sorted, the prompt that has most in common with another one stands beside its place.
        place = bisect(self._sorted, prompt, key=lambda kept: kept[0])
        beside = self._sorted[max(0, place - 1) : place + 1]
        # Something is left to read, so that the pass is not empty.
        found = [Beginning(batch, row, min(common(ids, prompt), len(prompt) - 1)) for ids, row, batch in beside]
        return max(found, key=lambda one: one.tokens, default=None)
