"""ALFWorld's hand-coded expert, written anew from what it does: a mediocre player to learn from and to improve on.

It looks for a thing in the receptacles of the room one by one, from the end of the opening's list, wherever such things
are likely to be. It opens what is closed, and closes it again if the thing is not inside. Once it has taken or put
something down, it forgets where another such thing was, and begins its search from the start (Shridhar et al. 2021,
arXiv:2010.03768). Three things differ from ALFWorld's: of several things it takes the first and not a random one, it
does not begin with `look`, and where one cannot go to a receptacle, because one stands at it already, it opens or
examines that instead of doing something random.
"""

from __future__ import annotations

from typing import Final

from alfworld_native.memory import Memory
from alfworld_native.sentence import TREATMENTS, kind_of

BASIN: Final = "bathtubbasin"
"""A bathtub cleans like a sink, where there is no sink."""


class HandcodedExpert:
    """Player of one episode. It may watch the commands of other players, and say what it would do.

    Args:
        memory: what the player was told; it is kept up to date elsewhere, and `observe` is called after that.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._unchecked: list[str] = []
        """Receptacles of the search that goes on, the next one last; empty: a search begins."""
        self._seen: dict[str, tuple[str, str]] = {}
        """Kind of thing -> thing, and the receptacle it was seen in last."""

    def observe(self, command: str) -> None:
        """Take up a command that was given; the memory knows the answer already."""
        memory = self.memory
        verb, _, rest = command.partition(" ")
        if verb in ("go", "open", "examine"):
            # A second receptacle of a place is not gone to, but opened or examined.
            checked = rest.removeprefix("to ")
            queue = self._unchecked or list(memory.receptacles)
            self._unchecked = [name for name in queue if name != checked]
        for name in memory.here:
            for thing in memory.contents.get(name, ()):
                self._seen[kind_of(thing)] = (thing, name)
        if verb in ("take", "put", "move"):
            # It forgets all that it knew of the kind it handled, and where it was in its search.
            self._seen.pop(rest.partition(" ")[0], None)
            self._unchecked = [name for name in memory.receptacles if name not in memory.here]

    def command(self) -> str:
        """The next command; one that is admissible."""
        memory, goal = self.memory, self.memory.goal
        if memory.held and kind_of(memory.held) != goal.object_kind:
            wanted = self._discard()
        elif not memory.held:
            wanted = self._take() or self._find(goal.object_kind)
        elif goal.task_type == "look_at_obj_in_light":
            wanted = self._able(f"use {goal.target_kind} ") or self._find(goal.target_kind)
        else:
            wanted = self._treat() or self._deliver()
        return wanted if wanted in memory.admissible else self._any_way()

    def _able(self, beginning: str) -> str:
        return next((command for command in self.memory.admissible if command.startswith(beginning)), "")

    def _of_kind(self, kind: str) -> list[str]:
        return [name for name in self.memory.receptacles if kind_of(name) == kind]

    def _placed(self, receptacle: str) -> list[str]:
        """Wanted things in a receptacle where they belong, for a task with two of them."""
        goal = self.memory.goal
        if goal.task_type != "pick_two_obj_and_place" or kind_of(receptacle) != goal.target_kind:
            return []
        return [thing for thing in self.memory.contents.get(receptacle, ()) if kind_of(thing) == goal.object_kind]

    def _take(self) -> str:
        kind = self.memory.goal.object_kind
        takes = (command for command in self.memory.admissible if command.startswith(f"take {kind} "))
        # Things that were placed already stay where they are.
        return next((take for take in takes if not self._placed(take.rpartition(" from ")[2])), "")

    def _find(self, kind: str) -> str:
        """The next command of the search for a thing of a kind."""
        memory = self.memory
        verb, _, rest = memory.last.partition(" ")
        if verb == "open" and f"close {rest}" in memory.admissible:
            return f"close {rest}"
        # Only the receptacle that it went to is opened, and only on arriving.
        if verb == "go" and memory.here and f"open {memory.here[0]}" in memory.admissible:
            return f"open {memory.here[0]}"
        if (seen := self._seen.get(kind)) and not self._placed(seen[1]) and seen[1] not in memory.here:
            return f"go to {seen[1]}"
        queue = self._unchecked or self.memory.receptacles
        return next((way for way in map(self._way, reversed(queue)) if way), "")

    def _way(self, name: str) -> str:
        """The way to a receptacle, or into it where it is at this place; empty where there is nothing to do."""
        memory = self.memory
        if name not in memory.here:
            return f"go to {name}"
        if f"open {name}" in memory.admissible:
            return f"open {name}"
        return "" if name in memory.contents else f"examine {name}"

    def _treat(self) -> str:
        """Command towards the treatment of the thing in hand; empty where none is wanted any more."""
        memory = self.memory
        if memory.goal.task_type not in TREATMENTS:
            return ""
        verb, condition, tools = TREATMENTS[memory.goal.task_type]
        if condition in memory.conditions.get(memory.held, ()):
            return ""
        # The last one listed of a kind, as in every search; a basin before a sink.
        tool = next((self._of_kind(kind)[-1] for kind in (*tools, BASIN) if self._of_kind(kind)), "")
        return self._able(f"{verb} {memory.held} ") or self._way(tool)

    def _deliver(self) -> str:
        kind = self.memory.goal.target_kind
        targets = self._of_kind(kind)
        # A pair must end in one receptacle; `max` keeps the first of equals, here the last one listed.
        target = max(reversed(targets), key=lambda name: len(self._placed(name)), default="")
        return self._put_into(target) or (self._way(target) if target else "")

    def _put_into(self, receptacle: str) -> str:
        puts = (command for command in self.memory.admissible if command.startswith(("put ", "move ")))
        return next((put for put in puts if put.endswith(f" {receptacle}")), "")

    def _discard(self) -> str:
        """Command that brings a wrong thing back to where it was taken."""
        memory = self.memory
        back = self._put_into(memory.origin) or (self._way(memory.origin) if memory.origin else "")
        return back or self._able("put ") or self._able("move ")

    def _any_way(self) -> str:
        """Somewhere else, where its rules name nothing that can be done: the next receptacle of the room."""
        return self._able("go to ") or self.memory.admissible[0]
