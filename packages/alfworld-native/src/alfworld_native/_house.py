"""Random households: drawn from the tables of a kind of room, and written as PDDL like ALFWorld's problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from alfworld_native._kinds import (
    ACCEPTS,
    CLEANABLE,
    CONTAINERS,
    COOLABLE,
    FIXED,
    HEATABLE,
    OPENABLE,
    RECEPTACLES,
    SLICEABLE,
    THINGS,
    TOGGLEABLE,
)
from alfworld_native._rooms import BESIDE, Fixture, Item, Room
from alfworld_native.record import TaskType

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Furniture:
    """A receptacle of a house."""

    name: str
    """In PDDL: `Drawer_bar__plus_01_dot_63_bar_…`."""
    kind: str
    location: str
    position: tuple[float, float, float]
    """In metres: x, height, z."""
    openable: bool


@dataclass(slots=True)
class Belonging:
    """A thing of a house."""

    name: str
    kind: str
    location: str
    inside: tuple[Furniture, ...] = ()
    """Receptacles it lies in; a pot can be on two burners, and some things are in none."""
    within: str = ""
    """Name of the thing that it lies in, for example a plate."""
    cool: bool = False


@dataclass(slots=True)
class House:
    """A room with everything in it."""

    start: str
    """Location of the player at first."""
    furniture: list[Furniture] = field(default_factory=list)
    belongings: list[Belonging] = field(default_factory=list)


PLACE_GOAL: Final = """
        (:goal
            (and
                (exists (?r - receptacle)
                    (exists (?o - object)
                        (and{conditions}
                        )
                    )
                )
            )
        )
    )
    """

TWO_GOAL: Final = """
                (:goal
                    (and
                        (exists (?r - receptacle)
                            (exists (?o1 - object)
                                (and
                                    (objectType ?o1 {thing}Type)
                                    (receptacleType ?r {target}Type)
                                    (inReceptacle ?o1 ?r)
                                    (exists (?o2 - object)
                                        (and
                                            (not (= ?o1 ?o2))
                                            (objectType ?o2 {thing}Type)
                                            (receptacleType ?r {target}Type)
                                            (inReceptacle ?o2 ?r)
                                        )
                                    )
                                )
                            )
                        )
                    )
                )
            )
            """

LIGHT_GOAL: Final = """
        (:goal
             (and
                 (exists (?ot - object
                          ?r - receptacle
                          ?a - agent
                          ?l - location)
                     (and
                         (objectType ?ot {target}Type)
                         (toggleable ?ot)
                         (isToggled ?ot)
                         (receptacleAtLocation ?r ?l)
                         (atLocation ?a ?l)
                         (inReceptacle ?ot ?r)
                     )
                 )
                 (exists (?o - object
                          ?a - agent)
                     (and
                         (objectType ?o {thing}Type)
                         (holds ?a ?o)
                     )
                 )
             )
        )
    )
    """

TREATED: Final[dict[TaskType, tuple[str, str]]] = {
    "pick_clean_then_place_in_recep": ("cleanable", "isClean"),
    "pick_heat_then_place_in_recep": ("heatable", "isHot"),
    "pick_cool_then_place_in_recep": ("coolable", "isCool"),
}
"""Predicate that a thing must have, and the one that must hold in the end."""


def problem_text(house: House, task_type: TaskType, thing: str, target: str, name: str) -> str:
    """The PDDL problem of a house and a task.

    Args:
        house: the room.
        task_type: kind of task.
        thing: kind of thing to handle.
        target: kind of receptacle it goes to, or of the lamp.
        name: of the problem, in PDDL's letters.
    """
    # Indented like ALFWorld's own files.
    objects = "".join(f"        {line}\n" for line in _declarations(house))
    facts = "".join(f"        ({fact})\n" for fact in _facts(house))
    goal = _goal(task_type, thing, target)
    return (
        f"\n(define (problem {name})\n(:domain alfred)\n{_constants()}\n\n\n{objects}        )\n    \n\n"
        f"(:init\n\n\n{facts}        )\n    \n{goal}"
    )


@cache
def _constants() -> str:
    """The kinds, which all of ALFWorld's problems declare alike."""
    blocks = (
        [f"{kind} - object" for kind in THINGS],
        [f"{kind}Type - otype" for kind in THINGS],
        [f"{kind}Type - rtype" for kind in RECEPTACLES],
    )
    return "(:objects\nagent1 - agent\n" + "\n".join("\n        ".join(block) for block in blocks)


def _declarations(house: House) -> Iterator[str]:
    yield from sorted(f"{thing.name} - object" for thing in house.belongings)
    yield from sorted(f"{each.name} - receptacle" for each in house.furniture)
    furnished = [each.location for each in house.furniture]
    # A dict keeps the order and drops the locations that several share.
    for location in dict.fromkeys((*furnished, *(thing.location for thing in house.belongings), house.start)):
        yield f"{location} - location"


def _facts(house: House) -> Iterator[str]:
    """Facts that hold at first, in the order of ALFWorld's problems."""
    furniture, things = house.furniture, house.belongings
    yield from (f"receptacleType {each.name} {each.kind}Type" for each in furniture)
    yield from (f"objectType {thing.name} {thing.kind}Type" for thing in things)
    kinds = {thing.kind for thing in things}
    # Stated once for each kind that the house has, not for every receptacle.
    for kind in dict.fromkeys(each.kind for each in furniture):
        yield from (f"canContain {kind}Type {thing}Type" for thing in sorted(ACCEPTS.get(kind, frozenset()) & kinds))
    yield from (f"pickupable {thing.name}" for thing in things if thing.kind not in FIXED)
    yield from _of_kinds("isReceptacleObject", things, CONTAINERS)
    yield from (f"openable {each.name}" for each in furniture if each.openable)
    yield f"atLocation agent1 {house.start}"
    yield from _of_kinds("cleanable", things, CLEANABLE)
    yield from _of_kinds("heatable", things, HEATABLE)
    yield from _of_kinds("coolable", things, COOLABLE)
    yield from (f"isCool {thing.name}" for thing in things if thing.cool)
    yield from _of_kinds("toggleable", things, TOGGLEABLE)
    yield from _of_kinds("sliceable", things, SLICEABLE)
    yield from (f"inReceptacle {thing.name} {each.name}" for thing in things for each in thing.inside)
    yield from (f"inReceptacleObject {thing.name} {thing.within}" for thing in things if thing.within)
    yield from (f"receptacleAtLocation {each.name} {each.location}" for each in furniture)
    yield from (f"objectAtLocation {thing.name} {thing.location}" for thing in things)


def _of_kinds(predicate: str, things: Iterable[Belonging], kinds: frozenset[str]) -> Iterator[str]:
    return (f"{predicate} {thing.name}" for thing in things if thing.kind in kinds)


def _goal(task_type: TaskType, thing: str, target: str) -> str:
    if task_type == "look_at_obj_in_light":
        return LIGHT_GOAL.format(thing=thing, target=target)
    if task_type == "pick_two_obj_and_place":
        return TWO_GOAL.format(thing=thing, target=target)
    kinds = [f"(objectType ?o {thing}Type)", f"(receptacleType ?r {target}Type)"]
    # ALFWorld puts this condition first without a treatment and last with one.
    conditions = ["(inReceptacle ?o ?r)", *kinds]
    if task_type in TREATED:
        able, done = TREATED[task_type]
        conditions = [f"({able} ?o)", *kinds, f"({done} ?o)", "(inReceptacle ?o ?r)"]
    return PLACE_GOAL.format(conditions="".join(f"\n{' ' * 28}{condition}" for condition in conditions))


Option = TypeVar("Option")

Places = tuple[tuple[str, float], ...]
"""Kinds of receptacles, or `BESIDE`, with weights."""

NEIGHBOURS: Final[dict[str, tuple[str, float]]] = {
    "StoveBurner": ("StoveBurner", 0.75),
    "Cabinet": ("Cabinet", 0.09),
    "Drawer": ("Drawer", 0.11),
    "Shelf": ("Shelf", 0.05),
    "Toaster": ("CounterTop", 0.3),
    "CoffeeMachine": ("CounterTop", 0.25),
}
"""A kind of receptacle -> the kind it may share a location with, and how often it does."""

ON_TOP: Final[dict[str, frozenset[str]]] = {
    "CoffeeMachine": frozenset(("CounterTop",)),
    "StoveBurner": frozenset(("StoveBurner", "CounterTop")),
}
"""Receptacles of small size: what lies in one may count as lying in its neighbour too, as in ALFWorld."""

ON_TOP_SHARE: Final = 0.6
BESIDE_RECEPTACLE: Final = {True: 0.15, False: 0.5}
"""Share of the things in no receptacle that are at a receptacle's location; True = of fixed things."""
COOL_FRIDGES: Final = 0.17
"""Share of the rooms where what is in a fridge is cool at first."""
SEEN: Final = 0.65
"""Factor on the weight of places with doors for things that a task needs: people set tasks about what they see."""
NESTED: Final = 0.2
"""Share of the rooms where something lies in a plate, a pan and the like."""

HALF_WIDTH: Final = 3.5
"""Half the width of a room, in metres."""
HEIGHT: Final = 2.0
LOCATION_SPAN: Final = 14
"""Locations are on a grid of 0.25 m: numbers up to this one, both ways."""
HORIZONS: Final = ("_minus_30", "0", "15", "30", "45", "60")


def drawn(rng: np.random.Generator, options: Iterable[tuple[Option, float]]) -> Option:
    """One of several options, with probability in proportion to its weight."""
    listed = list(options)
    point = rng.random() * sum(weight for _, weight in listed)
    for option, weight in listed:
        point -= weight
        if point < 0:
            return option
    # Rounding can leave a point just above zero.
    return listed[-1][0]


class HouseBuilder:
    """Draws one house; make a new one for the next.

    Args:
        rng: randomness.
        room: catalogue of its kind of room.
        size: factor on the numbers of receptacles and things.
    """

    def __init__(self, rng: np.random.Generator, room: Room, size: float) -> None:
        self._rng, self._room, self._size = rng, room, size
        self._names: set[str] = set()
        self.house = House(self._location())
        self._by_kind: dict[str, list[Furniture]] = {}
        for fixture in room.fixtures:
            # Drawn in the order of the table: neighbours share locations with what is there already.
            for _ in range(self._number_of(fixture)):
                self._add_receptacle(fixture.kind)

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of receptacles that the house has."""
        return frozenset(self._by_kind)

    def things(self, needed: dict[str, int], subject: str, forbidden: str) -> None:
        """Bring in the things.

        Args:
            needed: kind -> number of things that there must be, each of them in a receptacle.
            subject: kind of thing that the task is about.
            forbidden: kind of receptacle that none of these may be in at first.
        """
        for item in self._room.items:
            wanted = needed.get(item.kind)
            if wanted is None:
                wanted = self._usual_number(item)
            avoided = {forbidden} if item.kind == subject else set()
            # A thing that the task needs must be in a receptacle, where it can be found.
            places = self._needed_places(item) if item.kind in needed else item.places
            for _ in range(wanted):
                self._add_thing(item.kind, places, avoided)

    def finish(self) -> House:
        """The house, its facts in random order and some things cool or in one another."""
        things = self.house.belongings
        if self._chance(COOL_FRIDGES):
            for thing in things:
                thing.cool = thing.kind in COOLABLE and any(each.kind == "Fridge" for each in thing.inside)
        if self._chance(NESTED):
            self._nest()
        self.house.furniture = [self.house.furniture[at] for at in self._rng.permutation(len(self.house.furniture))]
        self.house.belongings = [things[at] for at in self._rng.permutation(len(things))]
        return self.house

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _choice(self, options: list[Option]) -> Option:
        return options[int(self._rng.random() * len(options))]

    def _number_of(self, fixture: Fixture) -> int:
        """Random number of receptacles of a kind, with the table's bounds and mean, mostly at the low end."""
        if not self._chance(fixture.share):
            return 0
        # No draw: the formula below would divide by zero.
        if fixture.most == fixture.fewest:
            return fixture.fewest
        # E[fewest + span * u^power] = fewest + span / (power + 1) for uniform u.
        power = (fixture.most - fixture.fewest) / (fixture.mean - fixture.fewest) - 1
        number = fixture.fewest + (fixture.most - fixture.fewest) * self._rng.random() ** power
        return max(1, round(number * self._size))

    def _usual_number(self, item: Item) -> int:
        # Small rooms lose whole kinds of things, large ones only get more of each.
        if not self._chance(item.share * min(1.0, self._size)):
            return 0
        number = item.fewest + int(self._rng.random() * (item.most - item.fewest + 1))
        return max(1, round(number * self._size))

    def _add_receptacle(self, kind: str) -> None:
        position = self._position()
        # ALFWorld names a basin after its sink and appends the kind, which `problem.py` reads back.
        name = self._name({"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}.get(kind, kind), position)
        if kind in ("SinkBasin", "BathtubBasin"):
            name = f"{name}_bar_{kind}"
        openable = self._chance(OPENABLE.get(kind, 0.0))
        furniture = Furniture(name, kind, self._shared_location(kind) or self._location(), position, openable)
        self.house.furniture.append(furniture)
        self._by_kind.setdefault(kind, []).append(furniture)

    def _shared_location(self, kind: str) -> str:
        """Location of a neighbour to share; empty when the receptacle gets a location of its own."""
        neighbour, share = NEIGHBOURS.get(kind, ("", 0.0))
        if neighbour not in self._by_kind or not self._chance(share):
            return ""
        location = self._by_kind[neighbour][-1].location
        # At most two receptacles share a location.
        used = Counter(each.location for each in self.house.furniture)
        return location if used[location] == 1 else ""

    def _needed_places(self, item: Item) -> Places:
        inside = ((kind, weight) for kind, weight in item.places if kind != BESIDE)
        return tuple((kind, weight * SEEN if kind in OPENABLE else weight) for kind, weight in inside)

    def _add_thing(self, kind: str, places: Places, avoided: set[str]) -> None:
        possible = [(place, weight) for place, weight in places if self._has(place) and place not in avoided]
        place = drawn(self._rng, possible) if possible else BESIDE
        # No receptacle of this house takes it, or it belongs beside them.
        if place == BESIDE:
            self._lay_beside(kind)
            return
        furniture = self._choice(self._by_kind[place])
        inside = (furniture, *self._also_on(furniture, avoided))
        name = self._name(kind, self._near(furniture.position))
        self.house.belongings.append(Belonging(name, kind, furniture.location, inside))

    def _has(self, kind: str) -> bool:
        return kind == BESIDE or kind in self._by_kind

    def _lay_beside(self, kind: str) -> None:
        at_receptacle = self._chance(BESIDE_RECEPTACLE[kind in FIXED])
        location = self._choice(self.house.furniture).location if at_receptacle else self._location()
        self.house.belongings.append(Belonging(self._name(kind, self._position()), kind, location))

    def _also_on(self, furniture: Furniture, avoided: set[str]) -> Iterator[Furniture]:
        others = ON_TOP.get(furniture.kind, frozenset()) - avoided
        if others and self._chance(ON_TOP_SHARE):
            for other in self.house.furniture:
                if other is not furniture and other.location == furniture.location and other.kind in others:
                    yield other

    def _nest(self) -> None:
        outer = [thing for thing in self.house.belongings if thing.kind in CONTAINERS and thing.inside]
        for container in outer:
            for thing in self.house.belongings:
                # Vessels are not put into vessels.
                takeable = thing.kind not in FIXED | CONTAINERS
                if takeable and thing.inside[:1] == container.inside[:1]:
                    thing.within = container.name
                    return

    def _position(self) -> tuple[float, float, float]:
        x, height, z = self._rng.random(3).tolist()
        return ((2 * x - 1) * HALF_WIDTH, height * HEIGHT, (2 * z - 1) * HALF_WIDTH)

    def _near(self, position: tuple[float, float, float]) -> tuple[float, float, float]:
        x, height, z = self._rng.random(3).tolist()
        return (position[0] + (x - 0.5) / 2, position[1] + height / 10, position[2] + (z - 0.5) / 2)

    def _name(self, kind: str, position: tuple[float, float, float]) -> str:
        """A name that no other thing has, as ALFWorld makes it from kind and position."""
        name = "_bar_".join((kind, *map(_coordinate, position)))
        if name in self._names:
            # Coordinates are rounded, so two things can get the same name; a small shift settles it.
            return self._name(kind, self._near(position))
        self._names.add(name)
        return name

    def _location(self) -> str:
        """A location that no other thing has: grid numbers, direction and horizon of the view."""
        x, z, direction, horizon = self._rng.random(4).tolist()
        grid = (_number(round((2 * part - 1) * LOCATION_SPAN)) for part in (x, z))
        name = "_bar_".join(("loc", *grid, str(int(direction * 4)), HORIZONS[int(horizon * len(HORIZONS))]))
        if name in self._names:
            # Draws again: the grid has more locations than any room needs.
            return self._location()
        self._names.add(name)
        return name


def _coordinate(value: float) -> str:
    text = f"{abs(value):05.2f}"
    sign = "" if text == "00.00" else "_minus_" if value < 0 else "_plus_"
    return sign + text.replace(".", "_dot_")


def _number(value: int) -> str:
    return f"_minus_{-value}" if value < 0 else str(value)
