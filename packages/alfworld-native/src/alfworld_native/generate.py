"""New household games: rooms, receptacles, things and tasks like those of ALFWorld's training games.

Every game can be solved: what the task needs is there, reachable, and not yet done. The problem has the form of
ALFWorld's, so that TextWorld plays it too. A game is a pure function of (seed, number, mix), and the seeds of training,
validation and test are disjoint, whatever seed is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, get_args, overload

from alfworld_native._house import HouseBuilder, drawn, problem_text
from alfworld_native._kinds import (
    ACCEPTS,
    CLEANABLE,
    COOLABLE,
    FIXED,
    HEATABLE,
    LAMP,
    LOOKED_AT,
    TARGETS,
    TASK_ROOMS,
    TOOLS,
)
from alfworld_native._rooms import ROOM_KINDS, Room, RoomKind, room
from alfworld_native.errors import GameError, suggestion
from alfworld_native.games import GameSet
from alfworld_native.record import TASK_TYPES, GameRecord, TaskType
from alfworld_native.seeding import stream

if TYPE_CHECKING:
    import numpy as np

GameSplit = Literal["train", "validation", "test"]

SENTENCES: Final[Mapping[TaskType, tuple[str, str]]] = MappingProxyType(
    {
        "pick_and_place_simple": ("put a {thing} in {target}.", "put some {thing} on {target}."),
        "look_at_obj_in_light": ("look at {thing} under the {target}.", "examine the {thing} with the {target}."),
        "pick_clean_then_place_in_recep": (
            "put a clean {thing} in {target}.",
            "clean some {thing} and put it in {target}.",
        ),
        "pick_heat_then_place_in_recep": (
            "put a hot {thing} in {target}.",
            "heat some {thing} and put it in {target}.",
        ),
        "pick_cool_then_place_in_recep": (
            "put a cool {thing} in {target}.",
            "cool some {thing} and put it in {target}.",
        ),
        "pick_two_obj_and_place": ("put two {thing} in {target}.", "find two {thing} and put them in {target}."),
    }
)
"""The two ways in which ALFWorld states a task."""

SHARES: Final[Mapping[TaskType, int]] = MappingProxyType(
    {
        "pick_and_place_simple": 790,
        "look_at_obj_in_light": 308,
        "pick_clean_then_place_in_recep": 650,
        "pick_heat_then_place_in_recep": 459,
        "pick_cool_then_place_in_recep": 533,
        "pick_two_obj_and_place": 813,
    }
)
"""ALFWorld's training games of each kind of task."""

FIT: Final[Mapping[TaskType, frozenset[str]]] = MappingProxyType(
    {
        "look_at_obj_in_light": LOOKED_AT,
        "pick_clean_then_place_in_recep": CLEANABLE,
        "pick_heat_then_place_in_recep": HEATABLE,
        "pick_cool_then_place_in_recep": COOLABLE,
    }
)
"""Kinds of things that a kind of task can be about; the others are about anything that fits into a receptacle."""

NUMBERS: Final = ((1, 33.0), (2, 28.0), (3, 24.0), (4, 15.0))
"""Numbers of things of the task's kind, each with its weight in training games."""
NUMBERS_OF_TWO: Final = ((2, 43.0), (3, 33.0), (4, 24.0))
"""The same for `pick_two_obj_and_place`."""

ATTEMPTS: Final = 200
"""Houses drawn before a task is taken for impossible in a room; most rooms need one or two."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Choice of games to generate.

    Raises:
        GameError: no kind of task, or an unknown one; rooms in which none of the tasks can be; a size outside
            (0, 4].
    """

    task_types: tuple[TaskType, ...] = TASK_TYPES
    """Kinds of tasks, as frequent among themselves as in ALFWorld's training games."""
    rooms: tuple[RoomKind, ...] = ROOM_KINDS
    """Kinds of rooms; each kind of task must be possible in one of them."""
    size: float = 1.0
    """Factor on the numbers of receptacles and things."""

    def __post_init__(self) -> None:
        for what, names, known in (("task", self.task_types, TASK_TYPES), ("room", self.rooms, ROOM_KINDS)):
            if not names:
                raise GameError(f"no kind of {what} to generate games of. Known: {', '.join(known)}.")
            for name in names:
                if name not in known:
                    raise GameError(f"no kind of {what} named {name!r}. {suggestion(name, known)}")
        # Checked here, so that a bad mix fails at once and not at some later game.
        for task_type in self.task_types:
            _rooms_for(task_type, self.rooms)
        if not 0 < self.size <= 4:
            raise GameError(f"the size of generated rooms must be above 0 and at most 4, not {self.size}.")


def generate_games(split: GameSplit, count: int, seed: int = 0, mix: Mix | None = None, first: int = 0) -> GameSet:
    """Generated games of a split: numbers `first` to `first + count - 1` of its seed.

    Args:
        split: decides the seed, see `game_seed`.
        count: number of games.
        seed: any number from 0.
        mix: choice of games; None = all kinds, in the usual size.
        first: number of the first game; ask for higher ones to go on with fresh games.

    Raises:
        GameError: unknown split, or a negative seed, count or first number.
    """
    if count < 0 or first < 0:
        raise GameError(
            f"the count and the first number of generated games must be 0 or more, not {count} and {first}."
        )
    chosen = game_seed(split, seed)
    return GameSet(numbered_game(chosen, number, mix) for number in range(first, first + count))


class GeneratedGames(Sequence[GameRecord]):
    """Generated games 0 to `count - 1` of a seed, each made when it is asked for.

    Args:
        seed: from `game_seed`.
        count: number of games.
    """

    def __init__(self, seed: int, count: int) -> None:
        self._seed, self._numbers = seed, range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> GameRecord: ...

    @overload
    def __getitem__(self, at: slice) -> GameSet: ...

    def __getitem__(self, at: int | slice) -> GameRecord | GameSet:
        if isinstance(at, slice):
            return GameSet(numbered_game(self._seed, number) for number in self._numbers[at])
        return numbered_game(self._seed, self._numbers[at])

    def find(self, key: str) -> GameRecord:
        """The game of a key.

        Raises:
            GameError: there is none.
        """
        start = f"generated/{self._seed}/"
        number = key.removeprefix(start)
        # Written again, so that `generated/0/07` is no second name of a game.
        if number.isdecimal() and key == f"{start}{int(number)}" and int(number) in self._numbers:
            return self[int(number)]
        raise GameError(f"no game {key!r} among those from {start}0 to {start}{len(self) - 1}.")


def game_seed(split: GameSplit, seed: int) -> int:
    """The seed that a split's games are made from: 3 x seed, + 1 for validation, + 2 for test, so never a common one.

    >>> game_seed("train", 5), game_seed("validation", 5), game_seed("test", 5)
    (15, 16, 17)

    Raises:
        GameError: unknown split, or a negative seed.
    """
    splits: tuple[GameSplit, ...] = get_args(GameSplit)
    if split not in splits:
        raise GameError(f"generated games have no split {split!r}. {suggestion(split, splits)}")
    if seed < 0:
        raise GameError(f"the seed of generated games must be 0 or more, not {seed}.")
    # Multiples of three plus the index: no two splits share a seed, whatever the seed is.
    return len(splits) * seed + splits.index(split)


def numbered_game(seed: int, number: int, mix: Mix | None = None) -> GameRecord:
    """The game `generated/<seed>/<number>`.

    Args:
        seed: from `game_seed`.
        number: from 0.
        mix: as in `generate_games`; another mix gives another game under the same key.
    """
    mix = mix or Mix()
    # A stream for each game, so that game 1,000 needs no 999 games before it.
    rng = stream(seed, "household", number)
    task_type = drawn(rng, [(name, SHARES[name]) for name in mix.task_types])
    # The order of the draws is part of the games: task, room, house, thing, target, number, things.
    kind = drawn(rng, _rooms_for(task_type, mix.rooms))
    return generate_game(rng, task_type, kind, mix.size, f"generated/{seed}/{number}")


def generate_game(
    rng: np.random.Generator,
    task_type: TaskType,
    room_kind: RoomKind,
    size: float = 1.0,
    key: str = "generated/0/0",
) -> GameRecord:
    """A new game.

    Args:
        rng: source of all draws.
        task_type: kind of task.
        room_kind: kind of room.
        size: factor on the numbers of receptacles and things.
        key: of the record.

    Raises:
        GameError: the task is not possible in such a room.
    """
    catalogue = room(room_kind)
    # The furniture is drawn before the task, so a house may turn out to allow no such task.
    for _ in range(ATTEMPTS):
        builder = HouseBuilder(rng, catalogue, size)
        tasks = _tasks(catalogue, task_type, builder.kinds)
        if tasks:
            break
    else:
        raise GameError(f"{task_type} is not possible in a {room_kind}. Rooms: {', '.join(TASK_ROOMS[task_type])}.")
    # Weighted by how common the thing is in such rooms.
    thing = drawn(rng, [(item.kind, item.share) for item in catalogue.items if item.kind in tasks])
    target = drawn(rng, tasks[thing])
    # A pair needs at least two.
    numbers = NUMBERS_OF_TWO if task_type == "pick_two_obj_and_place" else NUMBERS
    # A lamp is needed, too, where the task is to look at something.
    needed = {thing: drawn(rng, numbers)} | ({LAMP: 1} if target == LAMP else {})
    builder.things(needed, thing, target if _must_be_elsewhere(task_type) else "")
    problem = problem_text(builder.finish(), task_type, thing, target, "plan_" + key.replace("/", "_"))
    # Drawn last, so that both sentences of a task belong to the same house.
    sentence = SENTENCES[task_type][int(rng.random() * 2)].format(thing=thing.lower(), target=target.lower())
    # ALFWorld names floor plans here; a generated room has only its kind.
    return GameRecord(key, task_type, sentence, problem, scene=room_kind, subject=f"{thing}-None-{target}")


def _rooms_for(task_type: TaskType, rooms: tuple[RoomKind, ...]) -> list[tuple[RoomKind, int]]:
    options = [(kind, weight) for kind, weight in TASK_ROOMS[task_type].items() if kind in rooms]
    if not options:
        raise GameError(
            f"{task_type} is not possible in: {', '.join(rooms)}. Add one of: {', '.join(TASK_ROOMS[task_type])}."
        )
    return options


def _must_be_elsewhere(task_type: TaskType) -> bool:
    """True for a task that would be done, at once or in part, if its things were in their place at first."""
    return task_type in ("pick_and_place_simple", "pick_two_obj_and_place")


def _tasks(catalogue: Room, task_type: TaskType, kinds: frozenset[str]) -> dict[str, list[tuple[str, int]]]:
    """Possible tasks in a house with these kinds of receptacles: thing -> its possible targets, with weights."""
    # Cleaning needs a sink basin, heating a microwave, cooling a fridge.
    if TOOLS.get(task_type, "") not in kinds | {""}:
        return {}
    # Only receptacles that this house has.
    places = {item.kind: {place for place, _ in item.places} & kinds for item in catalogue.items}
    fit = [item.kind for item in catalogue.items if item.kind in FIT.get(task_type, places.keys() - FIXED)]
    if task_type == "look_at_obj_in_light":
        # The lamp must stand in a receptacle, or the goal could not hold.
        return {thing: [(LAMP, 1)] for thing in fit if places[thing] and places.get(LAMP)}
    tasks = {thing: _targets(thing, task_type, kinds, places[thing]) for thing in fit}
    return {thing: targets for thing, targets in tasks.items() if targets}


def _targets(thing: str, task_type: TaskType, kinds: frozenset[str], places: set[str]) -> list[tuple[str, int]]:
    """Kinds of receptacles that the thing can go to, given the kinds that it can be in at first."""
    return [
        (target, weight)
        for target, weight in TARGETS[task_type].items()
        if target in kinds and thing in ACCEPTS[target]
        # Otherwise all places of the thing could be the target, and the game would begin won.
        if (places - {target} if _must_be_elsewhere(task_type) else places)
    ]
