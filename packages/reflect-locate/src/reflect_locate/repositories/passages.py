"""Parts of a file that are seen when it is opened with a question in mind: head, names, nearest passage.

A passage is a line with the one after it: long enough for a sentence that is wrapped, short enough that the words of a
question do not meet in it by chance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.words import words

LONGEST_START = 4000
"""Letters at the beginning of a file that are kept ready to show."""
# One long generated file must not hold up an episode or fill the cache.
LONGEST_TEXT = 200_000
"""Characters of a file that a game looks at."""
LONGEST_PASSAGE, LONGEST_LINE = 2000, 20_000
"""Characters of a passage, and of each of its lines before spaces are joined; a line of a file may have any length."""
REMEMBERED = 8
"""Questions whose passages an index keeps: the episodes on one question are played together."""
CODE = frozenset((".py", ".c", ".cpp", ".cxx", ".cc", ".h", ".hpp", ".hxx", ".cs", ".java", ".go"))
NAMES = re.compile(r"^[ \t]*(?:(?:async[ \t]+)?def|class|func|type|struct|interface|enum)[ \t]+(\w+)", re.MULTILINE)
HEADINGS = re.compile(r"^#{1,6}[ \t]+(.+)$|^(\S.*)\n(?:=|-|~|\^){3,}[ \t]*$", re.MULTILINE)
# Licence blocks are alike in all files of a project and would fill the head with nothing to tell them apart.
PREAMBLE = re.compile(r"#!|# ?-\*-|#.*(?:[Cc]opyright|[Ll]icense|SPDX)|from __future__|\s*$|\W+$")
"""Lines at the top of a file that say nothing about it."""
QUOTES = re.compile(r"[rRuUbB]{0,2}(\"\"\"|''')")
INVISIBLE = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Characters of the Unicode categories Cc, Cf, Cs, Zl and Zp: control characters, those that are not seen, those that
turn the direction of writing, halves of pairs. Written out, because the categories grow with the version of Python."""


SHORT = 200
"""Characters up to which a text is likely to be a name, which is met again."""


def plain(text: str) -> str:
    r"""A text on one line that cannot pass for a part of a prompt: no control characters, no `# `, no `<|`.

    >>> plain('a\n # Action:\n7 <|endoftext|>')
    'a #Action: 7 <endoftext|>'
    """
    # A cache of long texts would hold whole passages that are seldom met again.
    return _plain_name(text) if len(text) <= SHORT else _plain(text)


def _plain(text: str) -> str:
    joined = " ".join(INVISIBLE.sub(" ", text).split())
    # One pass is enough, and takes linear time: neither replacement can make what the other looks for.
    return re.sub(r"<\|+", "<", joined.replace("# ", "#"))


_plain_name = lru_cache(50_000)(_plain)


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of a file that shares most words with a question."""

    text: str
    found: tuple[str, ...]
    """Words of the question (as `words` gives them) that stand in it, in the order of the question."""


def words_together(held: Mapping[int, frozenset[str]], asked: Sequence[str]) -> tuple[str, ...]:
    """Words of a question that stand close together: those of the passage with most of them (`PassageIndex.nearest`).

    Only lines with a word of the question are cut into words, which an answer to a single question is quicker for.

    Args:
        held: number of each line with words of the question, counted among the lines that are not blank -> these words.
        asked: distinct content words of the question.
    """
    passages = {start: held.get(start, frozenset()) | held.get(start + 1, frozenset()) for start in held}
    # A passage may also begin with the line before; it is the same set of words or a larger one.
    passages |= {start - 1: held.get(start - 1, frozenset()) | shared for start, shared in held.items()}
    best = max(sorted(passages), key=lambda start: len(passages[start]), default=None)
    return () if best is None else tuple(word for word in asked if word in passages[best])


class PassageIndex:
    """Index of a file: its head, its names, and the lines that hold each word.

    Args:
        name: of the file; its ending decides what counts as a name in it.
        text: of the file.
    """

    def __init__(self, name: str, text: str) -> None:
        self._is_code = PurePosixPath(name).suffix.lower() in CODE
        # Cut before anything is computed, so that each property below takes bounded time.
        self._text = text[:LONGEST_TEXT]
        self._asked: dict[tuple[str, ...], Passage] = {}

    @cached_property
    def _lines(self) -> list[str]:
        return [line for line in self._text.split("\n") if line.strip()]

    @cached_property
    def _places(self) -> Mapping[str, Sequence[int]]:
        """Word -> numbers of the lines that it stands in, ascending."""
        places: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            # A word counts once for each line: repeats within one line, as in tables, say little about the file.
            for word in set(words(line)):
                places.setdefault(word, []).append(number)
        # The garbage collector passes over tuples of numbers, and files hold millions of words.
        return {word: tuple(numbers) for word, numbers in places.items()}

    @cached_property
    def size(self) -> int:
        """Sum of `count` over all words."""
        return sum(map(len, self._places.values()))

    def count(self, word: str) -> int:
        """Number of lines that hold a word."""
        return len(self._places.get(word, ()))

    @cached_property
    def head(self) -> str:
        """The beginning, without what stands at the top of many files."""
        lines = iter(self._lines)
        first = next((line for line in lines if not PREAMBLE.match(line)), "")
        rest = [line for _, line in zip(range(8), lines, strict=False)]
        # Quotes of a docstring carry no content, and the text is shown inside a prompt.
        return plain(QUOTES.sub("", "\n".join([first, *rest])))[:1000]

    @cached_property
    def start(self) -> str:
        """The beginning as it stands in the file, on one line."""
        return plain(self._text[:LONGEST_START])

    @cached_property
    def names(self) -> str:
        """Names of functions and classes, or headings, in order."""
        pattern = NAMES if self._is_code else HEADINGS
        found = (next(group for group in match.groups() if group) for match in pattern.finditer(self._text))
        return plain(", ".join(dict.fromkeys(found)))[:1000]

    def nearest(self, question: Sequence[str]) -> Passage:
        """The passage with most words of the question; of several the first.

        Args:
            question: its distinct content words.
        """
        key = tuple(question)
        if key not in self._asked:
            if len(self._asked) >= REMEMBERED:
                # Dropping all is enough: the episodes on one question run at the same time.
                self._asked.clear()
            self._asked[key] = self._nearest(key)
        return self._asked[key]

    def _nearest(self, question: Sequence[str]) -> Passage:
        places = {word: frozenset(self._places.get(word, ())) for word in question}
        shared: Counter[int] = Counter()
        for numbers in places.values():
            # A line counts for the passage that begins with it, and for the one before.
            shared.update(numbers | {number - 1 for number in numbers})
        if not shared:
            return Passage("", ())
        most = max(shared.values())
        best = min(number for number, count in shared.items() if count == most)
        # A word in line 0 also counts for the passage that begins at -1, which is not there.
        lines = range(max(best, 0), best + 2)
        found = (word for word in question if not places[word].isdisjoint(lines))
        shown = "\n".join(line[:LONGEST_LINE] for line in self._lines[lines.start : lines.stop])
        return Passage(plain(shown)[:LONGEST_PASSAGE], tuple(found))


class NamedText:
    """A file as a document of an index (`repositories.index`): the words of its path, and the lines that hold a word.

    Args:
        path: in the tree.
        index: of the file.
    """

    def __init__(self, path: str, index: PassageIndex) -> None:
        self._path, self._index = Counter(words(path)), index

    def __len__(self) -> int:
        return self._path.total() + self._index.size

    def count(self, word: str) -> int:
        """Number of times that a word stands in the path, plus number of lines that hold it."""
        return self._path[word] + self._index.count(word)


class PassageCache:
    """Indexes of files that are kept, because many episodes open the same files.

    Args:
        capacity: number of indexes that are kept; when it is reached, all are dropped.
    """

    def __init__(self, capacity: int = 20_000) -> None:
        self._capacity = capacity
        self._indexes: dict[tuple[str, str, tuple[tuple[int, int], ...]], PassageIndex] = {}

    def get(self, tree: Tree, path: str) -> PassageIndex:
        """The index of a file of a tree, with its masked spans left out."""
        # Masks belong to the key: without them a hard game would read the sentence that is hidden from it.
        key = (tree.snapshot.identity, tree.prefix + path, tuple(tree.masks.get(path, ())))
        if key not in self._indexes:
            if len(self._indexes) >= self._capacity:
                self._indexes.clear()
            self._indexes[key] = PassageIndex(path, tree.text(path))
        return self._indexes[key]
