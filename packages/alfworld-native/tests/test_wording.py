"""How a thing looks: every rule of the grammar's `examineObject.feedback`, in its order."""

import pytest

from alfworld_native.problem import Thing
from alfworld_native.wording import thing_looks

APPLE = Thing("apple 1", "apple", True, True, True, True, False, True, False, ())
LAMP = Thing("lamp 1", "lamp", True, False, False, False, True, False, False, ())
BOWL = Thing("bowl 1", "bowl", True, True, True, True, False, False, True, ())


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (("clean", "hot", "sliced"), "This is a hot and clean sliced apple 1."),
        (("clean", "cool", "sliced"), "This is a cool and clean sliced apple 1."),
        (("clean", "sliced"), "This is a clean sliced apple 1."),
        (("hot", "sliced"), "This is a hot sliced apple 1."),
        (("cool", "sliced"), "This is a cool sliced apple 1."),
        (("clean", "hot"), "This is a hot and clean apple 1."),
        (("clean", "cool"), "This is a cool and clean apple 1."),
        (("hot",), "This is a hot apple 1."),
        (("clean",), "This is a clean apple 1."),
        (("cool",), "This is a cold apple 1."),
        (("sliced",), "This is a sliced apple 1."),
        ((), "There's nothing special about apple 1."),
    ],
)
def test_a_thing_tells_how_it_is(states, words):
    assert thing_looks(APPLE, frozenset(states)) == words


def test_a_lamp_in_hand_tells_only_when_it_is_on():
    assert thing_looks(LAMP, frozenset({"lit"})) == "This lamp 1 is on."
    assert thing_looks(LAMP, frozenset()) == "There's nothing special about lamp 1."


def test_a_vessel_is_normal_however_hot():
    assert thing_looks(BOWL, frozenset({"hot"})) == "This is a normal bowl 1. In it, you see nothing."
