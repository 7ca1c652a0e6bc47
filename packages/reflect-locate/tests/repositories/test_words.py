"""Content words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import reflect_locate
from reflect_locate.repositories.words import STOP_WORDS, pieces, question_words, stem, surface, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("camelCase", ["camel", "cas"]),
        ("snake_case_name", ["snak", "cas", "nam"]),
        ("HTTPServer", ["http", "serv"]),
        ("parseHTML5Tables", ["pars", "html", "tabl"]),  # a single digit says nothing
        ("utf16 RFC5321", ["utf", "16", "rfc", "5321"]),
        ("Как дела", ["как", "дела"]),
        ("the file is a file", []),
        ("x = y + 1", []),
        ("limits, limits!", ["limit", "limit"]),
        ("", []),
    ],
)
def test_texts_are_cut_at_signs_and_inside_names(text: str, expected: list[str]):
    assert words(text) == expected


@pytest.mark.parametrize(
    "forms",
    [
        ("open", "opens", "opened", "opening", "opener", "openers"),
        ("run", "runs", "running"),
        ("stop", "stopped", "stopping"),
        ("configure", "configuration", "configurations", "configured"),
        ("query", "queries"),
        ("batch", "batches"),
    ],
)
def test_forms_of_a_word_have_one_stem(forms: tuple[str, ...]):
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize("word", ["is", "red", "bus", "class", "ally", "ing"])
def test_no_stem_is_shorter_than_three_letters(word: str):
    assert len(stem(word)) >= min(3, len(word))


ACCENTS = [
    ("où est écrit le rapport", ["où", "est", "écrit", "le", "rapport"]),
    ("Größenprüfung für Übertragung", ["größenprüfung", "für", "übertragung"]),
    ("prüfeGröße HTTPÜbertragung", ["prüf", "größ", "http", "übertragung"]),
    ("l'écriture à é", ["écritur"]),
    ("e\u0301crit", ["écrit"]),  # written as two characters
    ("где лимиты", ["где", "лимиты"]),
    ("速率限制", ["速率", "率限", "限制"]),
    ("限", ["限"]),
    ("レート制限はどこで", ["レー", "ート", "制限", "はどこで"]),
    ("제한은", ["제한", "한은"]),
    ("दर सीमा", ["दर", "सीमा"]),  # vowels that are marks
    ("area² ½", ["area"]),
    ("π × HTTPServer — rate_limits", ["http", "serv", "rat", "limit"]),
]


@pytest.mark.parametrize(("text", "expected"), ACCENTS)
def test_letters_with_accents_belong_to_their_word(text: str, expected: list[str]):
    assert words(text) == expected
    assert [word for piece in pieces(text) for word in words(piece)] == expected
    assert surface(text, tuple(expected))


OLD_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
"""The rule before accents were heeded."""


def test_words_of_ascii_are_those_of_the_rule_before():
    """On the source of this package, with its identifiers, numbers and strings; lines of ASCII only."""
    lines = [
        line
        for path in Path(reflect_locate.__file__).parent.rglob("*.py")
        for line in path.read_text(encoding="utf-8").split("\n")
        if line.isascii()
    ]
    assert len(lines) > 10_000
    for line in lines:
        assert pieces(line) == OLD_PIECE.findall(line)
        # The other branch, which a single letter elsewhere in the line would choose.
        assert pieces(line + " é")[:-1] == OLD_PIECE.findall(line)


def test_words_that_differ_keep_different_stems():
    assert len({stem(word) for word in ("class", "pass", "process", "address", "index", "token", "model")}) == 7


def test_stop_words_are_lower_case_words():
    assert all(word == word.lower() and word.isalpha() for word in STOP_WORDS)


@given(st.text(max_size=200))
def test_any_text_has_words_that_are_its_own_in_lower_case(text: str):
    found = words(text)
    assert found == words(text)
    assert all(word and word in text.lower() for word in found if word.isascii())


@given(st.lists(st.sampled_from(["parse", "HTTPServer", "rate_limit", "x", "the"]), max_size=6))
def test_the_words_of_a_text_are_those_of_its_parts(parts: list[str]):
    assert words(" ".join(parts)) == [word for part in parts for word in words(part)]


def test_the_words_of_a_question_and_how_they_are_written():
    assert question_words("Parses the RateLimits, parsing") == ("pars", "rat", "limit")
    assert surface("Parses the RateLimits", ("limit", "pars")) == ("ratelimits", "parses")
