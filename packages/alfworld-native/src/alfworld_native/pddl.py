"""PDDL text of the household domain (ALFWorld's `alfred`): sections, facts and goal, before they mean anything.

Names are lower case, as the planner behind TextWorld has them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from alfworld_native.errors import GameError

Arguments = tuple[str, ...]
Facts = dict[str, list[Arguments]]
"""Arguments of the true facts, by predicate, in the order of the text."""

COMMENT = re.compile(r";[^\n]*")
FACT = re.compile(r"\(\s*([a-z]+)((?:\s+[^\s()]+)*)\s*\)")
SECTION = re.compile(r"\(\s*:(objects|init|goal)\b")
NEGATION = re.compile(r"\(\s*not\b")
TOKEN = re.compile(r"[()]|[^\s()]+")

READ = {
    "atlocation": 2,
    "cancontain": 2,
    "cleanable": 1,
    "coolable": 1,
    "heatable": 1,
    "holds": 2,
    "inreceptacle": 2,
    "inreceptacleobject": 2,
    "isclean": 1,
    "iscool": 1,
    "ishot": 1,
    "isreceptacleobject": 1,
    "issliced": 1,
    "istoggled": 1,
    "objectatlocation": 2,
    "objecttype": 2,
    "openable": 1,
    "opened": 1,
    "pickupable": 1,
    "receptacleatlocation": 2,
    "receptacletype": 2,
    "sliceable": 1,
    "toggleable": 1,
}
"""Predicates that a game depends on, with their number of arguments."""
UNREAD = frozenset(
    {
        *("checked", "examined", "full", "holdsany", "holdsanyreceptacleobject", "ison", "isreceptacleobjectfull"),
        *("moveable", "wasinreceptacle"),
    }
)
"""Predicates of the domain on which neither text nor commands depend."""


@dataclass(frozen=True, slots=True)
class Literal:
    """One condition of a goal."""

    predicate: str
    """"different" stands for `(not (= ?x ?y))`."""
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Pddl:
    """A problem as it is written."""

    facts: Facts
    goal: tuple[Literal, ...]
    """Conditions that must all hold for some assignment of the variables (arguments that begin with "?")."""


def read_pddl(text: str) -> Pddl:
    """Read a problem of the household domain.

    Raises:
        GameError: it is no such problem; a fact or a goal is of a kind that this domain or these games lack.
    """
    # Lower case first: the planner behind TextWorld does not tell cases apart.
    text = COMMENT.sub("", text).lower()
    if not re.search(r"\(\s*:domain\s+alfred\s*\)", text):
        raise GameError("a household game's PDDL problem must say (:domain alfred); this text does not.")
    objects, init, goal = _sections(text)
    facts = _facts(init)
    _check_declared(facts, objects)
    return Pddl(facts, tuple(_literals(_tree(goal))))


def _sections(text: str) -> tuple[str, str, str]:
    """The texts of `:objects`, `:init` and `:goal`; the goal's with its bracket."""
    # The split keeps the names of the sections, so names and texts alternate.
    _, *parts = SECTION.split(text)
    if parts[::2] != ["objects", "init", "goal"]:
        raise GameError("a household problem must have (:objects …), (:init …) and (:goal …), in this order.")
    return parts[1], parts[3], f"(:goal{parts[5]}"


def _facts(init: str) -> Facts:
    # A negated fact would be read as the fact itself by the pattern below.
    if NEGATION.search(init):
        raise GameError("(:init …) of a household game lists what is true; it cannot have (not …).")
    facts: Facts = defaultdict(list)
    for predicate, arguments in FACT.findall(init):
        facts[predicate].append(tuple(arguments.split()))
    facts.pop("distance", None)  # the left side of (= (distance a b) 3), which the planner takes for no fact
    for predicate, rows in facts.items():
        _check_fact(predicate, rows)
    return facts


def _check_fact(predicate: str, rows: list[Arguments]) -> None:
    # Not checked at all, as nothing depends on them.
    if predicate in UNREAD:
        return
    if predicate not in READ:
        raise GameError(f"the household domain has no predicate {predicate!r} for (:init …).")
    wrong = next((row for row in rows if len(row) != READ[predicate]), None)
    if wrong is not None:
        shown = " ".join((predicate, *wrong))
        raise GameError(f"({shown}): {predicate} takes {READ[predicate]} argument(s), not {len(wrong)}.")


def _check_declared(facts: Facts, objects: str) -> None:
    declared = set(TOKEN.findall(objects))
    # PDDL forbids undeclared names, and a planner's message would not say which one it is.
    used = {name for predicate, rows in facts.items() if predicate in READ for row in rows for name in row}
    if missing := sorted(used - declared):
        raise GameError(f"(:objects …) does not declare {missing[0]!r}, which (:init …) uses.")


Tree = str | list["Tree"]


def _tree(text: str) -> Tree:
    """The first bracket of a text, nested: `(and (p ?x))` is `["and", ["p", "?x"]]`."""
    open_brackets: list[list[Tree]] = [[]]
    for word in TOKEN.findall(text):
        if word == "(":
            open_brackets.append([])
        elif word == ")":
            closed = open_brackets.pop()
            # The outermost bracket is closed; what follows it is not part of the goal.
            if len(open_brackets) == 1:
                return closed
            open_brackets[-1].append(closed)
        else:
            open_brackets[-1].append(word)
    raise GameError("the brackets of (:goal …) do not match.")


def _literals(tree: Tree) -> Iterator[Literal]:
    """The conditions of a goal made of `and`, `exists` and `(not (= ?x ?y))`."""
    match tree:
        # Variables keep their names across nested `exists`, so the nesting itself can be dropped.
        case [":goal", part] | ["exists", _, part]:
            yield from _literals(part)
        case ["and", *parts]:
            for part in parts:
                yield from _literals(part)
        # The only negation in ALFWorld's goals: the two things of a pair differ.
        case ["not", ["=", str(one), str(other)]]:
            yield Literal("different", (one, other))
        case [str(predicate), *arguments] if predicate in READ and all(isinstance(each, str) for each in arguments):
            yield Literal(predicate, tuple(str(each) for each in arguments))
        case _:
            raise GameError(f"a household goal cannot have {_shown(tree)}: movable and sliced tasks are not supported.")


def _shown(tree: Tree) -> str:
    return tree if isinstance(tree, str) else f"({' '.join(_shown(part) for part in tree)})"
