"""The values that travel between files (a Task becomes an Episode of Turns), and the random streams behind them.

All are frozen, free of tensors, and turn into JSON and back (`to_json`, `episode_from_json`).

Randomness is a parameter: one root seed, split into named streams. A stream is a pure function of (root seed,
names), so nothing about randomness has to be saved to resume a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

NO_ACTION = -1
"""Index of a decision that names no admissible action: an answer that is none. The turn passes without an action."""

Decoding = str
"""Choice of an action: `sampled` from the policy's distribution, `greedy` for the most likely one, or `sampled@T`, with
the scores divided by the temperature T before the draw, such as `sampled@0.4`."""

Advice = Literal["command", "goal", "facts"]
"""Fullness of a teacher's reflections, which all have facts and a verdict on the last action: with the next command,
with the next goal in its place, or with neither."""

Progress = Callable[[int, int, str], None]
"""Called with what is done, what there is to do (both in steps, turns or episodes), and a note."""


def silent(done: int, total: int, note: str) -> None:
    """Progress that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Task:
    """A problem to solve, from the distribution μ of tasks."""

    key: str
    """Name, unique in its mode, for example `full/137`."""
    mode: str = "default"
    """Variant of the game, for example `pickup`; the curriculum orders modes by difficulty."""
    split: str = "train"
    """`train`, `validation` or `test`."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Start of the game, in the environment's own terms; JSON values only."""

    @property
    def unique_key(self) -> tuple[str, str]:
        """Mode and key, which tell it from all other tasks of the game: modes may share keys."""
        return self.mode, self.key


@dataclass(frozen=True, slots=True)
class Observation:
    """A state s as text, and the admissible actions A(s)."""

    text: str
    actions: tuple[str, ...]
    state: str = ""
    """Identity of the underlying state; equal strings mean the same state, whatever the text says about the past.
    Empty: unknown."""

    def __post_init__(self) -> None:
        if isinstance(self.actions, tuple):
            return
        # A text is a sequence of texts, too, and its letters would be played as actions.
        if isinstance(self.actions, str):
            raise TypeError(f"the actions are the text {self.actions!r:.100}. Give a tuple: ({self.actions!r:.100},)")
        # Views are keys of caches, and lists cannot be.
        object.__setattr__(self, "actions", tuple(self.actions))


@dataclass(frozen=True, slots=True)
class Step:
    """The answer of a game to one action."""

    observation: Observation
    """The next state; after the last action, the final one, whose actions nobody takes."""
    reward: float
    """In [-1, 1], maximised."""
    terminated: bool = False
    """True if the game ended by its own rules. Running out of turns is truncation, which the rollout adds."""
    success: bool = False
    """True if the game was won; it has ended then."""
    truncated: bool = False
    """True if the task has a limit of turns of its own, below `max_episode_steps`, and this was the last one."""

    def is_cut_off(self, turns: int, most: int) -> bool:
        """Tell whether the episode is truncated here, after `turns` of at most `most` turns."""
        return not self.terminated and (self.truncated or turns >= most)


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knowledge of a game's expert about the current state. Reaches only players that declare `sees_oracle`."""

    best: int
    """Index of the action it would take; optimal where the expert is a solver."""
    optimal: tuple[int, ...]
    """Indices of all actions that are as good."""
    safe: tuple[int, ...]
    """Indices of suboptimal actions after which the game goes on: the candidates for a negative example."""
    turns_left: int
    """Length of its solution from here, in turns."""
    explorer: int | None = None
    """Index of what an expert does who sees no more than the player, but knows the goal on seeing it (None: `best`)."""


@dataclass(frozen=True, slots=True)
class View:
    """All that a player may see at one turn."""

    observation: Observation
    order: tuple[int, ...]
    """Listing order: `order[k]` is the index of the action that carries number k in the prompt."""
    reflection: str | None = None
    oracle: Oracle | None = None
    lesson: str | None = None
    """The teacher's reflection on this state. Like `oracle`, it reaches only players that declare `sees_oracle`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice of a policy at one turn."""

    index: int
    """Index of the chosen action in `observation.actions`, or `NO_ACTION`."""
    player: str
    log_probs: tuple[float, ...] | None = None
    """log π(a|s) of every admissible action in the order of `observation.actions`; None: no distribution."""
    target: int | None = None
    """The action an annotator recommends here (the label of supervised training); None for players that only act."""
    answer: str | None = None
    """Text of the player's answer; None for players that only choose."""

    @property
    def log_prob(self) -> float | None:
        """Log-probability of the chosen action; None without a distribution, or where none was chosen."""
        # Without the test, -1 would be the last action of the list.
        return None if self.log_probs is None or self.index == NO_ACTION else self.log_probs[self.index]


@dataclass(frozen=True, slots=True)
class Turn:
    """A round: the state, what the reflection player wrote, what the policy chose, and the reward."""

    observation: Observation
    order: tuple[int, ...]
    reflection: str | None
    decision: Decision
    reward: float
    turns_left: int | None = None
    """Length of the expert's solution before the action, if `rollout.play` was asked to note it; no player sees it."""

    @property
    def action(self) -> str | None:
        """Text of the chosen action; None where the decision names none."""
        # Without the test, -1 would name the last action of the list.
        return None if self.decision.index == NO_ACTION else self.observation.actions[self.decision.index]

    @property
    def view(self) -> View:
        """All that the policy saw."""
        return View(self.observation, self.order, self.reflection)

    @property
    def plain_view(self) -> View:
        """The same without the reflection."""
        return View(self.observation, self.order)


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished game. `success` is the game's own verdict, stamped once by `rollout.play`."""

    task: Task
    turns: tuple[Turn, ...]
    terminated: bool
    truncated: bool
    success: bool
    seed: int
    environment: str
    """Name and version of the environment, for example `dangerous_taxi-v1`."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Settings that its texts follow from, such as their wording (`envs.base.VariesTexts`); empty: not known."""

    @property
    def total_reward(self) -> float:
        """Undiscounted return of the episode."""
        return sum(turn.reward for turn in self.turns)

    def success_within(self, max_episode_steps: int) -> bool:
        """Tell whether the game was won in at most `max_episode_steps` turns.

        Exact for any horizon up to the one that was played, as no observation shows how many turns are left, except in
        games with `fixed_horizon`, for which other horizons are refused.
        """
        return self.success and len(self.turns) <= max_episode_steps


def to_json(value: Any) -> dict[str, Any]:
    """A dataclass of this file as a JSON object."""
    row = asdict(value)
    # As in files of before there were such notes, whose hashes must stay.
    if row.get("texts") == {}:
        del row["texts"]
    return row


def episode_from_json(row: Mapping[str, Any]) -> Episode:
    """The episode that `to_json` wrote.

    Raises:
        KeyError: a field is missing.
    """
    # Fields that came later have a default, so that older files can still be read.
    turns = tuple(
        Turn(
            observation=Observation(
                turn["observation"]["text"], tuple(turn["observation"]["actions"]), turn["observation"]["state"]
            ),
            # JSON has lists only, and views must be hashable: policies cache by view.
            order=tuple(turn["order"]),
            reflection=turn["reflection"],
            decision=Decision(
                index=turn["decision"]["index"],
                player=turn["decision"]["player"],
                log_probs=None if (row_ := turn["decision"]["log_probs"]) is None else tuple(row_),
                target=turn["decision"]["target"],
                answer=turn["decision"].get("answer"),
            ),
            reward=turn["reward"],
            turns_left=turn.get("turns_left"),
        )
        for turn in row["turns"]
    )
    return Episode(
        task=Task(**row["task"]),
        turns=turns,
        terminated=row["terminated"],
        truncated=row["truncated"],
        success=row["success"],
        seed=row["seed"],
        environment=row["environment"],
        texts=row.get("texts", {}),
    )


def seed_for(root: int, *names: str | int) -> int:
    """A 63-bit seed for the stream with these names.

    >>> seed_for(0, "rollout", 3) == seed_for(0, "rollout", 3)
    True
    >>> seed_for(0, "rollout", 3) == seed_for(0, "rollout", 4)
    False
    """
    # Not `hash`, which differs between processes. The separator keeps ("a", "bc") apart from ("ab", "c").
    digest = hashlib.sha256("\x1f".join([str(root), *map(str, names)]).encode()).digest()
    # 63 bits, so that a seed fits a signed 64-bit integer.
    return int.from_bytes(digest[:8], "big") >> 1


def stream(root: int, *names: str | int) -> np.random.Generator:
    """A generator for the stream with these names."""
    # Here, because whoever only searches files needs no NumPy, which takes a tenth of a second.
    import numpy as np

    return np.random.default_rng(seed_for(root, *names))
