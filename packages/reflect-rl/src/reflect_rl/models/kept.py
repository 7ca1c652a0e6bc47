"""Keys and values of prompts that a model has read, for later prompts that begin alike.

In raw text the states of an episode grow from turn to turn: each begins with the whole state of the turn before. Read
on from there, a turn costs what is new in it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from reflect_rl.models.prefixes import Ids, common

KEPT_BYTES = 2**30
"""Most bytes of keys and values that are kept: about ninety prompts of 500 tokens with SmolLM2-135M in bfloat16."""

Layers = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of tokens in each layer, (heads, tokens, d)."""


@dataclass(frozen=True)
class Beginning:
    """Tokens that a prompt begins with and that have been read."""

    prompt: Ids
    """The kept prompt that begins with them, too."""
    tokens: int
    """Number of these tokens, fewer than the prompt has that is to be read."""
    whole: Layers
    """Keys and values of the kept prompt."""

    @property
    def layers(self) -> Layers:
        """Keys and values of these tokens."""
        return [(keys[:, : self.tokens], values[:, : self.tokens]) for keys, values in self.whole]


class Kept:
    """Prompts that were read; some are dropped at random where they take more than `most_bytes`.

    Games are played in turn, so the oldest prompt is the one that is asked for next: dropped by age, each would be gone
    as soon as the room is a little too small for all games.

    Between two calls the weights of the model must not change: call `clear` where they do.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self.most_bytes = most_bytes
        self.clear()

    def clear(self) -> None:
        """Forget all prompts."""
        self._held: dict[Ids, Layers] = {}
        self._sorted: list[Ids] = []
        self.bytes = 0
        self._rng = np.random.default_rng(0)

    def add(self, prompt: Ids, layers: Layers, after: Beginning | None = None) -> None:
        """Keep a copy of a prompt, in the place of the one that it went on from, which is hardly asked for again."""
        if _bytes(layers) > self.most_bytes:
            return
        for old in {prompt} if after is None else {prompt, after.prompt}:
            if old in self._held:
                self._drop(old)
        self._held[prompt] = [(keys.clone(), values.clone()) for keys, values in layers]
        insort(self._sorted, prompt)
        self.bytes += _bytes(layers)
        while self.bytes > self.most_bytes:
            self._drop(self._sorted[self._rng.integers(len(self._sorted))])

    def beginning(self, prompt: Ids, least: int = 1) -> Beginning | None:
        """The longest kept beginning of a prompt but for its last token; None if it has fewer than `least` tokens."""
        # Sorted, the prompt that has most in common with another one stands beside its place.
        place = bisect_left(self._sorted, prompt)
        beside = [
            (min(common(ids, prompt), len(prompt) - 1), ids) for ids in self._sorted[max(0, place - 1) : place + 1]
        ]
        tokens, ids = max(beside, default=(0, ()))
        return Beginning(ids, tokens, self._held[ids]) if tokens >= least else None

    def _drop(self, prompt: Ids) -> None:
        self.bytes -= _bytes(self._held.pop(prompt))
        del self._sorted[bisect_left(self._sorted, prompt)]


def _bytes(layers: Layers) -> int:
    return sum(part.numel() * part.element_size() for layer in layers for part in layer)
