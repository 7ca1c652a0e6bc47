"""State texts of BabyAI: what the field of view shows, and what a player could have kept in mind.

A view is MiniGrid's own observation, an image of 7 x 7 cells of (type, colour, state), the agent in the middle of the
last row and looking at the first. Places are counted in steps from the agent: `ahead 3 left 1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Place = tuple[int, int]
"""Steps ahead (behind: negative) and steps to the right (left: negative)."""

UNSEEN, EMPTY, WALL, FLOOR, DOOR = 0, 1, 2, 3, 4
"""Types of cells, as `minigrid.core.constants.OBJECT_TO_IDX` numbers them; a test compares them."""
TYPES = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
DOORS = ("open", "closed", "locked")
MOST_REMEMBERED = 12
"""Things out of sight that a state lists, the nearest ones; the mazes have more."""
HEADINGS = ("ahead", "right", "behind", "left")
"""Directions of looking as seen from the start, a quarter turn to the right from one to the next."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Contents of a field of view."""

    cells: tuple[Place, ...]
    """Cells that are seen, the agent's own left out."""
    things: tuple[tuple[Place, str], ...]
    """Things among them, without walls, nearest first."""
    ways: tuple[str, str, str]
    """First thing on the straight way ahead, left and right."""


def read_view(image: NDArray[np.uint8]) -> Sight:
    """Contents of MiniGrid's observation.

    Args:
        image: cells as (type, colour, state), shape (size, size, 3); the first axis goes from left to right, the second
            towards the agent.
    """
    return _read(image.tobytes(), image.shape[0])


# Views recur all the time: an agent that turns on the spot sees four.
@lru_cache(50_000)
def _read(cells: bytes, size: int) -> Sight:
    grid = {
        (size - 1 - row, column - size // 2): tuple(cells[(column * size + row) * 3 :][:3])
        for column in range(size)
        for row in range(size)
    }
    # MiniGrid draws a carried thing into the agent's own cell.
    del grid[0, 0]
    visible = {place: cell for place, cell in grid.items() if cell[0] != UNSEEN}
    things = [(place, _name(cell)) for place, cell in visible.items() if cell[0] not in (EMPTY, WALL, FLOOR)]
    ways = (_way(visible, 1, 0), _way(visible, 0, -1), _way(visible, 0, 1))
    return Sight(tuple(visible), nearest(things), ways)


def nearest(things: Iterable[tuple[Place, str]]) -> tuple[tuple[Place, str], ...]:
    """The things in the order of their distance in steps."""
    return tuple(sorted(things, key=lambda thing: (abs(thing[0][0]) + abs(thing[0][1]), thing)))


def _name(cell: tuple[int, ...]) -> str:
    kind, colour, state = cell
    name = f"{COLOURS[colour]} {TYPES[kind]}"
    return f"{DOORS[state]} {name}" if kind == DOOR else name


def _way(visible: Mapping[Place, tuple[int, ...]], ahead: int, right: int) -> str:
    """Free steps in one direction, and what ends them."""
    steps = 0
    while True:
        cell = visible.get((ahead * (steps + 1), right * (steps + 1)))
        if cell is None or not (cell[0] in (EMPTY, FLOOR) or (cell[0] == DOOR and cell[2] == 0)):
            break
        steps += 1
    end = "unseen" if cell is None else "wall" if cell[0] == WALL else _name(cell)
    return f"{steps} free, {end}"


def place_text(place: Place) -> str:
    """A place in words.

    >>> place_text((3, -1)), place_text((-2, 0)), place_text((0, 0))
    ('ahead 3 left 1', 'behind 2', 'here')
    """
    ahead, right = place
    parts = [f"{'ahead' if ahead > 0 else 'behind'} {abs(ahead)}"] if ahead else []
    parts += [f"{'right' if right > 0 else 'left'} {abs(right)}"] if right else []
    return " ".join(parts) or "here"


def things_text(things: Iterable[tuple[Place, str]]) -> str:
    """Things with their places.

    >>> things_text([((1, 0), "red ball"), ((2, 2), "blue key")])
    'red ball: ahead 1; blue key: ahead 2 right 2'
    """
    # Signs on both sides of a name: a tokenizer of phrases would join it to its neighbours, and the same thing would be
    # another token in each place (docs/results/log.md).
    return "; ".join(f"{name}: {place_text(place)}" for place, name in things) or "nothing"


@dataclass(frozen=True, slots=True)
class Pose:
    """Where an agent stands and looks, as seen from where it started: it started at (0, 0), looking ahead."""

    ahead: int = 0
    right: int = 0
    heading: int = 0
    """Quarter turns to the right, 0 to 3."""

    def to_start(self, place: Place) -> Place:
        """A place that is seen from here, as seen from the start.

        >>> Pose(0, 0, 1).to_start((2, 1))
        (-1, 2)
        """
        ahead, right = place
        for _ in range(self.heading):
            ahead, right = -right, ahead
        return self.ahead + ahead, self.right + right

    def from_start(self, place: Place) -> Place:
        """The inverse of `to_start`.

        >>> Pose(0, 0, 1).from_start((-1, 2))
        (2, 1)
        """
        ahead, right = place[0] - self.ahead, place[1] - self.right
        for _ in range(self.heading):
            ahead, right = right, -ahead
        return ahead, right


class Memory:
    """Things that were seen, and how far the agent has come: what a careful player could have noted."""

    def __init__(self) -> None:
        self.pose = Pose()
        self._things: dict[Place, str] = {}
        self._in_sight: frozenset[Place] = frozenset()

    def look(self, sight: Sight, pose: Pose) -> None:
        """Take in a field of view.

        Args:
            sight: what is seen.
            pose: from where.
        """
        self.pose = pose
        cells = [pose.to_start(place) for place in sight.cells]
        self._in_sight = frozenset((*cells, (pose.ahead, pose.right)))
        # A cell that is seen empty has lost what was remembered there.
        for cell in cells:
            self._things.pop(cell, None)
        self._things |= {pose.to_start(place): name for place, name in sight.things}

    def out_of_sight(self) -> tuple[tuple[Place, str], ...]:
        """Things that are remembered and not seen now, from where the agent stands, nearest first."""
        hidden = [(cell, name) for cell, name in self._things.items() if cell not in self._in_sight]
        return nearest((self.pose.from_start(cell), name) for cell, name in hidden)[:MOST_REMEMBERED]


def state_text(mission: str, carried: str, sight: Sight, memory: Memory | None, last: str) -> str:
    """Text of a state.

    Args:
        mission: BabyAI's sentence.
        carried: name of the thing in hand, or `nothing`.
        sight: what is seen.
        memory: what is remembered; None: the text shows the field of view only.
        last: the last action, or `none`.
    """
    ahead, left, right = sight.ways
    lines = [
        f"Mission: {mission}.",
        f"Seen: {things_text(sight.things)}.",
        f"Ahead: {ahead}. Left: {left}. Right: {right}.",
    ]
    if memory is not None:
        pose = memory.pose
        lines.append(f"Remembered: {things_text(memory.out_of_sight())}.")
        lines.append(f"From the start: {place_text((pose.ahead, pose.right))}, facing {HEADINGS[pose.heading]}.")
    lines.append(f"Carried: {carried}. Last action: {last}.")
    return "\n".join(lines)
