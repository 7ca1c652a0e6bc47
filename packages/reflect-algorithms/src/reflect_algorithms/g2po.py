"""G2PO: group-graph policy optimisation (Wang et al. 2026, arXiv 2606.22995).

The episodes of a task make one graph: a node for each state, an edge for each turn. A state is worth the mean return of
all visits to it, whichever episode they belong to, and a turn is worth the temporal difference along its edge:
δ_t = r_t + γ V(s_{t+1}) - V(s_t). The differences of all tasks are put on one scale.

Differs from the paper, whose equations were not at hand (its abstract and summaries of it were): (1) two states are the
same when `Observation.state` is, or, where the environment gives none, the whole text; states that no other visit
shares make a chain, on which every difference is zero; (2) after the last turn nothing is worth anything, truncated or
not; (3) the KL term is the exact divergence over the admissible actions; (4) two passes over each batch by default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from reflect_rl.algorithms import (
    Advantages,
    Clipped,
    ClippedConfig,
    Trajectory,
    generalised_advantages,
    group_relative,
    returns_of,
    shaped_rewards,
    total_reward_std,
)


class G2POConfig(ClippedConfig):
    """G2PO."""

    name: Literal["g2po"] = "g2po"
    """Algorithm."""
    gamma: float = Field(0.95, gt=0, le=1)
    """γ of returns and of temporal differences."""


class G2PO(Clipped):
    """Turns are worth what the graph of all episodes of their task says about the step they made."""

    Config = G2POConfig
    config: G2POConfig

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """(δ - mean) / standard deviation, over all turns of the update."""
        returns = [returns_of(self.config, trajectory) for trajectory in trajectories]
        worth = self._values(trajectories, returns)
        # λ = 0 leaves the temporal difference alone.
        pairs = zip((shaped_rewards(self.config, trajectory) for trajectory in trajectories), worth, strict=True)
        deltas = [generalised_advantages(rewards, row, self.config.gamma, gae_lambda=0.0) for rewards, row in pairs]
        flat = [delta for row in deltas for delta in row]
        scaled = iter(group_relative([""] * len(flat), flat))
        table = [[next(scaled) for _ in row] for row in deltas]
        return Advantages(table, returns, partial(returns_of, self.config), total_reward_std(trajectories))

    def _values(self, trajectories: Sequence[Trajectory], returns: list[list[float]]) -> list[list[float]]:
        """V of the state of every turn: the mean return of all visits to it."""
        visits: dict[tuple[str, str], list[float]] = defaultdict(list)
        nodes = [
            # With the task, because the same state of another task can have another goal.
            [(trajectory.group, state or f"unknown {episode} {turn}") for turn, state in enumerate(trajectory.states)]
            for episode, trajectory in enumerate(trajectories)
        ]
        for row, own in zip(nodes, returns, strict=True):
            for node, value in zip(row, own, strict=True):
                visits[node].append(value)
        return [[float(np.mean(visits[node])) for node in row] for row in nodes]
