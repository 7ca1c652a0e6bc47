"""scripts/measure_orders.py: games and wrong states, counted beside the solver."""

from __future__ import annotations

import pytest

from a_script import load_script
from reflect_rl.envs.dangerous_taxi import OPEN_STATES, DangerousTaxi, DangerousTaxiConfig

GAME = DangerousTaxiConfig()


@pytest.fixture(scope="module")
def script():
    return load_script("measure_orders")


class Solver:
    """Advises what the solver knows best."""

    name, sees_oracle = "told", False

    def __init__(self) -> None:
        self.advice = {}
        env = DangerousTaxi(GAME)
        for state in OPEN_STATES:
            observation = env.reset(env.task_at("full", str(state)))
            self.advice[observation.state] = observation.actions[env.oracle().best]

    def reflect(self, views):
        return [f"Next: {self.advice[view.observation.state]}. Last action was fine." for view in views]


class Constant:
    """Advises the same always."""

    name, sees_oracle = "told", False

    def __init__(self, text: str) -> None:
        self.text = text

    def reflect(self, views):
        return [self.text] * len(views)


def test_who_does_what_the_solver_advises_wins_every_game(script):
    assert script._wrong(Solver(), GAME) == {"test": 0, "validation": 0, "other": 0}
    played = script._play(Solver(), GAME, "validation")
    assert played["won"] == played["games"] > 0


def test_a_state_is_wrong_where_the_advice_is_on_no_shortest_way(script):
    env = DangerousTaxi(GAME)
    wrong = set()
    for state in OPEN_STATES:
        observation = env.reset(env.task_at("full", str(state)))
        north = observation.actions.index("north")
        if north not in env.oracle().optimal:
            wrong.add(state)
    counts = script._wrong(Constant("Next: north."), GAME)
    assert sum(counts.values()) == len(wrong)
    assert script._play(Constant("Next: north."), GAME, "validation")["won"] == 0


def test_the_last_advice_counts_and_none_drops_the_passenger_off(script):
    nothing = script._wrong(Constant("I do not know."), GAME)
    assert nothing == script._wrong(Constant("Next: dropoff."), GAME)
    assert script._wrong(Constant("Next: dropoff. I choose north."), GAME) == script._wrong(
        Constant("Next: north."), GAME
    )


def test_settings_are_read_as_json(script):
    assert script._setting("dropout=0.05") == ("dropout", 0.05)
    assert script._setting("steps=1200") == ("steps", 1200)
