"""Interface of an algorithm: numbers and tensors only.

Letters: N turns of a minibatch, A the largest number of admissible actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:  # settings are read without torch, which takes seconds to import
    from torch import Tensor

Critic = Literal["none", "state", "action"]
"""Prediction of the critic's head: nothing, V(s), or Q(s, ·)."""


@dataclass(frozen=True)
class Trajectory:
    """An episode as numbers; the sequences have one entry per turn."""

    group: str
    """Mode and key of the task; episodes of one task are compared with each other."""
    rewards: Sequence[float]
    entropies: Sequence[float]
    """Entropy of the policy at each turn, in nats."""
    states: Sequence[str]
    """Identity of each turn's state; equal and not empty means the same state."""
    success: bool
    """The game's own verdict."""


@dataclass(frozen=True)
class Advantages:
    """Worth of the fresh episodes of one update, turn by turn, one list per trajectory."""

    values: list[list[float]]
    """Â_t."""
    returns: list[list[float]]
    """Targets of the critic."""
    target: Callable[[Trajectory], list[float]]
    """The critic's targets of any other episode, on the scale of `returns`."""
    gain_scale: float = 1.0
    """Reward per unit of `values`: a replayed episode's gain in reward is divided by it."""


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
    """(N,) targets of the critic."""
    replayed: Tensor
    """(N,) True = from the replay of earlier successes."""
    reference_log_probs: Tensor | None = None
    """(N, ≥ A) log π_ref(a|s) of the frozen SFT policy; None when no KL term is used."""

    def select(self, rows: Tensor) -> Batch:
        """The turns with these indices."""
        return self.map(lambda part: part[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with every tensor changed alike."""
        # Field by field, because `asdict` would copy the tensors.
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {name: None if part is None else change(part) for name, part in parts.items()}
        return Batch(**changed)

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Outputs:
    """Output of the model as it is now, for the same turns."""

    log_probs: Tensor
    """(N, A) log π(a|s), -inf where there is no action."""
    values: Tensor | None = None
    """(N,) V(s), None without a critic of states."""
    action_values: Tensor | None = None
    """(N, A) Q(s, a) in the order of the actions, 0 where there is no action; None without a critic of actions."""

    def chosen(self, batch: Batch) -> Tensor:
        """(N,) log π(a_t|s_t)."""
        # Never -inf: only an action that was listed could be chosen.
        return self.log_probs.gather(1, batch.actions[:, None])[:, 0]


@dataclass(frozen=True)
class Loss:
    """A scalar to minimise and what to log about it."""

    value: Tensor
    metrics: dict[str, float] = field(default_factory=dict)


class Algorithm(Protocol):
    """An algorithm says what turns are worth, and makes a loss of them and of the model's outputs."""

    epochs: int
    """Passes over each batch."""
    critic: Critic
    """The critic it needs."""

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """Advantages of all fresh episodes of an update.

        Args:
            trajectories: the episodes.
            values: V(s_t) per turn; given exactly when `critic` is "state".
        """

    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """The mean loss over the turns of the batch.

        A turn's part of it depends on no other turn, so that a batch may be cut anywhere.
        """
