"""What a player remembers: what the game said, and nothing else."""

from __future__ import annotations

import pytest

from alfworld_native.engine import Game, State
from alfworld_native.errors import GameError
from alfworld_native.memory import Memory
from alfworld_native.record import TaskType, Wording
from household_games import OPENING, WINNING, kitchen_record


def begun(task_type: TaskType = "pick_and_place_simple", wording: Wording = "2.1.1") -> tuple[State, Memory]:
    record = kitchen_record(task_type)
    state = Game(record.problem, record.goal, wording).start()
    return state, Memory(state.first().feedback, state.first().admissible)


def after(state: State, memory: Memory, *commands: str) -> Memory:
    for command in commands:
        step = state.step(command)
        memory.update(command, step.feedback, step.admissible)
    return memory


# ALFWorld's own text of the game valid_seen Tomato-None-Microwave-13, cut to a few receptacles.
ROOM = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
    "cabinet 1, a microwave 1, and a sinkbasin 1.\n\nYour task is to: put some tomato on microwave."
)
WAYS = ("go to cabinet 1", "go to microwave 1", "go to sinkbasin 1", "inventory", "look")


def test_the_texts_of_a_real_game_are_read():
    memory = Memory(ROOM, WAYS)
    assert memory.task == "put some tomato on microwave."
    assert memory.receptacles == ("cabinet 1", "microwave 1", "sinkbasin 1")
    assert (memory.here, memory.held, memory.contents) == ((), "", {})

    takes = tuple(f"take {thing} from sinkbasin 1" for thing in ("apple 1", "mug 1", "tomato 1", "tomato 2"))
    seen = "You arrive at loc 30. On the sinkbasin 1, you see a apple 1, a mug 1, a tomato 2, and a tomato 1."
    memory.update("go to sinkbasin 1", seen, ("examine sinkbasin 1", *WAYS[:2], *WAYS[3:], *takes))
    assert memory.here == ("sinkbasin 1",)
    assert memory.contents == {"sinkbasin 1": ["apple 1", "mug 1", "tomato 2", "tomato 1"]}

    holding = ("examine sinkbasin 1", "examine tomato 1", *WAYS[:2], *WAYS[3:], "put tomato 1 in/on sinkbasin 1")
    taken = "You pick up the tomato 1 from the sinkbasin 1."
    memory.update("take tomato 1 from sinkbasin 1", taken, holding)
    assert (memory.held, memory.contents["sinkbasin 1"]) == ("tomato 1", ["apple 1", "mug 1", "tomato 2"])

    shut = ("examine microwave 1", "examine tomato 1", WAYS[0], WAYS[2], "open microwave 1")
    memory.update("go to microwave 1", "You arrive at loc 55. The microwave 1 is closed.", shut)
    assert (memory.here, memory.shut, "microwave 1" in memory.contents) == (("microwave 1",), {"microwave 1"}, False)

    opened = "You open the microwave 1. The microwave 1 is open. In it, you see a potato 1."
    memory.update("open microwave 1", opened, ("close microwave 1", "examine microwave 1", WAYS[0], WAYS[2]))
    assert (memory.shut, memory.contents["microwave 1"]) == (set(), ["potato 1"])

    put = "You put the tomato 1 in/on the microwave 1."
    memory.update("put tomato 1 in/on microwave 1", put, ("close microwave 1", "examine microwave 1"))
    assert (memory.held, memory.things("tomato")) == (
        "",
        [("tomato 2", "sinkbasin 1"), ("tomato 1", "microwave 1")],
    )


@pytest.mark.parametrize("wording", ["2.1.1", "2.1.2"])
def test_both_wordings_are_understood(wording: Wording):
    state, memory = begun(wording=wording)
    put = {"2.1.1": "put apple 2 in/on sinkbasin 1", "2.1.2": "move apple 2 to sinkbasin 1"}[wording]
    after(state, memory, "go to countertop 1", "take apple 2 from countertop 1", "go to sinkbasin 1")
    after(state, memory, "clean apple 2 with sinkbasin 1", put)
    assert (memory.held, memory.things("apple")) == ("", [("apple 2", "sinkbasin 1")])
    assert memory.conditions == {"apple 2": {"clean"}}


def test_what_lies_within_reach_is_known_without_looking():
    """The two cabinets share a place: with empty hands the commands name what is in both."""
    state, memory = begun()
    after(state, memory, "go to cabinet 1", "open cabinet 2")
    assert set(memory.contents["cabinet 2"]) == {"mug 1", "spoon 1"}
    assert memory.shut == {"cabinet 1"}
    assert memory.here == ("cabinet 1", "cabinet 2")
    assert "cabinet 1" not in memory.contents


def test_a_closed_receptacle_keeps_what_was_seen_in_it():
    state, memory = begun()
    after(state, memory, "go to cabinet 2", "open cabinet 2", "close cabinet 2", "go to countertop 1")
    assert set(memory.contents["cabinet 2"]) == {"mug 1", "spoon 1"}
    assert "cabinet 2" in memory.shut


def test_heat_and_cold_exclude_each_other():
    state, memory = begun("pick_heat_then_place_in_recep")
    after(state, memory, "go to countertop 1", "take apple 2 from countertop 1", "go to microwave 1")
    after(state, memory, "heat apple 2 with microwave 1")
    assert memory.conditions["apple 2"] == {"hot"}
    after(state, memory, "go to fridge 1", "cool apple 2 with fridge 1")
    assert memory.conditions["apple 2"] == {"cool"}


def test_a_lamp_is_remembered_and_whether_it_is_on():
    state, memory = begun("look_at_obj_in_light")
    after(state, memory, "go to dresser 1")
    assert memory.things("desklamp") == [("desklamp 1", "dresser 1")]
    after(state, memory, "use desklamp 1")
    assert memory.conditions == {"desklamp 1": {"on"}}


def test_coming_back_is_noticed():
    state, memory = begun()
    assert not after(state, memory, "go to fridge 1").again
    assert not after(state, memory, "go to countertop 1").again
    assert after(state, memory, "go to fridge 1").again


def test_the_last_command_can_be_forgotten_and_nothing_else():
    state, memory = begun()
    after(state, memory, "go to countertop 1")
    memory.forget_last()
    assert (memory.last, memory.feedback, memory.here) == ("", "", ("countertop 1",))
    assert memory.contents["countertop 1"]


STAGES = {
    "pick_and_place_simple": [0, 0, 1, 1, 0],
    "look_at_obj_in_light": [0, 1, 1],
    "pick_heat_then_place_in_recep": [0, 1, 1, 2, 2, 0],
    "pick_two_obj_and_place": [0, 1, 1, 2, 2, 2, 3, 3, 4],
}


@pytest.mark.parametrize("task_type", STAGES)
def test_parts_of_the_task_are_counted_as_they_are_done(task_type: TaskType):
    state, memory = begun(task_type)
    assert [after(state, memory, command).stage for command in WINNING[task_type]] == STAGES[task_type]


def test_commands_that_tell_nothing_are_known():
    state, memory = begun()
    after(state, memory, "go to countertop 1", "take knife 1 from countertop 1")
    idle = [command for command in memory.admissible if memory.is_idle(command)]
    assert idle == ["examine countertop 1", "examine knife 1", "inventory", "look"]


def test_another_text_is_refused():
    with pytest.raises(GameError, match="no opening of a household game: 'You stand"):
        Memory("You stand in a forest.", ())
    with pytest.raises(GameError, match="none of ALFWorld's sentences"):
        Memory(OPENING + "win.", ())
