from __future__ import annotations

import re

import numpy as np
import pytest
from gymnasium.envs.toy_text.taxi import TaxiEnv

from reflect_rl.config import EnvironmentConfig, Frozen, parse
from reflect_rl.envs.base import EnvSpec, NamesGames
from reflect_rl.envs.dangerous_taxi import (
    ACTIONS,
    MODES,
    START_STATES,
    DangerousTaxi,
    DangerousTaxiConfig,
    decode,
    encode,
    map_text,
    reflection_text,
    transition_table,
    turns_to_goal,
)
from reflect_rl.envs.gym import GymnasiumEnv
from reflect_rl.errors import ConfigError, UserError
from reflect_rl.types import Task

SOUTH, NORTH, EAST, WEST, PICKUP, DROPOFF = range(6)


def begin(mode: str, state: int, **settings: bool) -> GymnasiumEnv:
    environment = GymnasiumEnv(EnvSpec.of(DangerousTaxi, **settings))
    environment.reset(options={"task": Task(f"{mode}/{state}", mode, "train", {"state": state})})
    return environment


def test_the_table_is_gymnasiums():
    theirs = TaxiEnv().P
    for state in range(500):
        for action in range(6):
            [(probability, *transition)] = theirs[state][action]
            assert probability == 1.0
            assert list(transition_table()[state][action]) == transition


def test_the_starts_are_gymnasiums():
    assert len(START_STATES) == 300
    assert tuple(np.flatnonzero(TaxiEnv().initial_state_distrib)) == START_STATES


def test_states_are_numbered_as_in_gymnasium():
    taxi = TaxiEnv()
    for state in range(500):
        assert decode(state) == tuple(taxi.decode(state))
        assert encode(*decode(state)) == state


@pytest.mark.parametrize("mode", ["pickup", "full"])
def test_random_games_equal_gymnasiums_but_for_the_milestone_the_scale_and_the_fatal_rule(mode: str):
    rng = np.random.default_rng(0)
    taxi, steps = TaxiEnv(), 0
    taxi.reset(seed=0)
    for _ in range(2000):
        state = START_STATES[int(rng.integers(300))]
        environment, taxi.s = begin(mode, state), state
        milestone_open, terminated = True, False
        while not terminated:
            oracle = environment.game.oracle()
            # Three oracle actions in four, so that games get as far as a pickup and a delivery.
            action = oracle.best if rng.random() < 0.75 else int(rng.integers(6))
            before = int(taxi.s)
            theirs, their_reward, their_end, _, _ = taxi.step(action)
            observation, reward, terminated, _, info = environment.step(action)
            steps += 1
            picked_up = theirs != before and action == PICKUP
            expected = their_reward
            if theirs == before:
                expected = -10
            elif picked_up and milestone_open:
                expected, milestone_open = 20, False
            assert observation.state == str(theirs)
            assert reward == expected / 20
            assert terminated == (their_end or theirs == before or (picked_up and mode == "pickup"))
            assert info["success"] == (their_end or (picked_up and mode == "pickup"))
    assert steps > 5_000


def test_an_illegal_pickup_in_gymnasium_always_changes_nothing_so_both_rules_agree():
    illegal = [(s, t) for s, row in enumerate(transition_table()) for t in row if t.reward == -10]
    assert illegal
    assert all(transition.state == state for state, transition in illegal)


def test_a_full_game_by_hand():
    # Taxi at (0, 0) with the passenger, destination G (0, 4). The wall right of column 1 reaches down to row 1.
    environment = begin("full", encode(0, 0, 0, 1))
    moves = [PICKUP, SOUTH, SOUTH, EAST, EAST, EAST, EAST, NORTH, NORTH, DROPOFF]
    played = [environment.step(move) for move in moves]
    assert [reward for _, reward, *_ in played] == [1.0, *[-0.05] * 8, 1.0]
    assert [terminated for _, _, terminated, *_ in played] == [False] * 9 + [True]
    assert [info["success"] for *_, info in played] == [False] * 9 + [True]


def test_the_milestone_is_paid_once_even_if_the_passenger_is_put_down_and_fetched_again():
    environment = begin("full", encode(0, 0, 0, 1))
    assert [environment.step(move)[1] for move in (PICKUP, DROPOFF, PICKUP)] == [1.0, -0.05, -0.05]


def test_mode_pickup_ends_at_the_pickup():
    _, reward, terminated, _, info = begin("pickup", encode(0, 0, 0, 1)).step(PICKUP)
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_mode_dropoff_begins_at_the_passengers_stand_on_board_and_pays_no_milestone():
    environment = begin("dropoff", encode(2, 2, 0, 2))
    assert environment.current().state == str(encode(0, 0, 4, 2))
    # Put the passenger down and fetch them again: no milestone. Then R (0, 0) to Y (4, 0) is four steps south.
    moves = [DROPOFF, PICKUP, SOUTH, SOUTH, SOUTH, SOUTH, DROPOFF]
    assert [environment.step(move)[1] for move in moves] == [-0.05] * 6 + [1.0]
    assert environment.success


@pytest.mark.parametrize("action", [NORTH, WEST, DROPOFF])
def test_an_action_that_changes_nothing_ends_the_game(action: int):
    _, reward, terminated, truncated, info = begin("full", encode(0, 0, 0, 1)).step(action)
    assert (reward, terminated, truncated, info["success"]) == (-0.5, True, False, False)


def test_a_first_bump_is_survived_on_request_a_second_is_not():
    environment = begin("full", encode(0, 0, 0, 1), first_bump_fatal=False)
    assert NORTH in environment.game.oracle().safe
    assert environment.step(NORTH)[1:3] == (-0.05, False)
    assert environment.game.teach().endswith("The last action north was a mistake.")
    assert NORTH not in environment.game.oracle().safe
    assert environment.step(NORTH)[1:3] == (-0.5, True)


def test_a_survived_illegal_dropoff_costs_what_gymnasium_takes():
    environment = begin("full", encode(0, 0, 0, 1), first_bump_fatal=False)
    assert environment.step(DROPOFF)[1:3] == (-0.5, False)


def test_only_the_first_step_is_forgiven():
    environment = begin("full", encode(0, 0, 0, 1), first_bump_fatal=False)
    environment.step(EAST)
    assert environment.step(NORTH)[1:3] == (-0.5, True)


def test_the_map_shows_taxi_passenger_and_destination():
    # Taxi at (3, 1), passenger at Y (4, 0), destination R (0, 0).
    assert map_text(encode(3, 1, 2, 0)).splitlines() == [
        "+---------+",
        "|D: | : :G|",
        "| : | : : |",
        "| : : : : |",
        "| |T: | : |",
        "|P| : |B: |",
        "+---------+",
    ]


def test_the_map_has_its_own_letters_for_a_taxi_at_the_passenger_and_with_the_passenger():
    assert map_text(encode(4, 0, 2, 0)).splitlines()[5] == "|O| : |B: |"
    assert map_text(encode(4, 0, 4, 0)).splitlines()[5] == "|X| : |B: |"


def test_488_maps_show_500_states_and_all_states_of_games_that_go_on_differ():
    assert len({map_text(state) for state in range(500)}) == 488
    going_on = [state for state in range(500) if decode(state)[2] != decode(state)[3]]
    assert len(going_on) == len({map_text(state) for state in going_on}) == 400


def test_the_text_is_the_map_and_the_last_action():
    environment = begin("full", encode(3, 1, 2, 0))
    assert environment.current().text == map_text(encode(3, 1, 2, 0)) + "\nLast action: none."
    assert environment.step(EAST)[0].text == map_text(encode(3, 2, 2, 0)) + "\nLast action: east."
    assert environment.current().actions == ACTIONS


def test_solutions_have_the_known_lengths():
    turns = [turns_to_goal("full")[state] for state in START_STATES]
    assert np.mean(turns) == pytest.approx(13.07, abs=0.005)
    assert max(turns) == 18
    assert np.mean([t <= 15 for t in turns]) == pytest.approx(0.807, abs=0.0005)


def test_a_longer_way_round_is_safe_and_bumps_and_illegal_actions_are_not():
    # Taxi at (3, 1), the wall to the west; passenger at Y (4, 0): the way is north, west, south, south, pickup.
    oracle = begin("full", encode(3, 1, 2, 0)).game.oracle()
    assert (oracle.best, oracle.optimal, oracle.safe) == (NORTH, (NORTH,), (SOUTH, EAST))
    assert begin("pickup", encode(3, 1, 2, 0)).game.oracle().turns_left == 5


def test_putting_the_passenger_down_at_a_wrong_stand_is_a_safe_mistake():
    environment = begin("dropoff", encode(2, 2, 0, 2))
    assert DROPOFF in environment.game.oracle().safe
    environment.step(DROPOFF)
    oracle = environment.game.oracle()
    assert (oracle.best, oracle.turns_left) == (PICKUP, 6)
    assert environment.game.teach().endswith("The last action dropoff was a mistake.")


def test_the_reflection_says_what_the_last_action_did():
    environment = begin("full", encode(3, 1, 2, 0))
    environment.step(NORTH)
    assert environment.game.teach() == (
        "The taxi is at row 2 column 1. The passenger waits at row 4 column 0. Blocked: none. Next: west. "
        "The last action north was good."
    )
    environment.step(EAST)
    assert environment.game.teach().startswith("The taxi is at row 2 column 2.")
    assert environment.game.teach().endswith("The last action east was a mistake.")


PATTERN = re.compile(
    r"The taxi is at row (\d) column (\d)\. The passenger (waits at|rides to) row (\d) column (\d)\. "
    r"Blocked: (none|[a-z, ]+)\. Next: (\w+)\. (?:I begin|The last action (\w+) was (good|a mistake))\. "
    r"I choose (\w+)\."
)


def test_every_reflection_has_one_form_and_states_facts():
    taxi = TaxiEnv()
    for state in range(500):
        row, column, passenger, destination = decode(state)
        match = PATTERN.fullmatch(reflection_text(state, "pickup", "dropoff", True, repeat_advice=True))
        assert match
        taxi_row, taxi_column, doing, target_row, target_column, blocked, advice, last, verdict, choice = match.groups()
        assert (last, verdict, advice, choice) == ("dropoff", "good", "pickup", "pickup")
        assert (int(taxi_row), int(taxi_column)) == (row, column)
        assert doing == ("rides to" if passenger == 4 else "waits at")
        assert (int(target_row), int(target_column)) == taxi.locs[destination if passenger == 4 else passenger]
        walls = [ACTIONS[a] for a in range(4) if taxi.P[state][a][0][1] == state]
        assert blocked == (", ".join(walls) or "none")


def test_the_advice_is_repeated_on_request_only():
    task = DangerousTaxi().tasks("full", "train")[0]
    for repeat in (False, True):
        environment = GymnasiumEnv(EnvSpec.of(DangerousTaxi, repeat_advice=repeat))
        environment.reset(options={"task": task})
        oracle = environment.game.oracle()
        assert environment.game.teach().endswith(f" I choose {ACTIONS[oracle.best]}.") == repeat


def test_reflections_are_short():
    texts = (reflection_text(state, "pickup", "east", False) for state in range(500))
    assert max(len(re.findall(r"\w+|[^\w\s]", text)) for text in texts) <= 44


def test_the_splits_are_60_test_40_validation_and_200_training_starts_the_same_for_every_mode():
    config = DangerousTaxiConfig()
    for split, count in (("test", 60), ("validation", 40), ("train", 200)):
        starts = [{task.data["state"] for task in DangerousTaxi(config).tasks(mode, split)} for mode in MODES]
        assert [len(s) for s in starts] == [count] * 3
        assert starts[0] == starts[1] == starts[2]
    everything = {
        t.data["state"] for split in ("train", "validation", "test") for t in DangerousTaxi(config).tasks("full", split)
    }
    assert everything == set(START_STATES)


def test_another_split_seed_makes_another_split():
    assert DangerousTaxi(DangerousTaxiConfig(split_seed=1)).tasks("full", "test") != DangerousTaxi(
        DangerousTaxiConfig()
    ).tasks("full", "test")


def test_mode_dropoff_has_twelve_different_beginnings():
    environment = GymnasiumEnv(EnvSpec.of(DangerousTaxi))
    states = set()
    for state in START_STATES:
        observation, _ = environment.reset(
            options={"task": Task(f"dropoff/{state}", "dropoff", "train", {"state": state})}
        )
        states.add(observation.state)
    assert len(states) == 12


def test_a_split_without_training_starts_is_refused():
    values = {"name": "dangerous_taxi", "validation_starts": 200, "test_starts": 100}
    with pytest.raises(ConfigError, match="leave none of the 300 starts"):
        parse(Holder, {"environment": values})


class Holder(Frozen):
    environment: EnvironmentConfig = EnvironmentConfig()


def test_a_task_that_starts_nowhere_is_refused():
    with pytest.raises(UserError, match="no start state"):
        begin("full", encode(0, 0, 0, 0))


def test_reflections_say_as_much_as_the_setting_allows():
    command = (
        "The taxi is at row 3 column 1. The passenger waits at row 4 column 0. Blocked: west. Next: north. I begin."
    )
    assert reflection_text(328, "north", None, False) == command
    assert reflection_text(328, "north", None, False, fullness="goal") == command.replace(
        "Next: north.", "Seek: the passenger."
    )
    assert reflection_text(328, "north", None, False, fullness="facts") == command.replace(" Next: north.", "")


def test_results_say_when_reflections_name_no_action():
    usual, goal = EnvSpec.of(DangerousTaxi), EnvSpec.of(DangerousTaxi, advice="goal")
    assert usual.capability(NamesGames) is None
    assert goal.prototype.advice == "goal"
    named = goal.capability(NamesGames)
    assert named is not None
    assert named.games_tested("full", "test") == {"advice": "goal"}


def test_advice_is_repeated_only_where_there_is_some():
    with pytest.raises(ValueError, match="repeat_advice repeats an action, and advice = 'facts' names none"):
        DangerousTaxiConfig(advice="facts", repeat_advice=True)
