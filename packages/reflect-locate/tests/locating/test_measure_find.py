"""scripts/measure_find.py: which lines of the right file count as right."""

from __future__ import annotations

import pytest

from a_script import load_script
from reflect_locate.questions.task_set import Question
from reflect_locate.ranking import find
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree

KETTLE = '''\
class Kettle:
    """Heats water for tea."""

    def boil(self):
        return "steam"


def pour(cup):
    """Fills the cup of a guest."""
    return cup
'''


def lines_of(question: str, sentence: str):
    start = KETTLE.index(sentence)
    spans = {"kettle.py": ((start, start + len(sentence)),)}
    tree = Tree(Snapshot("kitchen", {"kettle.py": KETTLE}), masks=spans)
    asked = Question("kitchen/1", question, "kitchen", "kitchen", ("kettle.py",), "symdoc", spans=spans)
    return load_script("measure_find").judged(tree, find(tree, question), asked)


@pytest.mark.parametrize(
    ("question", "sentence", "place", "definition", "unmasked"),
    [
        # Lines 8 to 10 are `pour`, and hold the docstring of line 9.
        ("Where is the cup poured?", "Fills the cup of a guest.", True, True, True),
        # Lines 4 and 5 are `Kettle.boil`: in the class, whose docstring is in line 2.
        ("boil steam", "Heats water for tea.", False, True, True),
        # The question tells of `pour`, masked or not.
        ("a guest pours a cup", "Heats water for tea.", False, False, False),
        # Masked, the word `cup` names `pour`; the file as it is has three words of the question in line 2.
        ("heats water for tea in a cup", "Heats water for tea.", False, False, True),
    ],
)
def test_lines_in_the_definition_are_right_also_beside_the_docstring(question, sentence, place, definition, unmasked):
    found = lines_of(question, sentence)
    assert (found.has_place, found.has_definition, found.has_definition_unmasked) == (place, definition, unmasked)
