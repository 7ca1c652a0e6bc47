"""BabyAI's own bot as the expert: what it would do now, and how long its plan is from here."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
    from minigrid.utils.baby_ai_bot import BabyAIBot

TURN_LEFT, TURN_RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)
"""Actions, as `minigrid.core.actions.Actions` numbers them; its seventh, `done`, does nothing in BabyAI."""
LONGEST_PLAN = 500
"""Turns after which the bot is taken to be lost."""


class Expert:
    """The bot, which watches a level being played and says what it would do.

    It explores what it has not seen, like a player, but finds what it has seen without error. Its plans are not the
    shortest. It gives up on some states that its own play never reaches (a box was opened, a thing stands where it
    wants to drop another); a new bot takes over then, and a plain rule where that fails too.

    Args:
        level: the level in play, at its start or later.
    """

    def __init__(self, level: RoomGridLevel) -> None:
        self._level = level
        self._bot = _new_bot(level, None)
        self.action = self._ask(None)
        self._turns_left: int | None = None

    def watch(self, action: int) -> None:
        """Take in an action that was just played, after which the level goes on."""
        # The bot is deterministic: while it is followed, its plan only gets shorter.
        known = self._turns_left if action == self.action else None
        self.action = self._ask(action)
        self._turns_left = None if known is None else max(1, known - 1)

    def turns_left(self) -> int:
        """Length of the bot's plan in turns, found by letting copies play on."""
        if self._turns_left is None:
            self._turns_left = self._play_on()
        return self._turns_left

    def _play_on(self) -> int:
        # One copy of both: the bot keeps references to the level and its objects.
        twin = copy.deepcopy(self)
        for turn in range(1, LONGEST_PLAN):
            if twin._level.step(twin.action)[2]:
                return turn
            twin.action = twin._ask(twin.action)
        return LONGEST_PLAN

    def _ask(self, played: int | None) -> int:
        try:
            return _checked(self._bot.replan(played))
        # The bot states what it relies on by assertions, and stumbles over what it has not foreseen.
        except Exception:
            self._bot = _new_bot(self._level, self._bot.vis_mask)
        try:
            return _checked(self._bot.replan(None))
        except Exception:
            return self._way_out()

    def _way_out(self) -> int:
        """An action that changes a state in which no bot knows what to do: hands are freed, else the agent turns."""
        level = self._level
        free = level.grid.get(*level.front_pos) is None
        return DROP if level.carrying is not None and free else TURN_RIGHT


def _new_bot(level: RoomGridLevel, seen: np.ndarray | None) -> BabyAIBot:
    from minigrid.utils.baby_ai_bot import BabyAIBot

    bot = BabyAIBot(level)
    if seen is not None:
        bot.vis_mask = seen
    return bot


def _checked(action: int) -> int:
    # A bot that takes the mission for done, while the level goes on, has lost its way.
    if not TURN_LEFT <= int(action) <= TOGGLE:
        raise ValueError("the bot has no action")
    return int(action)


def harmless(level: RoomGridLevel) -> tuple[int, ...]:
    """Actions that change something and can be undone: what a perturbed demonstration may do by mistake."""
    ahead = level.grid.get(*level.front_pos)
    moves = ahead is None or ahead.can_overlap()
    return (TURN_LEFT, TURN_RIGHT, FORWARD) if moves else (TURN_LEFT, TURN_RIGHT)
