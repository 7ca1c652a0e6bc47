"""The way to a state of a household game: the commands that lead there, without detours."""

from __future__ import annotations

from alfworld_native.memory import Memory

__all__ = ["Trail"]

INVERSES = {"open": "close", "close": "open"}


class Trail:
    """Commands that lead from the beginning of a game to where it is.

    What changes nothing is left out, of several ways in a row the last stays, and what was undone at once is dropped.
    So equal trails lead to equal states, and most equal states have equal trails.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[str, tuple[str, ...]]] = []
        """Commands, and the receptacles at the player's place after each."""

    @property
    def commands(self) -> list[str]:
        """The commands, in order."""
        return [command for command, _ in self._steps]

    def add(self, command: str, memory: Memory) -> None:
        """Take up a command that was given.

        Args:
            command: that was given.
            memory: of the player, after it.
        """
        verb = command.partition(" ")[0]
        if verb in ("look", "inventory", "help", "examine"):
            return
        if verb == "go":
            self._go(command, memory.here)
        elif self._steps and _undoes(command, self._steps[-1][0]):
            self._steps.pop()
        else:
            self._steps.append((command, memory.here))

    def _go(self, command: str, here: tuple[str, ...]) -> None:
        if self._steps and self._steps[-1][0].startswith("go "):
            self._steps.pop()
        if not self._steps or set(self._steps[-1][1]) != set(here):
            self._steps.append((command, here))


def _undoes(command: str, before: str) -> bool:
    """Whether a command undoes the one before it.

    >>> _undoes("put mug 1 in/on desk 1", "take mug 1 from desk 1")
    True
    """
    verb, _, rest = command.partition(" ")
    verb_before, _, rest_before = before.partition(" ")
    if verb in INVERSES:
        return verb_before == INVERSES[verb] and rest == rest_before
    return verb in ("put", "move") and verb_before == "take" and _pair(rest) == _pair(rest_before)


def _pair(rest: str) -> list[str]:
    return rest.replace(" in/on ", " to ").replace(" from ", " to ").split(" to ")
