"""The list of commands that a state offers: ScienceWorld takes hundreds to thousands, a prompt lists some tens.

What is left out is decided by the form of a command and by the task's description alone, never by the solution of the
variation that is played, so training and test lists are made the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import zip_longest
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
        "power-component": "connect focus open",
        "power-component-renewable-vs-nonrenewable-energy": "activate connect drop focus open pick",
        **dict.fromkeys(("test-conductivity", "test-conductivity-of-unknown-substances"), _WIRE),
    }.items()
}
"""First words of the commands in the gold paths of the training variations of each task, alike tasks together."""
PHRASAL: Final = frozenset(("pick", "put", "look", "focus"))
"""First words of verbs of two words."""
LINKS: Final[dict[str, tuple[str, ...]]] = {"pour": ("into", "in"), "use": ("on",)}
"""Words between the two things of a command; others have `to`."""
UNRELATED: Final = 5
"""Rank of commands about two things that the task does not name and nobody carries."""
SELDOM: Final = {"focus": 1, "mix": 2, "look": 4, "put": 4}
"""Ranks of commands about one thing that the task does not name and nobody carries; other commands have rank 0."""
WHOLE: Final = ("mix", "pick", "read")
"""First words of commands about one thing, whatever its name."""
DEVICE: Final = ("activate ", "deactivate ", "open ", "close ")
"""Beginnings of the commands that only sinks, stoves, freezers and the like take."""
WIRE_ENDS: Final = frozenset(("terminal 1", "terminal 2"))
TERMINALS: Final = WIRE_ENDS | {"anode", "cathode"}
SYNONYMS: Final = {"examine": "look at", "drop": "put down"}
"""Words of gold paths that lists of commands do not use."""


def listed(commands: Iterable[Command], task: str, description: str, carried: str, most: int) -> tuple[Command, ...]:
    """The commands that a state offers, in a fixed order.

    1. Of several names for the same command the shortest counts.
    2. Commands stay that begin like one in the gold paths of the task's training variations (`FIRST_WORDS`).
    3. Commands fall away that handle a place, a door, the air or the agent, and those about two things of which
       neither is named in the task's description or carried.
    4. Tasks with wires join the ends of wires to other things, in one order, and handle no terminals otherwise.
    5. If more than `most` are left, commands about one thing come first; those with a verb of `SELDOM` later, unless
       the thing is named or carried. Then come those about two named or carried things, or one of
       these and a device; then about one such thing, a generator or a full cup.

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
    # Tasks without wires offer no commands about terminals.
    names = {name for c in named.values() for group in c.names for name in group} if "connect " in beginnings else set()
    wired = {owner for name in names if (owner := _owner(name))}
    sources = {name for c in named.values() for group in c.names if "generator" in group for name in group}
    devices = {c.objects[0] for c in named.values() if c.text.startswith(DEVICE) and len(c.objects) == 1}
    ranks = {c: _rank(c, description.lower(), carried.lower(), wired, sources, devices) for c in named.values()}
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
    words = _objects(text)
    for link in (" to ", " into ", " on "):
        before, found, after = words.partition(link)
        if found:
            return [before.strip(), after]
    return [words.strip()]


def _objects(text: str) -> str:
    """Words of a command behind its verb."""
    first, _, rest = text.partition(" ")
    return rest.partition(" ")[2] if first in PHRASAL else rest


def _rank(
    command: Command, description: str, carried: str, wired: Set[str], sources: Set[str], devices: Set[int]
) -> int:
    """Place of a command in a list that is too long, smaller is kept; `UNRELATED` falls away."""
    verb = command.text.split()[0]
    # `read instructions to make salt water` is about one thing.
    things = [_objects(command.text)] if verb in WHOLE else _things(command.text)
    if wired and any(TERMINALS & {*names} for names in command.names) and not _joins(command, wired):
        return UNRELATED
    in_task = [any(name in description for name in _called(*pair)) for pair in zip_longest(things, command.names)]
    known = [told or thing in carried for told, thing in zip(in_task, things, strict=False)]
    if len(things) == 1:
        return 0 if verb not in SELDOM or known[0] else SELDOM[verb]
    if all(known) or (known[0] and verb == "move" and command.objects[1] in devices):
        return 1
    # Liquids and conductors are never carried.
    if verb == "connect":
        return 2 if any(in_task) else 3 if sources & {*_called(None, command.names[1])} else 4
    if verb == "pour":
        source = command.names[0] if command.names else ()
        full = any(" containing " in name and not name.endswith(" nothing") for name in source)
        return 2 if full else 3 if any(known) else 4
    return 2 if any(in_task) else 3 if any(known) else UNRELATED


def _called(thing: str | None, names: Sequence[str] | None) -> list[str]:
    """Names that a task may have for a thing: a terminal is called by the part that it belongs to."""
    return [*filter(None, [thing]), *(owner for name in names or () if (owner := _owner(name)))]


def _owner(name: str) -> str:
    """Thing that a terminal is a part of, by its name; empty for other names.

    >>> _owner("red light bulb anode"), _owner("black wire terminal 1"), _owner("anode")
    ('red light bulb', 'black wire', '')
    """
    return next((name.removesuffix(end).strip() for end in sorted(TERMINALS) if name.endswith(f" {end}")), "")


def _joins(command: Command, wired: Set[str]) -> bool:
    """Tell whether a command joins the end of a wire to another thing: everything is wired so, in one order."""
    if not command.text.startswith("connect ") or len(command.names) != 2:
        return False
    wire, other = ({*names} for names in command.names)
    return bool(WIRE_ENDS & wire) and not WIRE_ENDS & other and not wired & other


def counterpart(gold: str, commands: Sequence[Command]) -> int | None:
    """Index of the listed command that a command of a gold path means; None where there is none.

    Gold paths call things by any of their names, and add what they are in: `focus on cathode in red light bulb`. Meant
    is the command with the same first word for each of whose things the gold one begins with some name; of several the
    one with the longest such names, then the one of whose other names and words it has most.

    >>> dove = Command("focus on egg", 11, (1,), (("egg", "dove egg"),))
    >>> parrot = Command("focus on parrot egg", 11, (2,), (("egg", "parrot egg"),))
    >>> counterpart("focus on parrot egg in inventory", (dove, parrot)), counterpart("open door", (dove, parrot))
    (1, None)
    """
    first, _, rest = gold.lower().partition(" ")
    plain = f"{SYNONYMS.get(first, first)} {rest}".strip()
    exact = [index for index, command in enumerate(commands) if command.text == plain]
    # The first listed wins a tie.
    fitting = [(*fit, -index) for index, command in enumerate(commands) if (fit := _fit(plain, command))]
    return exact[0] if exact else -max(fitting)[-1] if fitting else None


def _fit(gold: str, command: Command) -> tuple[int, int, int] | None:
    """Measure how well a gold command fits a listed one, greater is better; None where it means another."""
    verb = gold.split(maxsplit=1)[0]
    if command.text.split()[0] != verb or not command.names:
        return None
    rest, links = _objects(gold), LINKS.get(verb, ("to",))
    words = rest.split()
    splits = [(" ".join(words[:k]), " ".join(words[k + 1 :])) for k, word in enumerate(words) if word in links]
    # A wire may be connected from either end.
    orders = (command.names, command.names[::-1]) if verb == "connect" else (command.names,)
    fits = [
        (sum(map(_begins, parts, names)), sum(map(_contains, parts, names)))
        for parts in ([(rest,)] if len(command.names) == 1 else splits)
        for names in orders
        if all(map(_begins, parts, names))
    ]
    return (*max(fits), len({*words} & {*command.text.split()})) if fits else None


def _begins(part: str, names: Sequence[str]) -> int:
    """Words of the longest name with which a part of a gold command begins."""
    return max((len(name.split()) for name in names if f"{part} ".startswith(f"{name} ")), default=0)


def _contains(part: str, names: Sequence[str]) -> int:
    """Words of the longest name all of whose words are in a part of a gold command."""
    return max((len(name.split()) for name in names if {*name.split()} <= {*part.split()}), default=0)
