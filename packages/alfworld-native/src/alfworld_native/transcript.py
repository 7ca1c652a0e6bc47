r"""The last answers of a household game, word for word: the state text of a player who is given no summary.

It holds the task, the opening, which lists the receptacles of the room, the last commands and what the game answered to
each, and nothing that our code worked out. The opening stays: elsewhere the list of commands, which a reflection player
here never sees, names the receptacles in every prompt. This is the form in which ALFWorld is played by language models
elsewhere (Shridhar et al. 2021, arXiv:2010.03768; Yao et al. 2023, arXiv:2210.03629), there mostly with the whole
history.
"""

from __future__ import annotations

from dataclasses import dataclass

from alfworld_native.memory import Memory


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A command, the answer, and what the player had in hand before it."""

    command: str
    feedback: str
    admissible: tuple[str, ...]
    """Commands that could be given after it."""
    here: tuple[str, ...]
    held: str
    origin: str
    conditions: frozenset[str]
    """Conditions of the thing in hand."""


class Transcript:
    """The window of an episode that a player sees.

    Args:
        opening: the text that opens the game.
        admissible: the commands that can be given first.
        history: most answers to keep beside the opening.
        history_step: number of the oldest answers that are dropped together, when there would be more than `history`.
    """

    def __init__(self, opening: str, admissible: tuple[str, ...], history: int, history_step: int = 1) -> None:
        self._opening, self._admissible = opening, admissible
        self._history, self._history_step = history, history_step
        self._exchanges: list[_Exchange] = []
        self._count = 0
        room, _, task = opening.rpartition("\n\n")
        # The banner says nothing about the game, and the task has a line of its own at the top.
        self._room, self.task = room.rpartition("\n\n")[2], task

    def add(self, command: str, before: Memory, feedback: str, admissible: tuple[str, ...]) -> None:
        """Take up a command and the answer.

        Args:
            command: that was given.
            before: what the player knew before it.
            feedback: the game's answer.
            admissible: commands that can be given after it.
        """
        conditions = frozenset(before.conditions.get(before.held, ()))
        self._exchanges.append(
            # One line for each answer: `help` has several.
            _Exchange(
                command, " ".join(feedback.split()), admissible, before.here, before.held, before.origin, conditions
            )
        )
        self._count += 1
        if len(self._exchanges) > self._history:
            del self._exchanges[: self._history_step]

    @property
    def text(self) -> str:
        """The state text."""
        lines = [self.task, self._room]
        for exchange in self._exchanges:
            lines += [f"> {exchange.command}", exchange.feedback]
        return "\n".join(lines)

    def recall(self) -> Memory:
        """Knowledge of a player who has seen this window alone, and knows what is in hand."""
        is_whole = self._count == len(self._exchanges)
        memory = Memory(self._opening, self._admissible if is_whole else ())
        if not is_whole:
            first = self._exchanges[0]
            # The hand is the one thing that is remembered: without it most commands would make no sense.
            memory.here, memory.held, memory.origin = first.here, first.held, first.origin
            memory.conditions = {first.held: set(first.conditions)} if first.held else {}
        for exchange in self._exchanges:
            memory.update(exchange.command, exchange.feedback, exchange.admissible)
        return memory
