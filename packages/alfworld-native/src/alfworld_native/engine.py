"""A household game in pure Python: the same text, commands and win as ALFWorld in TextWorld.

A `Game` is parsed once and never changes; any number of episodes and threads share it. A `State` is one episode. The
rules are those of ALFWorld's `alfred.pddl`, with what TextWorld makes of them:

- `examine` takes a thing only in hand (a typing mistake in the domain empties the other half of the rule).
- Going to where one stands is no command, also not to another receptacle of the same place.
- A thing that is in two receptacles (a safe, and the dresser under it) is taken out of one only. In hand it is still
  seen in the other; and whatever was once taken out of a receptacle lies "next to it" when put down beside it.
- Lamps only turn on. Slicing needs no open door, heating no open microwave.
- A won game goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from sys import intern

from alfworld_native import wording as words
from alfworld_native.errors import GameError
from alfworld_native.problem import Beginning, Goal, Receptacle, Thing, read_problem
from alfworld_native.record import GameRecord, Wording

# Kinds, not names: any knife slices, any microwave heats.
KNIVES = frozenset({"knife", "butterknife"})
HEATER, COOLER = "microwave", "fridge"


@dataclass(frozen=True, slots=True)
class Step:
    """The game's answer to a command."""

    feedback: str
    admissible: tuple[str, ...]
    """Commands that can be given now, sorted."""
    won: bool


class Game:
    """One game, parsed. All attributes are read-only.

    Args:
        problem: The PDDL problem.
        goal: The sentence that the game shows.
        wording: Version of the text.

    Raises:
        GameError: the problem is not one of this domain, or its goal none of the six kinds.
    """

    __slots__ = (
        *("beginning", "goal", "opening", "places", "ranks", "receptacles", "sentence", "things", "travels", "wording"),
        "words",
    )

    wording: Wording
    words: words.Words
    """Phrases of the wording."""
    sentence: str
    """The goal as the game shows it."""
    goal: Goal
    """Condition of the win: kind of task, kind of object, kind of receptacle or lamp."""
    receptacles: dict[str, Receptacle]
    """By name ("fridge 1"), in the order of the opening text."""
    things: dict[str, Thing]
    """By name ("apple 1"), in the order in which the text lists them: those that a command can ever name."""
    ranks: dict[str, int]
    """Number of each thing in that order."""
    places: dict[str, tuple[Receptacle, ...]]
    """Receptacles by the name of their place ("loc 8"); none for the middle of the room."""
    travels: dict[str, tuple[str, ...]]
    """`go to` commands by place, sorted."""
    beginning: Beginning
    """The facts at first."""
    opening: str
    """The text that begins every episode."""

    def __init__(self, problem: str, goal: str, wording: Wording = "2.1.1") -> None:
        if wording not in words.WORDINGS:
            raise GameError(f"no wording {wording!r}. Known: {', '.join(words.WORDINGS)}.")
        self.wording, self.words, self.sentence = wording, words.WORDINGS[wording], goal
        read = read_problem(problem)
        self.goal, self.beginning = read.goal, read.beginning
        self.receptacles = {each.name: each for each in read.receptacles}
        self.things = {each.name: each for each in read.things}
        self.ranks = {name: rank for rank, name in enumerate(self.things)}
        places: dict[str, tuple[Receptacle, ...]] = defaultdict(tuple)
        for each in read.receptacles:
            places[each.place] += (each,)
        # A game can begin at a receptacle; its opening then says so instead of listing the room.
        here = tuple(each.name for each in places[read.beginning.place])
        self.places = dict(places)
        self.travels = self._travels()
        self.opening = words.opening(words.facing(here, ()) if here else words.room(tuple(self.receptacles)), goal)

    def _travels(self) -> dict[str, tuple[str, ...]]:
        # Interned: the same command occurs in the lists of all places.
        commands = sorted((intern(f"go to {each.name}"), each.place) for each in self.receptacles.values())
        return {
            # Not offered where one stands, also not to a second receptacle of the same place.
            place: tuple(command for command, target in commands if target != place)
            for place in {self.beginning.place, *self.places}
        }

    def start(self) -> State:
        """A new episode at the beginning of the game."""
        return State(self)


def open_game(record: GameRecord, wording: Wording = "2.1.1") -> Game:
    """The game of a record, parsed.

    Args:
        record: from `load_games` or `generate_games`.
        wording: version of the text.

    Raises:
        GameError: the problem is not one of this domain, or its goal none of the six kinds; the message names the game.
    """
    try:
        return Game(record.problem, record.goal, wording)
    except GameError as error:
        raise GameError(f"the game {record.key!r} cannot be played: {error}") from None


class State:
    """One episode: the facts that change. Made by `Game.start`.

    Every field is replaced, never changed in place, so that a copy shares them all.
    """

    __slots__ = (
        *("_admissible", "_clean", "_contents", "_cool", "_holding", "_hot", "_lit", "_lying", "_missed", "_opened"),
        *("_place", "_sliced", "_won", "game"),
    )

    game: Game
    _place: str
    _holding: str | None
    _contents: dict[str, tuple[str, ...]]
    _lying: frozenset[tuple[str, str]]
    _missed: frozenset[tuple[str, str]]
    """(thing, receptacle): taken out of it at some time, and not in it now."""
    _opened: frozenset[str]
    _clean: frozenset[str]
    _hot: frozenset[str]
    _cool: frozenset[str]
    _sliced: frozenset[str]
    _lit: frozenset[str]
    _admissible: tuple[str, ...]
    _won: bool

    def __init__(self, game: Game) -> None:
        first = game.beginning
        self.game = game
        self._place, self._holding, self._contents = first.place, None, first.contents
        self._lying, self._missed, self._opened = first.lying, frozenset(), first.opened
        self._clean, self._hot, self._cool = first.clean, first.hot, first.cool
        self._sliced, self._lit = first.sliced, first.lit
        self._derive()

    def copy(self) -> State:
        """An independent state with the same facts."""
        # Skips __init__, which would work out the commands anew.
        other = object.__new__(State)
        for field in State.__slots__:
            setattr(other, field, getattr(self, field))
        return other

    def first(self) -> Step:
        """The answer before any command: room, task, the commands, whether the game is won as it begins."""
        return Step(self.game.opening, self._admissible, self._won)

    def step(self, command: str) -> Step:
        """Carry out a command. One that is not listed changes nothing: "Nothing happens."."""
        # TextWorld ignores blanks around a command.
        command = command.strip()
        # The list decides, so no command below has to check its own precondition.
        if command not in self._admissible:
            return Step(words.NOTHING_HAPPENS, self._admissible, self._won)
        verb, _, rest = command.partition(" ")
        act, separator, changes = COMMANDS[verb]
        # The split is safe because the command is listed: it has the form of its verb.
        feedback = act(self, *(rest.split(separator) if rest else ()))
        # Looking changes no fact, so the lists stay as they are.
        if changes:
            self._derive()
        return Step(feedback, self._admissible, self._won)

    def _derive(self) -> None:
        """Update the admissible commands and the win, which follow from the facts."""
        self._admissible = self._list_commands()
        self._won = self._is_won()

    # ---- facts, for players with full knowledge, by the names that the text uses ("fridge 1", "apple 1")

    @property
    def admissible(self) -> tuple[str, ...]:
        """Commands that can be given now, sorted."""
        return self._admissible

    @property
    def won(self) -> bool:
        """True while the goal holds."""
        return self._won

    @property
    def place(self) -> str:
        """Location of the player, a name as in `Receptacle.place`."""
        return self._place

    @property
    def here(self) -> tuple[str, ...]:
        """Receptacles at the player's place; empty in the middle of the room."""
        return tuple(each.name for each in self._here())

    @property
    def holding(self) -> str | None:
        """The thing in hand."""
        return self._holding

    def containers(self, thing: str) -> tuple[str, ...]:
        """Receptacles that a thing is in: mostly one; two, say, for what is in a safe on a dresser."""
        return tuple(receptacle for receptacle, contents in self._contents.items() if thing in contents)

    def container(self, thing: str) -> str | None:
        """The receptacle that a thing is in, the first of several; None for the thing in hand."""
        # A held thing can still count as being in a second receptacle, see the top of this file.
        return None if thing == self._holding else next(iter(self.containers(thing)), None)

    def contents(self, receptacle: str) -> tuple[str, ...]:
        """Things in a receptacle, open or closed, in the order of the text."""
        return self._contents[receptacle]

    def is_open(self, receptacle: str) -> bool:
        """True for a receptacle that one can reach into: opened, or without a door."""
        return receptacle in self._opened or not self.game.receptacles[receptacle].openable

    def is_clean(self, thing: str) -> bool:
        """True for a thing that has been cleaned."""
        return thing in self._clean

    def is_hot(self, thing: str) -> bool:
        """True for a thing that has been heated, and not cooled since."""
        return thing in self._hot

    def is_cool(self, thing: str) -> bool:
        """True for a thing that has been cooled, and not heated since; things in a fridge are often cool at first."""
        return thing in self._cool

    def is_lit(self, thing: str) -> bool:
        """True for a lamp that has been used; it cannot be turned off."""
        return thing in self._lit

    # ---- commands that can be given

    def _here(self) -> tuple[Receptacle, ...]:
        return self.game.places.get(self._place, ())

    def _list_commands(self) -> tuple[str, ...]:
        """Admissible commands, sorted: `go to` from the game's list, the few before and after it made here."""
        # The verbs fall on both sides of "go to" in the alphabet, so only two short lists need sorting.
        before: list[str] = []
        after = ["inventory", "look"]
        if self.game.words.help is not None:
            after.append("help")
        for receptacle in self._here():
            self._list_doors(receptacle, before, after)
            self._list_lamps(receptacle, after)
        if self._holding is None:
            self._list_takes(after)
        else:
            self._list_uses_of(self.game.things[self._holding], before, after)
        before.sort()
        after.sort()
        return (*before, *self.game.travels[self._place], *after)

    def _list_doors(self, receptacle: Receptacle, before: list[str], after: list[str]) -> None:
        name = receptacle.name
        before.append(f"examine {name}")
        if receptacle.openable:
            if name in self._opened:
                before.append(f"close {name}")
            else:
                after.append(f"open {name}")

    def _list_lamps(self, receptacle: Receptacle, after: list[str]) -> None:
        things = self.game.things
        for name in self._contents[receptacle.name]:
            # A lamp can be in two receptacles of this place, and is listed once. Lamps in closed ones count, too.
            if things[name].toggleable and (command := f"use {name}") not in after:
                after.append(command)

    def _list_takes(self, after: list[str]) -> None:
        things = self.game.things
        for receptacle in self._here():
            # Two receptacles that hold one thing give two commands, which differ in what is taken out of what.
            if not receptacle.openable or receptacle.name in self._opened:
                after.extend(
                    f"take {name} from {receptacle.name}"
                    for name in self._contents[receptacle.name]
                    if things[name].pickupable
                )

    def _list_uses_of(self, held: Thing, before: list[str], after: list[str]) -> None:
        """Commands for the thing in hand."""
        name, wording = held.name, self.game.words
        before.append(f"examine {name}")
        for receptacle in self._here():
            kind, target = receptacle.kind, receptacle.name
            if held.kind in receptacle.accepts and (not receptacle.openable or target in self._opened):
                after.append(wording.put_command(name, target))
            if held.cleanable and kind in wording.cleaners:
                before.append(f"clean {name} with {target}")
            # No check of the door: the domain lets a closed microwave heat and a closed fridge cool.
            if held.heatable and kind == HEATER:
                after.append(f"heat {name} with {target}")
            if held.coolable and kind == COOLER:
                before.append(f"cool {name} with {target}")
        if held.kind in KNIVES:
            after.extend(f"slice {each} with {name}" for each in self._sliceable_here())

    def _sliceable_here(self) -> list[str]:
        place = self._place
        # Things count by location here, not by receptacle: slicing reaches through closed doors.
        return [name for name, at in self._lying if at == place and self.game.things[name].sliceable]

    # ---- what the commands do

    def _go(self, name: str) -> str:
        # The verb is "go", so the rest begins with "to".
        receptacle = self.game.receptacles[name.removeprefix("to ")]
        self._place = receptacle.place
        return f"{self.game.words.arrival(receptacle)} {self._seen(receptacle)}"

    def _seen(self, receptacle: Receptacle) -> str:
        return words.seen(receptacle, receptacle.name in self._opened, self._contents[receptacle.name])

    def _open(self, name: str) -> str:
        self._opened |= {name}
        return f"You open the {name}. {self._seen(self.game.receptacles[name])}"

    def _close(self, name: str) -> str:
        self._opened -= {name}
        return f"You close the {name}."

    def _take(self, thing: str, receptacle: str) -> str:
        # Only this receptacle loses the thing; another that holds it, too, keeps showing it.
        rest = tuple(each for each in self._contents[receptacle] if each != thing)
        self._contents = {**self._contents, receptacle: rest}
        self._lying -= {(thing, self._place)}
        self._missed |= {(thing, receptacle)}
        self._holding = thing
        return f"You pick up the {thing} from the {receptacle}."

    def _put(self, thing: str, receptacle: str) -> str:
        # A set, because the thing may still count as being in here. The text lists things in the order of the
        # problem.
        contents = sorted({*self._contents[receptacle], thing}, key=self.game.ranks.__getitem__)
        self._contents = {**self._contents, receptacle: tuple(contents)}
        self._lying |= {(thing, self._place)}
        self._missed -= {(thing, receptacle)}
        self._holding = None
        return self.game.words.placed.format(thing, receptacle)

    def _clean_with(self, thing: str, receptacle: str) -> str:
        self._clean |= {thing}
        return f"You clean the {thing} using the {receptacle}."

    def _heat_with(self, thing: str, receptacle: str) -> str:
        # Heating undoes cooling and the other way round; neither undoes cleaning.
        self._hot |= {thing}
        self._cool -= {thing}
        return f"You heat the {thing} using the {receptacle}."

    def _cool_with(self, thing: str, receptacle: str) -> str:
        self._cool |= {thing}
        self._hot -= {thing}
        return f"You cool the {thing} using the {receptacle}."

    def _slice(self, thing: str, knife: str) -> str:
        self._sliced |= {thing}
        return f"You sliced the {thing} with the {knife}."

    def _use(self, thing: str) -> str:
        self._lit |= {thing}
        return f"You turn on the {thing}."

    def _examine(self, name: str) -> str:
        receptacle = self.game.receptacles.get(name)
        if receptacle is not None:
            return self._seen(receptacle)
        # Examining a thing tells its states, of which the grammar names the first that applies.
        facts = {"clean": self._clean, "hot": self._hot, "cool": self._cool, "sliced": self._sliced, "lit": self._lit}
        return words.thing_looks(self.game.things[name], frozenset(state for state, of in facts.items() if name in of))

    def _look(self) -> str:
        here = self.here
        return words.facing(here, self._floor(here)) if here else words.room(())

    def _floor(self, here: tuple[str, ...]) -> list[str]:
        """Things at this place that were once taken out of a receptacle here, once for each."""
        # The grammar calls "next to it" what lies at this place and was once taken out of a receptacle here.
        missed = [pair for pair in self._missed if pair[1] in here and (pair[0], self._place) in self._lying]
        # A thing that was taken out of two receptacles is named twice, as in TextWorld.
        return sorted((thing for thing, _ in missed), key=self.game.ranks.__getitem__)

    def _inventory(self) -> str:
        return words.carrying(self._holding)

    def _help(self) -> str:
        return self.game.words.help or words.NOTHING_HAPPENS

    # ---- winning

    def _is_won(self) -> bool:
        goal = self.game.goal
        if goal.task_type == "look_at_obj_in_light":
            # The one goal that depends on where the player is.
            return self._holds(goal.object_kind) and self._is_lamp_here(goal.target_kind)
        needed = 2 if goal.task_type == "pick_two_obj_and_place" else 1
        return any(
            # Both things must be in one receptacle, not just in two of the same kind.
            sum(map(self._is_wanted, contents)) >= needed
            for name, contents in self._contents.items()
            if contents and self.game.receptacles[name].kind == goal.target_kind
        )

    def _holds(self, kind: str) -> bool:
        return self._holding is not None and self.game.things[self._holding].kind == kind

    def _is_lamp_here(self, kind: str) -> bool:
        """True where a lamp that has been used stands at the player's place."""
        things, contents = self.game.things, self._contents
        return any(
            thing in self._lit and things[thing].kind == kind and things[thing].toggleable
            for receptacle in self._here()
            for thing in contents[receptacle.name]
        )

    def _is_wanted(self, name: str) -> bool:
        """True for a thing of the goal's kind that is as clean, hot or cool as the goal wants it."""
        goal, thing = self.game.goal, self.game.things[name]
        if thing.kind != goal.object_kind:
            return False
        match goal.task_type:
            case "pick_clean_then_place_in_recep":
                # The goal asks for the ability, too: a thing that begins clean and cannot be cleaned does not count.
                return thing.cleanable and name in self._clean
            case "pick_heat_then_place_in_recep":
                return thing.heatable and name in self._hot
            case "pick_cool_then_place_in_recep":
                return thing.coolable and name in self._cool
        return True


Act = Callable[..., str]

COMMANDS: dict[str, tuple[Act, str, bool]] = {
    "go": (State._go, "\n", True),
    "open": (State._open, "\n", True),
    "close": (State._close, "\n", True),
    "take": (State._take, " from ", True),
    "put": (State._put, " in/on ", True),
    "move": (State._put, " to ", True),
    "clean": (State._clean_with, " with ", True),
    "heat": (State._heat_with, " with ", True),
    "cool": (State._cool_with, " with ", True),
    "slice": (State._slice, " with ", True),
    "use": (State._use, "\n", True),
    "examine": (State._examine, "\n", False),
    "look": (State._look, "\n", False),
    "inventory": (State._inventory, "\n", False),
    "help": (State._help, "\n", False),
}
"""By first word: what to do, what stands between two names (a line break: there is one), whether facts change."""
