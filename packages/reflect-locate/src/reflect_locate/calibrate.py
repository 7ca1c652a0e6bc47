"""Weights of the evidence, and the threshold of confidence, measured on questions with known answers.

Both are measured on questions about projects that a player was not trained on. Each is asked twice, on a tree that has
the file and on the same tree without it. The weights are fitted to the answers on trees that have it (`fitting.fit`).
An answer is right when its first file is an accepted one; without the file no answer is. The threshold is the highest
confidence at which nine of ten right answers are still shown: to withhold a right answer is worse than to show a wrong
one, which its reader will notice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reflect_locate.evidence import Evidence, Weights, confidence, score
from reflect_locate.finder import EFFORT, SearchOptions, locate
from reflect_locate.fitting import fit
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.questions.trees import sample_tree
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import forget_indexes
from reflect_locate.trained_player import Player
from reflect_rl.types import stream

SHOWN = 0.9
"""Share of the right answers that must be shown."""
# Each question needs an index of a tree of its own, which for whole projects would take too long.
LARGEST_TREE = 256
"""Files of the trees; of larger ones a sample is taken."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates for one question on one tree."""

    has_file: bool
    """True if the tree has an accepted file."""
    files: tuple[tuple[Evidence, bool], ...]
    """Evidence of each candidate, and whether it is an accepted file; in the order of the paths."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights and a threshold, and what they do on the questions that they were measured on."""

    weights: Weights
    threshold: float
    right_shown: float
    """Share of the right answers whose confidence reaches the threshold."""
    wrong_withheld: float
    """Share of the wrong answers whose confidence does not."""
    right: int
    wrong: int


def collect(
    player: Player,
    tasks: TaskSet,
    questions: Sequence[Question],
    effort: SearchOptions = EFFORT,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Candidates]:
    """Ask a player all questions, with the file in the tree and without.

    Args:
        player: who is asked.
        tasks: with the trees of the questions.
        questions: those of projects that the player was not trained on.
        effort: how long each search is, as it will be in use.
        progress: called with (done, total).
    """
    found = []
    for done, question in enumerate(questions, start=1):
        whole, without = trees_of(question, tasks, effort.seed)
        for tree in (whole, without):
            # A project of one file has nothing left without it.
            if tree.paths:
                found.append(ask(player, tree, question, effort))
        # No other question is about these two trees, and an index takes tens of megabytes.
        forget_indexes()
        progress(done, len(questions))
    return found


def trees_of(question: Question, tasks: TaskSet, seed: int) -> tuple[Tree, Tree]:
    """A tree of at most 256 files that has the file of a question, and the same tree without that file.

    The sentence that the question was made from is masked in both.
    """
    rng = stream(seed, "calibrate", question.key)
    snapshot = tasks.snapshot(question.snapshot)
    # Masked, because nobody asks with the words of the file.
    whole = sample_tree(question, snapshot, "", LARGEST_TREE, rng, hard=bool(question.spans))
    # The same tree without the file: the two differ in nothing but the answer.
    rest = [path for path in whole.paths if path not in question.targets]
    return whole, Tree(snapshot, "", rest, whole.masks)


def ask(player: Player, tree: Tree, question: Question, effort: SearchOptions = EFFORT) -> Candidates:
    """Ask a player one question about one tree."""
    files = sorted(locate(player, tree, question.text, effort).files, key=lambda entry: entry.path)
    judged = tuple((entry.evidence, entry.path in question.targets) for entry in files)
    return Candidates(any(path in question.targets for path in tree.paths), judged)


def calibrate(candidates: Sequence[Candidates]) -> Calibration:
    """Weights and threshold of a player, from what `collect` found.

    Raises:
        ValueError: no answer was right, or none was wrong, so nothing can be told apart.
    """
    # A tree without the file has no right answer and says nothing about the weights.
    weights = fit([entry.files for entry in candidates if entry.has_file])
    return best_threshold([judge(entry, weights) for entry in candidates], weights)


def judge(candidates: Candidates, weights: Weights) -> tuple[float, bool]:
    """Confidence of an answer, and whether it is right."""
    ranked = sorted(candidates.files, key=lambda pair: -score(pair[0], weights))
    return confidence([score(evidence, weights) for evidence, _ in ranked]), bool(ranked) and ranked[0][1]


def best_threshold(judged: Sequence[tuple[float, bool]], weights: Weights) -> Calibration:
    """The highest threshold at which `SHOWN` of the right answers are shown.

    Args:
        judged: confidence of each answer, and whether it was right.
        weights: with which they were ranked.

    Raises:
        ValueError: no answer was right, or none was wrong.

    >>> best_threshold([(0.9, True), (0.6, True), (0.5, False), (0.1, False)], Weights()).threshold
    0.6
    """
    right = sorted(value for value, is_right in judged if is_right)
    wrong = [value for value, is_right in judged if not is_right]
    if not right or not wrong:
        raise ValueError(f"{len(right)} right and {len(wrong)} wrong answers: both are needed for a threshold")
    # A measured value and not one between two: the share that it shows is then exact.
    threshold = right[len(right) - math.ceil(SHOWN * len(right))]
    shown = sum(value >= threshold for value in right) / len(right)
    withheld = sum(value < threshold for value in wrong) / len(wrong)
    return Calibration(weights, threshold, shown, withheld, len(right), len(wrong))
