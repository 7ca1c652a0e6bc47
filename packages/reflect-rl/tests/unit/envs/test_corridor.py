from __future__ import annotations

import pytest

from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor, CorridorConfig
from reflect_rl.envs.gym import GymnasiumEnv
from reflect_rl.errors import UserError
from reflect_rl.types import Oracle, Task

LEFT, RIGHT, WAIT = range(3)


def begin(cells: int, goal: int, start: int) -> GymnasiumEnv:
    environment = GymnasiumEnv(EnvSpec.of(Corridor))
    environment.reset(options={"task": Task("far/x", "far", "train", {"cells": cells, "goal": goal, "start": start})})
    return environment


def test_the_text_is_all_there_is_to_know():
    environment = begin(5, 4, 2)
    assert environment.current().text == (
        "The corridor has cells 0 to 4. You are at 2. The goal is at 4. Last action: none."
    )
    assert environment.step(RIGHT)[0].text == (
        "The corridor has cells 0 to 4. You are at 3. The goal is at 4. Last action: right."
    )


def test_waiting_is_admissible_in_even_cells_only():
    assert [begin(5, 4, cell).current().actions for cell in (1, 2)] == [("left", "right"), ("left", "right", "wait")]


def test_sampled_actions_are_admissible():
    environment = begin(5, 4, 1)
    assert {int(environment.action_space.sample()) for _ in range(50)} == {LEFT, RIGHT}
    assert WAIT not in environment.action_space
    environment = begin(5, 4, 2)
    assert {int(environment.action_space.sample()) for _ in range(50)} == {LEFT, RIGHT, WAIT}


def test_a_game_by_hand():
    environment = begin(5, 4, 2)
    played = [environment.step(action)[1:3] for action in (WAIT, LEFT, RIGHT, RIGHT, RIGHT)]
    assert played == [(-0.05, False)] * 4 + [(1.0, True)]
    assert environment.success


def test_walking_off_the_far_end_loses():
    environment = begin(5, 4, 1)
    environment.step(LEFT)
    observation, reward, terminated, truncated, info = environment.step(LEFT)
    assert (reward, terminated, truncated, info["success"]) == (-0.5, True, False, False)
    assert observation.state == "5-4-0"


def test_the_oracle_knows_the_way_and_the_detours_that_stay_inside():
    environment = begin(5, 4, 2)
    assert environment.game.oracle() == Oracle(RIGHT, (RIGHT,), (LEFT, WAIT), 2)
    assert environment.game.teach() == "I begin. The goal is to the right. Next: right."
    environment.step(LEFT)
    assert environment.game.teach() == ("The last action left was a mistake. The goal is to the right. Next: right.")
    environment.step(LEFT)
    assert environment.game.oracle().safe == (WAIT,)
    environment.step(RIGHT)
    assert environment.game.teach().startswith("The last action right was good.")


def test_near_and_far_are_told_apart_by_the_distance_to_the_goal():
    distances = {
        mode: {
            abs(t.data["goal"] - t.data["start"])
            for split in ("train", "validation", "test")
            for t in Corridor(CorridorConfig()).tasks(mode, split)
        }
        for mode in ("near", "far")
    }
    # Corridors of 5 to 10 cells: the farthest start is 9 steps from the goal.
    assert distances == {"near": {1, 2}, "far": set(range(3, 10))}


def test_all_corridors_goals_and_starts_are_used_once():
    keys = [
        tuple(task.data.values())
        for mode in ("near", "far")
        for split in ("train", "validation", "test")
        for task in Corridor(CorridorConfig()).tasks(mode, split)
    ]
    # Two goals and n - 1 starts in a corridor of n cells: 2 * (4 + 5 + 6 + 7 + 8 + 9) = 78.
    assert len(keys) == len(set(keys)) == 78


@pytest.mark.parametrize("data", [{"cells": 5, "goal": 2, "start": 1}, {"cells": 5, "goal": 4, "start": 9}, {}])
def test_a_task_that_is_no_corridor_is_refused(data: dict[str, int]):
    with pytest.raises(UserError, match="odd"):
        GymnasiumEnv(EnvSpec.of(Corridor)).reset(options={"task": Task("odd", "near", "train", data)})
