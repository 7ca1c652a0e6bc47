"""Words of a question as they stand in a file, one after another."""

import time

import pytest

from reflect_locate.ranking import find, tells
from reflect_locate.repositories.quotes import may_quote, quoted, quoted_over_lines, quotes
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


QUESTION = "no tea is left for the green cup"
PIECES = {
    "a.py": 'raise E(\n    "no tea is "\n    f"left for the "\n    "green cup"\n)\n',
    "a.js": "throw new E('no tea is ' +\n  'left for the ' +\n  'green cup');\n",
    "a.php": "throw new E('no tea is '\n  . 'left for the '\n  . 'green cup');\n",
    "a.c": 'fail("no tea is "\n     "left for the "\n     "green cup");\n',
    "a.cs": 'throw new E($"no tea is " +\n  $"left for the " +\n  $"green cup");\n',
}


@pytest.mark.parametrize("path", PIECES)
def test_a_message_is_found_in_pieces(path):
    answer = find(Tree(Snapshot("kitchen", {path: PIECES[path], "tea.py": "tea = 'green cup left'\n"})), QUESTION)
    assert (answer.files[0].path, answer.files[0].evidence.quoted) == (path, 1.0)
    assert answer.files[0].quoted_line == (2 if path == "a.py" else 1)


def test_strings_of_a_list_are_no_pieces_of_one():
    lines = ['x = ["no tea is ",', '  "left for the ",', '  "green cup"]']
    assert quoted_over_lines(lines, [0, 1, 2], QUESTION, quotes(QUESTION)) == (0.0, 0)


def test_the_line_of_pieces_is_that_of_their_string():
    lines = ['x = ["some" ', '  "thing", ', '  "no tea is "', '  "left for the "', '  "green cup"]']
    assert quoted_over_lines(lines, range(5), QUESTION, quotes(QUESTION)) == (1.0, 3)


def test_many_blanks_behind_a_string_cost_little_time():
    lines = ['"' + " " * 200_000 + "x", '"tea"', '"' + "+ " * 100_000]
    started = time.process_time()
    quoted_over_lines(lines, range(3), QUESTION, quotes(QUESTION))
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.sql", "RAISE EXCEPTION 'no tea is left for the green cup';\n"),
        ("a.f90", "stop 'no tea is left for the green cup'\n"),
        ("a.gradle", "throw new GradleException('no tea is left for the green cup')\n"),
        ("a.html", "<script>alert('no tea is left for the green cup')</script>\n"),
        ("a.ipynb", '{"cells": [{"source": ["fail(\'no tea is left for the green cup\')"]}]}\n'),
        ("a.unknown", 'say "no tea is left for the green cup"\n'),
    ],
)
def test_a_message_is_found_in_any_language(path, text):
    files = {path: text + "x = 1\n" * 30, "tea.py": "# no tea is left for the green cup\ncup = 'green'\n"}
    assert find(Tree(Snapshot("kitchen", files)), QUESTION).files[0].path == path


@pytest.mark.parametrize("path", ["de.po", "a.json", "a.md", "CHANGES.txt", "test_a.py", "notes"])
def test_what_repeats_a_message_does_not_tell_it(path):
    assert not tells(path)
    assert tells("a.py")


@pytest.mark.parametrize("comment", ["! it's", "rem 'twas", ":: it's", "<!-- it's", ";; it's", "% it's"])
def test_a_comment_of_other_languages_is_no_quote(comment):
    assert quoted(f"{comment} {QUESTION}\n", QUESTION, quotes(QUESTION)) == (0.0, 0)


def test_a_message_is_found_in_a_file_that_holds_its_words_seldom():
    # Thirty files have each word on many lines, and so come before the one that raises it.
    words = "tea left green cup\n" * 20
    files = {f"a{number}.py": words for number in range(30)}
    files["z.py"] = f'raise E("{QUESTION}")\n' + "x = 1\n" * 400
    assert find(Tree(Snapshot("kitchen", files)), QUESTION).files[0].path == "z.py"


@pytest.mark.parametrize(
    ("text", "is_enough"),
    [
        ("no tea is left for the green cup", True),
        ("no tea is left for you", True),  # 5 of 8 words
        ("left for the green", True),  # 4 of 8
        ("no tea is here, the green cup", False),
    ],
)
def test_a_file_without_half_of_the_words_is_passed_over(text, is_enough):
    assert may_quote(text, QUESTION, quotes(QUESTION), 0b11111) == is_enough
