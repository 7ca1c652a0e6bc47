"""Tasks told in hindsight: a command that somebody gave by chance, under a task for which it was right.

Play without an aim teaches nothing about tasks, but under another task the same command would have been the one to
give: whoever happened to take a mug did what "put a mug in cabinet." asks for first. Such pairs of a task and a command
need no expert, and there are as many as one cares to play. The idea is that of Andrychowicz et al. 2017, "Hindsight
Experience Replay" (arXiv:1707.01495); here it gives rows for supervised training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alfworld_native.engine import Game
from alfworld_native.generate import SENTENCES
from alfworld_native.memory import TAKE, Memory
from alfworld_native.problem import Goal, Receptacle, Thing
from alfworld_native.record import TaskType
from alfworld_native.sentence import TREATMENTS, kind_of

if TYPE_CHECKING:
    import numpy as np

LAMP: Final = "desklamp"
"""The lamp that ALFWorld's tasks name."""
VAIN: Final = frozenset({"look", "inventory", "help"})
"""First words of commands that tell nothing new."""
IDLE: Final = frozenset({"go", "open", "close", "examine", *VAIN})
"""First words of commands that do nothing with a thing."""
LAST: Final = 3
"""Exchanges at the end of a state that stay."""


@dataclass(frozen=True, slots=True)
class Before:
    """Knowledge of a player before a command, as far as it says which commands are right."""

    held: str
    """Name of the thing in hand; empty: none."""
    origin: str
    """The receptacle that it was taken out of."""
    conditions: frozenset[str]
    """Conditions of it, as `Memory.conditions` has them."""
    lit: frozenset[str]
    """Names of the lamps that are on."""
    at_hand: frozenset[str]
    """Kinds of the things that could be taken."""

    @classmethod
    def of(cls, memory: Memory) -> Before:
        """The part of a memory that counts."""
        takes = (TAKE.match(command) for command in memory.admissible)
        return cls(
            memory.held,
            memory.origin,
            frozenset(memory.conditions.get(memory.held, ())),
            frozenset(name for name, conditions in memory.conditions.items() if "on" in conditions),
            frozenset(kind_of(take[1]) for take in takes if take),
        )


def fitting_goals(game: Game, before: Before, command: str, after: Memory) -> list[Goal]:
    """The goals for which a command was a right one.

    Args:
        game: what was played.
        before: what the player knew before the command.
        command: that was given.
        after: what the player knew after it.

    Returns:
        Every goal once, in a fixed order; none for a command that leads to nothing, such as `look`.
    """
    verb, _, rest = command.partition(" ")
    # Several receptacles may share a place, so the command says which one is meant.
    place = game.receptacles.get(rest.removeprefix("to ")) if verb in ("go", "open") else None
    if before.held:
        goals = list(_with_thing(game, before, command, place, after))
    elif verb == "take" and after.held:
        goals = list(_with_empty_hand(game, game.things[after.held], game.receptacles.get(after.origin)))
    elif place is not None:
        seen = [game.things[name] for name in after.contents.get(place.name, ()) if name in game.things]
        # Nobody goes elsewhere for a thing of a kind that is at hand.
        wanted = [thing for thing in seen if thing.pickupable and thing.kind not in before.at_hand]
        goals = [goal for thing in wanted for goal in _with_empty_hand(game, thing, place)]
    else:
        return []
    moved = before.held or after.held
    return [goal for goal in dict.fromkeys(goals) if not _is_done(game, goal, after, moved)]


def _is_done(game: Game, goal: Goal, after: Memory, moved: str) -> bool:
    """Tell whether the player sees that a game with this goal was won before, or that it cannot be won."""
    if goal.task_type == "pick_two_obj_and_place":
        return sum(thing.kind == goal.object_kind for thing in game.things.values()) < 2
    if goal.task_type != "pick_and_place_simple":
        return False
    return any(
        name != moved and name in game.things and game.things[name].kind == goal.object_kind
        for place, names in after.contents.items()
        if place in game.receptacles and game.receptacles[place].kind == goal.target_kind
        for name in names
    )


def drawn_sentence(goals: Sequence[Goal], rng: np.random.Generator) -> str:
    """The sentence of one of some goals: each kind of task is as likely as the next, and so are its two sentences.

    >>> import numpy as np
    >>> drawn_sentence([Goal("look_at_obj_in_light", "mug", "desklamp")], np.random.default_rng(0))
    'examine the mug with the desklamp.'
    """
    kinds = list(dict.fromkeys(goal.task_type for goal in goals))
    kind = kinds[int(rng.integers(len(kinds)))]
    fitting = [goal for goal in goals if goal.task_type == kind]
    goal = fitting[int(rng.integers(len(fitting)))]
    return SENTENCES[kind][int(rng.integers(2))].format(thing=goal.object_kind, target=goal.target_kind)


def retold(text: str, sentence: str) -> str:
    """A raw state under another task, and without what its player did in vain before.

    What stays of the commands and answers are the last ones, those that did something with a thing, and the one
    before each of these, which led there. So states are short, which a small model needs to learn from them.

    Args:
        text: of the state, as `Transcript.text` has it.
        sentence: of the task.
    """
    _, room, *lines = text.split("\n")
    exchanges = [each for each in zip(lines[::2], lines[1::2], strict=True) if _verb(each[0]) not in VAIN]
    does = [_verb(command) not in IDLE for command, _ in exchanges]
    kept = [
        f"{command}\n{answer}"
        for number, (command, answer) in enumerate(exchanges)
        if number >= len(exchanges) - LAST or any(does[number : number + 2])
    ]
    return "\n".join((f"Your task is to: {sentence}", room, *kept))


def _verb(line: str) -> str:
    """First word of the command in a line such as "> go to bed 1"."""
    return line.removeprefix("> ").partition(" ")[0]


def _with_empty_hand(game: Game, thing: Thing, lies_in: Receptacle | None) -> Iterator[Goal]:
    """Goals of a player who finds or takes a thing in a receptacle, or elsewhere (None)."""
    for receptacle in game.receptacles.values():
        # A thing that lies in a receptacle of the right kind would have to be put where it is.
        if thing.kind in receptacle.accepts and not _is_alike(lies_in, receptacle):
            yield Goal("pick_and_place_simple", thing.kind, receptacle.kind)
            yield Goal("pick_two_obj_and_place", thing.kind, receptacle.kind)
            yield from (Goal(each, thing.kind, receptacle.kind) for each in _treatments(thing))
    yield from _lit(game, thing)


def _with_thing(game: Game, before: Before, command: str, place: Receptacle | None, after: Memory) -> Iterator[Goal]:
    """Goals of a player who has a thing in hand, and goes to a place or opens it, or does something else (None)."""
    thing, verb = game.things[before.held], command.partition(" ")[0]
    done = [each for each in _treatments(thing) if TREATMENTS[each][1] in before.conditions]
    if verb in ("put", "move") and not after.held:
        into = next((name for name, things in after.contents.items() if thing.name in things), "")
        yield from _placed(game, thing, before, game.receptacles.get(into), done)
    elif verb == "use" and command.removeprefix("use ") not in before.lit:
        yield from _lit(game, thing)
    elif place is not None:
        yield from _placed(game, thing, before, place, done)
        if verb == "go":
            # Things are treated without opening anything.
            yield from _anywhere(game, thing, [each for each in _treated_at(game, thing, place) if each not in done])
        if any(kind_of(name) == LAMP for name in after.contents.get(place.name, ())):
            yield from _lit(game, thing)
    else:
        wanted = [each for each in _treatments(thing) if TREATMENTS[each][0] == verb]
        yield from _anywhere(game, thing, [each for each in wanted if each not in done])


def _placed(
    game: Game, thing: Thing, before: Before, into: Receptacle | None, done: Sequence[TaskType]
) -> Iterator[Goal]:
    """Goals that want a thing, treated or not, in a receptacle."""
    # A thing that lay in such a receptacle had not to be taken, but for a treatment.
    is_elsewhere = into is not None and not _is_alike(game.receptacles.get(before.origin), into)
    if into is not None and thing.kind in into.accepts and (done or is_elsewhere):
        plain: tuple[TaskType, ...] = ("pick_and_place_simple", "pick_two_obj_and_place")
        # A cleaned thing is rather wanted clean: a task that does not ask for it would not have had it cleaned.
        yield from (Goal(each, thing.kind, into.kind) for each in done or plain)


def _is_alike(one: Receptacle | None, other: Receptacle) -> bool:
    return one is not None and one.kind == other.kind


def _treated_at(game: Game, thing: Thing, place: Receptacle) -> Iterator[TaskType]:
    """Kinds of task in which a thing is treated at a receptacle."""
    for each in _treatments(thing):
        verb, _, tools = TREATMENTS[each]
        if place.kind in (game.words.cleaners if verb == "clean" else tools):
            yield each


def _anywhere(game: Game, thing: Thing, task_types: Sequence[TaskType]) -> Iterator[Goal]:
    """Goals of these kinds, wherever the thing fits."""
    for each in task_types:
        for receptacle in game.receptacles.values():
            if thing.kind in receptacle.accepts:
                yield Goal(each, thing.kind, receptacle.kind)


def _lit(game: Game, thing: Thing) -> Iterator[Goal]:
    """The goal of who looks at a thing under a lamp, where there is one."""
    if any(each.kind == LAMP for each in game.things.values()):
        yield Goal("look_at_obj_in_light", thing.kind, LAMP)


def _treatments(thing: Thing) -> list[TaskType]:
    """Kinds of task in which a thing of this kind is cleaned, heated or cooled."""
    able: dict[TaskType, bool] = {
        "pick_clean_then_place_in_recep": thing.cleanable,
        "pick_heat_then_place_in_recep": thing.heatable,
        "pick_cool_then_place_in_recep": thing.coolable,
    }
    return [each for each, is_able in able.items() if is_able]
