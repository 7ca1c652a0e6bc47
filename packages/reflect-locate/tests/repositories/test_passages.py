"""What is seen of a file, and that it cannot pass for a part of a prompt."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest
from hypothesis import given, strategies as st

from reflect_locate.repositories.passages import (
    INVISIBLE,
    PassageCache,
    PassageIndex,
    plain,
    words_together,
)
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.text_lines import TextLines
from reflect_locate.repositories.tree import Tree

CODE = '''#!/usr/bin/env python
# -*- coding: utf-8 -*-
# Copyright 2020 Nobody
from __future__ import annotations

"""Opens doors."""

class Door:
    def open(self): ...
    async def close_slowly(self): ...

def knock():
    class Inner: ...
'''


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n # Action:\n7", "a #Action: 7"),
        ("## # Task", "###Task"),
        ("a\r\nb\x1b[31mc\x00", "a b [31mc"),
        ("tab\tand  spaces ", "tab and spaces"),
        ("\u202etxt.exe\u2066", "txt.exe"),
        ("zero\u200bwidth\ufeff", "zero width"),
        ("line\u2028para\u2029", "line para"),
        ("lone \ud800 half", "lone half"),
        ("arabic\u061cmark\u180e", "arabic mark"),
        ("old\u206aforms\u206f", "old forms"),
        ("noted\ufff9by\ufffa lines\ufffb", "noted by lines"),
        ("tag\U000e0041ged", "tag ged"),
        ("<|endoftext|>", "<endoftext|>"),
        ("<<||im_start|>", "<<im_start|>"),
        ("C# is #1", "C#is #1"),
    ],
)
def test_a_text_becomes_one_harmless_line(text: str, expected: str):
    assert plain(text) == expected


@given(st.text(st.sampled_from("#<| \n\t\u202eaA:"), max_size=40))
def test_no_text_keeps_a_header_a_special_token_or_a_line_end(text: str):
    flat = plain(text)
    assert not any(sign in flat for sign in ("# ", "<|", "\n", "\t", "\u202e", "  "))
    assert plain(flat) == flat


def test_no_control_or_format_character_is_left_and_every_other_stays():
    for character in map(chr, range(sys.maxunicode + 1)):
        kind = unicodedata.category(character)
        if kind in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert plain(f"a{character}b") == "a b", hex(ord(character))
        elif kind[0] in "LMNPS":
            assert not INVISIBLE.search(character), hex(ord(character))


def test_long_runs_of_marks_take_linear_time():
    started = time.process_time()
    assert plain("<" * 200_000 + "|" * 200_000) == "<" * 200_000
    assert plain("# " * 200_000) == "#" * 200_000
    assert time.process_time() - started < 60  # a loop that takes one mark off in each pass needs minutes


def test_the_head_of_code_begins_after_its_preamble():
    assert PassageIndex("a.py", CODE).head.startswith("Opens doors. class Door:")


def test_the_names_in_code_are_its_functions_and_classes_in_order():
    assert PassageIndex("a.py", CODE).names == "Door, open, close_slowly, knock, Inner"
    assert PassageIndex("a.go", "func Run() {}\ntype Car struct {}\n").names == "Run, Car"


def test_the_names_in_documents_are_their_headings():
    text = "# First\n\ntext\n\nSecond\n------\n\n### Third ###\n"
    assert PassageIndex("a.md", text).names == "First, Second, Third ###"
    assert PassageIndex("a.txt", "no headings").names == ""


def test_the_nearest_passage_is_the_two_lines_with_most_words_and_the_first_of_several():
    text = "alpha beta\ngamma\n\nalpha\nbeta gamma delta\nalpha beta gamma\n"
    passage = PassageIndex("a.txt", text).nearest(("alpha", "beta", "gamma"))
    # Lines 1-2 hold all three words already; blank lines do not count.
    assert (passage.text, passage.found) == ("alpha beta gamma", ("alpha", "beta", "gamma"))
    passage = PassageIndex("a.txt", text).nearest(("delta", "omega"))
    assert passage.found == ("delta",)


def test_a_word_in_the_first_line_is_found_there():
    passage = PassageIndex("a.txt", "limit here\nnothing\nelse\n").nearest(("limit",))
    assert passage.text.startswith("limit here")
    assert passage.found == ("limit",)


def test_no_shared_word_gives_no_passage():
    assert PassageIndex("a.txt", "alpha\n").nearest(("omega",)).text == ""
    assert PassageIndex("a.txt", "").nearest(("omega",)).found == ()


def test_words_are_counted_by_lines():
    index = PassageIndex("a.txt", "limit limit\nlimit rate\n")
    assert (index.count("limit"), index.count("rat"), index.size) == (2, 1, 3)


def test_views_are_bounded_whatever_the_size_of_the_file():
    reading = PassageIndex("a.py", "x" * 2_000_000 + "\n" + "def a(): ...\n" * 10)
    assert max(len(reading.head), len(reading.names)) <= 1000


def test_a_shelf_keeps_indexes_apart_by_file_text_and_mask():
    passages = PassageCache()
    first, second = Snapshot("x", {"a": "one", "b": "two"}), Snapshot("x", {"a": "one!", "b": "two"})
    trees = [Tree(first), Tree(second), Tree(first, masks={"a": ((0, 3),)})]
    assert [passages.get(tree, "a").head for tree in trees] == ["one", "one!", ""]
    assert passages.get(trees[0], "a") is passages.get(Tree(Snapshot("y", {"a": "one", "b": "two"})), "a")


def test_a_full_shelf_is_emptied():
    passages, tree = PassageCache(capacity=1), Tree(Snapshot("x", {"a": "one", "b": "two"}))
    first = passages.get(tree, "a")
    assert passages.get(tree, "a") is first
    passages.get(tree, "b")
    assert passages.get(tree, "a") is not first


@given(
    st.lists(st.lists(st.sampled_from(["Red", "car_parks", "bus", "parking", "of", "42", "été"])).map(" ".join)).map(
        "\n".join
    ),
    st.lists(st.sampled_from(["red", "car", "park", "bus", "42", "été"]), unique=True),
)
def test_one_question_is_answered_as_by_the_index_of_all_words(text: str, asked: list[str]):
    lines = TextLines(text)
    held = {lines.written.index(number): shared for number, shared in lines.holding(asked).items()}
    assert words_together(held, asked) == PassageIndex("a.txt", text).nearest(asked).found
