"""scripts/measure_names.py: names that are defined once, and what counts as right."""

from __future__ import annotations

from a_script import load_script
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore

FILES = {
    "pot.py": "MOST_CUPS = 9\n\n\nclass TeaPot:\n    def pour_tea(self):\n        return MOST_CUPS\n",
    "cup.py": "def wash_up():\n    return 1\n\n\ndef fill_up():\n    return 2\n",
    "tests/test_pot.py": "def test_pour_tea():\n    assert TeaPot().pour_tea()\n",
    "other.py": "def fill_up():\n    return wash_up()\n",
}


def test_names_that_are_defined_once_are_asked_for():
    script, tree = load_script("measure_names"), Tree(Snapshot("kitchen", FILES))
    found = script.definitions(tree)
    assert sorted(script.named_once(found)) == ["TeaPot", "pour_tea", "wash_up"]
    assert list(script.named_once(script.constants(tree))) == ["MOST_CUPS"]


def test_the_same_names_are_drawn_from_the_same_seed():
    # `random.Random(0)` shuffles five to this order.
    drawn = load_script("measure_names").drawn
    assert [drawn(names, 3, 0) for names in ("abcde", "edcba")] == [["c", "b", "a"]] * 2


def test_lines_are_right_where_they_meet_the_definition():
    script, tree = load_script("measure_names"), Tree(Snapshot("kitchen", FILES))
    index = StoredIndex(tree, WordStore())
    assert script.asked(tree, index, "pour_tea", [("pot.py", 5, 6)])[1:] == (True, True)
    assert script.asked(tree, index, "pour_tea", [("pot.py", 1, 1)])[1:] == (True, False)
    assert script.asked(tree, index, "pour_tea", [("cup.py", 1, 6)])[1:] == (False, False)
