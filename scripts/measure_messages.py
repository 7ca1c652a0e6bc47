r"""Right answers of `reflect-rl locate` to the text of an error message.

    python scripts/measure_messages.py .venv/lib/python3.11/site-packages/pydantic ~/src/flask

A question is a message of at least four words that a Python file raises, tests left aside, with `foo` for what the
program fills in. It is answered right when the first file is one that raises it, and the lines shown hold a place where
it does.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from measure_find import rate
from measure_names import Place, asked, drawn

from reflect_locate import Tree, open_repository
from reflect_locate.repositories.roles import is_test
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.word_store import WordStore

FEWEST, MOST = 4, 25
"""Words of a message."""


def main(arguments: Sequence[str]) -> int:
    """Ask, and print a table for each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="folders with Python sources")
    parser.add_argument("--messages", type=int, default=120, help="most messages of each folder")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for folder in options.folders:
        tree = open_repository(folder)
        index = StoredIndex(tree, WordStore())
        places = messages(tree)
        if questions := drawn(places, options.messages, options.seed):
            print(Path(folder).name)
            show([asked(tree, index, message, places[message]) for message in questions])
    return 0


def messages(tree: Tree) -> Mapping[str, list[Place]]:
    """Message -> where it is raised."""
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for path in tree.paths:
        if path.endswith(".py") and not is_test(path):
            for message, first, last in raised(tree.text(path)):
                found[message].append((path, first, last))
    return found


def raised(text: str) -> Iterator[tuple[str, int, int]]:
    """Messages that a file raises, with their first and last lines."""
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            message = said(node.exc.args[0])
            if FEWEST <= len(message.split()) <= MOST:
                yield message, node.lineno, node.end_lineno or node.lineno


def said(node: ast.expr) -> str:
    """The text of a message; empty for one that is computed."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value if isinstance(part, ast.Constant) else "foo" for part in parts]
    is_text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    return " ".join("".join(map(str, texts)).split()) if is_text else ""


def show(rows: Sequence[tuple[str, bool, bool]]) -> None:
    """Print the shares, and what stands behind each word."""
    print(f"  right file and lines  {rate([lines for _, _, lines in rows])}")
    print(f"  right file            {rate([file for _, file, _ in rows])}")
    for word, count in Counter(word for word, _, _ in rows).items():
        print(f"  {word:8}  {sum(file for told, file, _ in rows if told == word)} of {count}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
