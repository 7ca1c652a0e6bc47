"""Headings and first paragraphs of documents, and the columns of tables."""

from __future__ import annotations

import time

import pytest

from reflect_locate.questions.sources import documents, tables
from reflect_locate.repositories.snapshot import Snapshot


def found(text: str, path: str = "doc/page.md") -> dict[str, tuple[str, str]]:
    snapshot = Snapshot("s", {path: text})
    return {c.source: (c.text, text[slice(*c.span)]) for c in documents.candidates(snapshot)}


def test_markdown():
    text = "# How to [stack](x.md) boxes\nBoxes go on `shelves`. More.\n"
    assert found(text) == {
        "mdhead": ("How to stack boxes", "How to [stack](x.md) boxes"),
        "mdpara": ("Boxes go on shelves", "Boxes go on `shelves`."),
    }


def test_restructuredtext():
    text = (
        ".. meta::\n   :author: Ann\n\n   Not this paragraph.\n\n.. _stacking:\n\n"
        "===============\nStacking boxes\n===============\n\n"
        ".. note::\n\n   Nor this one.\n\n:Author: Ann\n\n"
        "Boxes go on the\n`long shelves <http://x>`_ of the store. More.\n"
    )
    assert found(text, "page.rst") == {
        "mdhead": ("Stacking boxes", "Stacking boxes"),
        "mdpara": (
            "Boxes go on the long shelves of the store",
            "Boxes go on the\n`long shelves <http://x>`_ of the store.",
        ),
    }


@pytest.mark.parametrize(
    "before",
    [
        "---\ntitle: Boxes\n---\n",
        "<!-- a comment\n\nof paragraphs -->\n",
        "```\nsome code here\n\nand there\n```\n",
        "[![badge](a.svg)](b)\n",
        "- a list\n- of things\n",
        "1. first\n2. second\n",
        "> a quote of somebody\n",
        "| a | table |\n",
        "<p align=center>words</p>\n",
        "    indented code\n",
        "{% include nav %}\n",
    ],
)
def test_what_is_no_prose_is_passed_over(before):
    assert found(f"{before}\nBoxes go on the long shelves.\n") == {
        "mdpara": ("Boxes go on the long shelves", "Boxes go on the long shelves.")
    }


def test_other_files_are_no_documents():
    assert found("Boxes go on the long shelves.\n", "page.txt") == {}


@pytest.mark.parametrize("piece", ["<!--", "```\n", "..\n", ".. a\n\n", "[", "`<", "a.", "=\n", "*", "|a"])
def test_a_hostile_document_takes_no_time(piece):
    start = time.perf_counter()
    found(piece * 200_000)
    assert time.perf_counter() - start < 5


def test_columns_of_tables():
    files = {
        "a.csv": 'name,"price, in euro",origin\r\nx,1,y\r\n',
        "b.tsv": "time\tplace\n1\t2\n",
        "c.csv": "name;price\nx;1\n",
        "values.csv": "1,2,3\n4,5,6\n",
        "same.csv": "a,a\n",
        "one.csv": "name\nx\n",
        "empty.csv": "",
        "text.txt": "name,price\n",
    }
    rows = {c.target: (c.source, c.text, c.span) for c in tables.candidates(Snapshot("s", files))}
    assert rows == {
        "a.csv": ("csvhead", "table with the columns name, price, in euro, origin", (0, 28)),
        "b.tsv": ("csvhead", "table with the columns time, place", (0, 10)),
        "c.csv": ("csvhead", "table with the columns name, price", (0, 10)),
    }
