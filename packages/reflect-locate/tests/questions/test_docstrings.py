"""First sentences of docstrings: which, from where to where, and never by running a file."""

from __future__ import annotations

import pytest

from reflect_locate.questions.sources import docstrings
from reflect_locate.repositories.snapshot import Snapshot


def found(text: str, path: str = "box/store.py") -> list[tuple[str, str, str]]:
    """Source, question, and the part of the file at its span."""
    snapshot = Snapshot("s", {path: text})
    return [(c.source, c.text, text[slice(*c.span)]) for c in docstrings.candidates(snapshot)]


def test_module_and_public_top_level_names_are_asked_about():
    text = (
        '"""Keep boxes in rows. And more."""\n'
        'def put(box):\n    """Put a box on the shelf."""\n    def inner():\n        """Inner."""\n'
        'class Shelf:\n    """A shelf for boxes."""\n    def method(self):\n        """Method."""\n'
        'async def wait():\n    """Wait for a box."""\n'
        'def _hidden():\n    """Hidden."""\n'
    )
    assert found(text) == [
        ("moddoc", "Keep boxes in rows", "Keep boxes in rows."),
        ("symdoc", "Put a box on the shelf", "Put a box on the shelf."),
        ("symdoc", "A shelf for boxes", "A shelf for boxes."),
        ("symdoc", "Wait for a box", "Wait for a box."),
    ]


def test_spans_are_characters_where_ast_counts_bytes():
    text = "'' ; é = 'ü' ; x = 1\ndef f(é='ß'): 'Straße und Größe der Kiste.'\n"
    (row,) = [row for row in found(text) if row[0] == "symdoc"]
    assert row[2] == "Straße und Größe der Kiste."


def test_lines_may_end_in_any_way():
    text = '"""Keep boxes."""\r\ndef f():\r\n    """Put a\r\n    box away.\r\n    """\r\n'
    assert found(text)[1] == ("symdoc", "Put a box away", "Put a\r\n    box away.")


@pytest.mark.parametrize(
    ("docstring", "question"),
    [
        ("store -- keep boxes in rows", "keep boxes in rows"),  # the file's own name
        ("box.store: keep boxes in rows", "keep boxes in rows"),
        ("shelf -- keep boxes in rows", "shelf -- keep boxes in rows"),  # another name
        ("box.store\n~~~~~~~~~\n\nKeeps boxes in rows.", "Keeps boxes in rows"),
        ("=====\nStore\n=====\n\nKeeps boxes in rows.", "Keeps boxes in rows"),
        ("Keeping boxes in long rows\n==========================\n\nMore.", "Keeping boxes in long rows"),
        ("\\\nKeeps boxes, e.g. large\nones, in rows. More.", "Keeps boxes, e.g. large ones, in rows"),
        ("Uses :class:`~box.Shelf` and ``rows`` of *wood*.", "Uses box.Shelf and rows of wood"),
    ],
)
def test_the_sentence_is_that_of_a_reader(docstring, question):
    assert [row[1] for row in found(f'"""{docstring}"""\n')] == [question]


def test_a_call_signature_is_no_sentence():
    text = 'def put():\n    """put(box) -> bool\n    put(box, row) -> bool\n\n    Put a box into a row.\n    """\n'
    assert found(text) == [("symdoc", "Put a box into a row", "Put a box into a row.")]


@pytest.mark.parametrize("docstring", [">>> put(1)", ":param box: what to put", "$Id: store.py 12 $", "", "store"])
def test_what_describes_nothing_gives_nothing(docstring):
    assert found(f'"""{docstring}"""\n') == []


def test_files_that_do_not_parse_are_named(recwarn):
    files = {
        "old.py": 'print "hello"\n',
        "null.py": "x = '\0'\n",
        "deep.py": "(" * 5000,
        "odd.py": '"""A path of \\d digits here."""\n',  # parses, with a warning that is not shown
        "notes.txt": "print 'no Python'",
    }
    skipped: list[str] = []
    candidates = list(docstrings.candidates(Snapshot("s", files), skipped))
    assert sorted(skipped) == ["deep.py", "null.py", "old.py"]
    assert [c.target for c in candidates] == ["odd.py"]
    assert not recwarn.list


def test_nothing_of_a_file_is_run(tmp_path):
    flag = tmp_path / "run"
    found(f'"""Keep boxes in rows."""\nopen({str(flag)!r}, "w").close()\n')
    assert not flag.exists()
