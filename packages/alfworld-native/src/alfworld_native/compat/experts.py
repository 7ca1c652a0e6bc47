"""Experts whose plans come with training games, by alfworld's names.

`planner` plans with full knowledge. Its plan is a shortest one; that of alfworld's planner wins as well, but may be
another. `handcoded` searches as alfworld's hand-coded expert does (`handcoded.py` says what differs); of several things
it takes the first where alfworld's draws one, so its plans may be others, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from alfworld_native.compat.batch import Expert
from alfworld_native.compat.config import ExpertType
from alfworld_native.engine import State, Step
from alfworld_native.experts import best_commands
from alfworld_native.handcoded import HandcodedExpert
from alfworld_native.memory import Memory

MOST_COMMANDS: Final = 200
"""Limit on a plan; none of ALFWorld's games needs more than a few dozen commands."""


class Planner:
    """Plans of a shortest solution.

    Args:
        state: of the episode; it is read, never changed.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def plan(self) -> list[str]:
        """All commands up to the win; none if the game is won, or cannot be won any more."""
        return shortest_plan(self._state)

    def observe(self, command: str, step: Step) -> None:
        """Nothing to take up: the state knows it."""


class Handcoded:
    """The hand-coded expert, which knows what the game has said.

    Args:
        state: of the episode, at its beginning.
    """

    def __init__(self, state: State) -> None:
        first = state.first()
        self._memory = Memory(first.feedback, first.admissible)
        self._expert = HandcodedExpert(self._memory)
        # alfworld's begins with a look around, whatever comes.
        self._next = "look"

    def plan(self) -> list[str]:
        """One command."""
        return [self._next]

    def observe(self, command: str, step: Step) -> None:
        """Take up a command that was given, and its answer."""
        self._memory.update(command, step.feedback, step.admissible)
        self._expert.observe(command)
        self._next = "look" if step.won else self._expert.command()


def shortest_plan(state: State) -> list[str]:
    """Commands of a shortest solution; none if the game is won, or cannot be won any more."""
    ahead = state.copy()
    plan: list[str] = []
    while not ahead.won and len(plan) < MOST_COMMANDS and (best := best_commands(ahead)):
        plan.append(best[0])
        ahead.step(best[0])
    return plan


EXPERTS: Final[Mapping[ExpertType, Callable[[State], Expert]]] = MappingProxyType(
    {"planner": Planner, "handcoded": Handcoded}
)
