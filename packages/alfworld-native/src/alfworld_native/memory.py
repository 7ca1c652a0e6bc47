"""Knowledge of a player of a household game: everything that the game said, and nothing else.

A `Memory` reads texts and lists of commands only, so it works with any engine that writes ALFWorld's text, and never
knows more than the player.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from alfworld_native.errors import GameError
from alfworld_native.problem import Goal
from alfworld_native.sentence import TREATMENTS, kind_of, read_sentence

ROOM: Final = re.compile(r"Looking quickly around you, you see (.*?)\.\s*$", re.MULTILINE)
TASK: Final = re.compile(r"Your task is to: (.*)$", re.MULTILINE)
SEEN: Final = re.compile(r"(?:On|In) (?:the (\S+ \d+)|it), you see (.*?)\.$")
OPEN: Final = re.compile(r"The (\S+ \d+) is open\.")
CLOSED: Final = re.compile(r"The (\S+ \d+) is closed\.$")
TAKEN: Final = re.compile(r"You pick up the (.+?) from the (.+?)\.$")
PUT: Final = re.compile(r"You (?:put|move) the (.+?) (?:in/on|to) the (.+?)\.$")
TREATED: Final = re.compile(r"You (clean|heat|cool) the (.+?) using the ")
LIT: Final = re.compile(r"You turn on the (.+?)\.$")
TAKE: Final = re.compile(r"take (.+?) from (.+)$")

CONDITIONS: Final = {"clean": "clean", "heat": "hot", "cool": "cool"}
"""Command -> what a thing is then."""
OPPOSITES: Final = {"hot": "cool", "cool": "hot"}


def _names(listing: str) -> list[str]:
    """Names of a listing such as "a mug 1, a tomato 2, and a tomato 1"."""
    # The grammar writes "you see nothing" for an empty list.
    if listing == "nothing":
        return []
    return [re.sub(r"^(?:and )?(?:an?|some|the) ", "", part) for part in listing.split(", ")]


class Memory:
    """Memory of one player; it grows with every answer of the game.

    Args:
        opening: the text that opens the game.
        admissible: the commands that can be given first.

    Raises:
        GameError: the text opens no household game, or its task is none of ALFWorld's sentences.
    """

    def __init__(self, opening: str, admissible: Sequence[str]) -> None:
        room, task = ROOM.search(opening), TASK.search(opening)
        if room is None or task is None:
            raise GameError(f"no opening of a household game: {opening[:80]!r}.")
        self.task = task[1].strip()
        self.goal: Goal = read_sentence(self.task)
        self.receptacles: tuple[str, ...] = tuple(_names(room[1]))
        """Receptacles of the room, as the opening lists them."""
        self.here: tuple[str, ...] = ()
        """Receptacles at the player's place, the one gone to first; empty in the middle of the room."""
        self.held = ""
        self.origin = ""
        """The receptacle that the thing in hand was taken out of."""
        self.contents: dict[str, list[str]] = {}
        """Receptacle -> what is in it, of those that were looked into."""
        self.shut: set[str] = set()
        """Receptacles known to be closed."""
        self.conditions: dict[str, set[str]] = {}
        """Thing -> what was done to it: clean, hot, cool; `on` of a lamp."""
        self.last, self.feedback = "", ""
        """The last command, and what the game answered."""
        self.again = False
        """True if the last command led to a receptacle that was known, or examined one."""
        self.admissible: tuple[str, ...] = tuple(admissible)
        """The commands that can be given now."""
        self._look_around("")

    def update(self, command: str, feedback: str, admissible: Sequence[str]) -> None:
        """Take up what the game answers to a command, and the commands that can be given now."""
        # One line, as the state text has one line for it.
        self.last, self.feedback, self.admissible = command, " ".join(feedback.split()), tuple(admissible)
        # The game says where one arrived only as "loc 8" in the older wording, so the command tells.
        gone_to = command.removeprefix("go to ") if self.feedback.startswith("You arrive at ") else ""
        subject = gone_to or command.removeprefix("examine ")
        # Asked before this answer is taken up, which would make every place known.
        self.again = subject in self.contents or subject in self.shut
        self._handle()
        self._look_around(gone_to)
        self._read()

    def forget_last(self) -> None:
        """Go on as if nothing had been done yet; what was seen stays known."""
        self.last, self.feedback, self.again = "", "", False

    def _handle(self) -> None:
        """Take up what the command did to things."""
        if taken := TAKEN.match(self.feedback):
            self.held, self.origin = taken[1], taken[2]
            # A thing can have been seen in two receptacles; in hand it is in none of them for the player.
            self._remove(taken[1])
        elif put := PUT.match(self.feedback):
            self.held, self.origin = "", ""
            # Removed first, in case it was still believed to be elsewhere.
            self._remove(put[1])
            self.contents.setdefault(put[2], []).append(put[1])
        elif treated := TREATED.match(self.feedback):
            condition = CONDITIONS[treated[1]]
            known = self.conditions.setdefault(treated[2], set())
            # Heating undoes cooling and the other way round, as in the game.
            known.discard(OPPOSITES.get(condition, ""))
            known.add(condition)
        elif lit := LIT.match(self.feedback):
            self.conditions.setdefault(lit[1], set()).add("on")

    def _remove(self, thing: str) -> None:
        for things in self.contents.values():
            if thing in things:
                things.remove(thing)

    def _read(self) -> None:
        """Take up what the text lists, and what it says is closed or open."""
        if closed := CLOSED.search(self.feedback):
            self.shut.add(closed[1])
        elif self.feedback.startswith("You close the "):
            self.shut.add(self.feedback.removeprefix("You close the ").removesuffix("."))
        opened = OPEN.search(self.feedback)
        if opened:
            self.shut.discard(opened[1])
        seen = SEEN.search(self.feedback)
        # "In it" does not name the receptacle; the sentence before it does.
        receptacle = (seen[1] or (opened[1] if opened else "")) if seen else ""
        # A mug or plate can be looked into as well, and is no receptacle of the room.
        if seen and receptacle in self.receptacles:
            self.contents[receptacle] = _names(seen[2])

    def _look_around(self, gone_to: str) -> None:
        """Take up place and things at hand from the commands, which name all that lies within reach."""
        listed = set(self.admissible)
        # Every receptacle at the player's place can be examined, so these commands tell the place.
        here = [name for name in self.receptacles if f"examine {name}" in listed]
        # The one that was gone to comes first; the others at the same place follow.
        self.here = tuple(sorted(here, key=lambda name: name != (gone_to or (self.here or ("",))[0])))
        within_reach: dict[str, list[str]] = {}
        for command in self.admissible:
            if take := TAKE.match(command):
                within_reach.setdefault(take[2], []).append(take[1])
        for name in here:
            if f"open {name}" in listed:
                self.shut.add(name)
            # With a thing in hand nothing can be taken, so an empty list of takes tells nothing.
            elif not self.held:
                self.shut.discard(name)
                known = self.contents.setdefault(name, [])
                known += [thing for thing in within_reach.get(name, []) if thing not in known]
        self._add_lamps(here)

    def _add_lamps(self, here: Sequence[str]) -> None:
        """A lamp that can be used here, although it was not listed, stands where one went."""
        known = {thing for things in self.contents.values() for thing in things}
        for command in self.admissible:
            lamp = command.removeprefix("use ")
            # Several receptacles may be here; the one gone to is the best guess.
            if lamp != command and lamp not in known and here:
                self.contents.setdefault(self.here[0], []).append(lamp)

    def is_idle(self, command: str) -> bool:
        """True for a command that can tell nothing new: a look around, or at what is known."""
        verb, _, rest = command.partition(" ")
        if verb == "examine":
            return rest == self.held or rest in self.contents or rest in self.shut
        return verb in ("look", "inventory", "help")

    @property
    def stage(self) -> int:
        """Number of parts of the task that are done: thing in hand, treated; of two things, two for each placed."""
        goal = self.goal
        holds = kind_of(self.held) == goal.object_kind
        if goal.task_type == "pick_two_obj_and_place":
            # Only a pair in one receptacle counts, so the fullest one decides.
            placed = Counter(place for _, place in self.things(goal.object_kind) if kind_of(place) == goal.target_kind)
            return 2 * max(placed.values(), default=0) + holds
        condition = TREATMENTS[goal.task_type][1] if goal.task_type in TREATMENTS else ""
        return holds + (holds and condition in self.conditions.get(self.held, ()))

    def things(self, kind: str) -> list[tuple[str, str]]:
        """The things of a kind that were seen and are not in hand, each with its receptacle."""
        return [(name, place) for place, names in self.contents.items() for name in names if kind_of(name) == kind]


INVERSES: Final = {"open": "close", "close": "open"}


class Trail:
    """Commands that lead from the beginning of a game to where it is.

    What changes nothing is left out, of several ways in a row the last stays, and what was undone at once is dropped.
    So equal trails lead to equal states, and most equal states have equal trails.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[str, tuple[str, ...]]] = []
        """Commands, and the receptacles at the player's place after each."""

    @property
    def commands(self) -> list[str]:
        """The commands, in order."""
        return [command for command, _ in self._steps]

    def add(self, command: str, memory: Memory) -> None:
        """Take up a command that was given.

        Args:
            command: that was given.
            memory: of the player, after it.
        """
        verb = command.partition(" ")[0]
        # These change nothing, so they are no part of the way.
        if verb in ("look", "inventory", "help", "examine"):
            return
        if verb == "go":
            self._go(command, memory.here)
        elif self._steps and _undoes(command, self._steps[-1][0]):
            self._steps.pop()
        else:
            self._steps.append((command, memory.here))

    def _go(self, command: str, here: tuple[str, ...]) -> None:
        # Only the last of several ways in a row matters.
        if self._steps and self._steps[-1][0].startswith("go "):
            self._steps.pop()
        # Coming back to where the last change happened needs no way at all.
        if not self._steps or set(self._steps[-1][1]) != set(here):
            self._steps.append((command, here))


def _undoes(command: str, before: str) -> bool:
    """True for a command that undoes the one before it.

    >>> _undoes("put mug 1 in/on desk 1", "take mug 1 from desk 1")
    True
    """
    verb, _, rest = command.partition(" ")
    verb_before, _, rest_before = before.partition(" ")
    if verb in INVERSES:
        return verb_before == INVERSES[verb] and rest == rest_before
    return verb in ("put", "move") and verb_before == "take" and _pair(rest) == _pair(rest_before)


def _pair(rest: str) -> list[str]:
    # Both wordings and both directions in one form: thing, then receptacle.
    return rest.replace(" in/on ", " to ").replace(" from ", " to ").split(" to ")
