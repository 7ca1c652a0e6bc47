"""What an index counts of a file, and that a index asked often answers alike."""

from reflect_locate.repositories.passages import LONGEST_PASSAGE, NamedText, PassageCache, PassageIndex
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.words import words

TEXT = "Opens a door.\n\nCloses the window\nand the door.\nDoor, door: window.\n"


def test_what_an_index_counts():
    """`door` stands in three lines, `window` in two; the path adds a word each."""
    tree = Tree(Snapshot("s", {"house/door_bell.md": TEXT}))
    index = PassageCache().get(tree, "house/door_bell.md")
    assert [index.count(word) for word in words("door window opens closes")] == [3, 2, 1, 1]
    document = NamedText("house/door_bell.md", index)
    assert [document.count(word) for word in words("door window house nothing")] == [4, 2, 1, 0]
    assert len(document) == 7 + len(words("house/door_bell.md"))


def test_a_reading_that_is_asked_often_answers_as_a_new_one():
    index = PassageIndex("a.md", TEXT)
    questions = [words(f"door window w{number}") for number in range(20)] * 2
    assert [index.nearest(q) for q in questions] == [PassageIndex("a.md", TEXT).nearest(q) for q in questions]


def test_a_passage_of_an_endless_line_is_cut():
    assert len(PassageIndex("a.md", "door " * 30_000).nearest(words("door")).text) == LONGEST_PASSAGE
