"""The list of commands that a state offers: ScienceWorld takes hundreds to thousands, a prompt lists some tens.

What is left out is decided by the form of a command and by the task's description alone, never by the solution of the
variation that is played, so training and test lists are made the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from reflect_games.scienceworld.world import FIRST_ANSWER, Command

ALWAYS: Final = ("go to ", "teleport to ", "look around", "wait1")
"""Beginnings of commands that every task offers."""
PLACES: Final = frozenset(
    (
        *("art studio", "bathroom", "bedroom", "foundry", "greenhouse", "hallway", "kitchen", "living room"),
        *("outside", "workshop", "agent", "air", "drain", "ground", "inventory", "sewer"),
    )
)
"""Names that are no things to be handled."""

_FIND = "focus move pick"
_MELT = "activate close deactivate examine focus look move open pick pour use wait"
_MIX = "activate deactivate examine focus mix move open pick pour read"
_GROW = "activate close deactivate focus move open pick pour"
_SLOPE = "activate deactivate examine focus move open pick"
_WIRE = "activate connect deactivate drop examine focus look move open pick"
FIRST_WORDS: Final[dict[str, frozenset[str]]] = {
    task: frozenset(words.split())
    for task, words in {
        **dict.fromkeys(("lifespan-longest-lived", "lifespan-shortest-lived"), "focus"),
        "lifespan-longest-lived-then-shortest-lived": "focus",
        "find-non-living-thing": "focus move",
        **dict.fromkeys(("find-living-thing", "find-animal", "find-plant"), _FIND),
        **dict.fromkeys(("identify-life-stages-1", "identify-life-stages-2"), "focus"),
        **dict.fromkeys(("boil", "melt", "freeze", "change-the-state-of-matter-of", "use-thermometer"), _MELT),
        **dict.fromkeys(("measure-melting-point-known-substance", "measure-melting-point-unknown-substance"), _MELT),
        **dict.fromkeys(("chemistry-mix", "chemistry-mix-paint-secondary-color"), _MIX),
        "chemistry-mix-paint-tertiary-color": _MIX,
        **dict.fromkeys(("grow-plant", "grow-fruit"), _GROW),
        **dict.fromkeys(("mendelian-genetics-known-plant", "mendelian-genetics-unknown-plant"), _GROW),
        **dict.fromkeys(("inclined-plane-determine-angle", "inclined-plane-friction-named-surfaces"), _SLOPE),
        "inclined-plane-friction-unnamed-surfaces": _SLOPE,
        **dict.fromkeys(("power-component", "power-component-renewable-vs-nonrenewable-energy"), _WIRE),
        **dict.fromkeys(("test-conductivity", "test-conductivity-of-unknown-substances"), _WIRE),
    }.items()
}
"""First words of the commands in the gold paths of the training variations of each task, alike tasks together."""
ADDITION: Final = re.compile(r" (?:containing|in) ")
"""Beginning of what gold paths add to the name of a thing."""
UNRELATED: Final = 3
"""Rank of commands about two things that the task does not name and nobody carries."""
SYNONYMS: Final = {"examine": "look at", "drop": "put down"}
"""Words of gold paths that lists of commands do not use."""


def listed(commands: Iterable[Command], task: str, description: str, carried: str, most: int) -> tuple[Command, ...]:
    """The commands that a state offers, in a fixed order.

    1. Of several names for the same command the shortest counts.
    2. Commands stay that begin like one in the gold paths of the task's training variations (`FIRST_WORDS`).
    3. Commands fall away that handle a place, a door, the air or the agent, and those about two things of which
       neither is named in the task's description or carried.
    4. If more than `most` are left, commands about one thing come first, then those about two of which one is named.

    Args:
        commands: all that the game takes.
        task: ScienceWorld's name.
        description: the task in words.
        carried: ScienceWorld's answer to `inventory`.
        most: length of the list.
    """
    beginnings = (*ALWAYS, *(f"{SYNONYMS.get(word, word)} " for word in FIRST_WORDS[task]))
    named: dict[tuple[object, ...], Command] = {}
    for command in sorted(commands, key=lambda command: (len(command.text), command.text)):
        if command.template >= FIRST_ANSWER or _fits(command.text, beginnings):
            # Without objects the text tells commands of one form apart: `wait` and `wait1`.
            named.setdefault((command.template, command.objects or command.text), command)
    ranks = {command: _rank(command.text, description.lower(), carried.lower()) for command in named.values()}
    ranked = sorted((c for c in ranks if ranks[c] < UNRELATED), key=lambda c: (ranks[c], c.text))
    return tuple(sorted(ranked[:most], key=lambda command: command.text))


def _fits(text: str, beginnings: tuple[str, ...]) -> bool:
    if not text.startswith(beginnings):
        return False
    if text.startswith(("go to ", "teleport to ", "open ", "close ")):
        return text.startswith(("open ", "close ")) or "door" not in text.split()
    return not any(thing in PLACES or "door" in thing.split() for thing in _things(text))


def _things(text: str) -> list[str]:
    """Names of the things that a command is about.

    >>> _things("move red box to table"), _things("look at stopwatch")
    (['red box', 'table'], ['stopwatch'])
    """
    words = text.removeprefix("pick up").removeprefix("put down").removeprefix("look at").removeprefix("focus on")
    if words == text:
        words = text.partition(" ")[2]
    for link in (" to ", " into ", " on "):
        before, found, after = words.partition(link)
        if found:
            return [before.strip(), after]
    return [words.strip()]


def _rank(text: str, description: str, carried: str) -> int:
    things = _things(text)
    if len(things) == 1:
        return 0
    # Liquids and conductors are never carried.
    if text.startswith(("connect ", "pour ")):
        return 2
    if any(thing in description for thing in things):
        return 1
    return 2 if any(thing in carried for thing in things) else UNRELATED


def counterpart(gold: str, commands: Sequence[Command]) -> int | None:
    """Index of the listed command that a command of a gold path means; None where there is none.

    Gold paths call things by other names than descriptions do, and add where they are and what they contain: `move egg
    parrot egg in inventory to red box` is `move parrot egg to red box`. Meant is the command with the same first word
    for each of whose things the gold one has all words of some name; of several the one with most words.

    >>> egg = Command("focus on egg", 11, (1,), (("egg",),))
    >>> parrot = Command("focus on parrot egg", 11, (2,), (("egg parrot",),))
    >>> counterpart("focus on egg parrot", (egg, parrot)), counterpart("open door to kitchen", (egg, parrot))
    (1, None)
    """
    first, _, rest = gold.partition(" ")
    plain = f"{SYNONYMS.get(first, first)} {rest}".strip()
    exact = [index for index, command in enumerate(commands) if command.text == plain]
    # The first listed wins a tie.
    fitting = [(count, -index) for index, command in enumerate(commands) if (count := _common(plain, command))]
    return exact[0] if exact else -max(fitting)[1] if fitting else None


def _common(gold: str, command: Command) -> int:
    """Words that a gold command has in common with a listed one; 0 where it means another."""
    things = _things(gold)
    if command.text.split()[0] != gold.split(maxsplit=1)[0] or not command.names or len(command.names) != len(things):
        return 0
    parts = [set(ADDITION.split(thing)[0].split()) for thing in things]
    lengths = [
        max((len(name.split()) for name in names if set(name.split()) <= part), default=0)
        for names, part in zip(command.names, parts, strict=True)
    ]
    return sum(lengths) if all(lengths) else 0
