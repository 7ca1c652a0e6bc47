"""One game of ScienceWorld: a variation of a task, and the commands that can be given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from reflect_games.scienceworld.java import EndedError, Simulator, simulator
from reflect_rl.errors import UserError

MOST_KNOWN = 500
"""Lists of commands that a process keeps; one takes up to some hundred KiB."""
FOCUS = "focus on "
"""Beginning of the commands in which every thing occurs, so that they tell what it is called."""
FIRST_ANSWER = 100
"""First number of a form that answers the question which of several things an ambiguous command meant."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that the game takes."""

    text: str
    template: int
    """ScienceWorld's number of its form, such as `move OBJ to OBJ`."""
    objects: tuple[int, ...]
    """ScienceWorld's numbers of the objects it is about."""
    names: tuple[tuple[str, ...], ...] = ()
    """All names of each of them, in lower case."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the game tells between two commands."""

    task: str
    """ScienceWorld's description of the task."""
    look: str
    """Description of the room."""
    inventory: str
    answer: str
    """The answer to the last command."""
    score: int
    """0 to 100, or below 0 where the task has failed."""
    completed: bool


class World:
    """A game in the Java program of this process.

    Args:
        memory_mb: heap of the program, should it have to be started.
    """

    def __init__(self, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self._simulator: Simulator = simulator(memory_mb)
        self._game: Any = None

    def load(self, task: str, variation: int, simplifications: str) -> Scene:
        """Begin a variation, as ScienceWorld's own wrapper does: its first command is `look around`.

        Raises:
            UserError: the Java program does not start, or ends again and again.
        """
        try:
            return self._load(task, variation, simplifications)
        except EndedError:
            # It was about to end, but was not seen to have ended. Once: another end has a cause that stays.
            try:
                return self._load(task, variation, simplifications)
            except EndedError as error:
                raise UserError(
                    f"the Java program of ScienceWorld ends whenever variation {variation} of {task!r} is loaded. Free "
                    f"memory or lower environment.java_memory_mb = {self._memory_mb}."
                ) from error

    def _load(self, task: str, variation: int, simplifications: str) -> Scene:
        # The program may have ended since, by a crash or because it was stopped.
        if not self._simulator.runs:
            self._simulator, self._game = simulator(self._memory_mb), None
        with self._simulator.held():
            if self._game is None:
                self._game = self._simulator.new_game()
            self._game.load(task, variation, simplifications, False)
            # Every game keeps all variations of all tasks, which only loading needs: with 64 games they fill the heap.
            getattr(self._game, "taskMaker_$eq")(None)
            self._seed, self._moves = variation, 0
            self._in_use: str = self._simulator.simplifier.getSimplificationsUsed()
            self._remember()
            self._task = self._game.getTaskDescription()
        self._done: tuple[object, ...] = (task, variation, self._in_use)
        return self.give("look around")

    def give(self, command: str) -> Scene:
        """Give a command.

        Raises:
            EndedError: the Java program has ended.
        """
        self._done = (*self._done, command)
        with self._turn():
            answer: str = self._game.step(command)
            score = round(100 * self._game.getScore())
            self._moves += 1
            look, inventory = self._game.freeActionLook(), self._game.freeActionInventory()
            return Scene(self._task, look, inventory, answer, score, bool(self._game.getCompleted()))

    def commands(self, scene: Scene) -> tuple[Command, ...]:
        """All commands that the game takes now, about objects within reach.

        Args:
            scene: the current one.

        Raises:
            EndedError: the Java program has ended.
        """
        # The description does not decide the list: ScienceWorld also lists what an open jar holds, and draws names anew
        # at every turn. Variation and commands do, so the games of a group share what they begin with.
        known = self._simulator.known
        found: tuple[Command, ...] | None = known.pop(self._done, None)
        if found is None:
            found = self._ask(scene)
        # Lists that were not used for long fall out first.
        known[self._done] = found
        while len(known) > MOST_KNOWN:
            del known[next(iter(known))]
        return found

    def _ask(self, scene: Scene) -> tuple[Command, ...]:
        with self._turn():
            visible = {int(number) for number in json.loads(self._game.getPossibleObjectReferentLUTJSON())}
            rows = json.loads(self._game.getValidActionObjectCombinationsJSON())["validActions"]
            everything = json.loads(self._game.getAllObjectIdsTypesReferentsLUTJSON())
        names = {int(number): [name.lower() for name in found["referents"]] for number, found in everything.items()}
        found = [Command(row["action"], row["template_id"], tuple(row["obj_ids"])) for row in rows]
        return clear_names(found, visible, names, f"{scene.look} {scene.inventory}".lower(), scene.inventory.lower())

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Put what the program keeps for all games into this game's state."""
        with self._simulator.held():
            self._restore()
            yield
            self._remember()

    def _restore(self) -> None:
        owner = self._simulator
        # A function of variation and turn: the numbers of a turn do not depend on who else plays.
        owner.random.setSeed(self._seed * 10_007 + self._moves)
        if owner.playing is not self:
            getattr(owner.ids, "count_$eq")(self._count)
            owner.simplifier.parseSimplificationStr(self._in_use)

    def _remember(self) -> None:
        self._count: int = self._simulator.ids.count()
        self._simulator.playing = self


def clear_names(
    commands: Sequence[Command], visible: Set[int], names: Mapping[int, Sequence[str]], seen: str, carried: str
) -> tuple[Command, ...]:
    """The commands about things within reach, which are called as the game's descriptions call them where possible.

    ScienceWorld lists things in closed containers, too, and draws the names of things: a mattress may be an `object`.

    Args:
        commands: all that the game takes.
        visible: numbers of the things in the room.
        names: all names of things by their numbers.
        seen: what the game describes, in lower case.
        carried: the part of it that is carried.
    """
    used = {c.objects[0]: c.text.removeprefix(FOCUS) for c in commands if c.text.startswith(FOCUS) and c.objects}
    in_hand = {
        thing for thing in used if thing not in visible and any(name in carried for name in names.get(thing, ()))
    }
    within_reach = {*visible, *in_hand}
    counts = Counter(name for thing in within_reach for name in set(names.get(thing, ())))

    def clear(thing: int) -> str:
        unique = [name for name in names.get(thing, ()) if counts[name] == 1 and name in seen]
        # The longest says most; of equally long ones the first in the alphabet.
        return min(unique, key=lambda name: (-len(name), name), default=used[thing])

    better = {thing: clear(thing) for thing in used if thing in within_reach}
    # Made once, as commands by the hundred are about the same things and are kept.
    called = {thing: tuple(names.get(thing, ())) for command in commands for thing in command.objects}
    return tuple(
        replace(
            command,
            text=_renamed(command, used, better) if set(command.objects) <= set(better) else command.text,
            names=tuple(called[thing] for thing in command.objects),
        )
        for command in commands
        # The answers to an ambiguous command are numbers, which are about whatever it meant.
        if command.template >= FIRST_ANSWER or within_reach.issuperset(command.objects)
    )


def _renamed(command: Command, used: Mapping[int, str], better: Mapping[int, str]) -> str:
    text, rest = "", command.text
    for thing in command.objects:
        before, found, after = rest.partition(used[thing])
        if not found:
            return command.text
        text, rest = text + before + better[thing], after
    return text + rest


@lru_cache(4096)
def gold_path(memory_mb: int, task: str, variation: int, simplifications: str) -> tuple[str, ...]:
    """ScienceWorld's own solution of a variation, not the shortest.

    Args:
        memory_mb: heap of the program, should it have to be started.
        task: ScienceWorld's name.
        variation: its number.
        simplifications: those of the game.
    """
    owner = simulator(memory_mb)
    with owner.held():
        owner.playing = None
        game: Any = owner.new_game()
        game.load(task, variation, simplifications, True)
        return tuple(game.getGoldActionSequence())


@lru_cache(64)
def variations(memory_mb: int, task: str) -> dict[str, tuple[int, ...]]:
    """Variations of each split of a task, as ScienceWorld's authors divide them."""
    owner = simulator(memory_mb)
    with owner.held():
        owner.playing = None
        game: Any = owner.new_game()
        game.load(task, 0, "", False)
        return {
            "train": tuple(game.getVariationsTrain()),
            "validation": tuple(game.getVariationsDev()),
            "test": tuple(game.getVariationsTest()),
        }
