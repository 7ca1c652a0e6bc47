"""Indexes of the files of a tree, kept while somebody asks about it, and how well each file matches a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.passages import NamedText, PassageCache
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.words import words

PASSAGES = PassageCache()
"""Files that were indexed in this process. An index is a function of its file, so sharing it changes no result."""


@lru_cache(16)  # the index of a large tree takes tens of megabytes
def content_index(tree: Tree) -> BM25:
    """Index over the paths and the full contents of a tree."""
    return BM25({path: NamedText(path, PASSAGES.get(tree, path)) for path in tree.paths})


def path_index(tree: Tree) -> BM25:
    """Index over the paths of a tree."""
    return BM25({path: words(path) for path in tree.paths})


def forget_indexes() -> None:
    """Free the content indexes of all trees."""
    content_index.cache_clear()


@dataclass(frozen=True, slots=True)
class IndexMatches:
    """BM25 scores of the files that share a word with a question, each divided by the best file's score."""

    contents: Mapping[str, float]
    """Best first."""
    paths: Mapping[str, float]
    """Scores by the words of the paths alone, best first."""


def index_matches(tree: Tree, question: str) -> IndexMatches:
    """Matches of the files of a tree with a question."""
    contents, paths = (index.rank(words(question)) for index in (content_index(tree), path_index(tree)))
    return IndexMatches(relative(contents), relative(paths))


def relative(ranked: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Scores of a ranking, each divided by the best one: BM25 scores have no common scale between questions."""
    return {path: score / ranked[0][1] for path, score in ranked}
