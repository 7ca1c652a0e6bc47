"""scripts/measure_messages.py: messages that are raised, and what counts as right."""

from __future__ import annotations

from a_script import load_script
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore

FILES = {
    "pot.py": 'def pour(cup):\n    if cup:\n        raise E(f"no tea is left for {cup}")\n    raise E("no tea", 1)\n',
    "cup.py": "def fill(tea):\n    raise E(tea)\n\n\ndef left():\n    return tea\n",
    "tests/test_pot.py": 'raise E("this pot is no pot at all")\n',
    "old.py": "print 1\n",
}


def test_messages_of_several_words_are_asked_for():
    found = load_script("measure_messages").messages(Tree(Snapshot("kitchen", FILES)))
    assert found == {"no tea is left for foo": [("pot.py", 3, 3)]}


def test_messages_are_drawn_as_names_are(monkeypatch, capsys):
    script, asked = load_script("measure_messages"), []
    # `random.Random(0)` shuffles five to the order c b a e d.
    monkeypatch.setattr(script, "messages", lambda _: {name: [] for name in "edcba"})
    monkeypatch.setattr(script, "open_repository", lambda _: Tree(Snapshot("kitchen", FILES)))
    monkeypatch.setattr(script, "asked", lambda *words: asked.append(words[2]) or ("sure", True, True))
    assert script.main(["kitchen", "--messages", "4"]) == 0
    assert asked == ["c", "b", "a", "e"]
    assert script.drawn.__module__ == "measure_names"
    assert capsys.readouterr().out.startswith("kitchen\n")


def test_an_answer_is_right_where_the_message_is_raised():
    script, tree = load_script("measure_messages"), Tree(Snapshot("kitchen", FILES))
    index = StoredIndex(tree, WordStore())
    message = "no tea is left for foo"
    assert script.asked(tree, index, message, [("pot.py", 3, 3)])[1:] == (True, True)
    assert script.asked(tree, index, message, [("pot.py", 9, 9)])[1:] == (True, False)
    assert script.asked(tree, index, message, [("cup.py", 1, 6)])[1:] == (False, False)
