r"""Right answers of `reflect-rl locate` to the bare name of a definition.

    python scripts/measure_names.py .venv/lib/python3.11/site-packages/pydantic ~/src/flask

A question is a name of several words that is defined once in the sources of a folder, tests left aside: a function or
class, or a constant at the margin of a Python file. It is answered right when the first file is the one, and the lines
shown are those of the definition. Other languages than Python need the grammars of `reflect-locate[symbols]`.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from measure_find import rate

from reflect_locate import Tree, find, open_repository
from reflect_locate.repositories.definitions import INSIDE
from reflect_locate.repositories.roles import is_test
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.symbols import GRAMMARS, symbols
from reflect_locate.repositories.word_store import WordStore

Place = tuple[str, int, int]
"""Path, first and last line."""


def main(arguments: Sequence[str]) -> int:
    """Ask, and print a table for each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="folders with sources")
    parser.add_argument("--names", type=int, default=120, help="most names of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for folder in options.folders:
        tree = open_repository(folder)
        index = StoredIndex(tree, WordStore())
        for kind, places in (("definitions", definitions(tree)), ("constants", constants(tree))):
            names = drawn(named_once(places), options.names, options.seed)
            if not names:
                continue
            print(f"{Path(folder).name}, {kind}")
            show([asked(tree, index, name, places[name]) for name in names])
    return 0


def sources(tree: Tree) -> Iterator[tuple[str, str]]:
    """Files of languages that are parsed, and that are no tests, with their texts."""
    return (
        (path, tree.text(path))
        for path in tree.paths
        if PurePosixPath(path).suffix in (".py", *GRAMMARS) and not is_test(path)
    )


def definitions(tree: Tree) -> Mapping[str, list[Place]]:
    """Name of each function and class -> where it is defined."""
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for path, text in sources(tree):
        for symbol in symbols(path, text):
            found[symbol.name.split(".")[-1]].append((path, symbol.first, symbol.last))
    return found


def constants(tree: Tree) -> Mapping[str, list[Place]]:
    """Name of each constant at the margin -> where it is defined."""
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for path, text in sources(tree):
        if not path.endswith(".py"):
            continue
        try:
            body = ast.parse(text).body
        except SyntaxError:
            continue
        for node in body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and target.id.isupper():
                    found[target.id].append((path, node.lineno, node.end_lineno or node.lineno))
    return found


def named_once(places: Mapping[str, Sequence[Place]]) -> Iterator[str]:
    """Names of several words that are defined once."""
    return (name for name, own in places.items() if len(own) == 1 and INSIDE.search(name))


def drawn(questions: Iterable[str], most: int, seed: int) -> list[str]:
    """Some of the questions, in a random order that follows from the seed and from them all."""
    shuffled = sorted(questions)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:most]


def asked(tree: Tree, index: StoredIndex, question: str, places: Sequence[Place]) -> tuple[str, bool, bool]:
    """The word of the answer, and whether its first file is right, and its lines as well."""
    answer = find(tree, question, index)
    (best,) = answer.with_lines(tree, 1)
    right = [(first, last) for path, first, last in places if path == best.path]
    lines = best.lines
    is_shown = lines is not None and any(lines.first <= last and lines.last >= first for first, last in right)
    return answer.sureness, bool(right), is_shown


def show(rows: Sequence[tuple[str, bool, bool]]) -> None:
    """Print the shares, and what stands behind each word."""
    print(f"  right file and lines  {rate([lines for _, _, lines in rows])}")
    print(f"  right file            {rate([file for _, file, _ in rows])}")
    wrong = Counter(word for word, file, _ in rows if not file)
    print(f"  wrong file, by word   {', '.join(f'{word} {count}' for word, count in sorted(wrong.items())) or 'none'}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
