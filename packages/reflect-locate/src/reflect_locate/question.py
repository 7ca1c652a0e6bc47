"""A user's own question about a tree in memory, as a game that `rollout.play` can play.

It is AutoExplore (`envs/autoexplore.py`) without a task set: a task names a tree that this process holds, and a
question whose answer nobody knows. So it has no splits and no modes, and is no benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np

from reflect_locate.envs import autoexplore
from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.words import words
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, Task

__all__ = ["Matches", "OpenQuestion", "ask", "forget_trees", "matches"]

_trees: WeakValueDictionary[str, Tree] = WeakValueDictionary()
"""Trees that tasks name; whoever asks about one keeps it alive."""


def ask(tree: Tree, question: str) -> Task:
    """The task to answer a question about a tree; the caller keeps the tree for as long as the task is played."""
    key = f"{tree.snapshot.identity}/{tree.prefix}{id(tree)}"
    _trees[key] = tree
    return Task(question, "question", "test", {"tree": key, "question": question})


class OpenQuestion(autoexplore.AutoExplore):
    """AutoExplore on the tree that a task names."""

    name, version = autoexplore.NAME, autoexplore.VERSION
    Config = autoexplore.Config

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Stand at the root of the tree.

        Raises:
            UserError: the task is none of `ask`, or its tree is gone.
        """
        tree = _trees.get(str(task.data.get("tree")))
        if tree is None:
            raise UserError(f"the tree of the question {task.key!r} is gone. Make the task with ask().")
        return self.explore(tree, str(task.data["question"]))


@dataclass(frozen=True, slots=True)
class Matches:
    """BM25 scores of the files of a tree, each divided by that of the best file; only files that have words of it."""

    contents: Mapping[str, float]
    """Best first."""
    paths: Mapping[str, float]
    """By the words of the paths alone."""


def matches(tree: Tree, question: str) -> Matches:
    """How well the files of a tree match a question."""
    named = BM25({path: words(path) for path in tree.paths})
    contents, paths = (index.rank(words(question)) for index in (autoexplore._index(tree), named))
    return Matches(*({path: score / found[0][1] for path, score in found} for found in (contents, paths)))


def forget_trees() -> None:
    """Let go of the indices of trees that nobody asks about any more."""
    autoexplore._index.cache_clear()
