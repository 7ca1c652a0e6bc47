"""Replay of successful episodes (Reflect-RL, section 5), cleared when the curriculum moves on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from reflect_rl.types import Episode

__all__ = ["Replay"]


class Replay:
    """The last `capacity` successful episodes, each with the probabilities under which it was played."""

    def __init__(self, capacity: int) -> None:
        self.episodes: deque[Episode] = deque(maxlen=capacity)
        self.stage: tuple[str, ...] = ()

    def enter(self, stage: tuple[str, ...]) -> None:
        """Forget everything when the stage of the curriculum changes."""
        if stage != self.stage:
            self.episodes.clear()
            self.stage = stage

    def add(self, episodes: Iterable[Episode]) -> None:
        """Keep the successful ones."""
        self.episodes.extend(episode for episode in episodes if episode.success)

    def draw(self, count: int, rng: np.random.Generator) -> list[Episode]:
        """Up to `count` different episodes, uniformly."""
        size = min(count, len(self.episodes))
        return [self.episodes[i] for i in rng.choice(len(self.episodes), size, replace=False)] if size else []
