"""Protocols of the two players. One method each, batched, so that a language model and a random player look alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from reflect_rl.types import Decision, View

__all__ = ["Policy", "Reflector", "RunsElsewhere"]


@runtime_checkable
class Reflector(Protocol):
    """The reflection player R: reads states (never the action list) and writes one short text for each."""

    name: str
    sees_oracle: bool

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """Write a reflection for each view, in order; None where the player writes nothing."""
        ...


@runtime_checkable
class Policy(Protocol):
    """The policy player π: picks one admissible action per view."""

    name: str
    sees_oracle: bool

    # A generator for each view, so that a decision does not depend on the other views of its batch.
    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """Choose an action for each view; `rngs[i]` is the only randomness that decision i may use."""
        ...


@runtime_checkable
# Separate from the two above, because most players have no server and need not say so.
class RunsElsewhere(Protocol):
    """A player behind a server: results name it, since its weights are in no run folder."""

    @property
    def origin(self) -> Mapping[str, str]:
        """Host, model and form of its answers."""
        ...
