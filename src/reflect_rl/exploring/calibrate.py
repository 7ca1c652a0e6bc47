"""From which confidence on an answer is worth showing: measured on questions that a player was not trained on.

Each question is asked twice, on a tree that has the file and on the same tree without it. An answer is right when its
first file is an accepted one; without the file no answer is. The threshold is the highest confidence at which nine of
ten right answers are still shown: to withhold a right answer is worse than to show a wrong one, which its reader will
notice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reflect_rl.core.seeding import stream
from reflect_rl.exploring.default_player import Player
from reflect_rl.exploring.errand import forget_trees
from reflect_rl.exploring.locate import EFFORT, Answer, Effort, locate
from reflect_rl.repositories.questions import Question, TaskSet
from reflect_rl.repositories.sampling import sample_tree
from reflect_rl.repositories.tree import Tree

__all__ = ["Calibration", "best_threshold", "calibrate"]

SHOWN = 0.9
"""Share of the right answers that must be shown."""
LARGEST_TREE = 256
"""Files of the trees; of larger ones a sample is taken."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold, and what it does."""

    threshold: float
    right_shown: float
    """Share of the right answers whose confidence reaches it."""
    wrong_withheld: float
    """Share of the wrong answers whose confidence does not."""
    right: int
    wrong: int


def calibrate(
    player: Player,
    tasks: TaskSet,
    questions: Sequence[Question],
    effort: Effort = EFFORT,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Calibration:
    """The threshold of a player.

    Args:
        player: who is asked.
        tasks: with the trees of the questions.
        questions: those of projects that the player was not trained on.
        effort: how long each search is, as it will be in use.
        progress: called with (done, total).

    Raises:
        ValueError: no answer was right, or none was wrong, so nothing can be told apart.
    """
    judged: list[tuple[float, bool]] = []
    for done, question in enumerate(questions, start=1):
        rng = stream(effort.seed, "calibrate", question.key)
        snapshot = tasks.snapshot(question.snapshot)
        whole = sample_tree(question, snapshot, "", LARGEST_TREE, rng, hard=bool(question.spans))
        without = Tree(snapshot, "", [path for path in whole.paths if path not in question.targets], whole.masks)
        for tree in (whole, without):
            if tree.paths:
                judged.append(_judge(locate(player, tree, question.text, effort), question))
        forget_trees()
        progress(done, len(questions))
    return best_threshold(judged)


def _judge(answer: Answer, question: Question) -> tuple[float, bool]:
    is_right = bool(answer.files) and answer.files[0].path in question.targets
    return answer.confidence, is_right


def best_threshold(judged: Sequence[tuple[float, bool]]) -> Calibration:
    """The highest threshold at which `SHOWN` of the right answers are shown.

    Args:
        judged: confidence of each answer, and whether it was right.

    Raises:
        ValueError: no answer was right, or none was wrong.

    >>> best_threshold([(0.9, True), (0.6, True), (0.5, False), (0.1, False)]).threshold
    0.6
    """
    right = sorted(confidence for confidence, is_right in judged if is_right)
    wrong = [confidence for confidence, is_right in judged if not is_right]
    if not right or not wrong:
        raise ValueError(f"{len(right)} right and {len(wrong)} wrong answers: both are needed for a threshold")
    threshold = right[len(right) - math.ceil(SHOWN * len(right))]
    shown = sum(confidence >= threshold for confidence in right) / len(right)
    withheld = sum(confidence < threshold for confidence in wrong) / len(wrong)
    return Calibration(threshold, shown, withheld, len(right), len(wrong))
