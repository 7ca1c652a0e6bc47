"""Turns that were played, each with what followed it, for values that are learned by temporal differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reflect_rl.errors import UserError
from reflect_rl.types import NO_ACTION, Episode, View


@dataclass(frozen=True)
class Transitions:
    """N turns with what followed them."""

    views: tuple[View, ...]
    numbers: Tensor
    """(N,) the number under which the chosen action was listed."""
    rewards: Tensor
    """(N,)."""
    following: Tensor
    """(N,) row of the next turn; -1 where the game ended."""
    lowest: float
    """Least return that followed a turn."""
    highest: float
    """Greatest one."""


def transitions_of(episodes: Sequence[Episode]) -> Transitions:
    """The turns of episodes; a turn without a known next state, or without an action, is the next state of others only.

    Raises:
        UserError: there is no turn.
    """
    views: list[View] = []
    numbers, rewards, following, returns = list[int](), list[float](), list[int](), list[float]()
    for episode in episodes:
        left = sum(turn.reward for turn in episode.turns)
        for place, turn in enumerate(episode.turns):
            last = place + 1 == len(episode.turns)
            played = turn.decision.index != NO_ACTION and not (last and episode.truncated)
            views.append(turn.view)
            numbers.append(turn.order.index(turn.decision.index) if played else -1)
            rewards.append(turn.reward)
            following.append(-1 if last else len(views))
            returns.append(left)
            left -= turn.reward
    if not views:
        raise UserError("nothing was played. Raise the episodes of a round.")
    tables = torch.tensor(numbers), torch.tensor(rewards), torch.tensor(following)
    return Transitions(tuple(views), *tables, min(returns), max(returns))
