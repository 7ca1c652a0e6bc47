"""When a household game is won: the six kinds of task."""

import pytest

from alfworld_native.engine import Game, State
from alfworld_native.problem import Goal
from household_games import GOALS, WINNING, kitchen


def play(task_type: str, *commands: str) -> State:
    state = Game(kitchen(task_type), GOALS[task_type][0]).start()
    for command in commands:
        assert command in state.admissible
        state.step(command)
    return state


@pytest.mark.parametrize(
    ("task_type", "object_kind", "target_kind"),
    [
        ("pick_and_place_simple", "mug", "countertop"),
        ("look_at_obj_in_light", "watch", "desklamp"),
        ("pick_clean_then_place_in_recep", "apple", "fridge"),
        ("pick_heat_then_place_in_recep", "apple", "countertop"),
        ("pick_cool_then_place_in_recep", "apple", "countertop"),
        ("pick_two_obj_and_place", "apple", "sinkbasin"),
    ],
)
def test_the_goal_is_read(task_type, object_kind, target_kind):
    assert Game(kitchen(task_type), "").goal == Goal(task_type, object_kind, target_kind)


@pytest.mark.parametrize("task_type", GOALS)
def test_the_shortest_way_wins_with_its_last_command(task_type):
    *before, last = WINNING[task_type]
    state = play(task_type, *before)
    assert not state.won
    assert state.step(last).won
    assert state.won


def test_a_game_can_be_unwon():
    state = play("pick_and_place_simple", *WINNING["pick_and_place_simple"])
    assert not state.step("take mug 1 from countertop 1").won


def test_one_thing_twice_is_not_two_things():
    there = ("go to countertop 1", "take apple 2 from countertop 1", "go to sinkbasin 1")
    twice = ("put apple 2 in/on sinkbasin 1", "take apple 2 from sinkbasin 1", "put apple 2 in/on sinkbasin 1")
    assert not play("pick_two_obj_and_place", *there, *twice).won


def test_two_things_must_be_in_one_receptacle():
    """The same as the winning way, but for one apple, which goes to the countertop."""
    *most, _, _ = WINNING["pick_two_obj_and_place"]
    assert not play("pick_two_obj_and_place", *most, "go to countertop 1", "put apple 1 in/on countertop 1").won


def test_an_apple_that_is_not_clean_does_not_count():
    dirty = [each for each in WINNING["pick_clean_then_place_in_recep"] if not each.startswith("clean")]
    assert not play("pick_clean_then_place_in_recep", *dirty).won


def test_what_is_cooled_after_heating_is_not_hot():
    *most, _, last = WINNING["pick_heat_then_place_in_recep"]
    cooled = ("go to fridge 1", "cool apple 2 with fridge 1", "go to countertop 1")
    assert not play("pick_heat_then_place_in_recep", *most, *cooled, last).won


def test_a_lamp_lights_only_what_is_held_where_it_stands():
    state = play("look_at_obj_in_light", "go to dresser 1", "use desklamp 1", "go to safe 1", "open safe 1")
    assert not state.step("take watch 1 from safe 1").won
    assert state.step("go to dresser 1").won
    assert not state.step("put watch 1 in/on dresser 1").won


def test_a_lamp_of_another_kind_does_not_count():
    problem = kitchen("look_at_obj_in_light").replace("(objectType ?ot DeskLampType)", "(objectType ?ot FloorLampType)")
    state = Game(problem, "").start()
    for command in WINNING["look_at_obj_in_light"]:
        state.step(command)
    assert state.is_lit("desklamp 1")
    assert not state.won
