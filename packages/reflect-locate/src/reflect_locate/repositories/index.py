"""BM25 (Robertson and Zaragoza 2009, eq. 3.15) over names or contents: what an index of the files gives.

Words are looked up when they are asked for: an episode plays in a fresh tree and asks for a dozen words. A library such
as bm25s ranks alike, but indexes the whole vocabulary first, which takes 50 times as long on a tree of 16 files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

SATURATION, LENGTH_SHARE = 1.2, 0.75
"""k1 and b."""


def inverse_frequency(holders: int, documents: int) -> float:
    """Inverse document frequency of a word; zero for a word in no document.

    Args:
        holders: documents that hold it.
        documents: number of all.
    """
    # The 1 inside keeps a word that most documents hold from counting against them.
    return math.log(1 + (documents - holders + 0.5) / (holders + 0.5)) if holders else 0.0


class Document(Protocol):
    """Object whose words are counted."""

    def __len__(self) -> int:
        """Number of words, repeats included."""

    def count(self, word: str, /) -> int:
        """Number of times that a word stands in it."""


class _Counted:
    """A list of words, counted once."""

    def __init__(self, document: Sequence[str]) -> None:
        self._counts = Counter(document)

    def __len__(self) -> int:
        return self._counts.total()

    def count(self, word: str) -> int:
        return self._counts[word]


class PostedBM25:
    """An index of documents, by the documents that hold each word. A word is looked up the first time it is asked for.

    Args:
        names: of the documents.
        lengths: words of each, repeats included.
        holders: word -> number of each document that holds it (from 0), with the number of times.
    """

    def __init__(
        self, names: Sequence[str], lengths: Sequence[int], holders: Callable[[str], Iterable[tuple[int, int]]]
    ) -> None:
        self.names, self._holders = names, holders
        # A tree of empty files would divide by zero.
        mean = max(sum(lengths) / max(len(lengths), 1), 1e-9)
        self._half = [SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / mean) for length in lengths]
        self._postings: dict[str, list[tuple[int, float]]] = {}

    def _posting(self, word: str) -> list[tuple[int, float]]:
        """Number of each document that holds a word, with the word's weight in it."""
        if word not in self._postings:
            self._postings[word] = [
                (number, times * (SATURATION + 1) / (times + self._half[number]))
                for number, times in self._holders(word)
            ]
        return self._postings[word]

    def rarity(self, word: str) -> float:
        """Inverse document frequency; zero for a word in no document."""
        return inverse_frequency(len(self._posting(word)), len(self.names))

    def rank(self, query: Iterable[str]) -> list[tuple[str, float]]:
        """Documents that share a word with the query, best first; ties in the order of the documents.

        >>> BM25({"a": ["red", "car"], "b": ["red", "red", "bus"], "c": ["bike"]}).rank(["red"])[0][0]
        'b'
        """
        scores: dict[int, float] = {}
        # A word that a question repeats counts once, as for the passages.
        for word in dict.fromkeys(query):
            rarity = self.rarity(word)
            for number, weight in self._posting(word):
                scores[number] = scores.get(number, 0.0) + rarity * weight
        # Ties go by position: the order of a dictionary would depend on which word was asked first.
        order = sorted(scores, key=lambda number: (-scores[number], number))
        return [(self.names[number], scores[number]) for number in order]


class BM25(PostedBM25):
    """An index of documents that are at hand.

    Args:
        documents: content words of each document by its name (see `words`), as a list or counted.
    """

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = [
            _Counted(document) if isinstance(document, list | tuple) else document for document in documents.values()
        ]
        super().__init__(tuple(documents), list(map(len, self._documents)), self._count)

    def _count(self, word: str) -> Iterator[tuple[int, int]]:
        for number, document in enumerate(self._documents):
            if times := document.count(word):
                yield number, times
