"""Corridor: the smallest game with everything the others have, for tests that must take seconds.

Cells 0 to n-1 in a row; the goal is one end. `left` and `right` walk, `wait` is admissible in even cells only, so that
the number of actions varies. Reaching the goal gives +1 and success, another step -0.05; walking off the far end gives
-0.5 and ends the game. The specification is `docs/start/environments.md`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Literal

import numpy as np
from pydantic import Field

from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, TextEnv, require_known
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, Oracle, Step, Task, stream

NAME = "corridor"
VERSION = 1
MODES = ("near", "far")
"""`near`: the goal is one or two steps away. `far`: farther."""
ACTIONS = ("left", "right", "wait")
CHANGES = (-1, 1, 0)
NEAR_STEPS = 2
GOAL_REWARD, STEP_REWARD, FALL_REWARD = 1.0, -0.05, -0.5
RULES = """\
You walk in a corridor, a row of cells that are numbered from left to right. The goal is the cell at one of its ends.
- `left` and `right` take you one cell further, to a lower or to a higher number.
- `wait` lets a turn pass.
You win by standing on the goal. Walking off the other end loses the game, and every turn costs a little."""
"""The game in words, for players that are told what they play."""

Mode = Literal["near", "far"]


class CorridorConfig(EnvironmentConfig):
    """Corridor: walk to the goal at one end of a row of cells (toy)."""

    name: Literal["corridor"] = "corridor"
    """Environment."""
    max_episode_steps: int = Field(20, ge=1, le=10_000)
    """Turns after which an episode is truncated."""
    modes: tuple[Mode, ...] = Field(("near", "far"), min_length=1)
    """Variants to train and evaluate, of `near`, `far`."""
    length: int = Field(5, ge=5, le=1000)
    """Cells of the shortest corridor."""
    lengths: int = Field(6, ge=1, le=100)
    """Number of different lengths: `length`, `length` + 1, ..."""
    split_seed: int = Field(0, ge=0)
    """Seed of the permutation that splits the tasks."""


@cache
def _split(mode: str, length: int, lengths: int, split_seed: int) -> dict[str, tuple[Task, ...]]:
    """The tasks of a mode: a fifth for the test, a fifth for validation, the rest for training."""
    triples = [
        (cells, goal, start)
        for cells in range(length, length + lengths)
        for goal in (0, cells - 1)
        for start in range(cells)
        # The distance alone decides the mode, as the curriculum orders modes by difficulty.
        if start != goal and (abs(goal - start) <= NEAR_STEPS) == (mode == "near")
    ]
    # The mode is in the stream's name, since each mode has tasks of its own.
    order = [int(i) for i in stream(split_seed, NAME, mode, "split").permutation(len(triples))]
    # Tiny settings still get a test and a validation task.
    fifth = max(1, len(order) // 5)
    parts = {"test": order[:fifth], "validation": order[fifth : 2 * fifth], "train": order[2 * fifth :]}
    return {split: tuple(_task(mode, split, *triples[i]) for i in part) for split, part in parts.items()}


def _task(mode: str, split: str, cells: int, goal: int, start: int) -> Task:
    return Task(f"{mode}/{cells}-{goal}-{start}", mode, split, {"cells": cells, "goal": goal, "start": start})


def reflection_text(position: int, goal: int, last_action: str | None, last_was_good: bool) -> str:
    """Reflection on the last action, the goal and the next action: facts, the advice last.

    >>> reflection_text(2, 4, "wait", False)
    'The last action wait was a mistake. The goal is to the right. Next: right.'
    """
    feedback = "I begin."
    if last_action is not None:
        feedback = f"The last action {last_action} was {'good' if last_was_good else 'a mistake'}."
    direction = "left" if goal < position else "right"
    return f"{feedback} The goal is to the {direction}. Next: {direction}."


class Corridor(TextEnv):
    """The game.

    Args:
        config: its settings.
    """

    Config = CorridorConfig
    name, version, modes = NAME, VERSION, MODES
    max_actions = len(ACTIONS)
    idle_reward = STEP_REWARD
    rules = RULES
    config: CorridorConfig

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        super().__init__(config)
        self._cells, self._goal, self._position = 2, 1, 0
        self._last_action: str | None = None
        self._last_was_good = False

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The corridors, goals and starts of one split; no two tasks of a mode are the same.

        Raises:
            UnknownNameError: no such mode or split.
        """
        require_known("mode of corridor", mode, MODES)
        require_known("split", split, SPLITS)
        return _split(mode, self.config.length, self.config.lengths, self.config.split_seed)[split]

    def task_at(self, mode: str, state: str) -> Task:
        """The training task that begins in a state met while playing, with no action before it."""
        cells, goal, start = map(int, state.split("-"))
        return _task(mode, "train", cells, goal, start)

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Stand in the task's start cell.

        Raises:
            UserError: the task does not describe a corridor.
        """
        try:
            # Tasks may come from a file, so their values are checked and not trusted.
            cells, goal, start = (int(task.data[key]) for key in ("cells", "goal", "start"))
        except (KeyError, TypeError, ValueError):
            raise UserError(f"task {task.key!r} is no corridor: {dict(task.data)}. Take tasks from tasks().") from None
        if goal not in (0, cells - 1) or start == goal or not 0 <= start < cells:
            raise UserError(f"task {task.key!r} has its goal or start misplaced. Take tasks from tasks().")
        self._cells, self._goal, self._position = cells, goal, start
        self._last_action, self._last_was_good = None, False
        return self._look()

    def step(self, action: int) -> Step:
        """Walk or wait."""
        position = self._position + CHANGES[action]
        # Judged before the position changes, as `_best` looks from the current cell.
        self._last_action, self._last_was_good = ACTIONS[action], action == self._best()
        # The position stays in the corridor, so the last observation can still be described.
        if not 0 <= position < self._cells:
            return Step(self._look(), FALL_REWARD, terminated=True)
        self._position = position
        won = position == self._goal
        return Step(self._look(), GOAL_REWARD if won else STEP_REWARD, terminated=won, success=won)

    def oracle(self) -> Oracle:
        """The way to the goal; `safe` are the detours that stay in the corridor."""
        actions, best = self._look().actions, self._best()
        # Over the admissible actions only: `wait` is not listed in odd cells.
        safe = tuple(i for i in range(len(actions)) if i != best and 0 <= self._position + CHANGES[i] < self._cells)
        return Oracle(best, (best,), safe, abs(self._goal - self._position))

    def teach(self) -> str:
        """Facts about the last action and the goal, the advice last."""
        return reflection_text(self._position, self._goal, self._last_action, self._last_was_good)

    def _best(self) -> int:
        return ACTIONS.index("left" if self._goal < self._position else "right")

    def _look(self) -> Observation:
        return _observation(self._cells, self._goal, self._position, self._last_action or "none")


# Bounded, because long corridors (`length` up to 1000) have very many states.
@lru_cache(maxsize=100_000)
def _observation(cells: int, goal: int, position: int, last: str) -> Observation:
    text = (
        f"The corridor has cells 0 to {cells - 1}. You are at {position}. The goal is at {goal}. Last action: {last}."
    )
    # `wait` is the last action, so the indices of the others never change.
    return Observation(text, ACTIONS if position % 2 == 0 else ACTIONS[:2], f"{cells}-{goal}-{position}")
