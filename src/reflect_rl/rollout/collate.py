"""Episodes become one training batch: the views to score, and tensors in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from reflect_rl.algorithms._batch import Batch
from reflect_rl.algorithms._common import PolicyGradientConfig, Trajectory, advantages
from reflect_rl.algorithms._returns import rewards_to_go
from reflect_rl.core.types import Episode, Turn, View

__all__ = ["collate", "view_of"]


def view_of(turn: Turn) -> View:
    """What the policy saw at a recorded turn."""
    return View(turn.observation, turn.order, turn.reflection)


def collate(
    config: PolicyGradientConfig,
    fresh: Sequence[Episode],
    replayed: Sequence[Episode],
    excluded: frozenset[str],
    values: Callable[[Sequence[View]], Tensor] | None,
    reference: Callable[[Sequence[View]], Tensor] | None,
) -> tuple[list[View], Batch]:
    """All turns to learn from.

    A replayed episode's advantage is its return above the mean return of the fresh episodes of its mode, never below
    zero (self-imitation, Oh et al. 2018), on the same scale as the fresh ones.

    Args:
        config: the algorithm's settings.
        fresh: episodes of the current policy.
        replayed: earlier successes.
        excluded: states whose turns are not learnt from (starts of held-out tasks).
        values: V(s) of views, for the `value` baseline.
        reference: (N, A) log π_ref of views, for the KL term.

    Raises:
        ValueError: an episode was played by a player that reports no probabilities.
    """
    turns = [turn for episode in fresh for turn in episode.turns]
    table = None
    if values is not None:
        flat = iter(values([view_of(turn) for turn in turns]).tolist())
        table = [[next(flat) for _ in episode.turns] for episode in fresh]
    trajectories = [_trajectory(episode) for episode in fresh]
    result = advantages(config, trajectories, table)
    rows = list(zip(turns, _flat(result.values), _flat(result.returns), [False] * len(turns), strict=True))
    rows += _replayed_rows(config, fresh, replayed)
    rows = [row for row in rows if row[0].observation.state not in excluded]
    views = [view_of(row[0]) for row in rows]
    batch = Batch(
        actions=torch.tensor([turn.decision.index for turn, *_ in rows]),
        behaviour_log_probs=torch.tensor([_chosen_log_prob(turn) for turn, *_ in rows]),
        advantages=torch.tensor([row[1] for row in rows]),
        returns=torch.tensor([row[2] for row in rows]),
        replayed=torch.tensor([row[3] for row in rows]),
        reference_log_probs=None if reference is None or not rows else reference(views),
    )
    return views, batch


def _replayed_rows(
    config: PolicyGradientConfig, fresh: Sequence[Episode], replayed: Sequence[Episode]
) -> list[tuple[Turn, float, float, bool]]:
    spread = float(np.std([episode.total_reward for episode in fresh])) if config.normalise_advantages else 1.0
    # Fresh episodes that all ended alike give no scale.
    scale = spread if spread > 1e-8 else 1.0
    rows = []
    for episode in replayed:
        peers = [e.total_reward for e in fresh if e.task.mode == episode.task.mode]
        gain = max(0.0, episode.total_reward - float(np.mean(peers))) if peers else 0.0
        returns = rewards_to_go([turn.reward for turn in episode.turns], config.discount)
        rows += [(turn, gain / scale, g, True) for turn, g in zip(episode.turns, returns, strict=True)]
    return rows


def _trajectory(episode: Episode) -> Trajectory:
    return Trajectory(episode.task.key, [t.reward for t in episode.turns], [_entropy(t) for t in episode.turns])


def _entropy(turn: Turn) -> float:
    log_probs = np.asarray(_log_probs(turn))
    return float(-(np.exp(log_probs) * log_probs).sum())


def _chosen_log_prob(turn: Turn) -> float:
    return _log_probs(turn)[turn.decision.index]


def _log_probs(turn: Turn) -> tuple[float, ...]:
    if turn.decision.log_probs is None:
        player = turn.decision.player
        raise ValueError(f"the player {player!r} reports no probabilities; its episodes cannot be trained on")
    return turn.decision.log_probs


def _flat(table: Sequence[Sequence[float]]) -> list[float]:
    return [value for row in table for value in row]
