"""Words of a question in the lines of a text."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from reflect_locate.repositories.text_lines import KEPT_TEXTS, TextLines, lines_of, may_hold
from reflect_locate.repositories.words import words

PARTS = (
    "Red",
    "car_parks",
    "parking",
    "of",
    "42",
    "été",
    "e\u0301te\u0301",
    "İ",
    "ΟΔΟΣ",
    "速率限制",
    " ",
    "\t",
    "\r",
    "\n",
)
TEXTS = st.lists(st.sampled_from(PARTS)).map("".join)
ASKED = st.lists(st.sampled_from(["Red cars", "park", "42", "été", "ΟΔΟΣ", "İ", "速率"])).map(" ".join).map(words)


@given(TEXTS, ASKED)
@example("a red\n\ncar", [])
@example("ΟΔΟΣΝέα", words("ΟΔΟΣ"))
def test_lines_are_found_as_by_cutting_each_into_words(text: str, asked: list[str]):
    lines = TextLines(text)
    shared = [frozenset(words(line)) & set(asked) for line in text.removesuffix("\n").split("\n")]
    assert lines.holding(asked) == {number: held for number, held in enumerate(shared) if held}
    assert lines.written == [number for number, line in enumerate(lines.lines) if line.strip()]


@given(TEXTS, ASKED)
def test_a_text_that_holds_a_word_is_not_ruled_out(text: str, asked: list[str]):
    assert may_hold(text, asked) or not set(words(text)) & set(asked)


def test_each_question_has_its_own_lines():
    lines = TextLines("red\nblue")
    assert [lines.holding([word]) for word in ("red", "blu", "red")] == [
        {0: frozenset(["red"])},
        {1: frozenset(["blu"])},
        {0: frozenset(["red"])},
    ]


def test_lines_of_few_texts_are_kept():
    first = lines_of("text 0")
    assert lines_of("text 0") is first
    for number in range(KEPT_TEXTS):
        lines_of(f"another text {number}")
    assert lines_of("text 0") is not first
