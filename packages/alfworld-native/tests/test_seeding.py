"""Named streams: their numbers are part of every generated game, so they never change."""

import hashlib

import pytest

from alfworld_native.generate import GameSplit, Mix, generate_games
from alfworld_native.seeding import seed_for, stream


def test_a_seed_is_the_upper_63_bits_of_a_digest():
    digest = hashlib.sha256(b"15\x1fhousehold\x1f3").hexdigest()
    assert seed_for(15, "household", 3) == int(digest[:16], 16) // 2


def test_seeds_and_draws_are_frozen():
    assert seed_for(0) == 3456079177858693020
    assert seed_for(0, "household", 3) == 4184606509979955690
    assert stream(0, "household", 3).random(3).tolist() == [0.9554971869114353, 0.3720441642742571, 0.7459412262322085]


def test_names_are_kept_apart():
    assert len({seed_for(0, "a", "bc"), seed_for(0, "ab", "c"), seed_for(0, "abc"), seed_for(1, "a", "bc")}) == 4


@pytest.mark.parametrize(
    ("split", "fingerprint"),
    [
        ("train", "ada64dad1287c1f9aaa49f2fabd50e8047bb7636e1cbdf2997620d60b7b861ad"),
        ("validation", "6272aceb6cebe576bceb7302a981c613668e0b115e941ab86bf8fe0f0efcdeb7"),
        ("test", "e53a4613e69016571bc1d0f4eba06955d767c17dd19db3fe33d6cac56ec6bc4e"),
    ],
)
def test_generated_games_are_frozen(split: GameSplit, fingerprint: str):
    assert generate_games(split, 3).fingerprint == fingerprint


def test_generated_games_of_a_mix_are_frozen():
    mix = Mix(("pick_two_obj_and_place",), ("bedroom",), 0.5)
    games = generate_games("train", 3, seed=7, mix=mix)
    assert games.fingerprint == "2dbdf4ba76b68d301294a115acdbcab78454318fd799d81774d859587c17345b"
