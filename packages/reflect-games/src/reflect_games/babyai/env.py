"""BabyAI: missions in rooms of a grid world, in text.

Levels, missions, rewards and the expert are those of `minigrid`; the words for what is seen are this package's. The
specification is `docs/guides/babyai.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np
from pydantic import Field

from reflect_games.babyai.expert import Expert, harmless
from reflect_games.babyai.starts import level_tasks, open_level, state_of
from reflect_games.babyai.view import Memory, Pose, read_view, state_text
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, TextEnv, require_known
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, Oracle, Step, Task

if TYPE_CHECKING:
    from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

Level = Literal[
    "GoToObj",
    "GoToRedBallGrey",
    "GoToRedBall",
    "GoToLocal",
    "PickupLoc",
    "PutNextLocal",
    "OpenDoor",
    "Open",
    "Pickup",
    "GoTo",
]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""Levels, easiest first: the modes."""
ACTIONS: Final = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
"""Actions in MiniGrid's order; its seventh, `done`, has no effect in BabyAI."""
DONE: Final = len(ACTIONS)
"""Index of `done`: a turn without an action."""
RULES: Final = """\
You are in a grid of cells with walls, doors, keys, balls and boxes, and do what the mission says. You see 6 cells ahead
and 3 to each side, nothing behind you and nothing behind walls or closed doors. Places are counted in steps from you.
- `turn left` and `turn right` turn you on the spot, `go forward` takes you one cell ahead if it is free.
- `pick up` takes the thing in the cell ahead; you can carry one. `drop` puts it into the cell ahead if that is free.
- `toggle` opens or closes the door ahead (a locked one only if you carry the key of its colour), or opens a box.
You go to a thing by standing in front of it and facing it. "On your left", "in front of you" and the like mean where a
thing was when you started. You win when the mission is done, the sooner the better."""
"""The game in words, for players that are told what they play."""


class BabyAIConfig(EnvironmentConfig):
    """BabyAI: do what a mission says in rooms of a grid world, of which a few cells are seen."""

    name: Literal["babyai"] = "babyai"
    """Environment."""
    max_episode_steps: int = Field(64, ge=1, le=10_000)
    """Turns after which an episode is truncated, if BabyAI itself does not end it: in one room it does so after 64, in
    PutNextLocal after 128, in a maze after 576."""
    modes: tuple[Level, ...] = Field(("GoToLocal",), min_length=1)
    """Levels to train and evaluate."""
    train_tasks: int = Field(1000, ge=1, le=1_000_000)
    """Training tasks of each level."""
    validation_tasks: int = Field(100, ge=1, le=100_000)
    """Validation tasks of each level."""
    test_tasks: int = Field(400, ge=1, le=100_000)
    """Test tasks of each level."""
    state: Literal["view", "notes"] = "notes"
    """State text: `view` = what is seen now; `notes` = also what was seen before, and how far one has come."""


class BabyAI(TextEnv):
    """The game.

    Args:
        config: its settings.
    """

    Config = BabyAIConfig
    name, version, modes = "babyai", 3, LEVELS
    max_actions = len(ACTIONS)
    rules = RULES
    config: BabyAIConfig

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        super().__init__(config)
        # Levels are opened when they are needed: the copy that is asked about tasks plays none.
        self._levels: dict[str, RoomGridLevel] = {}
        self._expert: Expert | None = None

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The seeds of one split of a level; no task of another split begins in the same state.

        Raises:
            UnknownNameError: no such level or split.
            UserError: `minigrid` is not installed.
        """
        require_known("mode of babyai", mode, LEVELS)
        require_known("split", split, SPLITS)
        config = self.config
        # The test first: what it has does not depend on how many tasks the others have.
        sizes = (("test", config.test_tasks), ("validation", config.validation_tasks), ("train", config.train_tasks))
        return level_tasks(mode, sizes)[split]

    def games_tested(self, mode: str, split: str) -> Mapping[str, str]:
        """Seeds of a split, and the version of `minigrid` that makes levels of them."""
        seeds = [task.data["seed"] for task in self.tasks(mode, split)]
        return {"seeds": f"{seeds[0]} to {seeds[-1]}", "minigrid": version("minigrid")}

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Start the level of a task's seed.

        Raises:
            UserError: the task names no start that this version of `minigrid` makes.
        """
        try:
            seed, start = int(task.data["seed"]), str(task.data["start"])
        except (KeyError, TypeError, ValueError):
            raise UserError(f"task {task.key!r} is no level: {dict(task.data)}. Take tasks from tasks().") from None
        require_known("mode of babyai", task.mode, LEVELS)
        self._level = self._levels.get(task.mode) or self._levels.setdefault(task.mode, open_level(task.mode))
        seen, _ = self._level.reset(seed=seed)
        if state_of(self._level) != start:
            raise UserError(
                f"task {task.key!r} begins otherwise under minigrid {version('minigrid')} than where it was made. "
                "Install the version it was made with, or take tasks from tasks()."
            )
        self._memory = Memory() if self.config.state == "notes" else None
        self._expert, self._last = None, "none"
        self._origin = (*map(int, self._level.agent_pos), int(self._level.agent_dir))
        return self._observe(seen["image"])

    def step(self, action: int) -> Step:
        """Take the action; the reward is BabyAI's, 1 less up to 0.9 for the turns that it took."""
        self._last = ACTIONS[action]
        answer = self._play(action)
        if self._expert is not None and not answer.terminated:
            self._expert.watch(action)
        return answer

    def idle(self) -> Step:
        """A turn without an action: it counts, so that winning pays less."""
        # The bot is not told, as nothing has changed for it.
        return self._play(DONE)

    def _play(self, action: int) -> Step:
        seen, reward, done, out_of_turns, _ = self._level.step(action)
        won = done and reward > 0
        return Step(self._observe(seen["image"]), float(reward) if won else 0.0, done, won, out_of_turns)

    def oracle(self) -> Oracle:
        """The bot's action; `turns_left` is the length of its plan, which is not the shortest there is."""
        # The bot watches from the first question on, as asking it costs more than a step of the game.
        self._expert = self._expert or Expert(self._level)
        best = self._expert.action
        safe = tuple(action for action in harmless(self._level) if action != best)
        return Oracle(best, (best,), safe, self._expert.turns_left())

    def _observe(self, image: np.ndarray) -> Observation:
        level = self._level
        sight = read_view(image)
        if self._memory is not None:
            self._memory.look(sight, self._pose())
        carried = "nothing" if level.carrying is None else f"{level.carrying.color} {level.carrying.type}"
        text = state_text(level.mission, carried, sight, self._memory, self._last)
        return Observation(text, ACTIONS, state_of(level))

    def _pose(self) -> Pose:
        """Position and direction as seen from the start, which a player knows who counts steps and turns."""
        x, y, direction = self._origin
        # MiniGrid's directions are east, south, west, north, a quarter turn to the right from one to the next.
        east, south = (((1, 0), (0, 1), (-1, 0), (0, -1)))[direction]
        east_steps, south_steps = int(self._level.agent_pos[0]) - x, int(self._level.agent_pos[1]) - y
        ahead = east_steps * east + south_steps * south
        right = south_steps * east - east_steps * south
        return Pose(ahead, right, (int(self._level.agent_dir) - direction) % 4)
