"""Words of a question as they stand in a file, one after another."""

import pytest

from reflect_locate.ranking import find
from reflect_locate.repositories.quotes import quoted, quotes
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree

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


@pytest.mark.parametrize(
    ("line", "share"),
    [
        ("raise E('the lid of the kettle')", 1.0),
        ("raise E(`the lid of the kettle`)", 1.0),
        ("# TODO: don't move the lid of the kettle", 0.0),
        ("  // it's the lid of the kettle", 0.0),
        ("move = the lid of the kettle", 0.0),
        ("# the lid of the kettle\nraise E('the lid of the kettle')", 1.0),
    ],
)
def test_a_comment_is_no_quote(line, share):
    question = "the lid of the kettle"
    assert quoted(line, question, quotes(question))[0] == share


def test_a_comment_that_repeats_a_question_does_not_come_before_the_code():
    files = {
        "kettle.py": "class Kettle:\n    def lid(self):\n        return self.top\n",
        "notes.py": "# TODO: move the lid of the kettle elsewhere.\nx = 1\n",
    }
    answer = find(Tree(Snapshot("kitchen", files)), "lid of the kettle")
    assert {entry.evidence.quoted for entry in answer.files} == {None}
