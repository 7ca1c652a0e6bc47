"""The off-policy critic of turns of ArCHer (Zhou et al. 2024): two estimates of Q with slow copies.

    loss = mean Σ_k (Q_k(s,a) - r - γ Σ_b π(b|s') Q̄_k(s',b))²,     Q̄ ← (1 - τ) Q̄ + τ Q after each step

Whoever played the turns, Q is the value of the players whose π stands at the next states. Q reads the hidden state of
the frozen starting policy at the end of its prompt, and has one output for each number under which an action is listed.
A reflection is a part of that prompt, so that Q(s,a) then is the value of the whole utterance: the text and the action.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reflect_algorithms.settings import CriticConfig
from reflect_rl.errors import UserError
from reflect_rl.models.load import forked_rng
from reflect_rl.types import View

if TYPE_CHECKING:
    import numpy as np

WIDTH = 128
"""Units of the hidden layer of each estimate."""
BATCH = 64
"""Turns of one step of the critic."""


class Critic(nn.Module):
    """Two estimates of Q by the number under which an action is listed, and their slow copies.

    Args:
        hidden: (N, H) hidden states, by whose mean and deviation all others are scaled.
        actions: K, how many numbers there are.
        seed: of the weights.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, hidden: Tensor, actions: int, seed: int) -> None:
        super().__init__()
        self.register_buffer("mean", hidden.mean(0))
        self.register_buffer("std", hidden.std(0, correction=0).clamp(min=1e-6))
        with forked_rng(seed):
            self.estimates = nn.ModuleList(
                nn.Sequential(nn.Linear(hidden.shape[1], WIDTH), nn.Tanh(), nn.Linear(WIDTH, actions)) for _ in range(2)
            )
        self.targets = copy.deepcopy(self.estimates).requires_grad_(False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Q_1 and Q_2, (2, N, K)."""
        return self._of(self.estimates, hidden)

    def slow(self, hidden: Tensor) -> Tensor:
        """Q̄_1 and Q̄_2, (2, N, K)."""
        return self._of(self.targets, hidden)

    def _of(self, networks: nn.ModuleList, hidden: Tensor) -> Tensor:
        x = (hidden - self.mean) / self.std
        return torch.stack([network(x) for network in networks])

    @torch.no_grad()
    def least(self, hidden: Tensor) -> Tensor:
        """The smaller of both estimates, min_k Q_k, (N, K): a maximum of errors would otherwise pass for a value."""
        return self(hidden).amin(0)

    @torch.no_grad()
    def follow(self, rate: float) -> None:
        """Q̄ ← (1 - τ) Q̄ + τ Q, with the rate τ."""
        for slow, fast in zip(self.targets.parameters(), self.estimates.parameters(), strict=True):
            slow.lerp_(fast, rate)


@dataclass(frozen=True)
class Experience:
    """N turns that the critic learns from. Letters: H hidden size, K listed numbers."""

    hidden: Tensor
    """(N, H) hidden states of what was read."""
    numbers: Tensor
    """(N,) the number under which the chosen action was listed."""
    rewards: Tensor
    """(N,)."""
    going_on: Tensor
    """(N,) True = a turn followed; where none did, nobody reads the two tables below."""
    next_hidden: Tensor
    """(N, H) hidden states at the next turns."""
    next_policy: Tensor
    """(N, K) π there, 0 where there is no action."""


def bootstrapped(rewards: Tensor, going_on: Tensor, policy: Tensor, following: Tensor, gamma: float) -> Tensor:
    """R + γ Σ_b π(b|s') Q̄_k(s',b), the next value left out where the game ended; (2, N).

    Args:
        rewards: (N,).
        going_on: (N,) True = there is a next state.
        policy: (N, K) π of the next states, 0 where there is no action.
        following: (2, N, K) Q̄ of the next states.
        gamma: γ.
    """
    return rewards + gamma * going_on * (policy * following).sum(-1)


def fit_critic(critic: Critic, turns: Experience, config: CriticConfig, rng: np.random.Generator) -> float:
    """Temporal-difference steps on turns drawn from all that are given; the mean loss of these steps.

    Args:
        critic: changed in place.
        turns: N turns.
        config: number of steps, γ, τ and the learning rate.
        rng: of the draws.

    Raises:
        UserError: there is no turn.
    """
    count = len(turns.numbers)
    if not count:
        raise UserError("the critic has nothing to learn from: all games ran out of turns at once. Let them be longer.")
    optimizer = torch.optim.Adam(critic.estimates.parameters(), lr=config.critic_learning_rate)
    total = 0.0
    for _ in range(config.critic_steps):
        batch = torch.from_numpy(rng.integers(count, size=BATCH))
        with torch.no_grad():
            slow = critic.slow(turns.next_hidden[batch])
            targets = bootstrapped(
                turns.rewards[batch], turns.going_on[batch], turns.next_policy[batch], slow, config.gamma
            )
        played = critic(turns.hidden[batch]).gather(2, turns.numbers[batch].expand(2, -1)[..., None])[..., 0]
        loss = (played - targets).square().mean(1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        critic.follow(config.target_rate)
        total += float(loss.detach())
    return total / config.critic_steps


def by_number(table: Tensor, views: Sequence[View], numbers: int) -> Tensor:
    """Reorder probabilities (N, A) by action to the numbers under which actions are listed, (N, K); 0 for no action."""
    # A column of zeros at the end, for numbers that a state does not list.
    padded = nn.functional.pad(table, (0, 1))
    none = table.shape[1]
    places = [[*view.order, *[none] * (numbers - len(view.order))] for view in views]
    return padded.gather(1, torch.tensor(places))
