"""The list of commands: names, what is left out, and which of them a gold path means."""

from __future__ import annotations

import pytest

from reflect_games.scienceworld.commands import FIRST_WORDS, counterpart, listed
from reflect_games.scienceworld.env import MODES
from reflect_games.scienceworld.world import Command, clear_names

FIND = "find-non-living-thing"
TASK = "Find a(n) non-living thing. Then, move it to the red box in the kitchen."


def command(text: str, template: int, *objects: int, names: tuple[tuple[str, ...], ...] = ()) -> Command:
    return Command(text, template, objects, names)


def texts(*commands: Command, task: str = FIND, most: int = 100, carried: str = "an orange") -> tuple[str, ...]:
    return tuple(found.text for found in listed(commands, task, TASK, carried, most))


def test_of_several_names_of_one_command_the_shortest_is_listed():
    assert texts(command("focus on egg in red box", 11, 1), command("focus on egg", 11, 1)) == ("focus on egg",)


def test_walking_is_preferred_to_teleporting_to_the_same_place():
    assert texts(command("teleport to kitchen", 2, 7), command("go to kitchen", 2, 7)) == ("go to kitchen",)


def test_only_commands_of_the_tasks_gold_paths_are_listed():
    assert texts(
        command("eat egg", 8, 1), command("focus on egg", 11, 1), command("wait1", 18), command("wait", 19)
    ) == (
        "focus on egg",
        "wait1",
    )


@pytest.mark.parametrize(
    "text", ["focus on kitchen", "focus on air", "focus on agent", "move door to egg", "go to door to hall"]
)
def test_places_doors_and_the_agent_are_not_handled(text):
    assert texts(command(text, 9, 1), command("look around", 3)) == ("look around",)


def test_of_commands_about_two_things_one_must_be_named_or_carried():
    assert texts(
        command("move egg to red box", 9, 1, 2),
        command("move orange to table", 9, 3, 4),
        command("move egg to table", 9, 1, 4),
    ) == ("move egg to red box", "move orange to table")


def test_a_list_that_is_too_long_keeps_commands_about_one_thing_then_those_that_the_task_names():
    found = (
        *(command(f"focus on egg {n}", 11, n) for n in range(3)),
        command("move egg to red box", 9, 1, 2),
        command("move orange to table", 9, 3, 4),
    )
    assert texts(*found, most=4) == ("focus on egg 0", "focus on egg 1", "focus on egg 2", "move egg to red box")


def test_answers_to_an_ambiguous_command_are_always_listed():
    assert texts(command("0", 100, 5), command("1", 101, 6)) == ("0", "1")


def test_every_task_has_first_words():
    assert set(FIRST_WORDS) == set(MODES)


# ------------------------------------------------------------------------------------------------------- gold paths


def test_a_gold_command_is_found_by_any_name_of_its_things():
    pot = ("flower pot 7", "flower pot 7 containing pea plant and soil", "pot")
    tree, box = ("apple tree", "adult apple tree"), ("orange box",)
    found = (
        command("move apple tree to orange box", 9, 1, 2, names=(tree, box)),
        command("move flower pot 7 to orange box", 9, 3, 2, names=(pot, box)),
    )
    assert counterpart("move flower pot 7 containing pea plant and soil in inventory to orange box", found) == 1


def test_words_that_lists_do_not_use_are_translated():
    found = (command("look at stopwatch", 4, 1, names=(("stopwatch",),)),)
    assert counterpart("examine stopwatch in inventory", found) == 0


def test_a_gold_command_that_is_not_listed_has_no_counterpart():
    assert counterpart("open door to kitchen", (command("look around", 3),)) is None


def test_terminals_are_found_by_what_they_are_part_of_and_wires_from_either_end():
    wire = ("terminal", "terminal 1", "black wire terminal 1")
    red, blue = ("terminal", "cathode", "red light bulb cathode"), ("terminal", "cathode", "blue light bulb cathode")
    found = (
        command("connect black wire terminal 1 to blue light bulb cathode", 16, 1, 2, names=(wire, blue)),
        command("connect black wire terminal 1 to cathode in red light bulb", 16, 1, 3, names=(wire, red)),
    )
    assert counterpart("connect cathode in red light bulb to black wire terminal 1", found) == 1


def test_a_stage_of_life_is_part_of_the_name():
    names = [("apple tree", f"apple tree in the {stage} stage") for stage in ("adult", "seedling")]
    found = tuple(command(f"focus on apple tree {k}", 11, k, names=(name,)) for k, name in enumerate(names))
    assert counterpart("focus on apple tree in the seedling stage in flower pot 6", found) == 1


def test_pouring_in_is_pouring_into():
    cup, jug = ("cup", "cup containing blue paint"), ("jug",)
    found = (command("pour cup into jug", 10, 1, 2, names=(cup, jug)),)
    assert counterpart("pour cup containing blue paint in art studio in jug", found) == 0


def test_capitals_of_gold_paths_do_not_matter():
    names = (("thermometer",), ("substance", "unknown substance b"))
    found = (command("use thermometer on unknown substance b", 5, 1, 2, names=names),)
    assert counterpart("use thermometer in inventory on unknown substance B in inventory", found) == 0


def test_wires_join_other_things_in_one_order():
    wire, other = ("terminal 1", "black wire terminal 1"), ("terminal 2", "red wire terminal 2")
    anode, box = ("anode", "battery anode"), ("battery",)
    found = (
        command("connect wire end to anode", 16, 1, 2, names=(wire, anode)),
        command("connect anode to wire end", 16, 2, 1, names=(anode, wire)),
        command("connect wire end to other end", 16, 1, 3, names=(wire, other)),
        command("connect wire end to battery", 16, 1, 4, names=(wire, box)),
        command("connect wire end to fork", 16, 1, 5, names=(wire, ("fork",))),
        command("focus on anode", 11, 2, names=(anode,)),
    )
    # The battery is joined by its anode, and the fork has no terminals.
    assert texts(*found, task="power-component") == ("connect wire end to anode", "connect wire end to fork")


# ------------------------------------------------------------------------------------------------------- names


def test_things_get_the_name_that_the_description_uses_where_it_is_unique():
    found = (command("focus on object", 11, 1), command("focus on pot", 11, 2), command("move object to pot", 9, 1, 2))
    names = {1: ("object", "mattress"), 2: ("pot", "metal pot"), 3: ("metal pot",)}
    clear = clear_names((*found, command("focus on metal pot", 11, 3)), {1, 2, 3}, names, "a mattress; a metal pot", "")
    # Two things are a metal pot, so neither is called that; `pot` is part of the description and unique.
    assert [c.text for c in clear] == [
        "focus on mattress",
        "focus on pot",
        "move mattress to pot",
        "focus on metal pot",
    ]


def test_things_in_closed_containers_are_out_of_reach_and_carried_ones_are_not():
    found = (command("focus on juice", 11, 1), command("focus on orange", 11, 2))
    clear = clear_names(found, set(), {1: ("juice",), 2: ("orange",)}, "an orange", "an orange")
    assert [c.text for c in clear] == ["focus on orange"]
