r"""The state of a household game as text, and back: the one place that knows its sections.

Each section is a line. Of the things that were seen only those stand there that the task is about; of the receptacles
all, each kind once with its numbers (`cabinet 1=17 2-26`). Behind a receptacle or command can stand `=` and the place
of the command (`go to` for a receptacle) in the action list, which is its number unless labels are shuffled. So a
reflection can say which number it means, and the policy need not look a name up in a long list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from alfworld_native.memory import Memory
from alfworld_native.problem import Goal
from alfworld_native.sentence import kind_of, number_of, read_sentence


class Found(NamedTuple):
    """A thing that the task is about, and where it was seen."""

    thing: str
    conditions: tuple[str, ...]
    """Conditions: clean, hot, cool; `on` of a lamp."""
    receptacle: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Contents of a state text."""

    task: str
    here: tuple[str, ...] = ()
    """Receptacles at the player's place, the one gone to first; empty in the middle of the room."""
    held: str = ""
    conditions: tuple[str, ...] = ()
    """Conditions of the thing in hand."""
    origin: str = ""
    """The receptacle that it was taken out of, if the task is not about such things."""
    can: tuple[str, ...] = ()
    """Commands that could help the task here; ways to other places are not among them."""
    found: tuple[Found, ...] = ()
    closed: tuple[str, ...] = ()
    """Receptacles found closed, and not looked into."""
    searched: tuple[str, ...] = ()
    """Receptacles that were looked into, and can be reached into."""
    shut: tuple[str, ...] = ()
    """Receptacles that were looked into, and are closed again."""
    unseen: tuple[str, ...] = ()
    """Receptacles that were not visited."""
    last: str = ""
    """The last command."""
    again: bool = False
    """True if the last command led to, or examined, a receptacle that was known."""
    result: str = ""
    """The game's answer to the last command."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Command -> its place in the action list, of those that the text gives."""

    @property
    def receptacles(self) -> tuple[str, ...]:
        """Receptacles of the room."""
        return (*self.closed, *self.known, *self.unseen)

    @property
    def known(self) -> tuple[str, ...]:
        """Receptacles that were looked into."""
        return (*self.searched, *self.shut)


def goal_of(scene: Scene) -> Goal:
    """Goal that the task sentence states."""
    return read_sentence(scene.task)


def scene_of(memory: Memory, listed: Iterable[str] = ()) -> Scene:
    """Scene of a memory: the part of it that concerns the task.

    Args:
        memory: of the player.
        listed: the action list, to say the places of commands too.
    """
    # Things of other kinds are left out: no task is about them, and they would fill the text.
    kinds = _kinds(memory.goal)
    known = memory.contents
    # Closed and never looked into; what was looked into and closed again is listed apart.
    closed = {name for name in memory.shut if name not in known}
    found = [Found(thing, _conditions(memory, thing), where) for kind in kinds for thing, where in memory.things(kind)]
    return Scene(
        task=memory.task,
        here=memory.here,
        held=memory.held,
        conditions=_conditions(memory, memory.held),
        # Only a wrong thing has to go back to where it came from.
        origin=memory.origin if kind_of(memory.held) not in kinds else "",
        can=tuple(_helpful(memory, kinds)),
        found=tuple(found),
        closed=_ordered(closed),
        searched=_ordered(name for name in known if name not in memory.shut),
        shut=_ordered(memory.shut - closed),
        unseen=_ordered(name for name in memory.receptacles if name not in known and name not in closed),
        last=memory.last,
        again=memory.again,
        result=memory.feedback,
        # Numbers count from 0, like the indices of actions.
        numbers={command: place for place, command in enumerate(listed)},
    )


def _kinds(goal: Goal) -> tuple[str, ...]:
    """Kinds of things that the task is about."""
    return (goal.object_kind, goal.target_kind) if goal.task_type == "look_at_obj_in_light" else (goal.object_kind,)


def _conditions(memory: Memory, thing: str) -> tuple[str, ...]:
    return tuple(sorted(memory.conditions.get(thing, ())))


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    # By number, not by text: cabinet 10 comes after cabinet 9.
    return tuple(sorted(names, key=lambda name: (kind_of(name), number_of(name))))


HELPFUL: Final = frozenset({"open", "put", "move", "clean", "heat", "cool", "use"})
"""Verbs of commands that can help whatever they name."""


def _helpful(memory: Memory, kinds: tuple[str, ...]) -> Iterator[str]:
    for command in memory.admissible:
        verb, _, rest = command.partition(" ")
        if verb == "take":
            if kind_of(rest.partition(" from ")[0]) in kinds:
                yield command
        elif verb == "examine":  # what lies in another receptacle of this place cannot be seen with full hands
            if rest in memory.here and rest not in memory.contents and rest not in memory.shut:
                yield command
        # Any lamp can be used, but only the goal's kind helps.
        elif verb in HELPFUL and (verb != "use" or kind_of(rest) in kinds):
            yield command


def write_scene(scene: Scene) -> str:
    """The state text."""
    lines = [f"Task: {scene.task}", f"At: {', '.join(scene.here) or 'middle of the room'}", f"Hand: {_hand(scene)}"]
    sections = {
        "Can": ", ".join(command + _mark(scene, command) for command in scene.can),
        "Found": ", ".join(_found(scene, entry) for entry in scene.found),
        "Closed": _grouped(scene, scene.closed),
        "Searched": _grouped(scene, scene.searched),
        "Shut": _grouped(scene, scene.shut),
        "Unseen": _grouped(scene, scene.unseen),
        "Last": scene.last + (" (again)" if scene.again else ""),
    }
    lines += [f"{name}: {text}" for name, text in sections.items() if text]
    # The answer comes last, behind a mark, because it is free text and may contain ": ".
    return "\n".join([*lines, f"> {scene.result}"] if scene.result else lines)


def _hand(scene: Scene) -> str:
    origin = f" from {scene.origin}" + _mark(scene, f"go to {scene.origin}") if scene.origin else ""
    return (scene.held or "nothing") + _in_brackets(scene.conditions) + origin


def _in_brackets(words: tuple[str, ...]) -> str:
    return f" ({' '.join(words)})" if words else ""


def _mark(scene: Scene, command: str) -> str:
    return f"={scene.numbers[command]}" if command in scene.numbers else ""


def _found(scene: Scene, entry: Found) -> str:
    way = _mark(scene, f"go to {entry.receptacle}")
    return f"{entry.thing}{_in_brackets(entry.conditions)} in {entry.receptacle}{way}"


def _grouped(scene: Scene, names: tuple[str, ...]) -> str:
    """Names by kind, with runs of numbers; the first of each kind that is elsewhere has its mark.

    >>> _grouped(Scene(""), ("cabinet 1", "cabinet 2", "cabinet 3", "cabinet 5", "shelf 1"))
    'cabinet 1-3 5, shelf 1'
    >>> _grouped(Scene("", numbers={"go to cabinet 1": 4}), ("cabinet 1", "cabinet 2", "cabinet 3"))
    'cabinet 1=4 2-3'
    >>> _grouped(Scene("", numbers={"go to cabinet 2": 4}), ("cabinet 1", "cabinet 2", "cabinet 3"))
    'cabinet 1 2=4 3'
    """
    # A room has up to thirty cabinets; each kind is written once, with runs of numbers.
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(kind_of(name), []).append(name)
    parts = []
    for kind, members in kinds.items():
        marks = [_mark(scene, f"go to {name}") for name in members]
        numbers = [number_of(name) for name in members]
        # One number a kind keeps the text short.
        at = next((place for place, mark in enumerate(marks) if mark), len(members))
        first = [f"{numbers[at]}{marks[at]}"] if at < len(members) else []
        parts.append(" ".join([kind, *_runs(numbers[:at]), *first, *_runs(numbers[at + 1 :])]))
    return ", ".join(parts)


def _runs(numbers: list[int]) -> list[str]:
    """Numbers in rising order, runs of them shortened.

    >>> _runs([1, 2, 3, 5, 7, 8])
    ['1-3', '5', '7-8']
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]


ENTRY: Final = re.compile(r"(?P<name>.*?)(?: \((?P<conditions>[^()]*)\))?$")


def read_scene(text: str) -> Scene:
    """The scene that `write_scene` wrote; numbers that the text does not give are not there.

    Raises:
        ValueError: the text is no state of a household game.
    """
    lines = text.split("\n")
    # The answer line is skipped here, as it may look like a section.
    parts = dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith("> "))
    if not {"Task", "At", "Hand"} <= parts.keys():
        raise ValueError(f"no state of a household game: {text[:80]!r}")
    numbers: dict[str, int] = {}
    # No name of a thing contains " from ", so the split is safe.
    held, _, origin = parts["Hand"].partition(" from ")
    hand = ENTRY.fullmatch(held)
    last = parts.get("Last", "")
    return Scene(
        task=parts["Task"],
        here=tuple(parts["At"].split(", ")) if parts["At"] != "middle of the room" else (),
        held=hand["name"] if hand and hand["name"] != "nothing" else "",
        conditions=tuple((hand["conditions"] or "").split()) if hand else (),
        origin=_way(origin, numbers),
        can=tuple(_listed(parts, "Can", numbers)),
        found=tuple(_read_found(parts, numbers)),
        closed=tuple(_ungrouped(parts, "Closed", numbers)),
        searched=tuple(_ungrouped(parts, "Searched", numbers)),
        shut=tuple(_ungrouped(parts, "Shut", numbers)),
        unseen=tuple(_ungrouped(parts, "Unseen", numbers)),
        last=last.removesuffix(" (again)"),
        again=last.endswith(" (again)"),
        result=lines[-1].removeprefix("> ") if lines[-1].startswith("> ") else "",
        numbers=numbers,
    )


def _listed(parts: Mapping[str, str], section: str, numbers: dict[str, int]) -> Iterator[str]:
    """The commands of a section; their numbers go into `numbers`."""
    for entry in parts[section].split(", ") if section in parts else ():
        command, _, number = entry.partition("=")
        if number:
            numbers[command] = int(number)
        yield command


def _way(entry: str, numbers: dict[str, int]) -> str:
    """A receptacle; the number of the way to it goes into `numbers`."""
    receptacle, _, number = entry.partition("=")
    if number:
        numbers[f"go to {receptacle}"] = int(number)
    return receptacle


def _read_found(parts: Mapping[str, str], numbers: dict[str, int]) -> Iterator[Found]:
    for entry in parts["Found"].split(", ") if "Found" in parts else ():
        # From the right: the receptacle is the last part of an entry.
        left, _, right = entry.rpartition(" in ")
        receptacle = _way(right, numbers)
        thing = ENTRY.fullmatch(left)
        if thing:
            yield Found(thing["name"], tuple((thing["conditions"] or "").split()), receptacle)


def _ungrouped(parts: Mapping[str, str], section: str, numbers: dict[str, int]) -> Iterator[str]:
    for group in parts[section].split(", ") if section in parts else ():
        kind, *runs = group.split(" ")
        for run in runs:
            # A run that carries a number is always a single name.
            span, mark, number = run.partition("=")
            first, _, last = span.partition("-")
            _way(f"{kind} {first}{mark}{number}", numbers)
            yield from (f"{kind} {each}" for each in range(int(first), int(last or first) + 1))
