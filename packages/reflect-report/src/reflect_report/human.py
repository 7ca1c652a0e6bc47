"""A person at the keyboard as policy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np

from reflect_rl.errors import ReflectRLError
from reflect_rl.types import Decision, View

LEAVE = ("q", "exit", "quit")
"""Words that end the game where it lists no such action."""


class PlayerLeft(ReflectRLError):  # noqa: N818 (no error)
    """The person wants to play no further."""


class HumanPolicy:
    """Shows each view and asks for the number (or the text) of an action until the answer is one."""

    name = "human"
    sees_oracle = False

    def __init__(self, show: Callable[[View], None], given: Callable[[str], str] | None = None) -> None:
        self.show, self.ask = show, given or ask

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The person's choice for each view.

        Raises:
            PlayerLeft: the answer was a word of `LEAVE`, or the input has ended.
        """
        return [Decision(self._choice(view), self.name) for view in views]

    def _choice(self, view: View) -> int:
        self.show(view)
        listed = {action.strip().lower() for action in view.observation.actions}
        leave = [word for word in LEAVE if word not in listed]
        # The end of the input is left where the game takes all the words.
        hint = f"a number from 0 to {len(view.order) - 1}, or {leave[0] if leave else 'Ctrl-D'} to quit"
        question = f"Your action ({hint}): "
        while True:
            try:
                answer = self.ask(question).strip()
            except EOFError:
                raise PlayerLeft("the input has ended") from None
            if answer.lower() in leave:
                raise PlayerLeft("the player left")
            # Python refuses to convert numbers of thousands of digits.
            if answer.isdecimal() and len(answer) < 10 and int(answer) < len(view.order):
                # The number is a place of the shown list, and a decision is an index of the environment.
                return view.order[int(answer)]
            if answer in view.observation.actions:
                return view.observation.actions.index(answer)
            question = f"{answer!r} is no action here; {hint}: "


def ask(question: str) -> str:
    """The line that was typed, or that a pipe holds; a terminal shows it itself, a pipe does not.

    Raises:
        EOFError: the input has ended, or there is none.
    """
    # Some schedulers start programs without any input.
    if sys.stdin is None:
        raise EOFError
    try:
        answer = input(question)
    except EOFError:
        print()
        raise
    if not sys.stdin.isatty():
        print(answer)
    return answer
