"""ScienceWorld: school experiments in a house with a greenhouse, a foundry and a garden, in text.

Tasks, variations, splits, scores, texts and gold paths are those of `scienceworld`; the list of commands is shortened
(`commands.py`). The specification is `docs/guides/scienceworld.md`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from hashlib import blake2b
from importlib.metadata import version
from typing import Final, Literal, get_args

import numpy as np
from pydantic import Field

from reflect_games.scienceworld.commands import counterpart, listed
from reflect_games.scienceworld.world import Scene, World, gold_path, variations
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, TextEnv, require_known
from reflect_rl.errors import ReflectRLWarning, UserError
from reflect_rl.types import Episode, Observation, Oracle, Step, Task

Mode = Literal[
    "lifespan-longest-lived",
    "lifespan-shortest-lived",
    "lifespan-longest-lived-then-shortest-lived",
    "find-non-living-thing",
    "find-living-thing",
    "find-animal",
    "find-plant",
    "power-component",
    "identify-life-stages-2",
    "chemistry-mix-paint-secondary-color",
    "chemistry-mix",
    "use-thermometer",
    "measure-melting-point-known-substance",
    "power-component-renewable-vs-nonrenewable-energy",
    "chemistry-mix-paint-tertiary-color",
    "freeze",
    "change-the-state-of-matter-of",
    "test-conductivity",
    "test-conductivity-of-unknown-substances",
    "measure-melting-point-unknown-substance",
    "melt",
    "boil",
    "identify-life-stages-1",
    "inclined-plane-friction-named-surfaces",
    "inclined-plane-determine-angle",
    "grow-plant",
    "grow-fruit",
    "mendelian-genetics-known-plant",
    "mendelian-genetics-unknown-plant",
    "inclined-plane-friction-unnamed-surfaces",
]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
"""ScienceWorld's tasks, by the length of their gold paths: the modes."""
GROWING: Final = frozenset(mode for mode in MODES if mode.startswith(("identify-", "grow-", "mendelian-")))
"""Tasks whose plants and animals grow with every turn."""
GOLD_WINS: Final = frozenset(
    (
        *("lifespan-longest-lived", "lifespan-shortest-lived", "lifespan-longest-lived-then-shortest-lived"),
        *("find-non-living-thing", "find-living-thing", "find-animal", "find-plant", "power-component"),
        *("chemistry-mix", "chemistry-mix-paint-secondary-color", "chemistry-mix-paint-tertiary-color"),
        *("measure-melting-point-known-substance", "power-component-renewable-vs-nonrenewable-energy"),
        *("test-conductivity", "test-conductivity-of-unknown-substances", "measure-melting-point-unknown-substance"),
        *("identify-life-stages-1", "inclined-plane-determine-angle", "inclined-plane-friction-named-surfaces"),
    )
)
"""Tasks whose gold path won all games that `scripts/measure_gold.py` played from lists of 100 commands."""
SEEN_ALWAYS: Final = ("the agent", "a substance called air")
"""Things that every room lists."""
MOST_ANSWER: Final = 200
"""Characters of the last answer that a state shows; the rest of a longer one is in what is seen."""

RULES: Final = """\
You are in a house with a garden, a greenhouse, a workshop and a foundry, and do the experiment that the task describes.
- `go to` and `teleport to` take you to another place, `look around` describes where you are.
- `focus on` names the thing that the task is about. Focusing on a wrong thing fails the task at once.
- `pick up`, `put down`, `move`, `pour` and `mix` handle things; `open`, `close`, `activate`, `deactivate`, `use` and
  `connect` do what they say; `wait1` lets one turn pass.
- A number answers the question which of several things you meant.
Parts of the task score points; you win with all of them."""
"""The game in words, for players that are told what they play."""


class ScienceWorldConfig(EnvironmentConfig):
    """ScienceWorld: do an experiment of a primary school's science lessons."""

    name: Literal["scienceworld"] = "scienceworld"
    """Environment."""
    max_episode_steps: int = Field(100, ge=1, le=1000)
    """Turns after which an episode is truncated (ScienceWorld: 100)."""
    modes: tuple[Mode, ...] = Field(("lifespan-longest-lived", "find-non-living-thing"), min_length=1)
    """Tasks to train and evaluate."""
    most_variations: int = Field(1000, ge=1)
    """Variations of each split of a task that are used, spread evenly over all there are."""
    simplifications: Literal["", "easy"] = "easy"
    """Simplifications of ScienceWorld: `easy` = doors are open, one can teleport, flower pots water themselves, and
    nothing can be connected where the task is not about electricity; empty: none."""
    reward: Literal["score", "success"] = "score"
    """Reward of a turn: `score` = what it adds to ScienceWorld's score, in hundredths, at least -1; `success` = 1 for
    reaching 100 points, and 0 otherwise. With `score` a player that is often wrong does better not to focus at all."""
    most_actions: int = Field(100, ge=10, le=1000)
    """Commands that a state lists at most."""
    history: int = Field(5, ge=0, le=100)
    """Last commands that a state shows."""
    java_memory_mb: int = Field(1024, ge=256)
    """Most memory of the Java program's heap in MiB; there is one program in each process."""


class ScienceWorld(TextEnv):
    """The game.

    Args:
        config: its settings.
    """

    Config = ScienceWorldConfig
    name, version, modes = "scienceworld", 2, MODES
    rules = RULES
    config: ScienceWorldConfig

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        super().__init__(config)
        self.max_actions = self.config.most_actions
        self._opened: World | None = None

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The variations of one split of a task, as ScienceWorld's authors divide them.

        Raises:
            UnknownNameError: no such task or split.
            UserError: Java or `scienceworld` is missing.

        Warns where the gold path was not seen to win every game.
        """
        require_known("mode of scienceworld", mode, MODES)
        require_known("split", split, SPLITS)
        if mode not in GOLD_WINS:
            message = f"the gold path of {mode!r} was not seen to win every game from the list of commands, so its "
            message += "oracle may lose. Choose a task that the guide's table says is won."
            warnings.warn(message, ReflectRLWarning, stacklevel=2)
        numbers = variations(self.config.java_memory_mb, mode)[split]
        most = min(self.config.most_variations, len(numbers))
        chosen = [numbers[place * len(numbers) // most] for place in range(most)]
        return tuple(Task(f"{mode}/{number}", mode, split, {"variation": number}) for number in chosen)

    def games_tested(self, mode: str, split: str) -> Mapping[str, str]:
        """Number of variations, simplifications, and the version of `scienceworld`."""
        return {
            "variations": str(len(self.tasks(mode, split))),
            "simplifications": self.config.simplifications or "none",
            "scienceworld": version("scienceworld"),
        }

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Begin the variation of a task.

        Raises:
            UserError: the task names no variation.
        """
        require_known("mode of scienceworld", task.mode, MODES)
        number = task.data.get("variation")
        if not isinstance(number, int) or number < 0:
            raise UserError(f"task {task.key!r} is no variation: {dict(task.data)}. Take tasks from tasks().")
        self._task, self._variation = task.mode, number
        self._given: list[str] = []
        self._gold: list[str] | None = None
        # The first reward brings what the start itself scores, so that rewards add up to the score.
        self._paid = 0
        return self._observe(self._world.load(task.mode, number, self.config.simplifications))

    def step(self, action: int) -> Step:
        """Give the command; the reward is what it adds to the score, or whether the task is completed."""
        command, before = self._observation.actions[action], self._paid
        if self._gold is not None:
            # Whoever leaves the gold path has no more use for it.
            self._gold = self._gold[1:] if self._gold and self._golden() == action else []
        self._given.append(command)
        scene = self._world.give(command)
        success = scene.score >= 100
        over = scene.completed or success or scene.score < 0
        observation = self._observe(scene, over=over)
        self._paid = scene.score
        gained = max(-1.0, (scene.score - before) / 100)
        return Step(observation, float(success) if self.config.reward == "success" else gained, over, success)

    def oracle(self) -> Oracle | None:
        """The next command of the gold path; None when it was left, as ScienceWorld knows no other solution."""
        if self._gold is None:
            path = gold_path(self.config.java_memory_mb, self._task, self._variation, self.config.simplifications)
            self._gold = [] if self._given else list(path)
        index = self._golden()
        return None if index is None else Oracle(index, (index,), (), len(self._gold))

    def measures(self, episode: Episode) -> Mapping[str, float]:
        """`score`: ScienceWorld's points at the end, 0 to 100; a failed task has none. Empty with other rewards."""
        if self.config.reward == "success":
            return {}
        return {"score": max(0.0, 100 * episode.total_reward)}

    @property
    def _world(self) -> World:
        # Opened with the first episode: the copy that is asked about tasks plays none.
        self._opened = self._opened or World(self.config.java_memory_mb)
        return self._opened

    def _golden(self) -> int | None:
        """Index of the next gold command that is listed; others, such as opening an open door, are left out.

        Where things grow, as many turns must pass as on the gold path: a wait replaces what is left out.
        """
        while self._gold:
            index = counterpart(self._gold[0], self._commands)
            if index is None and self._task in GROWING:
                index = counterpart("wait1", self._commands)
            if index is not None:
                return index
            self._gold = self._gold[1:]
        return None

    def _observe(self, scene: Scene, *, over: bool = False) -> Observation:
        # After the end nobody chooses, and the list is the dearest part of a turn.
        if not over:
            known = self._world.commands(scene)
            self._commands = listed(known, self._task, scene.task, scene.inventory, self.config.most_actions)
        identity = blake2b(repr((self._task, self._variation, self._given)).encode(), digest_size=8).hexdigest()
        text = state_text(scene, self._given[-self.config.history :] if self.config.history else [])
        self._observation = Observation(text, tuple(command.text for command in self._commands), identity)
        return self._observation


def state_text(scene: Scene, given: list[str]) -> str:
    """Text of a state: task, what is seen and carried, the last commands and the last answer.

    Args:
        scene: what the game tells.
        given: the last commands.
    """
    done = "; ".join(given) or "nothing"
    answer = " ".join(scene.answer.split())[:MOST_ANSWER] if given else "none"
    return f"{scene.task}\n{_plain(scene.look)}\n{_plain(scene.inventory)}\nDone: {done}.\nAnswer: {answer}"


def _plain(text: str) -> str:
    r"""The lines of a description as one line, without what every room has.

    >>> _plain("In it, you see: \n\tthe agent\n\ta picture\n")
    'In it, you see: a picture'
    """
    lines = [line.strip() for line in text.splitlines()]
    return " ".join("; ".join(line for line in lines if line and line not in SEEN_ALWAYS).replace(":;", ":").split())
