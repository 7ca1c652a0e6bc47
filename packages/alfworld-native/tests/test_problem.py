"""Reading PDDL problems: names, and what is refused."""

import pytest

from alfworld_native.errors import GameError
from alfworld_native.problem import read_problem
from household_games import GOALS, kitchen


def test_the_last_name_in_the_alphabet_gets_number_one():
    """Of the ids apple_bar_a and apple_bar_b, the second is "apple 1"; the text lists them in the order of the ids."""
    problem = read_problem(kitchen())
    assert [thing.name for thing in problem.things if thing.kind == "apple"] == ["apple 2", "apple 1"]
    assert problem.beginning.contents["countertop 1"] == ("apple 2", "knife 1")


def test_an_id_with_basin_anywhere_is_named_so():
    problem = read_problem(kitchen().replace("Sink_bar_a_bar_SinkBasin", "Bathtub_bar_a_bar_SinkBasin"))
    basin = next(each for each in problem.receptacles if each.kind == "sinkbasin")
    assert basin.name == "bathtubbasin 1"


def test_names_and_predicates_are_read_in_any_case_and_layout():
    shouted = kitchen().upper().replace("(", "( ").replace(")", " )\n")
    assert read_problem(shouted) == read_problem(kitchen())


def test_comments_are_no_facts():
    assert read_problem(kitchen().replace("(:init", "(:init ; (opened Fridge_bar_a)\n")).beginning.opened == frozenset()


def test_facts_that_hold_at_first():
    also = "(:init (opened Fridge_bar_a) (isClean Apple_bar_a) (isHot Apple_bar_a) (isToggled DeskLamp_bar_a)"
    beginning = read_problem(kitchen().replace("(:init", also)).beginning
    assert beginning.opened == {"fridge 1"}
    assert beginning.clean == beginning.hot == {"apple 2"}
    assert beginning.lit == {"desklamp 1"}
    assert beginning.cool == {"apple 1"}


def test_an_object_declared_twice_is_one_object():
    twice = kitchen().replace("Apple_bar_a Apple_bar_b", "Apple_bar_a Apple_bar_a Apple_bar_b")
    assert read_problem(twice) == read_problem(kitchen())


SIMPLE = GOALS["pick_and_place_simple"][1]

BROKEN = {
    "no text": ("", "", "must say \\(:domain alfred\\)"),
    "another domain": ("(:domain alfred)", "(:domain blocks)", "must say \\(:domain alfred\\)"),
    "no goal": ("(:goal", "(:gaol", "in this order"),
    "negated fact": ("(:init", "(:init (not (opened Fridge_bar_a))", "cannot have \\(not"),
    "unknown predicate": ("(:init", "(:init (melted Apple_bar_a)", "no predicate 'melted'"),
    "too many arguments": ("(:init", "(:init (opened Fridge_bar_a Safe_bar_a)", "opened takes 1 argument"),
    "undeclared": ("(:init", "(:init (opened Oven_bar_a)", "does not declare 'oven_bar_a'"),
    "two places": ("(:init", "(:init (receptacleAtLocation Fridge_bar_a loc_bar_a)", "gives 'fridge_bar_a' two values"),
    "no player": ("(atLocation agent1 loc_bar_a)", "", "one player at one place"),
    "full hand": ("(:init", "(:init (holds agent1 Apple_bar_a)", "nothing in hand"),
    "odd name": ("Dresser_bar_a", "Dresser", "'dresser' must be named as ALFWorld does"),
    "negative goal": (SIMPLE, "(not (opened Fridge_bar_a))", "movable and sliced tasks are not supported"),
    "quantified goal": (SIMPLE, "(forall (?r - receptacle) (opened ?r))", "cannot have \\(forall"),
    "sliced goal": (
        "(and (inReceptacle ?o",
        "(and (isSliced ?o) (inReceptacle ?o",
        "six kinds; this one wants: issliced",
    ),
    "short goal": (SIMPLE, "(exists (?o - object) (isClean ?o))", "six kinds"),
    "open bracket": (SIMPLE + ")\n)\n", SIMPLE, "brackets of \\(:goal …\\) do not match"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_problem_that_is_none_is_refused(name):
    old, new, message = BROKEN[name]
    text = kitchen().replace(old, new) if old else ""
    assert text != kitchen()
    with pytest.raises(GameError, match=message):
        read_problem(text)


def test_the_two_things_of_a_goal_are_of_one_kind():
    mixed = kitchen("pick_two_obj_and_place").replace("(objectType ?o2 AppleType)", "(objectType ?o2 MugType)")
    with pytest.raises(GameError, match="must be of one kind"):
        read_problem(mixed)
