"""Index of a tree whose words are counted in a store: the ranking of `tree_index`, without reading all files again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from reflect_locate.repositories.index import PostedBM25
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import IndexMatches, relative
from reflect_locate.repositories.word_store import WordStore
from reflect_locate.repositories.words import words


class StoredIndex:
    """Index of a tree.

    Args:
        tree: the files.
        store: with their words; those that it lacks are added.
    """

    def __init__(self, tree: Tree, store: WordStore) -> None:
        digests = {path: tree.digest(path) for path in tree.paths}
        store.add({digest: tree.text(path) for path, digest in digests.items() if store.find(digest) is None})
        self._paths, self._store = tree.paths, store
        self._path_sizes, self._sizes = list[int](), list[int]()
        # Numbers of files (from 0): those that hold a word in their path, with the times, and those of each text.
        self._in_paths: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._files: defaultdict[int, list[int]] = defaultdict(list)
        for file, path in enumerate(tree.paths):
            named = words(path)
            number, size = store.find(digests[path]) or (0, 0)
            self._path_sizes.append(len(named))
            self._sizes.append(len(named) + size)
            self._files[number].append(file)
            for word in named:
                self._in_paths[word][file] = self._in_paths[word].get(file, 0) + 1

    def ask(self, question: str) -> tuple[IndexMatches, Mapping[str, float]]:
        """Matches of the files with a question, and the rarity of its words (inverse document frequency)."""
        asked = words(question)
        # Made for each question: an index keeps what it looked up, and a server would keep it for ever.
        contents = PostedBM25(self._paths, self._sizes, lambda word: self._counts(word).items())
        paths = PostedBM25(self._paths, self._path_sizes, lambda word: self._in_paths.get(word, {}).items())
        matches = IndexMatches(*(relative(index.rank(asked)) for index in (contents, paths)))
        return matches, {word: contents.rarity(word) for word in dict.fromkeys(asked)}

    def holding(self, asked: Sequence[str]) -> list[str]:
        """Files that hold all of these words (as `words` gives them), those with most of them first."""
        counts = [self._counts(word) for word in asked]
        files = set[int]().union(*counts[:1]).intersection(*counts[1:])
        return [self._paths[file] for file in sorted(files, key=lambda file: -sum(one[file] for one in counts))]

    def holders(self, word: str) -> set[str]:
        """Files that hold a word (as `words` gives it), or have it in their path."""
        return {self._paths[file] for file in self._counts(word)}

    def _counts(self, word: str) -> Mapping[int, int]:
        """Times that a word stands in the path of each file, plus lines of the file that hold it."""
        counts = Counter(self._in_paths.get(word))
        for number, lines in self._store.pairs(word).items():
            # Equal files are one text; the store also holds texts of other trees and times.
            for file in self._files.get(number, ()):
                counts[file] += lines
        return counts
