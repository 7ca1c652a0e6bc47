"""A ranking that was adapted to one repository: what its commits said about its files, and weights fitted to them.

`adapt.py` makes it and measures whether it helps; `locate` and `serve` read it. It holds words of commit messages and
no text of a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from reflect_locate.evidence import Weights
from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import relative
from reflect_locate.repositories.words import words
from reflect_rl.config import Frozen, parse
from reflect_rl.errors import ConfigError, UnknownNameError, UserError
from reflect_rl.paths import expanded
from reflect_rl.store import read_json, write_json

FILE = "ranking.json"
COMPARISON = "adapted.json"
"""The comparison of before and after, which `adapt` writes whether it helped or not."""
MOST_COMMITS = 1_000_000_000
"""Most commits that can hold a word; a file that says more is damaged."""
LEAST_SHARE = 1 / 3
"""Share of the files of a ranking that a tree must have for the ranking to be about it."""
REMEDY = "Make it with `reflect-rl adapt PATH`."


class AdaptedRankingError(UserError):
    """There is no adapted ranking, or it cannot be read."""


class AdaptedRanking(Frozen):
    """Weights and evidence that were learned about a repository."""

    version: Literal[2] = 2
    """Version of this file."""
    repository: str
    """Folder that it was made from."""
    commit: str
    """Newest commit that it knows."""
    weights: Weights
    """Weight of each kind of evidence."""
    said: Mapping[str, Mapping[str, Annotated[int, Field(ge=1, le=MOST_COMMITS)]]]
    """Path -> word -> earlier commits of this file whose subjects hold it (words as `words` gives them)."""

    def matches(self, tree: Tree, question: str) -> Mapping[str, float] | None:
        """BM25 scores of the files by the subjects of their commits, each divided by the best one; None without any.

        Args:
            tree: of the repository, or a part of it.
            question: in words.
        """
        # Files that are gone since would still stand in the way of others, and paths are those of the whole repository.
        known = {path: f"{tree.prefix}{path}" for path in tree.paths}
        texts = {path: self._texts[whole] for path, whole in known.items() if whole in self._texts}
        # Made for each question, as the index of the contents: it keeps what it looked up.
        return relative(BM25(texts).rank(words(question))) or None

    def known(self, tree: Tree) -> int:
        """Number of its files that the snapshot of a tree has."""
        return len(self.said.keys() & tree.snapshot.files.keys())

    def fits(self, tree: Tree) -> bool:
        """Tell whether a tree is of its repository, as far as the paths tell."""
        return self.known(tree) > LEAST_SHARE * len(self.said)

    def told(self, tree: Tree) -> str:
        """Share of it that is about a tree, and what follows from that, in a sentence or two."""
        share = f"{self.known(tree)} of the {len(self.said)} files that the ranking of {self.repository!r} knows"
        if self.fits(tree):
            return f"adapted: {tree.snapshot.name} has {share}."
        return (
            f"warning: {tree.snapshot.name} has {share}, so it is not used. Name the folder that was adapted to, or "
            "adapt to this one: reflect-rl adapt PATH."
        )

    def heard(self, question: str) -> frozenset[str]:
        """Words of a question that stand in the subject of a commit."""
        return frozenset(word for word in words(question) if any(word in counts for counts in self.said.values()))

    @cached_property
    def _texts(self) -> dict[str, _Subjects]:
        return {path: _Subjects(counts) for path, counts in self.said.items()}

    def save(self, folder: Path) -> Path:
        """Write it; returns the file."""
        write_json(folder / FILE, self.model_dump(mode="json"))
        return folder / FILE

    @staticmethod
    def load(place: Path | str) -> AdaptedRanking:
        """The ranking in a folder of `adapt`.

        Raises:
            AdaptedRankingError: there is none, or it cannot be read.
        """
        path = expanded(place)
        file = path / FILE if path.is_dir() else path
        if not file.is_file() and (compared := file.with_name(COMPARISON)).is_file():
            raise AdaptedRankingError(
                f"adapting did not help, as {str(compared)!r} says, so {str(place)!r} has no adapted ranking. "
                "Leave out --adapted."
            )
        if not file.is_file():
            raise AdaptedRankingError(f"no adapted ranking in {str(place)!r}. {REMEDY}")
        values: Any = read_json(file, REMEDY)
        try:
            return parse(AdaptedRanking, values)
        except (ConfigError, UnknownNameError, TypeError) as error:
            raise AdaptedRankingError(f"{file} holds no adapted ranking: {error} {REMEDY}") from None


class _Subjects:
    """The subjects of the commits of a file as a document of an index."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = Counter(counts)

    def __len__(self) -> int:
        return self._counts.total()

    def count(self, word: str) -> int:
        return self._counts[word]
