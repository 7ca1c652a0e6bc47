"""Every command of a household game, its text worked out by hand from ALFWorld's domain and grammar."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from alfworld_native.engine import Game, State
from alfworld_native.errors import GameError
from alfworld_native.wording import HELP
from household_games import GOALS, OPENING, WINNING, kitchen

TASK = "pick_and_place_simple"

GO = (
    *("go to cabinet 1", "go to cabinet 2", "go to countertop 1", "go to dresser 1", "go to fridge 1"),
    *("go to microwave 1", "go to safe 1", "go to sinkbasin 1"),
)


def begin(wording="2.1.1", problem=None) -> State:
    return Game(problem or kitchen(), GOALS[TASK][0], wording).start()


def played(*commands: str, wording="2.1.1") -> State:
    state = begin(wording)
    for command in commands:
        assert command in state.admissible
        state.step(command)
    return state


def test_a_game_opens_with_the_room_and_the_task():
    first = begin().first()
    assert first.feedback == OPENING + "put a mug in countertop."
    assert first.admissible == (*GO, "inventory", "look")
    assert not first.won


def test_a_game_that_begins_at_a_receptacle_opens_facing_it():
    first = begin(problem=kitchen().replace("(atLocation agent1 loc_bar_a)", "(atLocation agent1 loc_bar_f)")).first()
    assert "You are facing the cabinet 2, and cabinet 1. Next to it, you see nothing.\n\nYour task" in first.feedback


SESSION = """
look                             | You are in the middle of a room. Looking quickly around you, you see nothing.
inventory                        | You are not carrying anything.
go to countertop 1               | You arrive at loc 7. On the countertop 1, you see a apple 2, and a knife 1.
take knife 1 from countertop 1   | You pick up the knife 1 from the countertop 1.
inventory                        | You are carrying: a knife 1.
examine knife 1                  | There's nothing special about knife 1.
slice apple 2 with knife 1       | You sliced the apple 2 with the knife 1.
go to sinkbasin 1                | You arrive at loc 4. On the sinkbasin 1, you see nothing.
clean knife 1 with sinkbasin 1   | You clean the knife 1 using the sinkbasin 1.
examine knife 1                  | This is a clean knife 1.
put knife 1 in/on sinkbasin 1    | You put the knife 1 in/on the sinkbasin 1.
examine sinkbasin 1              | On the sinkbasin 1, you see a knife 1.
look                             | You are facing the sinkbasin 1. Next to it, you see nothing.
go to countertop 1               | You arrive at loc 7. On the countertop 1, you see a apple 2.
take apple 2 from countertop 1   | You pick up the apple 2 from the countertop 1.
examine apple 2                  | This is a sliced apple 2.
go to microwave 1                | You arrive at loc 5. The microwave 1 is closed.
heat apple 2 with microwave 1    | You heat the apple 2 using the microwave 1.
examine apple 2                  | This is a hot sliced apple 2.
go to fridge 1                   | You arrive at loc 6. The fridge 1 is closed.
cool apple 2 with fridge 1       | You cool the apple 2 using the fridge 1.
examine apple 2                  | This is a cool sliced apple 2.
open fridge 1                    | You open the fridge 1. The fridge 1 is open. In it, you see a apple 1.
put apple 2 in/on fridge 1       | You put the apple 2 in/on the fridge 1.
examine fridge 1                 | The fridge 1 is open. In it, you see a apple 2, and a apple 1.
take apple 1 from fridge 1       | You pick up the apple 1 from the fridge 1.
examine apple 1                  | This is a cold apple 1.
close fridge 1                   | You close the fridge 1.
examine fridge 1                 | The fridge 1 is closed.
go to dresser 1                  | You arrive at loc 2. On the dresser 1, you see a desklamp 1, and a watch 1.
use desklamp 1                   | You turn on the desklamp 1.
use desklamp 1                   | You turn on the desklamp 1.
"""


def test_every_command_answers_in_the_older_wording():
    state = begin()
    for line in SESSION.strip().splitlines():
        command, feedback = (part.strip() for part in line.split("|"))
        assert command in state.admissible
        assert state.step(command).feedback == feedback


NEWER = """
go to countertop 1               | You arrive at countertop 1. On the countertop 1, you see a apple 2, and a knife 1.
take apple 2 from countertop 1   | You pick up the apple 2 from the countertop 1.
go to sinkbasin 1                | You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing.
move apple 2 to sinkbasin 1      | You move the apple 2 to the sinkbasin 1.
"""


def test_the_newer_wording_moves_things_and_names_where_one_arrives():
    state = begin("2.1.2")
    for line in NEWER.strip().splitlines():
        command, feedback = (part.strip() for part in line.split("|"))
        assert command in state.admissible
        assert state.step(command).feedback == feedback


def test_only_the_newer_wording_has_help():
    assert "help" not in begin().admissible
    assert begin("2.1.2").admissible == (*GO, "help", "inventory", "look")
    help_text = begin("2.1.2").step("help").feedback
    assert help_text == HELP
    assert help_text.startswith("Available commands:\n  look:  ")


def test_only_in_the_older_wording_a_sink_without_a_basin_cleans():
    with_sink = kitchen().replace("Sink_bar_a_bar_SinkBasin SinkBasinType", "Sink_bar_a_bar_SinkBasin SinkType")
    commands = ("go to countertop 1", "take knife 1 from countertop 1", "go to sinkbasin 1")
    for wording, cleans in (("2.1.1", True), ("2.1.2", False)):
        state = begin(wording, with_sink)
        for command in commands:
            state.step(command)
        assert ("clean knife 1 with sinkbasin 1" in state.admissible) is cleans


def test_commands_with_a_thing_in_hand_are_sorted():
    state = played("go to countertop 1", "take apple 2 from countertop 1", "go to fridge 1")
    elsewhere = tuple(each for each in GO if each != "go to fridge 1")
    examine = ("examine apple 2", "examine fridge 1")
    assert state.admissible == (
        "cool apple 2 with fridge 1",
        *examine,
        *elsewhere,
        "inventory",
        "look",
        "open fridge 1",
    )
    state.step("open fridge 1")
    after = ("inventory", "look", "put apple 2 in/on fridge 1")
    assert state.admissible == ("close fridge 1", "cool apple 2 with fridge 1", *examine, *elsewhere, *after)


def test_a_thing_goes_only_where_its_kind_can_be():
    state = played("go to countertop 1", "take knife 1 from countertop 1", "go to fridge 1", "open fridge 1")
    assert not [command for command in state.admissible if command.startswith("put")]


@pytest.mark.parametrize(
    "command",
    [
        *("", "jump", "Look", "look around", "examine", "go to", "go to loc 7", "go to fridge 2", "open fridge 1"),
        *("take apple 2 from countertop 1", "put apple 2 in/on countertop 1", "help", "go to fridge 1\nlook", "use"),
    ],
)
def test_a_command_that_is_not_listed_changes_nothing(command):
    state = begin()
    before = state.admissible
    step = state.step(command)
    assert step.feedback == "Nothing happens."
    assert step.admissible == state.admissible == before
    assert state.here == ()


def test_space_around_a_command_is_ignored():
    assert begin().step("  inventory\n").feedback == "You are not carrying anything."


def test_nobody_goes_to_where_they_stand():
    state = played("go to cabinet 1")
    assert state.here == ("cabinet 2", "cabinet 1")
    assert not {"go to cabinet 1", "go to cabinet 2"} & set(state.admissible)
    assert {"open cabinet 1", "open cabinet 2", "examine cabinet 1", "examine cabinet 2"} <= set(state.admissible)


def test_a_thing_is_examined_only_in_hand():
    state = played("go to countertop 1")
    assert "examine apple 2" not in state.admissible
    state.step("take apple 2 from countertop 1")
    assert "examine apple 2" in state.admissible


def test_what_was_taken_out_of_one_receptacle_lies_next_to_it_in_another():
    state = played("go to cabinet 1", "open cabinet 1", "open cabinet 2")
    assert state.step("look").feedback == "You are facing the cabinet 2, and cabinet 1. Next to it, you see nothing."
    state.step("take spoon 1 from cabinet 2")
    assert state.step("look").feedback.endswith("Next to it, you see nothing.")
    state.step("put spoon 1 in/on cabinet 1")
    assert state.step("look").feedback.endswith("Next to it, you see a spoon 1.")


def test_what_is_back_in_its_receptacle_does_not_lie_next_to_it():
    state = played("go to cabinet 2", "open cabinet 2", "take spoon 1 from cabinet 2", "put spoon 1 in/on cabinet 2")
    assert state.step("look").feedback.endswith("Next to it, you see nothing.")


def test_a_lamp_is_used_where_it_stands_and_not_taken():
    state = played("go to dresser 1")
    assert "use desklamp 1" in state.admissible
    assert "take desklamp 1 from dresser 1" not in state.admissible


def test_a_lamp_in_two_receptacles_of_a_place_is_used_by_one_command():
    lamp = "(inReceptacle DeskLamp_bar_a Cabinet_bar_a) (inReceptacle DeskLamp_bar_a Cabinet_bar_b)"
    state = begin(problem=kitchen().replace("(inReceptacle DeskLamp_bar_a Dresser_bar_a)", lamp))
    assert state.step("go to cabinet 1").admissible.count("use desklamp 1") == 1


def test_a_thing_in_two_receptacles_leaves_only_the_one_it_is_taken_from():
    state = played("go to dresser 1")
    assert state.containers("watch 1") == ("dresser 1", "safe 1")
    assert state.container("watch 1") == "dresser 1"
    state.step("take watch 1 from dresser 1")
    assert state.containers("watch 1") == ("safe 1",)
    assert state.container("watch 1") is None
    state.step("go to safe 1")
    assert state.step("open safe 1").feedback.endswith("The safe 1 is open. In it, you see a watch 1.")


def test_a_vessel_tells_only_what_it_began_with():
    state = played("go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2")
    assert state.step("examine mug 1").feedback == "This is a normal mug 1. In it, you see a spoon 1."


def test_slicing_needs_a_knife_and_the_thing_at_hand_but_no_open_door():
    state = played("go to countertop 1", "take knife 1 from countertop 1", "go to fridge 1")
    assert "slice apple 1 with knife 1" in state.admissible
    assert "slice apple 2 with knife 1" not in state.admissible


def test_facts_follow_the_commands():
    state = played("go to countertop 1", "take apple 2 from countertop 1", "go to fridge 1")
    assert (state.holding, state.here, state.place) == ("apple 2", ("fridge 1",), "loc 6")
    assert not state.is_open("fridge 1")
    assert state.is_open("countertop 1")
    assert state.contents("fridge 1") == ("apple 1",)
    assert (state.is_cool("apple 1"), state.is_cool("apple 2")) == (True, False)
    state.step("cool apple 2 with fridge 1")
    assert state.is_cool("apple 2")
    state.step("go to microwave 1")
    state.step("heat apple 2 with microwave 1")
    assert (state.is_hot("apple 2"), state.is_cool("apple 2")) == (True, False)
    state.step("go to sinkbasin 1")
    state.step("clean apple 2 with sinkbasin 1")
    assert state.is_clean("apple 2")
    state.step("go to dresser 1")
    assert not state.is_lit("desklamp 1")
    state.step("use desklamp 1")
    assert state.is_lit("desklamp 1")


def test_what_a_game_says_of_its_things():
    game = Game(kitchen(), "")
    assert list(game.receptacles) == [
        *("cabinet 2", "cabinet 1", "countertop 1", "dresser 1", "fridge 1", "microwave 1", "safe 1", "sinkbasin 1")
    ]
    fridge, lamp = game.receptacles["fridge 1"], game.things["desklamp 1"]
    assert (fridge.kind, fridge.place, fridge.openable) == ("fridge", "loc 6", True)
    assert fridge.accepts == {"apple", "mug"}
    assert (lamp.kind, lamp.toggleable, lamp.pickupable) == ("desklamp", True, False)
    assert "chair 1" not in game.things


def test_a_copy_goes_its_own_way():
    state = played("go to countertop 1")
    other = state.copy()
    other.step("take apple 2 from countertop 1")
    assert (state.holding, other.holding) == (None, "apple 2")
    assert state.step("examine countertop 1").feedback.endswith("a apple 2, and a knife 1.")
    assert other.step("examine countertop 1").feedback.endswith("you see a knife 1.")


def test_episodes_in_threads_do_not_disturb_each_other():
    game = Game(kitchen("pick_two_obj_and_place"), "")

    def episode(_: int) -> list[str]:
        state = game.start()
        return [state.step(command).feedback for command in WINNING["pick_two_obj_and_place"]] + [str(state.won)]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(episode, range(200)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][-1] == "True"


def test_an_unknown_wording_is_refused():
    with pytest.raises(GameError, match=r"no wording '2.1.3'. Known: 2.1.1, 2.1.2"):
        Game(kitchen(), "", "2.1.3")
