"""A household as PDDL text, in the form of ALFWorld's own problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from alfworld_native._kinds import (
    ACCEPTS,
    CLEANABLE,
    CONTAINERS,
    COOLABLE,
    FIXED,
    HEATABLE,
    RECEPTACLES,
    SLICEABLE,
    THINGS,
    TOGGLEABLE,
)
from alfworld_native.record import TaskType

__all__ = ["Belonging", "Furniture", "House", "problem_text"]


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
    """Where the player stands at first."""
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
"""What a thing must allow, and what must be true of it in the end."""


def problem_text(house: House, task_type: TaskType, thing: str, target: str, name: str) -> str:
    """The PDDL problem of a house and a task.

    Args:
        house: the room.
        task_type: kind of task.
        thing: kind of thing to handle.
        target: kind of receptacle it goes to, or of the lamp.
        name: of the problem, in PDDL's letters.
    """
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
    for location in dict.fromkeys((*furnished, *(thing.location for thing in house.belongings), house.start)):
        yield f"{location} - location"


def _facts(house: House) -> Iterator[str]:
    """What is true at first, in the order of ALFWorld's problems."""
    furniture, things = house.furniture, house.belongings
    yield from (f"receptacleType {each.name} {each.kind}Type" for each in furniture)
    yield from (f"objectType {thing.name} {thing.kind}Type" for thing in things)
    kinds = {thing.kind for thing in things}
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
    conditions = ["(inReceptacle ?o ?r)", *kinds]
    if task_type in TREATED:
        able, done = TREATED[task_type]
        conditions = [f"({able} ?o)", *kinds, f"({done} ?o)", "(inReceptacle ?o ?r)"]
    return PLACE_GOAL.format(conditions="".join(f"\n{' ' * 28}{condition}" for condition in conditions))
