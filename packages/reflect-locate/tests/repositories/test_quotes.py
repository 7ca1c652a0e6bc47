"""Words of a question as they stand in a file, one after another."""

import pytest

from reflect_locate.repositories.quotes import quoted, quotes

TEXT = """\
class TeaError(Exception):
    pass


def pour(cup):
    # No tea is left on Sundays.
    raise TeaError(
        f"no tea is left for cup {cup!r}: "
        "boil some more water first"
    )
"""


@pytest.mark.parametrize(
    ("question", "share", "line"),
    [
        ("no tea is left for cup 'blue'", 6 / 7, 8),
        ("TeaError: no tea is left for cup 'blue': boil some more water first", 11 / 13, 8),
        ("(boil some more water)", 1.0, 9),
        # Half of the words at least, four of them one after another, and two that mean something.
        ("no tea is left in the pot that stands here", 0.0, 0),
        ("some more water", 0.0, 0),
        ("more some water boil", 0.0, 0),
        ("", 0.0, 0),
    ],
)
def test_the_share_and_the_line_of_a_quote(question, share, line):
    assert quoted(TEXT, question, quotes(question)) == (pytest.approx(share), line)


def test_words_that_stand_in_every_file_are_no_quote():
    assert quoted("this is not a valid one", "is not a valid", quotes("is not a valid")) == (0.0, 0)
