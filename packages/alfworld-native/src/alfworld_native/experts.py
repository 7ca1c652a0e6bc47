"""The solver of household games: it knows every fact, and how many turns the shortest solution still needs.

Going anywhere takes a turn, so what a way costs depends only on which of its places coincide. The turns of a plan
(fetch a thing, treat it, put it somewhere) are a short sum, and the shortest plan is the least of few sums; no search
through states is needed. Plans that put down and take up again a wanted thing are considered only where such a thing is
treated already and the one in hand is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import inf

from alfworld_native.engine import COOLER, HEATER, Game, State
from alfworld_native.problem import Receptacle

# A number rather than infinity, so that it can be stored and compared as an integer.
NEVER = 1_000_000
"""Turns of a game that cannot be won any more."""


@dataclass(frozen=True, slots=True)
class Source:
    """A wanted thing, and a receptacle that it can be taken out of."""

    thing: str
    receptacle: Receptacle


@dataclass(frozen=True, slots=True)
class Position:
    """Facts that the length of a solution depends on."""

    game: Game
    held: str | None
    closed: frozenset[str]
    """Receptacles that one cannot reach into."""
    sources: tuple[Source, ...]
    """Wanted things that lie somewhere."""
    treated: frozenset[str]
    """Wanted things that are clean, hot or cool as the goal asks."""
    placed: dict[str, frozenset[str]]
    """Receptacle of the goal's kind -> wanted things in it."""
    lamps: tuple[tuple[str, bool], ...]
    """Place of each lamp of the goal's kind, and whether it has been used."""
    targets: tuple[Receptacle, ...]
    """Receptacles of the goal's kind that take the wanted thing."""
    tools: frozenset[str]
    """Places at which a thing can be treated as the goal asks."""

    def turns(self, place: str) -> float:
        """Turns of the shortest solution for a player who is at a place; infinite when there is none."""
        # Three cases: free hands, a wanted thing in hand, and something else in hand that must go first.
        if self.held is None:
            return self._unladen(place, self.closed)
        laden = inf
        if self._wanted(self.held):
            laden = self._laden(self.held, place, self.closed)
            # Swapping the thing in hand pays only if another one is already clean, hot or cool.
            if not (self._must_treat and self.held not in self.treated and self.treated):
                return laden
        return min(laden, self._dropped(self.held, place))

    def _wanted(self, thing: str) -> bool:
        return _is_wanted(self.game, thing)

    @property
    def _must_treat(self) -> bool:
        return self.game.goal.task_type in ABILITIES

    def _dropped(self, held: str, place: str) -> float:
        """Turns of putting down the thing in hand, then winning."""
        kind = self.game.things[held].kind
        # A room has dozens of receptacles, most of them alike for this purpose; one of each sort is enough.
        drops = {self._likeness(each, place): each for each in self.game.receptacles.values() if kind in each.accepts}
        return min(
            # One turn for the put itself.
            (self._reach(place, each, self.closed) + 1 + self._after(each) for each in drops.values()),
            default=inf,
        )

    def _likeness(self, drop: Receptacle, place: str) -> tuple[object, ...]:
        """Equal for receptacles that it makes no difference to put a thing into."""
        # Dropping where a wanted thing lies saves the way to it.
        source = tuple(each.thing for each in self.sources if each.receptacle.place == drop.place)
        is_closed = drop.name in self.closed
        opens_source = is_closed and any(each.receptacle == drop for each in self.sources)
        return drop.place == place, source, is_closed, opens_source, drop.kind, len(self.placed.get(drop.name, ()))

    def _after(self, drop: Receptacle) -> float:
        return self._unladen(drop.place, self.closed - {drop.name})

    @staticmethod
    def _reach(place: str, receptacle: Receptacle, closed: frozenset[str]) -> int:
        """Turns until one can reach into a receptacle."""
        # Any way takes one turn, so distances do not matter. Opening takes one more.
        return (place != receptacle.place) + (receptacle.name in closed)

    def _unladen(self, place: str, closed: frozenset[str]) -> float:
        """Turns of the shortest solution for a player with empty hands."""
        if self.game.goal.task_type == "pick_two_obj_and_place":
            return min((self._two(place, closed, each) for each in self._distinct_targets(place)), default=inf)
        return min(
            (
                self._reach(place, each.receptacle, closed)
                + 1
                # Fetching opens the source, so it is not closed for what comes after.
                + self._laden(each.thing, each.receptacle.place, closed - {each.receptacle.name}, each.receptacle)
                for each in self.sources
            ),
            default=inf,
        )

    def _laden(self, thing: str, place: str, closed: frozenset[str], taken_from: Receptacle | None = None) -> float:
        """Turns of the shortest solution for a player who has a wanted thing in hand."""
        task_type = self.game.goal.task_type
        if task_type == "look_at_obj_in_light":
            # One turn to go to the lamp, and one to use it where it is not lit yet.
            return min(((place != lamp) + (not lit) for lamp, lit in self.lamps), default=inf)
        if task_type == "pick_two_obj_and_place":
            return self._first_of_two(thing, place, closed)
        if task_type not in ABILITIES or thing in self.treated:
            return self._stored(place, closed)
        # A thing can be in two receptacles: what was taken out of one still counts as being in the other.
        stays = any(
            thing in things for name, things in self.placed.items() if not taken_from or name != taken_from.name
        )
        return min(
            # Treating wins at once if the thing still counts as being where it belongs.
            ((place != tool) + 1 + (0 if stays else self._stored(tool, closed)) for tool in self.tools),
            default=inf,
        )

    def _stored(self, place: str, closed: frozenset[str]) -> float:
        return min((self._reach(place, each, closed) + 1 for each in self.targets), default=inf)

    # ---- two things

    def _distinct_targets(self, place: str) -> Iterable[Receptacle]:
        """Receptacles of the goal's kind, of those that are alike only one."""
        # Only these locations can save a turn; all other targets are equally far.
        special = {place, *(each.receptacle.place for each in self.sources)}
        alike: dict[tuple[object, ...], Receptacle] = {}
        for each in self.targets:
            where = each.place if each.place in special else ""
            alike.setdefault((where, each.name in self.closed, self.placed.get(each.name)), each)
        return alike.values()

    def _first_of_two(self, held: str, place: str, closed: frozenset[str]) -> float:
        """Deliver what is in hand, then fetch another where one is missing still."""
        best = inf
        for target in self._distinct_targets(place):
            inside = self.placed.get(target.name, frozenset()) - {held}
            turns: float = self._reach(place, target, closed) + 1
            if not inside:
                # No second thing is there yet, so another one has to be fetched after the delivery.
                others = (each for each in self.sources if each.thing != held)
                turns += min((self._round_trip(target, each, closed) for each in others), default=inf)
            best = min(best, turns)
        return best

    def _round_trip(self, target: Receptacle, source: Source, closed: frozenset[str]) -> int:
        """Turns to fetch a thing: from an open target to its source, and back into the target."""
        return self._reach(target.place, source.receptacle, closed) + 2 + (source.receptacle.place != target.place)

    def _two(self, place: str, closed: frozenset[str], target: Receptacle) -> float:
        """Bring as many things as are missing to a receptacle."""
        inside = self.placed.get(target.name, frozenset())
        outside = [each for each in self.sources if each.thing not in inside]
        # Paid once, whichever of the two things arrives first.
        opening = target.name in closed
        firsts = [
            self._reach(place, each.receptacle, closed) + 2 + (each.receptacle.place != target.place)
            for each in outside
        ]
        if inside:
            # One thing is in place already; the cheapest other one completes the pair.
            return min(firsts, default=inf) + opening
        seconds = [self._round_trip(target, each, closed) for each in outside]
        return opening + min(
            (
                # A source that holds both things is opened once.
                firsts[i] + seconds[k] - (a.receptacle is b.receptacle and a.receptacle.name in closed)
                for (i, a), (k, b) in product(enumerate(outside), repeat=2)
                if a.thing != b.thing
            ),
            default=inf,
        )


ABILITIES = {
    "pick_clean_then_place_in_recep": "cleanable",
    "pick_heat_then_place_in_recep": "heatable",
    "pick_cool_then_place_in_recep": "coolable",
}
"""Task type -> what a thing must be able to become."""


def _is_wanted(game: Game, name: str) -> bool:
    thing, goal = game.things[name], game.goal
    # A task without treatment still needs a thing that can be picked up.
    return thing.kind == goal.object_kind and bool(getattr(thing, ABILITIES.get(goal.task_type, "pickupable")))


def _targets(game: Game) -> tuple[Receptacle, ...]:
    goal = game.goal
    return tuple(
        each for each in game.receptacles.values() if each.kind == goal.target_kind and goal.object_kind in each.accepts
    )


def _tools(game: Game) -> frozenset[str]:
    kinds: dict[str, frozenset[str]] = {
        "pick_clean_then_place_in_recep": game.words.cleaners,
        "pick_heat_then_place_in_recep": frozenset({HEATER}),
        "pick_cool_then_place_in_recep": frozenset({COOLER}),
    }
    treating = kinds.get(game.goal.task_type, frozenset())
    return frozenset(each.place for each in game.receptacles.values() if each.kind in treating)


def position_of(state: State) -> Position:
    """The position of an episode."""
    game, goal = state.game, state.game.goal
    is_treated = {
        "pick_clean_then_place_in_recep": state.is_clean,
        "pick_heat_then_place_in_recep": state.is_hot,
        "pick_cool_then_place_in_recep": state.is_cool,
        # Without a treatment every thing counts as treated.
    }.get(goal.task_type, lambda _: True)
    wanted = [name for name, thing in game.things.items() if thing.kind == goal.object_kind and _is_wanted(game, name)]
    targets = _targets(game)
    inside = {name: [each for each in wanted if each in state.contents(name)] for name in game.receptacles}
    return Position(
        game=game,
        held=state.holding,
        closed=frozenset(name for name in game.receptacles if not state.is_open(name)),
        sources=tuple(
            Source(thing, game.receptacles[name])
            for name, things in inside.items()
            for thing in things
            # A held thing may also count as being in a receptacle, out of which it cannot be taken again.
            if thing != state.holding and game.things[thing].pickupable
        ),
        treated=frozenset(filter(is_treated, wanted)),
        placed={each.name: frozenset(inside[each.name]) for each in targets},
        lamps=tuple(_lamps(state)),
        targets=targets,
        tools=_tools(game),
    )


def _lamps(state: State) -> Iterator[tuple[str, bool]]:
    game = state.game
    if game.goal.task_type == "look_at_obj_in_light":
        for receptacle in game.receptacles.values():
            # Lamps that stand in no receptacle do not satisfy the goal.
            for name in state.contents(receptacle.name):
                if game.things[name].kind == game.goal.target_kind and game.things[name].toggleable:
                    yield receptacle.place, state.is_lit(name)


def turns_left(state: State) -> int:
    """Turns of the shortest solution; `NEVER` when there is none."""
    if state.won:
        return 0
    turns = position_of(state).turns(state.place)
    return NEVER if turns == inf else int(turns)


def best_commands(state: State) -> tuple[str, ...]:
    """The commands that begin a shortest solution, in the order of the list."""
    position = position_of(state)
    # A command is optimal if what remains after it is one turn shorter.
    least = position.turns(state.place) - 1
    places: dict[str, float] = {}
    return tuple(command for command in state.admissible if _turns_after(position, state, command, places) == least)


IDLE = frozenset({"close", "examine", "help", "inventory", "look", "slice"})
"""Verbs that begin no shortest solution."""


def _turns_after(position: Position, state: State, command: str, places: dict[str, float]) -> float:
    """Turns that a shortest solution needs after a command; infinite for commands that never begin one.

    Args:
        position: that of the state.
        state: before the command.
        command: that can be given.
        places: turns from each place, as far as they are known; grows.
    """
    verb, _, rest = command.partition(" ")
    # Shortcuts for speed: these never shorten a solution, so no state has to be copied for them.
    if verb in IDLE or (verb == "take" and not _is_wanted(state.game, rest.partition(" from ")[0])):
        return inf
    if verb == "go":
        place = state.game.receptacles[rest.removeprefix("to ")].place
        # Many receptacles share one place, and going changes nothing else.
        if place not in places:
            places[place] = position.turns(place)
        return places[place]
    after = state.copy()
    return 0.0 if after.step(command).won else position_of(after).turns(after.place)
