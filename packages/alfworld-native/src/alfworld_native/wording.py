"""Sentences of a household game: ALFWorld's text grammar (`alfred.twl2`), written out, in both versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alfworld_native.problem import Receptacle, Thing
from alfworld_native.record import Wording

NOTHING_HAPPENS = "Nothing happens."
"""The answer to a command that is not listed."""

HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
"""Without the line break that the grammar begins it with: TextWorld's parser skips that."""


@dataclass(frozen=True, slots=True)
class Words:
    """Phrases that differ between the versions."""

    put: str
    """Verb of the command that puts a thing down."""
    onto: str
    """Words between thing and receptacle in that command."""
    placed: str
    """Answer to that command, with places for thing and receptacle."""
    names_place: bool
    """True if one arrives at "loc 8", false if at "bed 1"."""
    cleaners: frozenset[str]
    """Kinds of receptacles that clean."""
    help: str | None
    """Answer to `help`; None where there is no such command."""

    def put_command(self, thing: str, receptacle: str) -> str:
        """The command that puts a thing down."""
        return f"{self.put} {thing}{self.onto}{receptacle}"

    def arrival(self, receptacle: Receptacle) -> str:
        """The first sentence on arriving somewhere."""
        return f"You arrive at {receptacle.place if self.names_place else receptacle.name}."


WORDINGS: dict[Wording, Words] = {
    "2.1.1": Words(
        put="put",
        onto=" in/on ",
        placed="You put the {} in/on the {}.",
        names_place=True,
        cleaners=frozenset({"sink", "sinkbasin"}),
        help=None,
    ),
    "2.1.2": Words(
        put="move",
        onto=" to ",
        placed="You move the {} to the {}.",
        names_place=False,
        cleaners=frozenset({"sinkbasin"}),
        help=HELP,
    ),
}


def _joined(items: Sequence[str]) -> str:
    """A list in words: "x", "x, and y", "x, y, and z", or "nothing"."""
    # The grammar has a comma before "and" for two items already.
    if len(items) < 2:
        return items[0] if items else "nothing"
    return f"{', '.join(items[:-1])}, and {items[-1]}"


def _indefinite(names: Sequence[str]) -> str:
    """The grammar knows no "an".

    >>> _indefinite(["mug 1", "apple 1"])
    'a mug 1, and a apple 1'
    """
    return _joined([f"a {name}" for name in names])


def opening(view: str, goal: str) -> str:
    """The text that begins a game."""
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{view}\n\nYour task is to: {goal}"


def room(receptacles: Sequence[str]) -> str:
    """A look around from the middle of the room."""
    return f"You are in the middle of a room. Looking quickly around you, you see {_indefinite(receptacles)}."


def facing(receptacles: Sequence[str], floor: Sequence[str]) -> str:
    """A look around at a place that has receptacles."""
    return f"You are facing the {_joined(receptacles)}. Next to it, you see {_indefinite(floor)}."


def seen(receptacle: Receptacle, is_opened: bool, contents: Sequence[str]) -> str:
    """Description of a receptacle and, where it is open, of its contents."""
    if not receptacle.openable:
        return f"On the {receptacle.name}, you see {_indefinite(contents)}."
    if is_opened:
        return f"The {receptacle.name} is open. In it, you see {_indefinite(contents)}."
    return f"The {receptacle.name} is closed."


def carrying(thing: str | None) -> str:
    """The answer to `inventory`."""
    return "You are not carrying anything." if thing is None else f"You are carrying: a {thing}."


def thing_looks(thing: Thing, states: frozenset[str]) -> str:
    """The answer to `examine` for the thing in hand.

    Args:
        thing: The thing.
        states: Which of "clean", "hot", "cool", "sliced" and "lit" it is.
    """
    # The first rule that applies wins: a vessel never tells that it is hot or clean.
    if thing.is_vessel:
        return f"This is a normal {thing.name}. In it, you see {_indefinite(thing.inside)}."
    if warmth := _warmth(states):
        return f"This is a {warmth} {thing.name}."
    if thing.toggleable and "lit" in states:
        return f"This {thing.name} is on."
    if thing.sliceable and "sliced" in states:
        return f"This is a sliced {thing.name}."
    return f"There's nothing special about {thing.name}."


def _warmth(states: frozenset[str]) -> str:
    """Warmth and cleanness in the grammar's words: "cool" alone is "cold"; a thing both hot and cool is "hot"."""
    # The grammar asks for hot first.
    warmth = next((each for each in ("hot", "cool") if each in states), "")
    words = " and ".join(word for word in (warmth, "clean" if "clean" in states else "") if word)
    # Sliced alone has a rule of its own, after those for lamps.
    if words and "sliced" in states:
        return f"{words} sliced"
    return "cold" if words == "cool" else words
