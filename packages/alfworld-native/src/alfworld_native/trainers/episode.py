"""One game with a language model: texts that list the commands, replies that hold one."""

from __future__ import annotations

import re
from typing import Final

from alfworld_native.commands import check_command
from alfworld_native.engine import State, Step, open_game
from alfworld_native.generate import GameSplit, game_seed, numbered_game
from alfworld_native.record import GameRecord, Wording

INSTRUCTION: Final = (
    "You are in a house and have a task. Give one command at a time, out of the list that comes with every text."
)

OVER: Final = "The game is over."

TAGGED: Final = re.compile(r"<action>(.*?)</action>", re.DOTALL | re.IGNORECASE)


class Episode:
    """One game, until it is won or its commands are used up.

    Args:
        record: the game.
        max_episode_steps: commands at most.
        wording: version of the text.
    """

    def __init__(self, record: GameRecord, max_episode_steps: int = 50, wording: Wording = "2.1.1") -> None:
        self.record = record
        self.steps = 0
        self._most = max_episode_steps
        self._state: State = open_game(record, wording).start()
        self._last: Step = self._state.first()

    @property
    def won(self) -> bool:
        """True once the goal has been reached."""
        return self._last.won

    @property
    def over(self) -> bool:
        """True if no command is carried out any more."""
        return self.won or self.steps >= self._most

    @property
    def admissible(self) -> tuple[str, ...]:
        """Commands that can be given now."""
        return self._last.admissible

    @property
    def feedback(self) -> str:
        """Last answer of the game."""
        return self._last.feedback

    def text(self) -> str:
        """Last answer of the game, and the commands that can be given now."""
        said = self._last.feedback
        return f"{said}\n{OVER}" if self.over else f"{said}\nCommands: {', '.join(self._last.admissible)}"

    def give(self, command: str) -> str:
        """Give a command; the new text. After the end nothing changes.

        Raises:
            GameError: the command is not a text.
        """
        given = check_command(command)
        if not self.over:
            self._last = self._state.step(given)
            self.steps += 1
        return self.text()


def command_of(reply: str) -> str:
    r"""The command in a model's reply: what stands in the last `<action>…</action>`, else its last line.

    >>> command_of("<think>warm it</think><action>go to fridge 1</action>")
    'go to fridge 1'
    >>> command_of("I should look around.\nlook\n")
    'look'
    """
    tagged = TAGGED.findall(reply)
    lines = [line.strip() for line in (tagged[-1] if tagged else reply).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def numbered_record(split: GameSplit, number: int, seed: int = 0) -> GameRecord:
    """A generated game by its number; the splits have none in common."""
    return numbered_game(game_seed(split, seed), number)
