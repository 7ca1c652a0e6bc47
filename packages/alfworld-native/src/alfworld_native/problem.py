"""A household problem with the names that the text uses: receptacles, things, how it begins, and what wins."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from sys import intern

from alfworld_native.errors import GameError
from alfworld_native.pddl import Facts, Literal, read_pddl
from alfworld_native.record import TaskType

Shape = frozenset[tuple[str, ...]]
"""Conditions of a goal without the types they name."""

PLACED: Shape = frozenset({("inreceptacle", "?o", "?r"), ("objecttype", "?o"), ("receptacletype", "?r")})
LIT: Shape = frozenset(
    {
        *(("objecttype", "?ot"), ("toggleable", "?ot"), ("istoggled", "?ot"), ("inreceptacle", "?ot", "?r")),
        *(("receptacleatlocation", "?r", "?l"), ("atlocation", "?a", "?l")),
        *(("objecttype", "?o"), ("holds", "?a", "?o")),
    }
)
TWO: Shape = frozenset(
    {
        *(("inreceptacle", "?o1", "?r"), ("inreceptacle", "?o2", "?r"), ("different", "?o1", "?o2")),
        *(("objecttype", "?o1"), ("objecttype", "?o2"), ("receptacletype", "?r")),
    }
)
SHAPES: dict[Shape, TaskType] = {
    PLACED: "pick_and_place_simple",
    PLACED | {("cleanable", "?o"), ("isclean", "?o")}: "pick_clean_then_place_in_recep",
    PLACED | {("heatable", "?o"), ("ishot", "?o")}: "pick_heat_then_place_in_recep",
    PLACED | {("coolable", "?o"), ("iscool", "?o")}: "pick_cool_then_place_in_recep",
    LIT: "look_at_obj_in_light",
    TWO: "pick_two_obj_and_place",
}
"""The goals that ALFRED writes, with its names of variables."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Condition that wins a game."""

    task_type: TaskType
    object_kind: str
    """Kind of the thing to handle: "alarmclock"."""
    target_kind: str
    """Kind of receptacle it goes to ("microwave"), or of the lamp ("desklamp") for `look_at_obj_in_light`."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    """Place for things: a piece of furniture, an appliance, a holder."""

    name: str
    """As the text has it: "fridge 1"."""
    kind: str
    """"fridge". Nearly always the word in the name; a few "bathtubbasin" are of kind "sinkbasin"."""
    place: str
    """Name of its location ("loc 8"); receptacles may share one."""
    openable: bool
    accepts: frozenset[str]
    """Kinds of things that can be put there, of the kinds that the game has."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Thing that can be taken, examined, used or sliced."""

    name: str
    """As the text has it: "apple 1"."""
    kind: str
    """"apple"."""
    pickupable: bool
    cleanable: bool
    heatable: bool
    coolable: bool
    toggleable: bool
    sliceable: bool
    is_vessel: bool
    """True if things can be inside it; then `examine` tells only what it contains."""
    inside: tuple[str, ...]
    """Names of the things inside it. Nothing changes this, not even taking them away."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Facts that change in the course of a game, as they are at first; names are those of the text."""

    place: str
    contents: dict[str, tuple[str, ...]]
    """Things by receptacle, in the order of the text. A thing can be in two: a safe, and the dresser it stands on."""
    lying: frozenset[tuple[str, str]]
    """(thing, place): where something is. Can differ from the place of its receptacle."""
    opened: frozenset[str]
    clean: frozenset[str]
    hot: frozenset[str]
    cool: frozenset[str]
    sliced: frozenset[str]
    lit: frozenset[str]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, read. Receptacles and things are in the order in which the text lists them."""

    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    goal: Goal
    beginning: Beginning


def read_problem(text: str) -> Problem:
    """Read a PDDL problem.

    Raises:
        GameError: it is not of this domain, or its goal is none of the six kinds.
    """
    pddl = read_pddl(text)
    goal = _goal(pddl.goal)
    names = _names(pddl.facts)
    things = _things(pddl.facts, names)
    receptacles = _receptacles(pddl.facts, names, {thing.kind for thing in things})
    return Problem(receptacles, things, goal, _beginning(pddl.facts, names, {thing.name for thing in things}))


def _goal(literals: tuple[Literal, ...]) -> Goal:
    types: dict[tuple[str, ...], str] = {}
    for literal in literals:
        # The type is left out of the shape, so that one shape covers all kinds of things.
        typed = literal.predicate in ("objecttype", "receptacletype")
        key = (literal.predicate, *(literal.arguments[:1] if typed else literal.arguments))
        value = _kind(literal.arguments[-1]) if typed else ""
        # ALFWorld repeats conditions within a goal; repeated ones must agree.
        if types.setdefault(key, value) != value:
            raise GameError(f"the goal wants {literal.arguments[0]} to be both {types[key]!r} and {value!r}.")
    task_type = SHAPES.get(frozenset(types))
    if task_type is None:
        shown = ", ".join(" ".join((each.predicate, *each.arguments)) for each in literals)
        raise GameError(f"a household goal must be one of ALFWorld's six kinds; this one wants: {shown}.")
    return _named_goal(task_type, types)


def _named_goal(task_type: TaskType, types: dict[tuple[str, ...], str]) -> Goal:
    if task_type == "look_at_obj_in_light":
        return Goal(task_type, types["objecttype", "?o"], types["objecttype", "?ot"])
    target = types["receptacletype", "?r"]
    if task_type != "pick_two_obj_and_place":
        return Goal(task_type, types["objecttype", "?o"], target)
    if types["objecttype", "?o1"] != types["objecttype", "?o2"]:
        raise GameError("the two things of a goal must be of one kind.")
    return Goal(task_type, types["objecttype", "?o1"], target)


def _kind(pddl_type: str) -> str:
    """Kind as names have it ("apple") for a PDDL type ("appletype")."""
    # Interned: the same few kinds occur in every game that is open.
    return intern(pddl_type.removesuffix("type"))


def _names(facts: Facts) -> dict[str, str]:
    """Name in the text by PDDL name, as ALFWorld's `Demangler` gives them.

    Of each word (what is before the first `_bar_`) the last in the alphabet gets number 1. Only names that have a fact
    count. A name is "basin" when it says so anywhere.
    """
    identifiers = {name for rows in facts.values() for row in rows for name in row if "_bar_" in name}
    numbers: Counter[str] = Counter()
    names = {}
    # Numbers follow the names in PDDL, which end in coordinates; nothing else decides them.
    for identifier in sorted(identifiers, reverse=True):
        # "Sink_bar_…_bar_SinkBasin" is a sink basin, and "Sink_bar_…" a sink.
        word = identifier.split("_bar_", 1)[0] + ("basin" if "basin" in identifier else "")
        numbers[word] += 1
        names[identifier] = intern(f"{word} {numbers[word]}")
    return names


def _pairs(facts: Facts, predicate: str) -> dict[str, str]:
    """First argument to second, of a predicate that has one second argument for each first."""
    pairs: dict[str, str] = {}
    for first, second in facts.get(predicate, ()):
        if pairs.setdefault(first, second) != second:
            raise GameError(f"{predicate} gives {first!r} two values: {pairs[first]!r} and {second!r}.")
    return pairs


def _firsts(facts: Facts, predicate: str) -> set[str]:
    return {row[0] for row in facts.get(predicate, ())}


def _name(names: dict[str, str], identifier: str) -> str:
    if identifier not in names:
        raise GameError(f"{identifier!r} must be named as ALFWorld does: a word, `_bar_`, and what tells it apart.")
    return names[identifier]


def _receptacles(facts: Facts, names: dict[str, str], kinds: set[str]) -> tuple[Receptacle, ...]:
    """Receptacles that have a place; one without cannot be reached, or named by the text."""
    places, types = _pairs(facts, "receptacleatlocation"), _pairs(facts, "receptacletype")
    openable = _firsts(facts, "openable")
    accepted: dict[str, set[str]] = defaultdict(set)
    for receptacle_type, object_type in facts.get("cancontain", ()):
        # Kinds that the game has no thing of would only cost memory.
        if (kind := _kind(object_type)) in kinds:
            accepted[receptacle_type].add(kind)
    # Equal sets are one set: most receptacles of a room accept the same things.
    accepts = {receptacle_type: frozenset(accepted[receptacle_type]) for receptacle_type in sorted(set(types.values()))}
    return tuple(
        Receptacle(
            name=_name(names, identifier),
            kind=_kind(types.get(identifier, "")),
            place=_name(names, place),
            openable=identifier in openable,
            accepts=accepts.get(types.get(identifier, ""), frozenset()),
        )
        for identifier, place in sorted(places.items())
    )


def _things(facts: Facts, names: dict[str, str]) -> tuple[Thing, ...]:
    """Things that a command can name: in a receptacle, or sliceable and somewhere."""
    types = _pairs(facts, "objecttype")
    sliceable = _firsts(facts, "sliceable")
    somewhere = _firsts(facts, "objectatlocation")
    # Slicing goes by location, so a sliceable thing counts even outside of receptacles.
    identifiers = _firsts(facts, "inreceptacle") | (sliceable & somewhere)
    able = {
        predicate: _firsts(facts, predicate)
        for predicate in ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable")
    }
    vessels = _firsts(facts, "isreceptacleobject")
    inside: dict[str, set[str]] = defaultdict(set)
    for inner, outer in facts.get("inreceptacleobject", ()):
        inside[outer].add(inner)
    return tuple(
        Thing(
            name=_name(names, identifier),
            kind=_kind(types.get(identifier, "")),
            is_vessel=identifier in vessels,
            inside=tuple(_name(names, inner) for inner in sorted(inside.get(identifier, ()))),
            **{predicate: identifier in each for predicate, each in able.items()},
        )
        for identifier in sorted(identifiers)
    )


def _beginning(facts: Facts, names: dict[str, str], things: set[str]) -> Beginning:
    start = facts.get("atlocation", [])
    # The engine relies on it: an episode has one place and one free hand.
    if len(start) != 1 or "holds" in facts:
        raise GameError("a household game begins with one player at one place and nothing in hand.")

    def named(identifiers: Iterable[str]) -> frozenset[str]:
        return frozenset(names[each] for each in identifiers if each in names)

    contents: dict[str, set[str]] = defaultdict(set)
    for inner, receptacle in facts.get("inreceptacle", ()):
        contents[receptacle].add(inner)
    at_places = ((thing, place) for thing, place in facts.get("objectatlocation", ()) if names.get(thing) in things)
    return Beginning(
        place=_name(names, start[0][1]),
        contents={
            # Sorted by PDDL name, which is the order in which TextWorld lists things.
            _name(names, receptacle): tuple(_name(names, inner) for inner in sorted(contents.get(receptacle, ())))
            for receptacle in sorted(_firsts(facts, "receptacleatlocation"))
        },
        lying=frozenset((names[thing], _name(names, place)) for thing, place in at_places),
        opened=named(_firsts(facts, "opened")),
        clean=named(_firsts(facts, "isclean")),
        hot=named(_firsts(facts, "ishot")),
        cool=named(_firsts(facts, "iscool")),
        sliced=named(_firsts(facts, "issliced")),
        lit=named(_firsts(facts, "istoggled")),
    )
