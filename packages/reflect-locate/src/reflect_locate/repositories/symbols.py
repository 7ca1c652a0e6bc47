"""Functions, classes and headings of a file: where each begins and ends.

Python is parsed by `ast`, which executes nothing. Documents have headings. C, C++, C#, Go, Java, JavaScript, PHP, Ruby,
Rust and TypeScript are parsed by tree-sitter where its grammars are installed, with
`pip install 'reflect-locate[symbols]'`. Other files have no symbols. What was parsed last is kept, since a server is
asked about the same files again.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from reflect_locate.repositories.roles import NO_PROSE
from reflect_locate.repositories.snapshot import digest_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST_PARSED = 500_000
"""Characters of a file that is parsed."""
LONGEST_NAME = 200
MOST_KEPT = 100_000
"""Symbols of all texts together that are kept, some 200 bytes each; a text without any counts as one."""
# A file can nest expressions as deep as it is long, and the name of each may hold all inside it.
DEEPEST = 1_000
"""Levels of a tree of tree-sitter that are looked at; a pair of braces takes several."""
HASHES = re.compile(r"(#{1,6})[ \t]+(.*)")
EQUALS = re.compile(r"(={1,6})[ \t]+(.*)")
FENCE = re.compile(r"[ \t]*(`{3,}+(?!.*`)|~{3,})[ \t]*(.*)")
"""Mark around code, and the text behind it; code within a line may begin with backticks, too."""
BLOCK = re.compile(r"(```|(?:-{4,}|\.{4,}|\+{4,}|/{4,})(?=[ \t]*$))[ \t]*(.*)")
"""The same of AsciiDoc, also around comments."""
UNDERLINE = re.compile(r"([=\-~^\"'#*+])\1{2,}[ \t]*$")
"""Row of marks under a title; in reStructuredText the first mark of a document is the highest."""
SETEXT = re.compile(r"(?:=+|--+)[ \t]*$")
"""The same of Markdown, of any length; one hyphen begins an item more often."""
FRONT_MATTER = {"---": ("---", "..."), "+++": ("+++",)}
"""Mark before the settings of a document -> marks behind them."""
LEVELS = ("=", "-")
"""Marks of Markdown, the highest first."""
TEST_ATTRIBUTE = re.compile(
    r"#!?\[\s*(?:::)?(?:(?:\w+::)*(?:test|\w+_test|rstest|test_case|bench|quickcheck|gtest)\b(?!::)"
    r"|cfg\s*\(.*\btest\b|cfg_attr\s*\(.*,\s*test\s*\))"
)
"""Attribute of a test in Rust: `#[test]`, `#[tokio::test(...)]`, `#[cfg(test)]`, `#[cfg(all(unix, test))]`."""
NO_TEST = re.compile(r'"[^"]*"|\b(?:not|any)\s*\([^()]*\)')
"""Parts of such an attribute that make no test, such as `not(test)`."""
PYTHON = (".py", ".pyi")
DOCUMENTS = {
    ".md": (HASHES, FENCE), ".markdown": (HASHES, FENCE), ".mdx": (HASHES, FENCE), ".txt": (HASHES, FENCE),
    ".rst": (HASHES, None), ".adoc": (EQUALS, BLOCK), ".asc": (EQUALS, BLOCK),
}  # fmt: skip
"""Ending of a document -> its headings, and the marks around code; `~~~` underlines a title in reStructuredText."""
GRAMMARS = {
    ".c": "c", ".h": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".cc": "cpp", ".hpp": "cpp", ".hxx": "cpp",
    ".hh": "cpp", ".cs": "c_sharp", ".go": "go", ".java": "java", ".js": "javascript", ".jsx": "javascript",
    ".mjs": "javascript", ".cjs": "javascript", ".php": "php", ".rb": "ruby", ".rs": "rust", ".ts": "typescript",
    ".mts": "typescript", ".cts": "typescript", ".tsx": "tsx",
}  # fmt: skip
"""Ending of a file -> its language."""
MODULES = {
    "c": ("tree_sitter_c", "language"), "cpp": ("tree_sitter_cpp", "language"),
    "c_sharp": ("tree_sitter_c_sharp", "language"), "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"), "javascript": ("tree_sitter_javascript", "language"),
    "php": ("tree_sitter_php", "language_php"), "ruby": ("tree_sitter_ruby", "language"),
    "rust": ("tree_sitter_rust", "language"), "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}  # fmt: skip
"""Language -> module with its grammar, and the function that gives it."""
KINDS = {
    "function_definition": "function", "function_declaration": "function", "method_declaration": "function",
    "constructor_declaration": "function", "local_function_statement": "function", "class_declaration": "class",
    "class_specifier": "class", "struct_specifier": "class", "struct_declaration": "class", "type_spec": "class",
    "union_specifier": "class", "type_definition": "class", "type_alias_declaration": "class",
    "internal_module": "class", "macro_definition": "function",
    "interface_declaration": "class", "enum_declaration": "class", "enum_specifier": "class",
    "record_declaration": "class", "annotation_type_declaration": "class", "delegate_declaration": "class",
    "property_declaration": "function", "compact_constructor_declaration": "function",
    "generator_function_declaration": "function", "method_definition": "function", "variable_declarator": "function",
    "assignment_expression": "function", "pair": "function", "abstract_class_declaration": "class",
    "function_item": "function", "struct_item": "class", "enum_item": "class", "union_item": "class",
    "trait_item": "class", "impl_item": "class", "mod_item": "class",
    "trait_declaration": "class", "method": "function", "singleton_method": "function", "class": "class",
    "module": "class",
    "field_definition": "function", "public_field_definition": "function",
}  # fmt: skip
"""Type of a node of these grammars -> kind of symbol."""
BODILESS = (
    "type_spec", "struct_item", "method", "singleton_method", "class", "module", "record_declaration",
    "delegate_declaration", "macro_definition",
)  # fmt: skip
"""Types that define also without a body: Go's types, `struct Unit;` of Rust, empty ones of Ruby, records of C#."""
RECORDS = ("struct_specifier", "enum_specifier", "union_specifier")
"""Types of C that a `typedef` may name."""
WRAPPERS = ("memo", "forwardRef", "React.memo", "React.forwardRef")
"""Functions of React that give back the component that they are given."""
BODIES = ("body", "accessors", "value")
"""Fields that hold a body; properties of C# have one of the last two."""
RECEIVER = re.compile(r"\(\s*(?:\w+\s+)?\**\s*(\w+)")
"""Type that a method of Go belongs to."""
VALUES = {
    "arrow_function": "function", "function_expression": "function", "generator_function": "function", "class": "class",
    "anonymous_function": "function",
}  # fmt: skip
"""Type of a value -> kind of symbol that it makes of the variable, the key or the member that it is given to."""
GIVEN = ("variable_declarator", "assignment_expression", "pair", "field_definition", "public_field_definition")
"""Types that define only where such a value is given."""
NOTES = frozenset((
    "comment", "line_comment", "block_comment", "html_comment", "attribute_item", "inner_attribute_item",
))  # fmt: skip
"""Types that belong to the definition below them."""
UNNAMED = ("reference_declarator", "parenthesized_declarator", "abstract_reference_declarator")
"""Declarators of C and C++ whose grammar has no name for the declarator inside them."""
# Carried along, because tree-sitter looks for the parent or the neighbour of a node from the root on.
Waiting: TypeAlias = tuple["Node", str, int, bool, bool, int]
"""A node that is still to be looked at, the names around it, the row (from 0) at which a definition begins there, with
the comment directly above that tells what it does, whether an attribute above makes it a test, whether what is around
it is a test, and its depth."""


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

    @property
    def is_full(self) -> bool:
        """Tell whether further texts would soon push others out."""
        return self._count > 0.9 * self._most

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
    # In lists such as `requirements.txt` a `#` begins a comment.
    is_document = ending in DOCUMENTS and not NO_PROSE.search(path)
    is_parsed = ending in PYTHON or ending in GRAMMARS or is_document
    return KEPT.get(ending, text) if is_parsed and len(text) <= LONGEST_PARSED else ()


def _parsed(ending: str, text: str) -> tuple[Symbol, ...]:
    if ending in PYTHON:
        return tuple(_of_python(text))
    if ending in GRAMMARS:
        return tuple(_of_grammar(GRAMMARS[ending], text))
    return tuple(_of_document(text, *DOCUMENTS[ending]))


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
        # Definitions under `if`, `try` and `match`, too.
        holders = ast.stmt | ast.excepthandler | ast.match_case
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, holders)]
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


def _of_document(text: str, headings: re.Pattern[str], fences: re.Pattern[str] | None) -> Iterator[Symbol]:
    lines = text.removesuffix("\n").split("\n")
    found = list(_titles(lines, headings, fences))
    ends, begun = [len(lines)] * len(found), list[int]()
    for place, (first, level, _) in enumerate(found):
        # A section ends where the next of its level or a higher one begins.
        while begun and found[begun[-1]][1] >= level:
            ends[begun.pop()] = first - 1
        begun.append(place)
    for (first, _, name), end in zip(found, ends, strict=True):
        yield Symbol(name[:LONGEST_NAME], "heading", first, end)


def _titles(
    lines: Sequence[str], headings: re.Pattern[str], fences: re.Pattern[str] | None
) -> Iterator[tuple[int, int, str]]:
    """Line number, level and name of each heading."""
    fence, is_comment = "", False
    underlines = [*LEVELS] if fences is FENCE else []
    begun = _front_matter(lines) if fences is FENCE else 0
    for number, line in enumerate(lines[begun:], start=begun + 1):
        if fences is FENCE and not fence:
            is_comment, was_comment = _goes_on(line, is_comment=is_comment), is_comment
            if was_comment:
                continue
        if fences and (mark := fences.match(line)):
            if not fence:
                fence = mark[1]
            # Only the same mark with no text behind it ends the code, in Markdown also a longer one.
            elif not mark[2] and (mark[1] == fence or (fences is FENCE and mark[1].startswith(fence))):
                fence = ""
        elif fence:
            continue
        elif heading := headings.match(line):
            if name := heading[2].rstrip(heading[1][0]).rstrip(" \t"):
                yield number, len(heading[1]), name
        elif headings is EQUALS:
            continue  # rows of marks stand around blocks there
        elif number > 1 and (sign := _underline(lines, number - 1, is_markdown=fences is FENCE)):
            if sign not in underlines:
                underlines.append(sign)
            yield number - 1, underlines.index(sign) + 1, lines[number - 2].strip()


def _front_matter(lines: Sequence[str]) -> int:
    """Number of the lines of settings before a document, in YAML or TOML; a rule has a blank line below."""
    mark = lines[0].rstrip()
    if mark not in FRONT_MATTER or not "".join(lines[1:2]).strip():
        return 0
    ends = (number for number, line in enumerate(lines[1:], start=2) if line.rstrip() in FRONT_MATTER[mark])
    return next(ends, 0)


def _underline(lines: Sequence[str], place: int, *, is_markdown: bool) -> str:
    """Mark of a row under a title; empty where the line is no such row."""
    title, line = lines[place - 1], lines[place]
    if not title.strip() or title[:1].isspace():
        return ""
    if (mark := UNDERLINE.match(line)) and len(title.rstrip()) <= len(line.rstrip()) + 1:
        return mark[1]
    # A row of Markdown may be shorter. Under an item, a quote or a table it is something else.
    is_alone = (place == 1 or not lines[place - 2].strip()) and not title.startswith(("-", "*", "+", ">", "|"))
    return line[0] if is_markdown and is_alone and SETEXT.match(line) else ""


def _goes_on(line: str, *, is_comment: bool) -> bool:
    """Tell whether a comment of Markdown is open behind a line; it begins a line."""
    if is_comment and "-->" not in line:
        return True
    return (is_comment or line.lstrip().startswith("<!--")) and line.rfind("<!--") > line.rfind("-->")


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
    module, function = MODULES[language]
    grammar: object = getattr(importlib.import_module(module), function)()
    return grammar


def _of_grammar(language: str, text: str) -> Iterator[Symbol]:
    parser = _parser(language)
    if parser is None:
        return
    root = parser.parse(text.encode("utf-8", "replace")).root_node
    waiting: list[Waiting] = [(root, "", 0, False, _is_test(root), 0)]
    while waiting:
        node, around, first, is_marked, is_test, depth = waiting.pop()
        if (kind := KINDS.get(node.type)) and (name := _name(node)):
            name = f"{around}{name}"[:LONGEST_NAME]
            if node.type in GIVEN and (value := _given(node)):
                kind = VALUES[value.type]
            is_test = is_test or is_marked or _is_test(node)
            yield Symbol(name, kind, first + 1, _last_row(node) + 1, is_test=is_test)
            around = f"{name}."
        if depth < DEEPEST:
            waiting += reversed(_inside(node, around, first, is_test, depth))


def _inside(node: Node, around: str, first: int, is_test: bool, depth: int) -> list[Waiting]:
    """Nodes directly inside another one, without leaves, which define nothing."""
    row: float = node.start_point[0]
    # A definition behind the brace of another one on its line does not own the other one's comment.
    if not depth or node.type.endswith(("body", "list", "block")):
        row = -1
    # In Go the comment stands before the `type` around the name, in C++ before the template, in TypeScript before the
    # decorator of what is exported.
    elif node.type in ("template_declaration", "export_statement"):
        row = math.inf
    children = node.named_children
    # Most nodes hold no comment, and most of the time goes into this line.
    if NOTES.isdisjoint([child.type for child in children]):
        return [
            (child, around, start if (start := child.start_point[0]) > row else first, False, is_test, depth + 1)
            for child in children
            if child.named_child_count
        ]
    found: list[Waiting] = []
    # Last row of the node before, and first and last row of the comments that belong to what follows.
    before = begun = ended = -2
    is_marked = False
    for child in node.children:
        start, is_note = child.start_point[0], child.type in NOTES
        begun = begun if ended == start - 1 else start
        if child.named_child_count:
            found.append((child, around, begun if start > row else first, is_marked, is_test, depth + 1))
        # Behind code of its line a comment speaks of that.
        is_behind, before = before == start, _last_row(child)
        ended = before if is_note and not is_behind else -2
        is_marked = is_note and (is_marked or _makes_test(child))
    return found


def _is_test(node: Node) -> bool:
    """Tell whether one of the attributes first inside a definition of Rust makes it a test."""
    inside = node.child_by_field_name("body") or node
    return any(child.type == "inner_attribute_item" and _makes_test(child) for child in inside.named_children)


def _makes_test(node: Node) -> bool:
    """Tell whether a node is an attribute that makes a test of what it belongs to."""
    return "attribute" in node.type and bool(TEST_ATTRIBUTE.match(NO_TEST.sub("", _text(node))))


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
    if node.type == "type_definition":
        inner = field("type")
        is_own = inner is not None and inner.type in RECORDS and inner.child_by_field_name("name") is None
        return _declared(node) if is_own else ""
    if node.type not in BODILESS and all(field(body) is None for body in BODIES):
        return ""
    found = field("name") or (field("type") if node.type == "impl_item" else None)
    # Go writes methods outside of their type.
    receiver = RECEIVER.match(_text(field("receiver"))) if node.type == "method_declaration" else None
    own = _text(found) if found is not None else _declared(node)
    return f"{receiver[1]}.{own}" if receiver else own


def _declared(node: Node) -> str:
    """Name inside the declarators of C and C++; empty for none."""
    found: Any = node
    while found.type != "operator_cast" and (inner := _declarator(found)) is not None:
        found = inner
    if found is node:
        return ""
    own = found
    while own is not None and own.type == "qualified_identifier":
        own = own.child_by_field_name("name")
    if own is None or own.type != "operator_cast":
        return _text(found)
    # The parameters of a conversion stand inside its declarator: `operator bool() const`.
    while own is not None and own.type != "abstract_function_declarator":
        own = _declarator(own)
    return _text(found).removesuffix(_text(own)).rstrip()


def _declarator(node: Node) -> Node | None:
    """Declarator inside another one."""
    if node.type in UNNAMED:
        return node.named_children[-1] if node.named_children else None
    return node.child_by_field_name("declarator")


def _given(node: Node) -> Node | None:
    """Function or class that is given to a variable, a key or a member; None for other values."""
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if (
        value is not None
        and value.type == "call_expression"
        and _text(value.child_by_field_name("function")) in WRAPPERS
    ):
        arguments = value.child_by_field_name("arguments")
        value = arguments.named_children[0] if arguments is not None and arguments.named_children else None
    return value if value is not None and value.type in VALUES else None


def _text(node: Any) -> str:
    """Text of a node on one line; empty for none."""
    return "" if node is None else " ".join(node.text.decode("utf-8", "replace").split())
