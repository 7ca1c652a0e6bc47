"""Tasks about questions: which are asked, from which folder, in which tree of files.

Shared by the games that answer questions of a task set, so that they play the same tasks in the same trees.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.questions.trees import count_below, root_at, sample_tree
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import SPLITS, require_known
from reflect_rl.errors import UserError
from reflect_rl.types import Task, stream

SIZES: dict[str, tuple[int, int | None]] = {
    **{f"d{depth}k{size}": (depth, size) for size in (8, 16, 32, 64) for depth in (1, 2)},
    **{f"d{depth}raw": (depth, None) for depth in (1, 2, 3)},
}
"""Mode -> depth of the target, and number of files of the tree (None: all below the root)."""
MODES = tuple(SIZES)
"""Easiest first."""
Mode = Literal["d1k8", "d2k8", "d1k16", "d2k16", "d1k32", "d2k32", "d1k64", "d2k64", "d1raw", "d2raw", "d3raw"]
Leak = Literal["none", "tokens", "name"]

# A few files short still plays like the mode; half empty trees would make the mode easier than its name says.
SMALLEST_SHARE = 0.75
"""A tree of fewer than this share of its mode's files is too small for the mode."""
EVALUATION_ONLY = ("hard", "leaks", "sources", "tasks", "test_tasks", "unsupported")
"""Settings that choose the questions of the test: players can be asked others than those that they were trained on."""
# One name for both games: the same questions, trees and validation tasks make their results comparable.
FAMILY = "autoexplore"
"""Names the random streams of all these games."""


class QuestionTaskConfig(EnvironmentConfig):
    """Settings that the games about questions share: which questions are asked, and in which trees."""

    tasks: Path = Path("runs/tasks")
    """The task set: a folder that `reflect-rl tasks` made."""
    modes: tuple[Mode, ...] = Field(("d1k32", "d2k32"), min_length=1)
    """Variants to train and evaluate: depth of the target (`d1`, `d2`, `d3`) and number of files (`k32`, `raw`)."""
    sources: tuple[str, ...] = ()
    """Sources of questions that are used, such as `symdoc` (empty: all)."""
    leaks: tuple[Leak, ...] = Field(("none",), min_length=1)
    """Strata of questions that are used: whether the target's name stands in the question."""
    unsupported: bool = False
    """Use questions too to which neither names nor contents point."""
    hard: bool = False
    """Mask the sentence that a question was made from, so that no file holds the question word by word."""
    variants_per_question: int = Field(4, ge=1)
    """Different trees of each training question."""
    validation_tasks: int = Field(64, ge=1)
    """Validation tasks of each mode."""
    test_tasks: int = Field(480, ge=1)
    """Test tasks of each mode."""
    split_seed: int = Field(0, ge=0)
    """Seed of the choice of validation and test tasks, and of every tree."""


@lru_cache(8)
def task_set(folder: Path) -> TaskSet:
    """The task set in a folder, read once.

    Raises:
        TaskSetError: the folder holds none, or a corrupt one.
    """
    return TaskSet.load(folder)


def question_tasks(config: QuestionTaskConfig, mode: str, split: str) -> tuple[Task, ...]:
    """The questions of one split whose targets lie at the mode's depth in trees of its size.

    Raises:
        TaskSetError: there is no task set in the configured folder.
        UnknownNameError: no such mode or split.
    """
    require_known(f"mode of {FAMILY}", mode, MODES)
    require_known("split", split, SPLITS)
    return _asked(config, mode, split)


# Evaluation, training and reports ask for the same list again and again, and each look-up walks all questions.
@lru_cache(256)
def _asked(config: QuestionTaskConfig, mode: str, split: str) -> tuple[Task, ...]:
    known = task_set(config.tasks)
    fitting = [question for question in known.questions if _fits(config, known, question, mode, split)]
    if split == "train":
        return tuple(_task(question, mode, v) for question in fitting for v in range(config.variants_per_question))
    most = config.validation_tasks if split == "validation" else config.test_tasks
    # Drawn, because the questions are sorted by source: the first ones would all be of one kind.
    order = stream(config.split_seed, FAMILY, mode, split).permutation(len(fitting))[:most]
    # Sorted again, so that a larger number of tasks only adds tasks in between.
    return tuple(_task(fitting[index], mode, 0) for index in sorted(order))


def _fits(config: QuestionTaskConfig, known: TaskSet, question: Question, mode: str, split: str) -> bool:
    if question.split != split or question.leak not in config.leaks:
        return False
    if not (question.supported or config.unsupported) or (config.sources and question.source not in config.sources):
        return False
    depth, size = SIZES[mode]
    root = root_at(question.targets[0], depth)
    if root is None:
        return False
    # Counted by range and not by building the tree: this is asked of every question of the task set.
    return size is None or count_below(known.snapshot(question.snapshot), root) >= SMALLEST_SHARE * size


def _task(question: Question, mode: str, variant: int) -> Task:
    data = {"question": question.key, "variant": variant, "folder": "", "read": [], "turn": 1}
    return Task(f"{mode}/{question.key}#{variant}", mode, question.split, data)


class AsksQuestions:
    """Modes and capabilities that the games about questions share."""

    config: QuestionTaskConfig
    modes: ClassVar[tuple[str, ...]] = MODES
    evaluation_only: ClassVar[tuple[str, ...]] = EVALUATION_ONLY
    kept: ClassVar[tuple[str, ...]]
    """Parts of a state that a task can begin with."""

    def task_at(self, mode: str, state: str) -> Task:
        """The training task that begins in a state met while playing."""
        data: dict[str, Any] = json.loads(state)
        # The whole state is the key: two starts in one question differ in what was read.
        return Task(f"{mode}/{state}", mode, "train", {key: value for key, value in data.items() if key in self.kept})

    def strata(self, task: Task) -> dict[str, str]:
        """Properties by which success is broken down: depth of the target, source of the question, and its leak."""
        question = task_set(self.config.tasks).question(task.data["question"])
        return {"depth": str(SIZES[task.mode][0]), "source": question.source, "leak": question.leak}

    def games_tested(self, mode: str, split: str) -> dict[str, str]:
        """Questions that a result is about, and whether their source sentences can be found.

        Raises:
            TaskSetError: there is no task set in the configured folder.
            UnknownNameError: no such mode or split.
        """
        config, keys = self.config, [task.key for task in question_tasks(self.config, mode, split)]
        # Two results can be compared only if they are about the same questions in the same order.
        digest = hashlib.sha256(json.dumps([task_set(config.tasks).identity, keys]).encode()).hexdigest()
        return {
            "leaks": "+".join(config.leaks),
            "questions_digest": digest[:12],
            "source_sentence": "masked" if config.hard else "in the file",
        }

    def trained_on(self, trained: EnvironmentConfig, modes: Sequence[str], split: str) -> tuple[str, ...]:
        """Repositories that these tests share with the training of another task set; within a set its splits hold.

        Args:
            trained: settings that players were trained with.
            modes: that are tested.
            split: that is tested.

        Raises:
            TaskSetError: a task set is missing.
        """
        if not isinstance(trained, QuestionTaskConfig):
            return ()
        old, new = task_set(trained.tasks), task_set(self.config.tasks)
        if old.identity == new.identity:
            return ()
        # By repository and not by question: whoever learnt a project knows its files, whatever was asked.
        known = {question.repository for question in old.questions if question.split == "train"}
        tasks = [task for mode in modes for task in question_tasks(self.config, mode, split)]
        return tuple(sorted(known & {new.question(task.data["question"]).repository for task in tasks}))

    def unseen_names(self, task: Task) -> tuple[str, ...]:
        """Names that an annotator must not write before the state shows them: of the targets, and of their folders."""
        question = task_set(self.config.tasks).question(task.data["question"])
        names: dict[str, None] = {}
        for path in question.targets:
            folder, _, file = path.rpartition("/")
            stem = file.partition(".")[0]
            # One word may be any word; what has two parts or a number in it is a name.
            telling = (file, stem if not stem.isalpha() else "", folder if "/" in folder else "")
            names |= dict.fromkeys(name for name in telling if name)
        return tuple(names)


# The teacher, the player and the measures of an episode each ask for its tree.
@lru_cache(1024)
def sampled_tree(config: QuestionTaskConfig, mode: str, key: str, variant: int) -> Tree:
    """The tree in which a question is asked; a function of the question, the mode, the variant and `split_seed`.

    Raises:
        TaskSetError: no such question.
        UserError: its target lies less deep than the mode wants.
    """
    known = task_set(config.tasks)
    question = known.question(key)
    depth, size = SIZES[mode]
    root = root_at(question.targets[0], depth)
    if root is None:
        raise UserError(f"the target of question {key!r} lies less than {depth} folders deep. Take tasks from tasks().")
    # Without masks the tree depends on the root alone, and all its questions share one index.
    if size is None and not config.hard:
        return _whole_tree(known.snapshot(question.snapshot), root)
    rng = stream(config.split_seed, FAMILY, mode, "tree", key, variant)
    return sample_tree(question, known.snapshot(question.snapshot), root, size, rng, hard=config.hard)


@lru_cache(64)
def _whole_tree(snapshot: Snapshot, root: str) -> Tree:
    """Tree of all files below a folder: one for all questions, as it may be large."""
    return Tree(snapshot, root)


def shared_folders(here: Sequence[str], there: Sequence[str]) -> int:
    """Number of folders that two ways from the root have in common.

    >>> shared_folders(["a", "b", "c"], ["a", "b", "d"])
    2
    """
    pairs = zip(here, there, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def join(folder: str, name: str) -> str:
    """The path of an entry of a folder; the root folder is the empty text."""
    return f"{folder}/{name}" if folder else name
