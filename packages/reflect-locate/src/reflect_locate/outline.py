"""Outlines of a file or a folder: symbols and headings of a file; files and folders of a folder, with their sizes.

Everything comes from a snapshot in memory. Nothing is opened and nothing is executed.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from reflect_locate.repositories.passages import PassageIndex, plain
from reflect_locate.repositories.symbols import symbols
from reflect_locate.repositories.tree import Tree

MOST_ROWS = 200
"""Symbols, folders and files that are named; a program reads them all, and each costs it tokens."""
MOST_NAMES = 100
"""Characters of the names in a file, where a folder is listed."""


class OutlineSymbol(BaseModel):
    """A function, a class or a section."""

    name: str = Field(description="With the names around it: `Session.get`.")
    kind: str = Field(description="`function`, `class` or `heading`.")
    first_line: int
    last_line: int


class OutlineFolder(BaseModel):
    """A folder of a folder."""

    path: str = Field(description="Relative to `root`.")
    files: int = Field(description="Text files below it, at any depth.")


class OutlineFile(BaseModel):
    """A file of a folder."""

    path: str = Field(description="Relative to `root`.")
    lines: int
    names: str = Field(description="The first functions, classes or headings in it.")


class Outline(BaseModel):
    """Contents of a file or a folder; the other kind's lists are empty."""

    root: str = Field(description="The folder that paths are relative to.")
    path: str = Field(description="What was asked about; empty = the root.")
    kind: str = Field(description="`file` or `folder`.")
    lines: int = Field(0, description="Of a file.")
    files: int = Field(1, description="Text files below a folder, at any depth.")
    symbols: list[OutlineSymbol] = Field([], description="Of a file, in the order of their lines.")
    folder_entries: list[OutlineFolder] = Field([], description="Folders directly in a folder.")
    file_entries: list[OutlineFile] = Field([], description="Text files directly in a folder.")
    left_out: int = Field(0, description="Entries beyond the limit that are not listed.")


def outline_file(path: str, text: str, root: str = "") -> Outline:
    r"""Outline of a file.

    >>> found = outline_file("a.py", "class Kettle:\n    def boil(self):\n        ...\n")
    >>> found.lines, [(entry.name, entry.first_line) for entry in found.symbols]
    (3, [('Kettle', 1), ('Kettle.boil', 2)])

    Args:
        path: its ending decides how the file is read.
        text: of the file.
        root: that the path is relative to.
    """
    found = symbols(path, text)
    # Outer symbols first: of a file with thousands the classes tell more than the methods of the first ones.
    shown = sorted(sorted(found, key=lambda entry: entry.name.count("."))[:MOST_ROWS], key=lambda entry: entry.first)
    rows = [
        OutlineSymbol(name=plain(entry.name), kind=entry.kind, first_line=entry.first, last_line=entry.last)
        for entry in shown
    ]
    return Outline(root=root, path=path, kind="file", lines=_lines(text), symbols=rows, left_out=len(found) - len(rows))


def outline_folder(tree: Tree, root: str = "") -> Outline:
    r"""Outline of a folder.

    >>> from reflect_locate.repositories.snapshot import Snapshot
    >>> found = outline_folder(Tree(Snapshot("kettle", {"src/a.py": "def boil():\n    ...\n"}), "src"))
    >>> [(entry.path, entry.lines, entry.names) for entry in found.file_entries]
    [('src/a.py', 2, 'boil')]

    Args:
        tree: the folder.
        root: that paths are relative to.
    """
    folders, files = tree.folders(""), tree.files("")
    # Files give way to folders, which lead to more.
    shown = files[: max(MOST_ROWS - len(folders), 0)]
    return Outline(
        root=root,
        path=tree.prefix.removesuffix("/"),
        kind="folder",
        files=len(tree.paths),
        folder_entries=[OutlineFolder(path=tree.prefix + name, files=tree.count(name)) for name in folders[:MOST_ROWS]],
        file_entries=[_row(tree, name) for name in shown],
        left_out=max(len(folders) - MOST_ROWS, 0) + len(files) - len(shown),
    )


def _row(tree: Tree, name: str) -> OutlineFile:
    text = tree.text(name)
    return OutlineFile(path=tree.prefix + name, lines=_lines(text), names=PassageIndex(name, text).names[:MOST_NAMES])


def _lines(text: str) -> int:
    # A text that ends with a line feed has no further line.
    return text.count("\n") + (not text.endswith("\n") and bool(text))
