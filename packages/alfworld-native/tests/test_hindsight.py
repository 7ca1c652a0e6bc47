"""Tasks told in hindsight: a command by chance, under a task for which it was right."""

from __future__ import annotations

import numpy as np
import pytest

from alfworld_native.engine import Game
from alfworld_native.hindsight import Before, drawn_sentence, fitting_goals, retold
from alfworld_native.memory import Memory
from alfworld_native.problem import Goal
from alfworld_native.sentence import read_sentence
from alfworld_native.transcript import Transcript
from household_games import kitchen_record


def goals_of(*commands: str) -> set[tuple[str, str, str]]:
    """Goals that the last of some commands was right for, in the kitchen: kind of task, thing, receptacle or lamp."""
    record = kitchen_record("pick_and_place_simple")
    game = Game(record.problem, record.goal)
    state = game.start()
    memory = Memory(state.first().feedback, state.first().admissible)
    before = Before.of(memory)
    for command in commands:
        before = Before.of(memory)
        assert command in state.admissible
        step = state.step(command)
        memory.update(command, step.feedback, step.admissible)
    found = fitting_goals(game, before, commands[-1], memory)
    assert len(found) == len(set(found))
    return {(goal.task_type.split("_")[1], goal.object_kind, goal.target_kind) for goal in found}


COUNTER = ("go to countertop 1",)
APPLE = (*COUNTER, "take apple 2 from countertop 1")


def test_what_lies_where_one_goes_may_have_been_looked_for():
    found = goals_of(*COUNTER)
    assert {thing for _, thing, _ in found} == {"apple", "knife"}
    # What lies on the countertop has not to be put there.
    assert "countertop" not in {target for _, _, target in found}
    # A knife cannot be heated, and the kitchen's lamp lights anything.
    assert {kind for kind, thing, _ in found if thing == "knife"} == {"and", "clean", "at"}
    assert ("heat", "apple", "sinkbasin") in found
    assert ("at", "knife", "desklamp") in found


def test_a_closed_door_shows_nothing_and_an_open_one_does():
    assert goals_of("go to fridge 1") == set()
    assert {thing for _, thing, _ in goals_of("go to fridge 1", "open fridge 1")} == {"apple"}


def test_who_takes_a_thing_wants_that_one():
    found = goals_of(*APPLE)
    assert {thing for _, thing, _ in found} == {"apple"}
    assert {"and", "two", "clean", "heat", "cool", "at"} == {kind for kind, _, _ in found}


@pytest.mark.parametrize(
    ("way", "kind"), [("go to microwave 1", "heat"), ("go to fridge 1", "cool"), ("go to sinkbasin 1", "clean")]
)
def test_the_way_to_a_tool_is_right_for_who_wants_a_thing_treated(way: str, kind: str):
    found = goals_of(*APPLE, way)
    assert {thing for _, thing, _ in found} == {"apple"}
    # Wherever the thing goes afterwards.
    assert {target for what, _, target in found if what == kind} >= {"countertop", "microwave"}
    here = way.split()[2]
    # Or that is where it is to be put.
    assert {(what, target) for what, _, target in found if what != kind} == {("and", here), ("two", here)}


def test_a_treated_thing_is_wanted_treated_and_not_treated_again():
    heat = (*APPLE, "go to microwave 1", "heat apple 2 with microwave 1")
    assert {kind for kind, _, _ in goals_of(*heat)} == {"heat"}
    assert goals_of(*heat, "go to sinkbasin 1") >= {("heat", "apple", "sinkbasin")}
    assert {kind for kind, _, _ in goals_of(*heat, "go to countertop 1")} == {"heat"}
    assert goals_of(*heat, "go to countertop 1", "put apple 2 in/on countertop 1") == {("heat", "apple", "countertop")}


def test_nothing_is_treated_or_lit_twice():
    heat = (*APPLE, "go to microwave 1", "heat apple 2 with microwave 1")
    assert goals_of(*heat, "heat apple 2 with microwave 1") == set()
    lamp = ("go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", "go to dresser 1", "use desklamp 1")
    assert goals_of(*lamp, "use desklamp 1") == set()


def test_a_tool_need_not_be_opened_for_a_treatment():
    found = goals_of(*APPLE, "go to microwave 1", "open microwave 1")
    assert found == {("and", "apple", "microwave"), ("two", "apple", "microwave")}


def test_of_two_receptacles_at_one_place_the_one_that_is_opened_counts():
    # The mug and the spoon lie in cabinet 2, and cabinet 1 is empty.
    assert {thing for _, thing, _ in goals_of("go to cabinet 2", "open cabinet 2")} == {"mug", "spoon"}
    assert goals_of("go to cabinet 2", "open cabinet 2", "open cabinet 1") == set()


def test_who_wants_what_is_at_hand_does_not_go_away():
    fridge = ("go to fridge 1", "open fridge 1")
    assert {thing for _, thing, _ in goals_of(*fridge, *COUNTER)} == {"knife"}


def test_what_the_player_has_seen_done_is_no_task_any_more():
    first = ("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "go to sinkbasin 1")
    first = (*first, "put apple 1 in/on sinkbasin 1")
    # One apple in the sinkbasin is what "put an apple in sinkbasin." asks for, and a second one is another task.
    second = goals_of(*first, *COUNTER, "take apple 2 from countertop 1")
    assert ("and", "apple", "sinkbasin") not in second
    assert ("two", "apple", "sinkbasin") in second
    # There is one mug, so nobody can be asked for two.
    assert "two" not in {kind for kind, _, _ in goals_of("go to cabinet 2", "open cabinet 2")}


def test_a_thing_that_is_put_somewhere_else_was_wanted_there():
    put = (*APPLE, "go to sinkbasin 1", "put apple 2 in/on sinkbasin 1")
    assert goals_of(*put) == {("and", "apple", "sinkbasin"), ("two", "apple", "sinkbasin")}
    # It lay there before, so nobody had to take it.
    assert goals_of(*APPLE, "put apple 2 in/on countertop 1") == set()


def test_a_lamp_is_for_what_is_in_hand():
    lamp = ("go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", "go to dresser 1")
    assert ("at", "mug", "desklamp") in goals_of(*lamp)
    assert goals_of(*lamp, "use desklamp 1") == {("at", "mug", "desklamp")}
    # Without a thing in hand a lamp shows nothing.
    assert goals_of("go to dresser 1", "use desklamp 1") == set()


@pytest.mark.parametrize("vain", ["look", "inventory", "examine countertop 1"])
def test_what_leads_to_nothing_is_right_for_no_task(vain: str):
    assert goals_of(*COUNTER, vain) == set()


def test_a_sentence_states_one_of_the_goals_and_kinds_of_tasks_are_equally_likely():
    goals = [Goal("pick_and_place_simple", "mug", target) for target in ("desk", "shelf", "bed")]
    goals.append(Goal("look_at_obj_in_light", "mug", "desklamp"))
    rng = np.random.default_rng(0)
    drawn = [read_sentence(drawn_sentence(goals, rng)) for _ in range(400)]
    assert set(drawn) == set(goals)
    assert 150 < drawn.count(goals[-1]) < 250


def test_a_state_is_told_anew_without_what_was_done_in_vain():
    wandered = [line for place in "abcde" for line in (f"> go to {place} 1", f"At {place}.")]
    text = "\n".join(
        (
            "Your task is to: look at it.",
            "You are in a room.",
            *wandered,
            *("> look", "You are here.", "> take mug 1 from e 1", "You have it."),
            *wandered,
            *("> inventory", "You carry it."),
        )
    )
    assert retold(text, "put a mug in f.").split("\n") == [
        "Your task is to: put a mug in f.",
        "You are in a room.",
        *("> go to e 1", "At e.", "> take mug 1 from e 1", "You have it."),
        *("> go to c 1", "At c.", "> go to d 1", "At d.", "> go to e 1", "At e."),
    ]


def test_the_words_of_both_versions_are_told_anew():
    record = kitchen_record("pick_and_place_simple")
    game = Game(record.problem, record.goal, "2.1.2")
    state = game.start()
    step = state.first()
    memory, shown = Memory(step.feedback, step.admissible), Transcript(step.feedback, step.admissible, 9)
    found = []
    for command in (*APPLE, "help", "go to sinkbasin 1", "move apple 2 to sinkbasin 1"):
        before, text = Before.of(memory), shown.text
        step = state.step(command)
        shown.add(command, memory, step.feedback, step.admissible)
        memory.update(command, step.feedback, step.admissible)
        found = fitting_goals(game, before, command, memory)
    assert {(goal.task_type, goal.target_kind) for goal in found} == {
        ("pick_and_place_simple", "sinkbasin"),
        ("pick_two_obj_and_place", "sinkbasin"),
    }
    commands = [line for line in retold(text, "put an apple in sinkbasin.").split("\n") if line.startswith("> ")]
    assert commands == ["> go to countertop 1", "> take apple 2 from countertop 1", "> go to sinkbasin 1"]
