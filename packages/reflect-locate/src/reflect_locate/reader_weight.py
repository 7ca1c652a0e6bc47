"""Weight of a reader beside the index, chosen on questions about projects that it was not trained on.

A reader that has learned much deserves more weight than one that comes as it is, and how much cannot be seen on the
questions that it learned from (`docs/results/log.md`, "The weight of a reader").
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import BaseModel

from reflect_locate.evidence import DEFAULT_WEIGHTS, LIKELY, SURE, Evidence, confidence, score
from reflect_locate.places import first_place, mean_reciprocal_rank
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.ranking import find
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore
from reflect_locate.rereading import PassageReader, passage, with_reading

WEIGHTS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
"""Weights that are compared, in rising order; the evidence of the index has 3.5 together."""
BOUNDS = tuple(round(LIKELY + 0.01 * step, 2) for step in range(13))
"""Bounds of `likely` that are compared, in rising order."""


class Asked(BaseModel, frozen=True):
    """A question on one tree: its candidates by the index, and what the model makes of them."""

    key: str
    has_file: bool
    evidence: tuple[Evidence, ...]
    right: tuple[bool, ...]
    likelihoods: tuple[float, ...]
    """Likelihoods of the first candidates, as many as the reader reads."""
    seconds: float
    """CPU time of the reading."""

    def ranked(self, weight: float) -> tuple[list[bool], list[float]]:
        """Rightness of each candidate, the best first, and their scores; at the weight 0 by the index alone."""
        weights = replace(DEFAULT_WEIGHTS, read=weight)
        read = with_reading(self.evidence, self.likelihoods) if weight else self.evidence
        scores = [score(evidence, weights) for evidence in read]
        order = sorted(range(len(scores)), key=lambda number: -scores[number])
        return [self.right[number] for number in order], [scores[number] for number in order]

    def place(self, weight: float) -> tuple[int, float]:
        """Place of the first right file (0 = not among the candidates), and the confidence in the first file."""
        right, scores = self.ranked(weight)
        return first_place(right), confidence(scores)


def ask(tasks: TaskSet, question: Question, store: WordStore, reader: PassageReader) -> Iterator[Asked]:
    """The question on its whole project with the sentence masked, and on the project without the file.

    Args:
        tasks: which has the projects.
        question: with the files that are right.
        store: words of the project; those that it lacks are added.
        reader: the model.
    """
    snapshot = tasks.snapshot(question.snapshot)
    whole = Tree(snapshot, "", None, question.spans)
    rest = Tree(snapshot, "", [path for path in whole.paths if path not in question.targets], {})
    said: dict[str, float] = {}
    for part, tree in enumerate((whole, rest)):
        answer, started = find(tree, question.text, StoredIndex(tree, store)), time.process_time()
        best, settings = answer.files[: reader.settings.candidates], reader.settings
        texts = [passage(entry.path, tree.text(entry.path), answer.rarity, settings) for entry in best]
        fresh = [text for text in texts if text not in said]
        said |= dict(zip(fresh, reader.likelihoods(question.text, fresh), strict=True))
        yield Asked(
            key=f"{question.key}/{part}",
            has_file=part == 0,
            evidence=tuple(entry.evidence for entry in answer.files),
            right=tuple(entry.path in question.targets for entry in answer.files),
            likelihoods=tuple(said[text] for text in texts),
            seconds=time.process_time() - started,
        )


def best_weight(asked: Sequence[Asked], weights: Sequence[float] = WEIGHTS) -> float:
    """The weight with the best mean reciprocal rank, of equal ones the smallest.

    Args:
        asked: questions with a right file in their trees.
        weights: that are compared, in rising order.
    """
    return max(weights, key=lambda weight: mean_reciprocal_rank([entry.place(weight)[0] for entry in asked]))


def best_bound(asked: Sequence[Asked], weight: float, bounds: Sequence[float] = BOUNDS) -> float:
    """The lowest bound of `likely` above which the first file is right at least as often as by the index alone.

    Args:
        asked: questions with a right file in their trees.
        weight: of the reader.
        bounds: that are compared, in rising order; the index has the first one.

    Returns:
        The bound; the highest one if none will do.
    """

    def share(answers: Sequence[tuple[int, float]], bound: float) -> float:
        right = [place == 1 for place, trust in answers if bound <= trust < SURE]
        return sum(right) / len(right) if right else 1.0

    alone, read = ([entry.place(value) for entry in asked] for value in (0, weight))
    wanted = share(alone, bounds[0])
    return next((bound for bound in bounds if share(read, bound) >= wanted), bounds[-1])
