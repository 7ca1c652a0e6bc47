"""What holds wherever a walk through a household game leads."""

import pytest
from hypothesis import given, settings, strategies as st

from alfworld_native.engine import Game, State
from household_games import GOALS, kitchen

GAMES = {wording: Game(kitchen(), "put a mug in countertop.", wording) for wording in ("2.1.1", "2.1.2")}

FACTS = [name for name in State.__slots__ if name != "game"]
NOISE = ("", "look at me", "take apple 1", "go to the moon", "put mug 1 in/on moon 1", "examine chair 1")


def facts(state: State) -> list[object]:
    return [getattr(state, name) for name in FACTS]


@settings(max_examples=60, deadline=None)
@given(wording=st.sampled_from(list(GAMES)), choices=st.lists(st.integers(0, 10_000), min_size=1, max_size=40))
def test_what_is_listed_does_something_and_what_is_not_does_nothing(wording, choices):
    state = GAMES[wording].start()
    known = set(NOISE)
    for choice in choices:
        listed = state.admissible
        assert list(listed) == sorted(set(listed))
        known |= set(listed)
        absent = sorted(known - set(listed))
        before = facts(state)
        assert state.step(absent[choice % len(absent)]).feedback == "Nothing happens."
        assert facts(state) == before
        assert state.step(listed[choice % len(listed)]).feedback != "Nothing happens."
        talking = listed[choice % len(listed)].split()[0] in ("examine", "look", "inventory", "help")
        assert not talking or facts(state) == before


@settings(max_examples=60, deadline=None)
@given(choices=st.lists(st.integers(0, 10_000), min_size=1, max_size=40))
def test_every_step_shows_the_state_it_leaves(choices):
    state = GAMES["2.1.1"].start()
    for choice in choices:
        step = state.step(state.admissible[choice % len(state.admissible)])
        assert (step.admissible, step.won) == (state.admissible, state.won)
        assert state.won == ("mug 1" in state.contents("countertop 1"))
        assert sum(name == state.holding for name in state.game.things) == (state.holding is not None)
        assert all(state.containers(name) or name == state.holding for name in state.game.things)


@pytest.mark.parametrize("task_type", GOALS)
def test_a_game_begins_the_same_after_any_episode(task_type):
    game = Game(kitchen(task_type), "")
    first = facts(game.start())
    state = game.start()
    for number in range(200):
        state.step(state.admissible[number % len(state.admissible)])
    assert facts(game.start()) == first
