from dataclasses import replace

import pytest

from alfworld_native.errors import GameError
from alfworld_native.games import GameSet
from alfworld_native.record import GameRecord

TOMATO = GameRecord(
    "a/1", "pick_and_place_simple", "put a tomato in microwave.", "(p 1)", subject="Tomato-None-Microwave"
)
LAMP = GameRecord("b/1", "look_at_obj_in_light", "look at cd under the desklamp.", "(p 2)", subject="CD-None-DeskLamp")
OTHER = replace(TOMATO, key="c/1", problem="(p 3)", subject="Tomato-None-Fridge")


def test_records_come_out_as_they_went_in():
    assert tuple(GameSet([TOMATO, LAMP])) == (TOMATO, LAMP)
    assert GameSet([TOMATO, LAMP, OTHER])[-1] == OTHER
    assert tuple(GameSet([TOMATO, LAMP, OTHER])[1:]) == (LAMP, OTHER)


def test_problems_are_kept_compressed():
    problem = "(receptacleType Drawer_bar__plus_01_dot_63 DrawerType)\n" * 1000
    games = GameSet([replace(TOMATO, problem=problem)])
    assert games[0].problem == problem
    assert sum(map(len, games._problems)) < len(problem) / 50


def test_games_are_found_by_key():
    games = GameSet([TOMATO, LAMP])
    assert games.keys == ("a/1", "b/1")
    assert games.find("b/1") == LAMP
    with pytest.raises(GameError, match=r"no game 'b/2' in this set of 2\. Did you mean 'b/1'"):
        games.find("b/2")


def test_two_games_of_one_key_are_refused():
    with pytest.raises(GameError, match="two games have the key 'a/1'"):
        GameSet([TOMATO, TOMATO])


def test_fingerprints_are_equal_for_equal_sets_only():
    fingerprint = GameSet([TOMATO, LAMP]).fingerprint
    assert GameSet([TOMATO, LAMP]).fingerprint == fingerprint
    others = (
        [LAMP, TOMATO],
        [TOMATO],
        [replace(TOMATO, key="a/2"), LAMP],
        [replace(TOMATO, goal="put some tomato on microwave."), LAMP],
        [replace(TOMATO, problem="(p 1) "), LAMP],
    )
    assert fingerprint not in {GameSet(each).fingerprint for each in others}


def test_filters_keep_the_order():
    games = GameSet([TOMATO, LAMP, OTHER])
    assert games.select(task_types=["pick_and_place_simple"]).keys == ("a/1", "c/1")
    assert games.select(name="pick_and_place_simple-Tomato-None-Fridge").keys == ("c/1",)
    assert games.select(name="paper").keys == ("a/1",)


def test_distinct_drops_games_that_differ_in_name_and_order_of_lines_only():
    first = replace(TOMATO, key="a/1", problem="\n(define (problem plan_1)\n(:init\n  (p x)\n  (q y)\n")
    again = replace(TOMATO, key="a/2", problem="\n(define (problem plan_2)\n(:init\n  (q y)\n  (p x)\n")
    changed = replace(TOMATO, key="a/3", problem="\n(define (problem plan_1)\n(:init\n  (p x)\n  (q z)\n")
    assert GameSet([first, again, changed]).select(distinct=True).keys == ("a/1", "a/3")


def test_filters_that_leave_nothing_say_what_there_is():
    games = GameSet([TOMATO, LAMP])
    with pytest.raises(GameError, match="Did you mean 'pick_and_place_simple-Tomato-None-Microwave'"):
        games.select(name="pick_and_place_simple-Tomato-None-Microwav")
    with pytest.raises(GameError, match="none of 2 games is of the kinds pick_two_obj_and_place"):
        games.select(task_types=["pick_two_obj_and_place"])
    with pytest.raises(GameError, match="no kind of task named 'pick_two'"):
        games.select(task_types=["pick_two"])
