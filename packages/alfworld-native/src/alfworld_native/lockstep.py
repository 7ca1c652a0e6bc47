"""One game played in the native engine and in TextWorld at once, and compared after every command.

Compared are the text, the list of commands with its order, and the win. The commands are drawn so that all verbs come
up, every second game is played by the solver for the most part and so won, and one command in eight is wrong: misspelt,
of the other wording, or out of place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from alfworld_native.engine import Game, State, Step
from alfworld_native.experts import best_commands
from alfworld_native.game_file import GameText
from alfworld_native.record import GameRecord, Wording
from alfworld_native.textworld import TextWorldGame, Workers

# Wrong commands must get the same refusal, and must change nothing, on both sides.
WRONG = 1 / 8
"""Share of commands that are meant to be wrong."""

SOLVING = 0.6
"""Share of the others that the solver chooses, in the games that it takes part in."""

EAGERNESS = {
    "go": 1.5,
    "take": 2.0,
    "put": 0.7,
    "move": 0.7,
    "open": 2.0,
    "close": 0.4,
    "use": 1.5,
    "heat": 1.5,
    "cool": 1.5,
    "clean": 1.5,
    "slice": 3.0,
    "examine": 0.6,
    "look": 0.3,
    "inventory": 0.3,
    "help": 0.2,
}
"""Weight of a verb among those listed: more if it must be prepared for, less if it undoes something."""

GOAL_WEIGHT = 6.0
"""Weight of a command that shares a word with the goal; the others have 1."""

MISPLACED = (
    "open {place}",
    "close {place}",
    "go to {place}",
    "examine {place}",
    "examine {thing}",
    "take {thing} from {place}",
    "put {thing} in/on {place}",
    "move {thing} to {place}",
    "use {thing}",
    "heat {thing} with {place}",
    "cool {thing} with {place}",
    "clean {thing} with {place}",
    "slice {thing} with {place}",
    "help",
)

# Blanks around a command are no mistake: both engines ignore them.
MISSPELT = ("{}  ", " {}", "{}.", "{} 1", "please {}", "{} ", "")


@dataclass(frozen=True, slots=True)
class Difference:
    """First disagreement of the two engines."""

    field: str
    """feedback, admissible or won."""
    commands: tuple[str, ...]
    """Commands so far; the last one is answered differently. Empty: the opening differs."""
    native: str
    textworld: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of one game."""

    steps: int
    """Commands that were compared."""
    won: bool
    """True if the goal was reached on the way."""
    verbs: Counter[str]
    """Count of each verb that was carried out; `wrong` counts the commands that were not listed."""
    difference: Difference | None


def compare(
    record: GameRecord | GameText, wording: Wording, workers: Workers, rng: np.random.Generator, steps: int
) -> Comparison:
    """Play a game on both sides until they differ.

    Args:
        record: the game.
        wording: version of the text.
        workers: TextWorld.
        rng: draws the commands.
        steps: how many commands at most; a game goes on after it is won.
    """
    # The chooser sees what TextWorld says, so a native error cannot hide what it leads to.
    theirs = TextWorldGame(record.problem, record.goal, wording, workers).start()
    ours = Game(record.problem, record.goal, wording).start()
    chooser = _Chooser(rng, record.goal)
    verbs: Counter[str] = Counter()
    commands: list[str] = []
    left, right = ours.first(), theirs.first()
    won = right.won
    while (difference := _difference(commands, left, right)) is None and len(commands) < steps:
        commands.append(command := chooser.choose(right, ours))
        verbs[_verb(command) if command in right.admissible else "wrong"] += 1
        left, right = ours.step(command), theirs.step(command)
        won |= right.won
    # Otherwise the process would keep the episode until the garbage collector finds it.
    theirs.close()
    return Comparison(len(commands), won, verbs, difference)


def _difference(commands: Sequence[str], native: Step, textworld: Step) -> Difference | None:
    # Field by field, so that the report says which part differs; order of commands counts.
    for name in (field.name for field in fields(Step)):
        ours, theirs = getattr(native, name), getattr(textworld, name)
        if ours != theirs:
            return Difference(name, tuple(commands), str(ours), str(theirs))
    return None


def _verb(command: str) -> str:
    return command.partition(" ")[0]


class _Chooser:
    """Draws commands.

    Args:
        rng: the draws, first whether the solver takes part.
        goal: the sentence of the task.
    """

    def __init__(self, rng: np.random.Generator, goal: str) -> None:
        self._rng = rng
        # Half of the games are explored, the other half solved: random play alone hardly ever wins.
        self._solving = SOLVING if rng.random() < 1 / 2 else 0.0
        # Short words such as "put" or "in" are in every command.
        self._words = {word for word in re.findall(r"[a-z]+", goal.lower()) if len(word) > 3}

    def choose(self, step: Step, state: State) -> str:
        """The next command, given what TextWorld said last, and the native engine's state for the solver."""
        if self._rng.random() < WRONG:
            return self._wrong(step)
        if self._rng.random() < self._solving and not state.won and (best := best_commands(state)):
            return str(self._rng.choice(best))
        return self._eager(step.admissible)

    def _eager(self, commands: Sequence[str]) -> str:
        """A verb first, then a command with it, so that thirty places to go to do not drown the rest."""
        verbs = sorted(set(map(_verb, commands)))
        verb = verbs[self._drawn([EAGERNESS[verb] for verb in verbs])]
        fitting = [command for command in commands if _verb(command) == verb]
        return fitting[self._drawn([GOAL_WEIGHT if self._words & set(c.split(" ")) else 1.0 for c in fitting])]

    def _drawn(self, weights: Sequence[float]) -> int:
        shares = np.array(weights)
        return int(self._rng.choice(len(weights), p=shares / shares.sum()))

    def _wrong(self, step: Step) -> str:
        """A command that is probably not listed: another place's, or a misspelt one."""
        rng = self._rng
        if rng.random() < 0.4:
            return str(rng.choice(MISSPELT)).format(rng.choice(step.admissible))
        places = [command.removeprefix("go to ") for command in step.admissible if command.startswith("go to ")]
        # Names that the last text mentioned; where it lists none, receptacles must do.
        things = re.findall(r"\ba ([a-z]+ \d+)", step.feedback) or places
        return str(rng.choice(MISPLACED)).format(place=rng.choice(places), thing=rng.choice(things))
