"""Index of a tree whose words are counted in a store: the ranking of `tree_index`, without reading all files again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import IndexMatches, relative
from reflect_locate.repositories.word_store import WordStore
from reflect_locate.repositories.words import words


class _StoredText:
    """A file as a document of an index: the words of its path, and its lines in the store."""

    def __init__(self, path: Counter[str], number: int, size: int, store: WordStore) -> None:
        self._path, self._number, self._store = path, number, store
        self._size = path.total() + size

    def __len__(self) -> int:
        return self._size

    def count(self, word: str) -> int:
        return self._path[word] + self._store.pairs(word).get(self._number, 0)


class _PathWords:
    """The words of a path as a document."""

    def __init__(self, path: Counter[str]) -> None:
        self._path, self._size = path, path.total()

    def __len__(self) -> int:
        return self._size

    def count(self, word: str) -> int:
        return self._path[word]


class StoredIndex:
    """Index of a tree.

    Args:
        tree: the files.
        store: with their words; those that it lacks are added.
    """

    def __init__(self, tree: Tree, store: WordStore) -> None:
        digests = {path: tree.digest(path) for path in tree.paths}
        store.add({digest: tree.text(path) for path, digest in digests.items() if store.find(digest) is None})
        named = {path: Counter(words(path)) for path in tree.paths}
        self._texts = {
            path: _StoredText(named[path], *(store.find(digest) or (0, 0)), store) for path, digest in digests.items()
        }
        self._paths = {path: _PathWords(counts) for path, counts in named.items()}

    def ask(self, question: str) -> tuple[IndexMatches, Mapping[str, float]]:
        """Matches of the files with a question, and the rarity of its words (inverse document frequency)."""
        asked = words(question)
        # Made for each question: an index keeps what it looked up, and a server would keep it for ever.
        contents, paths = BM25(self._texts), BM25(self._paths)
        matches = IndexMatches(*(relative(index.rank(asked)) for index in (contents, paths)))
        return matches, {word: contents.rarity(word) for word in dict.fromkeys(asked)}
