"""Functions, classes and headings of a file: where each begins and ends.

Python is parsed by `ast`, which executes nothing. Documents have headings. C, C++, C#, Go, Java, JavaScript, PHP, Ruby,
Rust and TypeScript are parsed by tree-sitter where its grammars are installed, with
`pip install 'reflect-locate[symbols]'`. Other files have no symbols. What was parsed last is kept, since a server is
asked about the same files again.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from reflect_locate.repositories.snapshot import digest_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST_PARSED = 500_000
"""Characters of a file that is parsed."""
LONGEST_NAME = 200
MOST_KEPT = 100_000
"""Symbols of all texts together that are kept, some 200 bytes each; a text without any counts as one."""
HEADING = re.compile(r"(#{1,6})[ \t]+(.+?)[ \t]*#*$")
FENCE = re.compile(r"[ \t]*(```|~~~)")
UNDERLINE = re.compile(r"([=\-~^\"'#*+])\1{2,}[ \t]*$")
TEST_ATTRIBUTE = re.compile(
    r"#!?\[\s*(?:::)?(?:(?:\w+::)*(?:test|\w+_test|rstest|test_case|bench|quickcheck|gtest)\b(?!::)"
    r"|cfg\s*\(.*\btest\b|cfg_attr\s*\(.*,\s*test\s*\))"
)
"""Attribute of a test in Rust: `#[test]`, `#[tokio::test(...)]`, `#[cfg(test)]`, `#[cfg(all(unix, test))]`."""
NO_TEST = re.compile(r'"[^"]*"|\b(?:not|any)\s*\([^()]*\)')
"""Parts of such an attribute that make no test, such as `not(test)`."""
UNDERLINED = (".rst", ".txt", ".md")
GRAMMARS = {
    ".c": "c", ".h": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".cc": "cpp", ".hpp": "cpp", ".hxx": "cpp",
    ".cs": "c_sharp", ".go": "go", ".java": "java", ".js": "javascript", ".jsx": "javascript", ".mjs": "javascript",
    ".cjs": "javascript", ".php": "php", ".rb": "ruby", ".rs": "rust", ".ts": "typescript", ".tsx": "tsx",
}  # fmt: skip
"""Ending of a file -> its language."""
KINDS = {
    "function_definition": "function", "function_declaration": "function", "method_declaration": "function",
    "constructor_declaration": "function", "local_function_statement": "function", "class_declaration": "class",
    "class_specifier": "class", "struct_specifier": "class", "struct_declaration": "class", "type_spec": "class",
    "interface_declaration": "class", "enum_declaration": "class", "enum_specifier": "class",
    "record_declaration": "class",
    "generator_function_declaration": "function", "method_definition": "function", "variable_declarator": "function",
    "assignment_expression": "function", "pair": "function", "abstract_class_declaration": "class",
    "function_item": "function", "struct_item": "class", "enum_item": "class", "union_item": "class",
    "trait_item": "class", "impl_item": "class", "mod_item": "class",
    "trait_declaration": "class", "method": "function", "singleton_method": "function", "class": "class",
    "module": "class",
    "field_definition": "function", "public_field_definition": "function",
}  # fmt: skip
"""Type of a node of these grammars -> kind of symbol."""
BODILESS = ("type_spec", "struct_item", "method", "singleton_method", "class", "module")
"""Types that define also without a body: Go's types, `struct Unit;` of Rust, empty ones of Ruby."""
VALUES = {
    "arrow_function": "function", "function_expression": "function", "generator_function": "function", "class": "class",
}  # fmt: skip
"""Type of a value -> kind of symbol that it makes of the variable, the key or the member that it is given to."""
GIVEN = ("variable_declarator", "assignment_expression", "pair", "field_definition", "public_field_definition")
"""Types that define only where such a value is given."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function, a class or a section."""

    name: str
    """With the names around it: `Session.get`."""
    kind: str
    """`function`, `class` or `heading`."""
    first: int
    """Number of its first line, from 1; decorators, and in languages but Python comments above, included."""
    last: int
    """Number of its last line."""
    is_empty: bool = False
    """True for a Python function that does nothing: `pass`, `...`, `return`, or `raise NotImplementedError`."""
    is_test: bool = False
    """True for Rust's tests, which stand in the file that they test: `#[test]`, and all inside `#[cfg(test)]`."""


class KeptSymbols:
    """Symbols of the texts that were asked for last.

    Args:
        most: symbols of all texts together; those that were not asked for the longest go first.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._count, self._alone = most, 0, threading.Lock()
        self._kept: dict[tuple[str, bytes], tuple[Symbol, ...]] = {}

    def get(self, ending: str, text: str) -> tuple[Symbol, ...]:
        """The symbols of a text, parsed unless they are kept.

        Args:
            ending: of the file's name, in lower case.
            text: of the file.
        """
        # Its hash: the text itself would stay in memory after the file has changed.
        key = ending, digest_of(text)
        with self._alone:
            found = self._kept.pop(key, None)
            if found is None:
                found = _parsed(ending, text)
                self._count += max(len(found), 1)
            # Taken out and put in again, so that the first one is the one to go.
            self._kept[key] = found
            while self._count > self._most:
                self._count -= max(len(self._kept.pop(next(iter(self._kept)))), 1)
        return found

    def forget(self) -> None:
        """Drop all."""
        with self._alone:
            self._kept.clear()
            self._count = 0


KEPT = KeptSymbols()


def symbols(path: str, text: str) -> tuple[Symbol, ...]:
    r"""Symbols of a file in the order of their first lines, outer ones before those inside them.

    >>> [(entry.name, entry.first, entry.last) for entry in symbols("a.py", "class A:\n    def f(self): ...\n")]
    [('A', 1, 2), ('A.f', 2, 2)]
    """
    ending = PurePosixPath(path).suffix.lower()
    is_parsed = ending == ".py" or ending in GRAMMARS or ending in UNDERLINED
    return KEPT.get(ending, text) if is_parsed and len(text) <= LONGEST_PARSED else ()


def _parsed(ending: str, text: str) -> tuple[Symbol, ...]:
    if ending == ".py":
        return tuple(_of_python(text))
    if ending in GRAMMARS:
        return tuple(_of_grammar(GRAMMARS[ending], text))
    return tuple(_of_document(text))


def _of_python(text: str) -> Iterator[Symbol]:
    try:
        with warnings.catch_warnings():
            # Somebody else's files may hold invalid escapes, of which the parser warns.
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    # The parser bounds its own depth, and says so with one of the last two.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    waiting: list[tuple[ast.stmt, str]] = [(node, "") for node in reversed(module.body)]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{around}{node.name}"
            first = min([node.lineno, *(entry.lineno for entry in node.decorator_list)])
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            is_empty = kind == "function" and all(map(_does_nothing, node.body))
            yield Symbol(name[:LONGEST_NAME], kind, first, node.end_lineno or node.lineno, is_empty)
            around = f"{name}."
        # Definitions under `if` and `try`, too.
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)]
        waiting += [(child, around) for child in reversed(inner)]  # type: ignore[misc]


def _does_nothing(node: ast.stmt) -> bool:
    if isinstance(node, ast.Raise):
        # Called or not: `raise NotImplementedError`, `raise NotImplementedError("...")`.
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return isinstance(error, ast.Name) and error.id == "NotImplementedError"
    if isinstance(node, ast.Return):
        return node.value is None
    # A docstring and `...` are constants.
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _of_document(text: str) -> Iterator[Symbol]:
    lines = text.removesuffix("\n").split("\n")
    found: list[tuple[int, int, str]] = []
    is_code, underlines = False, list[str]()
    for number, line in enumerate(lines, start=1):
        if FENCE.match(line):
            is_code = not is_code
        elif is_code:
            continue
        elif heading := HEADING.match(line):
            found.append((number, len(heading[1]), heading[2]))
        elif (mark := UNDERLINE.match(line)) and number > 1 and _is_title(lines[number - 2], line):
            # Documents choose their own marks: the first one is the highest.
            if mark[1] not in underlines:
                underlines.append(mark[1])
            found.append((number - 1, underlines.index(mark[1]) + 1, lines[number - 2].strip()))
    for place, (first, level, name) in enumerate(found):
        # A section ends where the next of its level or a higher one begins.
        end = next((start - 1 for start, other, _ in found[place + 1 :] if other <= level), len(lines))
        yield Symbol(name[:LONGEST_NAME], "heading", first, end)


def _is_title(line: str, mark: str) -> bool:
    """Tell whether a line over a row of marks is a title: text, not longer than the row."""
    return bool(line.strip()) and not line[:1].isspace() and len(line.rstrip()) <= len(mark.rstrip()) + 1


@lru_cache(16)
def _parser(language: str) -> Parser | None:
    """The parser of a language; None where its grammar is not installed, or does not fit."""
    try:
        import tree_sitter

        return tree_sitter.Parser(tree_sitter.Language(_grammar(language)))
    except (ImportError, AttributeError, ValueError, TypeError):
        return None


def _grammar(language: str) -> object:
    """The grammar of a language, an address for tree-sitter; ImportError where it is not installed."""
    grammar: object
    match language:
        case "c":
            import tree_sitter_c

            grammar = tree_sitter_c.language()
        case "cpp":
            import tree_sitter_cpp

            grammar = tree_sitter_cpp.language()
        case "c_sharp":
            import tree_sitter_c_sharp

            grammar = tree_sitter_c_sharp.language()
        case "go":
            import tree_sitter_go

            grammar = tree_sitter_go.language()
        case "java":
            import tree_sitter_java

            grammar = tree_sitter_java.language()
        case "javascript":
            import tree_sitter_javascript

            grammar = tree_sitter_javascript.language()
        case "php":
            import tree_sitter_php

            grammar = tree_sitter_php.language_php()
        case "ruby":
            import tree_sitter_ruby

            grammar = tree_sitter_ruby.language()
        case "rust":
            import tree_sitter_rust

            grammar = tree_sitter_rust.language()
        case "tsx":
            import tree_sitter_typescript

            grammar = tree_sitter_typescript.language_tsx()
        case _:
            import tree_sitter_typescript

            grammar = tree_sitter_typescript.language_typescript()
    return grammar


def _of_grammar(language: str, text: str) -> Iterator[Symbol]:
    parser = _parser(language)
    if parser is None:
        return
    tree = parser.parse(text.encode("utf-8", "replace"))
    waiting: list[tuple[Node, str, bool]] = [(tree.root_node, "", _is_test(tree.root_node))]
    while waiting:
        node, around, tests = waiting.pop()
        if (kind := KINDS.get(node.type)) and (name := _name(node)):
            name = f"{around}{name}"
            if node.type in GIVEN and (value := _given(node)):
                kind = VALUES[value.type]
            tests = tests or _is_test(node)
            yield Symbol(name[:LONGEST_NAME], kind, _first_row(node) + 1, _last_row(node) + 1, is_test=tests)
            around = f"{name}."
        waiting += [(child, around, tests) for child in reversed(node.named_children)]


def _is_test(node: Node) -> bool:
    """Tell whether one of the attributes above a definition of Rust, or first inside it, makes it a test."""
    found = []
    above = node.prev_sibling
    while above and above.type.endswith(("comment", "attribute_item")):
        found.append(above)
        above = above.prev_sibling
    inside = node.child_by_field_name("body") or node
    found += [child for child in inside.named_children if child.type == "inner_attribute_item"]
    return any(TEST_ATTRIBUTE.match(NO_TEST.sub("", _text(entry))) for entry in found if "attribute" in entry.type)


def _first_row(node: Node) -> int:
    """Row (from 0) at which a definition begins: that of the comment directly above it, which tells what it does."""
    first = node.start_point[0]
    # In Go the comment stands before the `type` around the name, in C++ before the template, in TypeScript before the
    # decorator of what is exported.
    while (around := node.parent) and around.parent:
        is_wrapper = around.type in ("template_declaration", "export_statement")
        # A definition behind the brace of another one on its line does not own the other one's comment.
        if around.type.endswith(("body", "list", "block")) or (around.start_point[0] < first and not is_wrapper):
            break
        node, first = around, around.start_point[0]
    above = node.prev_sibling
    while above and above.type.endswith(("comment", "attribute_item")) and _last_row(above) == first - 1:
        # Behind code of its line it speaks of that.
        if above.prev_sibling and _last_row(above.prev_sibling) == above.start_point[0]:
            break
        first, above = above.start_point[0], above.prev_sibling
    return first


def _last_row(node: Node) -> int:
    """Row (from 0) at which a node ends; Rust's comments take the end of their line with them."""
    row, column = node.end_point
    return row - (column == 0 and row > node.start_point[0])


def _name(node: Node) -> str:
    """Name of a definition; in C it stands inside the declarator. Empty for one without a body."""
    field = node.child_by_field_name
    found: Any
    if node.type in GIVEN:
        found = field("name") or field("left") or field("key") or field("property")
        return _text(found) if _given(node) else ""
    found = field("name") or (field("type") if node.type == "impl_item" else None)
    inner: Any = node
    while found is None and (inner := inner.child_by_field_name("declarator")) is not None:
        if inner.child_by_field_name("declarator") is None:
            found = inner
    return _text(found) if node.type in BODILESS or field("body") is not None else ""


def _given(node: Node) -> Node | None:
    """Function or class that is given to a variable, a key or a member; None for other values."""
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    return value if value is not None and value.type in VALUES else None


def _text(node: Any) -> str:
    """Text of a node on one line; empty for none."""
    return "" if node is None else " ".join(node.text.decode("utf-8", "replace").split())
