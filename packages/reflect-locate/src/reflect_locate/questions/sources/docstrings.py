"""Questions from docstrings: `moddoc` of a module, `symdoc` of its public top-level functions and classes.

The first sentence says what a file is for, in the words of those who use it. Files are parsed, never run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import PurePosixPath

from reflect_locate.questions.candidate import CandidateQuestion
from reflect_locate.questions.sources._text import blocks, cleaned, first_sentence, title_of
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.words import words

NAME = "docstrings"

LITERAL = re.compile(r"[rRuU]?(\"\"\"|'''|\"|')(.*)\1", re.DOTALL)
NO_PROSE = re.compile(r">>>|:\w|@\w|-\*-|\.\. |[-*+] |\$Id")
"""Beginnings of blocks that describe nothing: a doctest, a field, a directive, a list, a version mark."""
OWN_NAME = re.compile(r"(?:[Mm]odule\s+)?[`'\"]*([\w.]+?)(?:\.py)?[`'\"]*(?:\s+-{1,3}|\s*:|\s+[–—])\s+")
SIGNATURE = re.compile(r"(?:[\w.]+\([^\n]*\)(?:[ \t]*->[^\n]*)?[ \t]*(?:\n[ \t]*|\Z))+")
"""Lines at the top of a docstring that only say how to call."""
LINE_END = re.compile(r"\r\n|\r|\n")
FEWEST_TITLE_WORDS = 3
"""Content words of a heading that says something; after a shorter one the next paragraph is taken."""


def candidates(snapshot: Snapshot, skipped: list[str] | None = None) -> Iterator[CandidateQuestion]:
    """First sentences of docstrings, in the order of the files.

    Args:
        snapshot: the files.
        skipped: paths of Python files that do not parse are added to it.
    """
    for path, text in snapshot.files.items():
        if not path.endswith(".py"):
            continue
        found = docstrings(text)
        if found is None and skipped is not None:
            skipped.append(path)
        for is_module, start, stop in found or ():
            span = _sentence(text, start, stop, is_module=is_module)
            if span is None:
                continue
            raw = text[slice(*span)]
            question = cleaned(_without_own_name(raw, path) if is_module else raw)
            yield CandidateQuestion(question, path, "moddoc" if is_module else "symdoc", span)


def docstrings(text: str) -> list[tuple[bool, int, int]] | None:
    """Spans of the docstrings of a module and of its public top-level names, inside their quotes.

    Returns:
        (whether it is the module's, start, stop) of each; None when the text is no Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file that is read, not of ours
            module = ast.parse(text)
    # Hostile files: zero bytes raise ValueError, thousands of brackets RecursionError or MemoryError.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: list[tuple[bool, int, int]] = []
    lines: list[int] = []
    for node in (module, *module.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name.startswith("_"):
                continue
        elif node is not module:
            continue
        literal = _docstring(node)
        if literal is None:
            continue
        # Computed only for files with a docstring. `ast` counts lines so, and not as `splitlines` does.
        lines = lines or [0, *(match.end() for match in LINE_END.finditer(text))]
        start = _offset(text, lines, literal.lineno, literal.col_offset)
        stop = _offset(text, lines, literal.end_lineno or 0, literal.end_col_offset or 0)
        if match := LITERAL.fullmatch(text, start, stop):
            found.append((node is module, *match.span(2)))
    return found


def _docstring(node: ast.Module | ast.stmt) -> ast.Constant | None:
    body: list[ast.stmt] = getattr(node, "body", [])
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None


def _offset(text: str, lines: list[int], line: int, column: int) -> int:
    """Character offset of a place that `ast` gives as a line from 1 and a column in UTF-8 bytes."""
    start = lines[line - 1]
    part = text[start : start + column]
    if not part.isascii():
        # Columns of `ast` count bytes; most lines are ASCII and need no conversion.
        part = part.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore")
    return start + len(part)


def _sentence(text: str, start: int, stop: int, *, is_module: bool) -> tuple[int, int] | None:
    """Span of the first sentence of a docstring; a heading with few words is passed over."""
    body = text[start:stop]
    skip = re.match(r"(?:\s|\\\r?\n)*", body)
    begin = skip.end() if skip else 0
    for number, (block_start, last) in enumerate(blocks(body[begin:])):
        first = block_start
        if signature := SIGNATURE.match(body, begin + first, begin + last):
            first = signature.end() - begin
        block = body[begin + first : begin + last]
        if not block:
            continue
        # Past a heading and one paragraph comes detail, which no longer says what the file is for.
        if number > 1 or NO_PROSE.match(block):
            return None
        place = title_of(block)
        if place is not None and len(words(block[slice(*place)])) < FEWEST_TITLE_WORDS:
            continue
        if place is None and is_module and number == 0 and len(block.split()) == 1:
            continue  # the module's own name
        low, high = place or first_sentence(block)
        return start + begin + first + low, start + begin + first + high
    return None


def _without_own_name(sentence: str, path: str) -> str:
    """A sentence such as `fnmatch -- filename matching` without the name of its own file."""
    match = OWN_NAME.match(sentence)
    file = PurePosixPath(path)
    # For `__init__.py` the name is that of the folder.
    own = {file.stem.lower(), file.parent.name.lower()}
    if match and match[1].lower().rpartition(".")[2] in own:
        return sentence[match.end() :]
    return sentence
