"""Goal sentences are read as the games mean them."""

from __future__ import annotations

import pytest

from alfworld_native.engine import Game
from alfworld_native.errors import GameError
from alfworld_native.generate import SENTENCES, generate_games
from alfworld_native.problem import Goal
from alfworld_native.sentence import kind_of, number_of, read_sentence
from household_games import GOALS


def test_each_of_the_twelve_sentences_says_what_and_where():
    for task_type, sentences in SENTENCES.items():
        for sentence in sentences:
            told = sentence.format(thing="soapbar", target="toilet")
            assert read_sentence(told) == Goal(task_type, "soapbar", "toilet")


def test_a_sentence_means_what_the_problem_wants():
    games = generate_games("train", 30)
    assert all(read_sentence(record.goal) == Game(record.problem, record.goal).goal for record in games)
    assert {read_sentence(sentence).task_type for sentence, _ in GOALS.values()} == set(GOALS)


def test_another_sentence_is_refused_with_an_example():
    with pytest.raises(GameError, match=r"'tidy up the room' is none of ALFWorld's sentences.*An example"):
        read_sentence("tidy up the room")


@pytest.mark.parametrize(("name", "kind", "number"), [("mug 12", "mug", 12), ("mug", "mug", 0), ("a b 3", "a b", 3)])
def test_a_name_is_a_kind_and_a_number(name: str, kind: str, number: int):
    assert (kind_of(name), number_of(name)) == (kind, number)
