"""A game that was learned from a log: what follows an action is looked up, and an unknown action ends the game.

The game is an environment like any other, so online RL needs no change to play it. It loads no language model: an
ensemble is asked about all logged states and their actions once, before the first episode.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import EnvSpec, TextEnv
from reflect_rl.types import Episode, Observation, Step, Task

if TYPE_CHECKING:
    import numpy as np

HALT = Observation("Nobody knows what happens here.", ("wait",), "halt")
"""State after an unknown action; the game is over there."""

ANSWER = re.compile(r"(?P<end>on|won|over) (?P<reward>-?[0-9.]+(?:e-?[0-9]+)?)(?:\n(?P<text>.+))?", re.DOTALL)
GOES_ON, WON, OVER = "on", "won", "over"


class Pair(NamedTuple):
    """A state and an action in it, as texts."""

    state: str
    action: str

    @property
    def question(self) -> str:
        r"""Prompt of a world model.

        >>> Pair("You are at 3.", "left").question
        'You are at 3.\n # Played:\nleft\n # Next:\n'
        """
        return f"{self.state}\n # Played:\n{self.action}\n # Next:\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an action: reward and next state."""

    reward: float
    following: str | None
    """Text of the next state; None where the game ends."""
    won: bool = False

    @property
    def answer(self) -> str:
        r"""Text that a world model is to write.

        >>> Outcome(-0.05, "You are at 2.").answer, Outcome(1.0, None, won=True).answer
        ('on -0.05\nYou are at 2.', 'won 1')
        """
        if self.following is not None:
            return f"{GOES_ON} {self.reward:g}\n{self.following}"
        return f"{WON if self.won else OVER} {self.reward:g}"


def outcome_of(answer: str) -> Outcome | None:
    r"""The outcome that a world model has written; None where the text is none.

    >>> outcome_of("over -0.5"), outcome_of("on -0.05"), outcome_of("on 0.1.2\nYou are")
    (Outcome(reward=-0.5, following=None, won=False), None, None)
    """
    found = ANSWER.fullmatch(answer)
    if found is None or (found["end"] == GOES_ON) != (found["text"] is not None):
        return None
    try:
        return Outcome(float(found["reward"]), found["text"], found["end"] == WON)
    except ValueError:
        return None


def transitions(episodes: Sequence[Episode]) -> list[tuple[Pair, Outcome]]:
    """Turns of the log as pairs and outcomes, a row for each with an action and a known outcome."""
    rows: list[tuple[Pair, Outcome]] = []
    for episode in episodes:
        for place, turn in enumerate(episode.turns):
            last = place + 1 == len(episode.turns)
            # The state after the last turn of a truncated episode is in no log.
            if turn.action is None or (last and episode.truncated):
                continue
            following = None if last else episode.turns[place + 1].observation.text
            pair = Pair(turn.observation.text, turn.action)
            rows.append((pair, Outcome(turn.reward, following, last and episode.success)))
    return rows


def disagreement(answers: Sequence[str]) -> float:
    """Share of the pairs of members whose answers differ, from 0 (all agree) to 1.

    >>> disagreement(["a", "a", "a", "b"]), disagreement(["a", "a"])
    (0.5, 0.0)
    """
    members = len(answers)
    alike = sum(count * (count - 1) for count in Counter(answers).values())
    return 1 - alike / (members * (members - 1))


@dataclass(frozen=True)
class World:
    """A learned game."""

    observations: Mapping[str, Observation]
    """Logged states by their text."""
    tasks: tuple[Task, ...]
    """Logged tasks."""
    starts: Mapping[tuple[str, str], Sequence[Observation]]
    """First states of the logged episodes of each task, by its mode and key."""
    outcomes: Mapping[Pair, Outcome]
    """Outcomes of the known actions; the others are unknown."""
    penalty: float
    """Price κ of an unknown action."""

    @classmethod
    def voted(
        cls, episodes: Sequence[Episode], answers: Mapping[Pair, Sequence[str]], threshold: float, penalty: float
    ) -> World:
        """The world in which the most frequent answer of the members is true where they agree enough.

        Args:
            episodes: the log.
            answers: of all members about each pair, at least two.
            threshold: largest disagreement of a known pair.
            penalty: price κ of an unknown action.
        """
        observations = observations_of(episodes)
        outcomes = {}
        for pair, said in answers.items():
            outcome = outcome_of(Counter(said).most_common(1)[0][0])
            # A state that no log shows has no list of actions, so it cannot be played on from.
            exists = outcome is not None and (outcome.following is None or outcome.following in observations)
            if outcome is not None and exists and disagreement(said) <= threshold:
                outcomes[pair] = outcome
        tasks = {episode.task.unique_key: episode.task for episode in episodes}
        starts = defaultdict[tuple[str, str], list[Observation]](list)
        for episode in episodes:
            starts[episode.task.unique_key].append(episode.turns[0].observation)
        return cls(observations, tuple(tasks.values()), starts, outcomes, penalty)

    def knows(self, pair: Pair) -> bool:
        """Tell whether the members agree on what follows."""
        return pair in self.outcomes


def observations_of(episodes: Sequence[Episode]) -> dict[str, Observation]:
    """Logged states by their text; of states with equal texts, the first."""
    found: dict[str, Observation] = {}
    for episode in episodes:
        for turn in episode.turns:
            found.setdefault(turn.observation.text, turn.observation)
    return found


def pairs_of(episodes: Sequence[Episode]) -> list[Pair]:
    """All actions of all logged states, also those that nobody has played, and all that states of equal texts list."""
    seen = dict.fromkeys(turn.observation for episode in episodes for turn in episode.turns)
    return list(dict.fromkeys(Pair(state.text, action) for state in seen for action in state.actions))


class PessimisticGame(TextEnv):
    """A learned world as a game; an unknown action costs κ and ends it.

    Args:
        config: settings of the true game.
        world: what was learned.
    """

    name = "pessimistic_game"

    def __init__(self, config: EnvironmentConfig, world: World) -> None:
        super().__init__(config)
        self.world, self.current = world, HALT
        starts = (seen for states in world.starts.values() for seen in states)
        self.max_actions = max(len(seen.actions) for seen in (*world.observations.values(), *starts))

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The logged training tasks of a mode; a log shows no others."""
        return tuple(task for task in self.world.tasks if (task.mode, split) == (mode, "train"))

    def reset(self, task: Task, rng: np.random.Generator) -> Observation:
        """One of the states in which the task was seen to begin."""
        seen = self.world.starts[task.unique_key]
        self.current = seen[int(rng.integers(len(seen)))]
        return self.current

    def step(self, action: int) -> Step:
        """The outcome that the members agree on."""
        outcome = self.world.outcomes.get(Pair(self.current.text, self.current.actions[action]))
        if outcome is None:
            return Step(HALT, -self.world.penalty, terminated=True)
        if outcome.following is None:
            return Step(self.current, outcome.reward, terminated=True, success=outcome.won)
        self.current = self.world.observations[outcome.following]
        return Step(self.current, outcome.reward)


# Compared by identity, as the specs of other games.
@dataclass(frozen=True, eq=False)
class WorldSpec(EnvSpec):
    """A learned world as an environment with the settings of the true one."""

    world: World
    game: EnvSpec
    """The true game."""

    @classmethod
    def beside(cls, game: EnvSpec, world: World) -> WorldSpec:
        """The learned world in place of a game."""
        return cls(PessimisticGame, game.config, world, game)

    @property
    def all_modes(self) -> tuple[str, ...]:
        """Modes that the log shows, easiest first."""
        shown = {task.mode for task in self.world.tasks}
        return tuple(mode for mode in self.game.all_modes if mode in shown)

    def make(self) -> PessimisticGame:
        """A fresh copy of the game."""
        return PessimisticGame(self.config, self.world)
