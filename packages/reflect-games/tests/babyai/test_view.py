"""What a field of view is told as, and what is remembered of it."""

from __future__ import annotations

import numpy as np
import pytest

from reflect_games.babyai.view import (
    COLOURS,
    MOST_REMEMBERED,
    TYPES,
    Memory,
    Pose,
    Sight,
    read_view,
    state_text,
)

BALL, KEY, DOOR, WALL, EMPTY = 6, 5, 4, 2, 1
RED, GREEN, BLUE = 0, 1, 2


def image(cells: dict[tuple[int, int], tuple[int, int, int]]) -> np.ndarray:
    """A view of 7 x 7 empty cells, with some at (ahead, right) that are not."""
    view = np.zeros((7, 7, 3), dtype=np.uint8)
    view[:, :, 0] = EMPTY
    for (ahead, right), cell in cells.items():
        view[3 + right, 6 - ahead] = cell
    return view


def test_things_are_placed_in_steps_and_the_nearest_comes_first():
    sight = read_view(image({(3, -1): (BALL, RED, 0), (1, 2): (KEY, GREEN, 0), (2, 0): (WALL, 5, 0)}))
    assert sight.things == (((1, 2), "green key"), ((3, -1), "red ball"))


@pytest.mark.parametrize(("state", "name", "way"), [(0, "open", 6), (1, "closed", 1), (2, "locked", 1)])
def test_one_walks_through_open_doors_only(state, name, way):
    sight = read_view(image({(2, 0): (DOOR, BLUE, state)}))
    assert sight.things == (((2, 0), f"{name} blue door"),)
    assert sight.ways[0] == f"{way} free, {'unseen' if way == 6 else f'{name} blue door'}"


def test_ways_end_at_walls_at_things_and_where_nothing_is_seen():
    sight = read_view(image({(0, -2): (WALL, 5, 0), (0, 1): (BALL, RED, 0), (3, 0): (0, 0, 0)}))
    assert sight.ways == ("2 free, unseen", "1 free, wall", "0 free, red ball")
    assert (3, 0) not in sight.cells


def test_what_the_agent_carries_is_not_seen_in_its_own_cell():
    assert read_view(image({(0, 0): (KEY, RED, 0)})).things == ()


def test_numbers_of_types_and_colours_are_those_of_minigrid():
    constants = pytest.importorskip("minigrid.core.constants")
    assert {name: number for number, name in enumerate(TYPES)} == constants.OBJECT_TO_IDX
    assert {name: number for number, name in enumerate(COLOURS)} == constants.COLOR_TO_IDX


@pytest.mark.parametrize("heading", range(4))
def test_a_place_seen_from_the_start_is_the_same_place(heading):
    pose = Pose(2, -1, heading)
    assert pose.from_start(pose.to_start((3, 1))) == (3, 1)
    # One step ahead of someone who looks right is one step to the right.
    ahead = {0: (3, -1), 1: (2, 0), 2: (1, -1), 3: (2, -2)}
    assert pose.to_start((1, 0)) == ahead[heading]


def test_a_thing_that_falls_out_of_sight_is_remembered_until_its_cell_is_seen_empty():
    memory = Memory()
    memory.look(Sight(((1, 0),), (((1, 0), "red ball"),), ("", "", "")), Pose())
    assert memory.out_of_sight() == ()
    memory.look(Sight((), (), ("", "", "")), Pose(0, 0, 1))
    assert memory.out_of_sight() == (((0, -1), "red ball"),)
    memory.look(Sight(((1, 0),), (), ("", "", "")), Pose())
    memory.look(Sight((), (), ("", "", "")), Pose(0, 0, 1))
    assert memory.out_of_sight() == ()


def test_of_many_remembered_things_the_nearest_are_told():
    memory = Memory()
    cells = tuple((ahead, 0) for ahead in range(1, 30))
    memory.look(Sight(cells, tuple((cell, "red ball") for cell in cells), ("", "", "")), Pose())
    memory.look(Sight((), (), ("", "", "")), Pose(0, 0, 2))
    assert [place for place, _ in memory.out_of_sight()] == [(-n, 0) for n in range(1, MOST_REMEMBERED + 1)]


def test_the_text_of_a_state():
    sight = read_view(image({(1, 0): (BALL, RED, 0)}))
    memory = Memory()
    memory.look(sight, Pose(1, 0, 3))
    assert state_text("go to the red ball", "nothing", sight, memory, "turn left") == (
        "Mission: go to the red ball.\n"
        "Seen: red ball: ahead 1.\n"
        "Ahead: 0 free, red ball. Left: 3 free, unseen. Right: 3 free, unseen.\n"
        "Remembered: nothing.\n"
        "From the start: ahead 1, facing left.\n"
        "Carried: nothing. Last action: turn left."
    )
    assert "Remembered" not in state_text("go to the red ball", "nothing", sight, None, "none")
