"""Ranks of a question's target by names and contents: BM25 with the question's own sentence left out.

Scores are those of `repositories.index`. This one counts only the words that questions hold, and can score one file
without a part of it, which is asked once per question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from reflect_locate.places import first_place
from reflect_locate.repositories.index import BM25, LENGTH_SHARE, SATURATION
from reflect_locate.repositories.passages import LONGEST_TEXT
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.words import pieces, words

Spans = Sequence[tuple[int, int]]


class MaskedIndex:
    """An index of a snapshot for questions.

    Args:
        snapshot: the files.
        vocabulary: content words of all questions that will be asked.
    """

    def __init__(self, snapshot: Snapshot, vocabulary: Collection[str]) -> None:
        self._snapshot = snapshot
        self._numbers = {path: number for number, path in enumerate(snapshot.files)}
        self._names = BM25({path: words(path) for path in snapshot.files})
        self._stems: dict[str, str | None] = {}
        self._known = frozenset(vocabulary)
        lengths = []
        found: dict[str, list[tuple[int, int]]] = {}
        for number, text in enumerate(snapshot.files.values()):
            # The bound of the game's own index: support must not come from text that no player can find.
            counts, length = self._count(text[:LONGEST_TEXT])
            lengths.append(length)
            for word, times in counts.items():
                found.setdefault(word, []).append((number, times))
        self._lengths = np.array(lengths, dtype=float)
        self._mean = max(float(self._lengths.mean()) if lengths else 0.0, 1e-9)
        self._postings: Mapping[str, np.ndarray] = {word: np.array(rows) for word, rows in found.items()}

    def share(self, word: str) -> float:
        """Share of the files whose content has a word."""
        return len(self._postings.get(word, ())) / max(len(self._numbers), 1)

    def name_rank(self, question: Sequence[str], targets: Collection[str]) -> float:
        """Rank from 1 of the best target among the paths that share a word with the question; infinite without one."""
        return first_place(path in targets for path, _ in self._names.rank(question)) or np.inf

    def content_rank(self, question: Sequence[str], path: str, targets: Collection[str], masks: Spans) -> float:
        """Rank from 1 of a target among the contents, as if its masked spans were not there.

        Args:
            question: its content words.
            path: of the target.
            targets: all that are right, which do not compete.
            masks: character spans of this one.

        Returns:
            The rank; infinite where the rest of the target shares no word with the question.
        """
        target = self._numbers[path]
        text = self._snapshot.files[path][:LONGEST_TEXT]
        # The question's own sentence would always rank its file first and prove nothing.
        masked, length = self._count(" ".join(text[start:stop] for start, stop in masks))
        own, scores = 0.0, np.zeros(len(self._numbers))
        for word in dict.fromkeys(question):
            if word not in self._postings:
                continue
            numbers, times = self._postings[word].T
            rarity = self._rarity(len(numbers))
            # All other files keep their full text; only the target is scored without the sentence.
            scores[numbers] += rarity * _weight(times, self._lengths[numbers] / self._mean)
            place = np.searchsorted(numbers, target)
            if place < len(numbers) and numbers[place] == target:
                # Spans may overlap, and then the masked words outnumber those in the text.
                left = max(int(times[place]) - masked[word], 0)
                own += rarity * float(_weight(left, (self._lengths[target] - length) / self._mean))
        # Right answers are no competitors.
        scores[[self._numbers[right] for right in targets]] = 0.0
        return 1.0 + int((scores > own).sum()) if own > 0 else np.inf

    def _rarity(self, found: int) -> float:
        """Inverse document frequency of a word in so many contents (as `BM25.rarity`)."""
        return float(np.log(1 + (len(self._numbers) - found + 0.5) / (found + 0.5)))

    def _count(self, text: str) -> tuple[Counter[str], int]:
        """Count of each word of the vocabulary in a text, and number of its content words."""
        counts: Counter[str] = Counter()
        length = 0
        # Pieces are counted before they are stemmed: a file repeats few pieces often, and stemming is the slow part.
        for piece, times in Counter(pieces(text)).items():
            if piece not in self._stems:
                self._stems[piece] = next(iter(words(piece)), None)
            word = self._stems[piece]
            if word is not None:
                length += times
                if word in self._known:
                    counts[word] += times
        return counts, length


def _weight(times: np.ndarray | int, relative_length: np.ndarray | float) -> np.ndarray | float:
    half = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative_length)
    return times * (SATURATION + 1) / (times + half)
