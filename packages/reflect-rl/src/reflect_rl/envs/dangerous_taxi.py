"""DangerousTaxi: Gymnasium's Taxi as text, in which every move that changes nothing is fatal (Reflect-RL, ACL 2024).

The specification, with measured numbers, is `docs/start/environments.md`. The 500x6 transition table equals the dry
dynamics of Gymnasium's `Taxi-v4` (and `Taxi-v3`). Rewards are divided by 20: step -1, delivered +20, first legal pickup
+20 (milestone of `pickup` and `full`), fatal -10. An event's value replaces the -1 of its step, as Gymnasium's +20
does: a legal pickup gives 20/20, not 19/20.

Differs from the reference code: (1) a first step that changes nothing is fatal too (`first_bump_fatal`); there the rule
compares the observations after two steps; (2) the pickup in mode `pickup` terminates instead of truncating: it is the
goal; (3) the stands' letters R, G, Y, B stay on the map, as Gymnasium draws it; (4) starts are split into training,
validation and test; (5) the text shows the last action instead of all past ones.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, NamesGames, TextEnv, require_known
from reflect_rl.errors import UserError
from reflect_rl.types import Advice, Observation, Oracle, Step, Task, stream

NAME = "dangerous_taxi"
VERSION = 1
MODES = ("pickup", "dropoff", "full")
"""`pickup`: fetch the passenger. `dropoff`: bring the passenger, who is on board. `full`: both."""
HORIZONS = (15, 20, 30)
"""The paper's horizon first; a fifth of the starts in mode `full` need more."""
ACTIONS = ("south", "north", "east", "west", "pickup", "dropoff")
PICKUP = ACTIONS.index("pickup")
MOVES = {0: (1, 0), 1: (-1, 0), 2: (0, 1), 3: (0, -1)}
"""Change of (row, column); rows count downwards, columns to the right, both from 0."""

MAP = (
    "+---------+",
    "|R: | : :G|",
    "| : | : : |",
    "| : : : : |",
    "| | : | : |",
    "|Y| : |B: |",
    "+---------+",
)
STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))
ON_BOARD = len(STANDS)
"""The passenger's place when in the taxi; 0 to 3 are the stands."""

STEP, ILLEGAL, FATAL, EVENT, SCALE = -1, -10, -10, 20, 20
"""Raw rewards, and what they are divided by."""

RULES = """\
You drive a taxi on a map of 5 by 5 cells. The first line of the map is north, its right side is east.
- R, G, Y and B are the four stands. P stands on the one where the passenger waits, D on the destination. T is the
  taxi, O the taxi on the cell of the waiting passenger, X the taxi with the passenger on board.
- Between two cells of a row stands `:` where one can pass, and `|` where a wall is. Up and down nothing is in the way
  inside the map.
- `south`, `north`, `east` and `west` move the taxi one cell. `pickup` takes the passenger on board, on the passenger's
  cell only. `dropoff` lets the passenger out, on a stand only.
Fetch the passenger and bring them to the destination; where the task is the pickup alone, the game is won with it. A
move that changes nothing (into a wall, off the map, `pickup` or `dropoff` at a wrong place) loses the game at once.
Every turn costs a little, so take a short way."""
"""The game in words, for players that are told what they play."""

COLOURS = {"T": "30;43", "O": "30;43", "X": "30;42", "P": "1;34", "D": "1;35"}
"""ANSI colours by letter of the map, close to Gymnasium's: taxi yellow, green with the passenger, who is blue."""


def _coloured(letter: str) -> str:
    return f"\x1b[{COLOURS[letter]}m{letter}\x1b[0m" if letter in COLOURS else letter


LEGEND = ", ".join(
    f"{_coloured(letter)} {meaning}"
    for letter, meaning in {
        "T": "taxi",
        "P": "passenger",
        "D": "destination",
        "O": "taxi where the passenger waits",
        "X": "taxi with the passenger",
    }.items()
)

Mode = Literal["pickup", "dropoff", "full"]


class DangerousTaxiConfig(EnvironmentConfig):
    """DangerousTaxi: fetch a passenger and bring them to their stand; a move that changes nothing ends the game."""

    name: Literal["dangerous_taxi"] = "dangerous_taxi"
    """Environment."""
    max_episode_steps: int = Field(30, ge=1, le=10_000)
    """Turns after which an episode is truncated (paper: 15, too few for a fifth of the starts in mode full)."""
    modes: tuple[Mode, ...] = Field(("pickup", "full"), min_length=1)
    """Variants to train and evaluate, of `pickup`, `dropoff`, `full`."""
    validation_starts: int = Field(40, ge=1)
    """Start states, of 300, kept for choosing between runs."""
    test_starts: int = Field(60, ge=1)
    """Start states, of 300, kept for the final evaluation."""
    split_seed: int = Field(0, ge=0)
    """Seed of the permutation that splits the start states."""
    first_bump_fatal: bool = True
    """End the game at a first step that changes nothing, too (false: the reference code's behaviour)."""
    advice: Advice = "command"
    """Fullness of the teacher's reflections: `command` = facts, a verdict on the last action, and the next action;
    `goal` = where to drive next in its place; `facts` = neither."""
    repeat_advice: bool = False
    """The templated reflection gives its advice once more at the end, from where a policy learns to copy it sooner."""

    @model_validator(mode="after")
    # A field's bounds see one field only, so the rule about two is a model validator.
    def _leave_training_starts(self) -> DangerousTaxiConfig:
        if self.validation_starts + self.test_starts >= len(START_STATES):
            raise ValueError(
                f"validation_starts + test_starts = {self.validation_starts + self.test_starts} leave none of the "
                f"{len(START_STATES)} starts for training; lower one of them"
            )
        if self.repeat_advice and self.advice != "command":
            raise ValueError(f"repeat_advice repeats an action, and advice = {self.advice!r} names none; unset one")
        return self


def encode(row: int, column: int, passenger: int, destination: int) -> int:
    """The number of a state, as Gymnasium counts them.

    >>> encode(3, 1, 2, 0)
    328
    """
    # Gymnasium's own numbers, so that the table can be compared with its table entry by entry.
    return ((row * 5 + column) * 5 + passenger) * 4 + destination


def decode(state: int) -> tuple[int, int, int, int]:
    """Row and column of the taxi, place of the passenger (0 to 4), destination (0 to 3).

    >>> decode(328)
    (3, 1, 2, 0)
    """
    # The inverse of `encode`: mixed radix 5, 5, 5, 4, destination fastest.
    rest, destination = divmod(state, 4)
    rest, passenger = divmod(rest, 5)
    row, column = divmod(rest, 5)
    return row, column, passenger, destination


START_STATES = tuple(state for state in range(500) if decode(state)[2] not in (ON_BOARD, decode(state)[3]))
"""The 300 states in which the passenger waits at a stand that is not the destination."""

OPEN_STATES = frozenset(state for state in range(500) if decode(state)[2] != decode(state)[3])
"""The 400 states of games that go on: the passenger is not at the destination."""


def _moved(row: int, column: int, move: int) -> tuple[int, int]:
    rows, columns = MOVES[move]
    # Rows have no walls between them, so only the edge of the map blocks north and south.
    if not 0 <= row + rows <= 4:
        return row, column
    # A cell is every second character; between two cells stands ":" where one can pass.
    if columns and MAP[1 + row][2 * column + 1 + columns] != ":":
        return row, column
    return row + rows, column + columns


class Transition(NamedTuple):
    """An entry of the table: Gymnasium's next state, raw reward, and whether the passenger is delivered."""

    state: int
    reward: int
    delivered: bool


def _transition(state: int, action: int) -> Transition:
    row, column, passenger, destination = decode(state)
    if action in MOVES:
        return Transition(encode(*_moved(row, column, action), passenger, destination), STEP, False)
    here = STANDS.index((row, column)) if (row, column) in STANDS else None
    if action == PICKUP:
        if here is None or here != passenger:
            return Transition(state, ILLEGAL, False)
        return Transition(encode(row, column, ON_BOARD, destination), STEP, False)
    if here is None or passenger != ON_BOARD:
        return Transition(state, ILLEGAL, False)
    delivered = here == destination
    # Gymnasium lets the passenger out at any stand, but pays at the destination only.
    return Transition(encode(row, column, here, destination), EVENT if delivered else STEP, delivered)


@lru_cache(maxsize=1)
def transition_table() -> tuple[tuple[Transition, ...], ...]:
    """Gymnasium's dry Taxi dynamics: `table[state][action]`, 500 x 6."""
    return tuple(tuple(_transition(state, action) for action in range(len(ACTIONS))) for state in range(500))


def _reaches_goal(mode: str, state: int, action: int) -> bool:
    transition = transition_table()[state][action]
    if mode == "pickup":
        return action == PICKUP and transition.state != state
    return transition.delivered


@lru_cache(maxsize=len(MODES))
def turns_to_goal(mode: str) -> tuple[int, ...]:
    """Length of a shortest solution from each of the 500 states, by breadth-first search from the goal backwards."""
    # Backwards from the goal one search serves all 500 states.
    turns = {s: 1 for s in range(500) if any(_reaches_goal(mode, s, a) for a in range(len(ACTIONS)))}
    # Each round adds the states one turn farther; every state reaches the goal, so this ends.
    while len(turns) < 500:
        turns |= {
            s: 1 + min(turns[n] for n in near) for s in range(500) if s not in turns and (near := _known(s, turns))
        }
    return tuple(turns[state] for state in range(500))


def _known(state: int, turns: dict[int, int]) -> list[int]:
    return [transition.state for transition in transition_table()[state] if transition.state in turns]


@cache
def _optimal(mode: str, state: int) -> tuple[int, ...]:
    turns = turns_to_goal(mode)
    # In mode `pickup` the state after the goal goes on in the table, so the goal itself counts as 0 turns left.
    after = [0 if _reaches_goal(mode, state, a) else turns[t.state] for a, t in enumerate(transition_table()[state])]
    return tuple(action for action, left in enumerate(after) if left == turns[state] - 1)


def map_text(state: int) -> str:
    """The map as Gymnasium draws it: T taxi, P passenger, D destination, O taxi at the passenger, X taxi with them.

    The taxi hides what it stands on. So 488 texts show 500 states; the 400 states of games that go on all differ.

    >>> print(map_text(328))
    +---------+
    |D: | : :G|
    | : | : : |
    | : : : : |
    | |T: | : |
    |P| : |B: |
    +---------+
    """
    row, column, passenger, destination = decode(state)
    # Later entries cover earlier ones: the taxi hides the stand that it is on.
    drawn = {STANDS[destination]: "D"}
    if passenger == ON_BOARD:
        drawn[row, column] = "X"
    else:
        drawn[STANDS[passenger]] = "P"
        drawn[row, column] = "O" if (row, column) == STANDS[passenger] else "T"
    lines = [list(line) for line in MAP]
    for (cell_row, cell_column), letter in drawn.items():
        lines[1 + cell_row][2 * cell_column + 1] = letter
    return "\n".join("".join(line) for line in lines)


@cache
def _observation(state: int, last_action: int | None) -> Observation:
    last = "none" if last_action is None else ACTIONS[last_action]
    return Observation(f"{map_text(state)}\nLast action: {last}.", ACTIONS, str(state))


@cache
def reflection_text(
    state: int,
    advice: str,
    last_action: str | None,
    last_was_good: bool,
    repeat_advice: bool = False,
    fullness: Advice = "command",
) -> str:
    """Facts: the places of taxi and passenger, walls, the next action, and a verdict on the last one.

    The verdict on the last action comes after the advice: before it, a wrong verdict makes the advice undo a good step,
    and the next one undo that, to and fro until the horizon.

    Args:
        state: the current state.
        advice: the action to take next.
        last_action: the action before, None on the first turn.
        last_was_good: whether that action was on a shortest solution.
        repeat_advice: give the advice once more at the end.
        fullness: `command` names the advice, `goal` whom to drive to, `facts` neither.

    >>> for sentence in reflection_text(328, "north", "west", False).split(". "):
    ...     print(sentence)
    The taxi is at row 3 column 1
    The passenger waits at row 4 column 0
    Blocked: west
    Next: north
    The last action west was a mistake.
    """
    row, column, passenger, destination = decode(state)
    verdict = "I begin."
    if last_action is not None:
        verdict = f"The last action {last_action} was {'good' if last_was_good else 'a mistake'}."
    target = STANDS[destination if passenger == ON_BOARD else passenger]
    blocked = [ACTIONS[move] for move in MOVES if _moved(row, column, move) == (row, column)]
    seek = "the destination" if passenger == ON_BOARD else "the passenger"
    ahead = {"command": f"Next: {advice}. ", "goal": f"Seek: {seek}. ", "facts": ""}[fullness]
    return (
        f"The taxi is at row {row} column {column}. "
        f"The passenger {'rides to' if passenger == ON_BOARD else 'waits at'} row {target[0]} column {target[1]}. "
        f"Blocked: {', '.join(blocked) or 'none'}. {ahead}{verdict}"
        f"{f' I choose {advice}.' if repeat_advice else ''}"
    )


@cache
def _oracle(mode: str, state: int, forgiving: bool) -> Oracle:
    optimal = _optimal(mode, state)
    safe = tuple(
        action
        for action, transition in enumerate(transition_table()[state])
        if action not in optimal and (forgiving or transition.state != state)
    )
    return Oracle(optimal[0], optimal, safe, turns_to_goal(mode)[state])


@cache
def _split(mode: str, split_seed: int, validation_starts: int, test_starts: int) -> dict[str, tuple[Task, ...]]:
    order = stream(split_seed, NAME, "split").permutation(len(START_STATES))
    # One permutation for all modes, so that a start that is held out in one is held out in all.
    starts = [START_STATES[int(i)] for i in order]
    held_out = test_starts + validation_starts
    # The test first: more validation starts leave the test as it is.
    parts = {"test": starts[:test_starts], "validation": starts[test_starts:held_out], "train": starts[held_out:]}
    return {
        split: tuple(Task(f"{mode}/{state}", mode, split, {"state": state}) for state in part)
        for split, part in parts.items()
    }


class DangerousTaxi(TextEnv):
    """The game. Its reward depends on one thing the text does not show: whether the milestone was already paid.

    Args:
        config: its settings.
    """

    Config = DangerousTaxiConfig
    name, version, modes = NAME, VERSION, MODES
    horizons = HORIZONS
    max_actions = len(ACTIONS)
    idle_reward = STEP / SCALE
    rules = RULES
    legend = LEGEND
    config: DangerousTaxiConfig

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        super().__init__(config)
        self.advice: Advice = self.config.advice
        # Results of before this setting have no note of it, and must compare with those under `command`.
        self.withheld = (NamesGames,) if self.advice == "command" else ()
        self._table = transition_table()
        self._mode = "full"
        self._state = START_STATES[0]
        self._last_action: int | None = None
        self._last_was_good = False
        self._milestone_open = True

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """List a task for each start state of the split; the split of the starts is the same for every mode.

        Held-out starts are new problems in mode `full` only. Mode `pickup` ignores the destination, so most of its
        held-out starts differ from a training start in the destination alone. Mode `dropoff` begins at the passenger's
        stand, which leaves 12 different states in all: they repeat within and across splits, so this mode has no
        held-out starts.

        Raises:
            UnknownNameError: no such mode or split.
        """
        require_known("mode of dangerous_taxi", mode, MODES)
        require_known("split", split, SPLITS)
        config = self.config
        return _split(mode, config.split_seed, config.validation_starts, config.test_starts)[split]

    def task_at(self, mode: str, state: str) -> Task:
        """The training task that begins in a state met while playing, with no action before it.

        Raises:
            UnknownNameError: no such mode.
        """
        require_known("mode of dangerous_taxi", mode, MODES)
        return Task(f"{mode}@{state}", mode, "train", {"state": int(state)})

    def games_tested(self, mode: str, split: str) -> dict[str, str]:
        """Fullness of the reflections, where it is not the usual one."""
        return self.text_settings()

    def text_settings(self) -> dict[str, str]:
        """Fullness of the reflections."""
        return {"advice": self.config.advice}

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Put the taxi at the task's start state; in mode `dropoff`, with the passenger on board at their stand.

        Raises:
            UnknownNameError: the task's mode is not one of this game.
            UserError: the game is over in the task's state.
        """
        require_known("mode of dangerous_taxi", task.mode, MODES)
        state = task.data.get("state")
        if state not in OPEN_STATES:
            raise UserError(f"task {task.key!r}: {state!r} is no start state. Take tasks from tasks() or task_at().")
        _, _, passenger, destination = decode(state)
        if task.mode == "dropoff" and passenger != ON_BOARD:
            # A start state names a waiting passenger; this mode begins where the pickup would have ended.
            state = encode(*STANDS[passenger], ON_BOARD, destination)
        self._mode, self._state = task.mode, state
        self._last_action, self._last_was_good = None, False
        # A game that begins with the passenger on board has no first pickup to pay.
        self._milestone_open = decode(state)[2] != ON_BOARD
        return _observation(self._state, None)

    def step(self, action: int) -> Step:
        """Drive, pick up or drop off; rewards are divided by 20."""
        state, reward, delivered = self._table[self._state][action]
        unchanged = state == self._state
        fatal = unchanged and not self._forgiving()
        picked_up = action == PICKUP and not unchanged
        if fatal:
            reward = FATAL
        elif picked_up and self._milestone_open:
            # Paid once: a taxi that drops and picks up again would otherwise collect it for ever.
            reward, self._milestone_open = EVENT, False
        won = delivered or (picked_up and self._mode == "pickup")
        # Judged in the state before the move, which is replaced in the next line.
        self._last_was_good = action in _optimal(self._mode, self._state)
        self._state, self._last_action = state, action
        return Step(_observation(state, action), reward / SCALE, terminated=fatal or won, success=won)

    def oracle(self) -> Oracle:
        """Shortest solution from the current state; `safe` are the detours, dropoffs at a wrong stand among them."""
        return _oracle(self._mode, self._state, self._forgiving())

    def teach(self) -> str:
        """Facts about the state, the best action, and a verdict on the last one."""
        last = None if self._last_action is None else ACTIONS[self._last_action]
        # The first of the optimal actions, as the solver plays: demonstration and advice must agree.
        advice = ACTIONS[_optimal(self._mode, self._state)[0]]
        config = self.config
        return reflection_text(
            self._state, advice, last, self._last_was_good, config.repeat_advice, fullness=config.advice
        )

    def render(self, observation: Observation) -> str:
        """The map with taxi, passenger and destination in colour; the sentence below it stays as it is."""
        # The letters of the map occur in the sentence below it as well, where they are no taxi.
        rows, below = observation.text.rsplit("\n", 1)
        return f"{''.join(map(_coloured, rows))}\n{below}"

    def _forgiving(self) -> bool:
        return self._last_action is None and not self.config.first_bump_fatal
