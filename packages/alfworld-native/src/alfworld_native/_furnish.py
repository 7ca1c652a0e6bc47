"""Drawing a house from the catalogue: its receptacles, its things, and where each of them lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import numpy as np

from alfworld_native._house import Belonging, Furniture, House
from alfworld_native._kinds import CONTAINERS, COOLABLE, FIXED, OPENABLE
from alfworld_native._rooms import BESIDE, Fixture, Item, Room

__all__ = ["Furnisher", "drawn"]

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
"""Of a room, in metres."""
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
    return listed[-1][0]


class Furnisher:
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
        """From a distribution over fewest...most whose mean is the catalogue's, most of it at the low end."""
        if not self._chance(fixture.share):
            return 0
        if fixture.most == fixture.fewest:
            return fixture.fewest
        # E[fewest + span * u^power] = fewest + span / (power + 1) for uniform u.
        power = (fixture.most - fixture.fewest) / (fixture.mean - fixture.fewest) - 1
        number = fixture.fewest + (fixture.most - fixture.fewest) * self._rng.random() ** power
        return max(1, round(number * self._size))

    def _usual_number(self, item: Item) -> int:
        if not self._chance(item.share * min(1.0, self._size)):
            return 0
        number = item.fewest + int(self._rng.random() * (item.most - item.fewest + 1))
        return max(1, round(number * self._size))

    def _add_receptacle(self, kind: str) -> None:
        position = self._position()
        name = self._name({"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}.get(kind, kind), position)
        if kind in ("SinkBasin", "BathtubBasin"):
            name = f"{name}_bar_{kind}"
        openable = self._chance(OPENABLE.get(kind, 0.0))
        furniture = Furniture(name, kind, self._shared_location(kind) or self._location(), position, openable)
        self.house.furniture.append(furniture)
        self._by_kind.setdefault(kind, []).append(furniture)

    def _shared_location(self, kind: str) -> str:
        """Where a neighbour that has none yet is; empty when it is to have a location of its own."""
        neighbour, share = NEIGHBOURS.get(kind, ("", 0.0))
        if neighbour not in self._by_kind or not self._chance(share):
            return ""
        location = self._by_kind[neighbour][-1].location
        used = Counter(each.location for each in self.house.furniture)
        return location if used[location] == 1 else ""

    def _needed_places(self, item: Item) -> Places:
        inside = ((kind, weight) for kind, weight in item.places if kind != BESIDE)
        return tuple((kind, weight * SEEN if kind in OPENABLE else weight) for kind, weight in inside)

    def _add_thing(self, kind: str, places: Places, avoided: set[str]) -> None:
        possible = [(place, weight) for place, weight in places if self._has(place) and place not in avoided]
        place = drawn(self._rng, possible) if possible else BESIDE
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
            return self._name(kind, self._near(position))
        self._names.add(name)
        return name

    def _location(self) -> str:
        """A location that no other thing has: grid numbers, direction and horizon of the view."""
        x, z, direction, horizon = self._rng.random(4).tolist()
        grid = (_number(round((2 * part - 1) * LOCATION_SPAN)) for part in (x, z))
        name = "_bar_".join(("loc", *grid, str(int(direction * 4)), HORIZONS[int(horizon * len(HORIZONS))]))
        if name in self._names:
            return self._location()
        self._names.add(name)
        return name


def _coordinate(value: float) -> str:
    text = f"{abs(value):05.2f}"
    sign = "" if text == "00.00" else "_minus_" if value < 0 else "_plus_"
    return sign + text.replace(".", "_dot_")


def _number(value: int) -> str:
    return f"_minus_{-value}" if value < 0 else str(value)
