"""Names that a file defines, read off its lines: quick enough to look at each candidate of a question.

`symbols.py` parses, and knows where a definition ends. A ranking needs the names alone, and for these the rules of most
languages fit into one pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from reflect_locate.repositories.words import words

DEFINITION = re.compile(
    r"""
    [ \t]*
    (?:
        (?:(?:pub(?:\([a-z: ]*\))?|export|default|async|static|public|private|protected|internal|final|abstract|const
             |unsafe|inline|override|open|data|sealed|local)[ \t]+)*
        (?:def|class|func|function\*?|fn|fun|struct|enum|trait|interface|type|module|mod|impl|macro_rules!|object
          |protocol|namespace|record|sub)[ \t]+
        (?:\([^)]*\)[ \t]*)?  # the receiver of a method in Go
        (\w+)
    |   (?:(?:export|const|let|var)[ \t]+)*(?:[\w$]+\.)*(\w+)[ \t]*=[ \t]*  # JavaScript
        (?:async[ \t]+)?(?:function\b|\([^)]*\)[ \t]*=>)
    |   ([A-Za-z_]\w*)[ \t]*\(\)[ \t]*\{  # a shell
    )
    """,
    re.VERBOSE,
)
LONGEST_LINE = 1000
"""Characters of a line that are looked at; a definition begins its line."""


def defined_name(line: str) -> str:
    """The name of the function, class or the like that a line defines; empty = none.

    >>> [defined_name(line) for line in ("    def pour(self):", "func (p *Pot) Boil() {", "pour()")]
    ['pour', 'Boil', '']
    """
    match = DEFINITION.match(line[:LONGEST_LINE])
    return match[match.lastindex] if match and match.lastindex else ""


def best_name(lines: Iterable[str], asked: Sequence[str], rarity: Mapping[str, float]) -> float:
    """Fit of the best name that a file defines with a question, in [0, 1].

    A name is worth the share of the question's words that it holds, by their rarity, times the share of its own words
    that the question has.

    Args:
        lines: of the file, at least those with a word of the question.
        asked: distinct content words of the question.
        rarity: inverse document frequency of each of them.

    >>> best_name(["class PotLid:", "x = pot"], ("pot", "blue"), {"pot": 1.0, "blue": 3.0})
    0.125
    """
    total = sum(rarity.get(word, 0.0) for word in asked)
    wanted, best = frozenset(asked), 0.0
    for line in lines:
        held = frozenset(words(defined_name(line)))
        if shared := held & wanted:
            best = max(best, sum(rarity.get(word, 0.0) for word in shared) * len(shared) / len(held))
    return best / total if total else 0.0


def asked_stem(path: str, asked: Sequence[str]) -> float:
    """Share of the words of a file's name, without its ending, that a question has.

    >>> asked_stem("tea/pot_lid.py", ("pot",)), asked_stem("tea/__init__.py", ("tea",))
    (0.5, 0.0)
    """
    held = frozenset(words(PurePosixPath(path).stem))
    return len(held.intersection(asked)) / len(held) if held else 0.0
