"""A user's own question about a tree in memory, as a game that `rollout.play` can play.

It is AutoExplore without a task set: a task names a tree that this process holds, and a question whose answer nobody
knows. So it has no splits and no modes, and is no benchmark.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import numpy as np

from reflect_locate.envs import autoexplore
from reflect_locate.repositories.tree import Tree
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, Task

# Weak, so that a server that answers for days does not keep each tree that anybody asked about.
_trees: WeakValueDictionary[str, Tree] = WeakValueDictionary()
"""Trees that tasks name; whoever asks about one keeps it alive."""


def question_task(tree: Tree, question: str) -> Task:
    """Task to answer a question about a tree; the caller keeps the tree for as long as the task is played."""
    # A task is plain data, so it names its tree. The address tells trees of equal files with other masks apart.
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
            UserError: the task is not one of `question_task`, or its tree is gone.
        """
        tree = _trees.get(str(task.data.get("tree")))
        if tree is None:
            raise UserError(f"the tree of the question {task.key!r} is gone. Make the task with question_task().")
        # There are no targets: a game that nobody can win still ends with the file that was named.
        return self.explore(tree, str(task.data["question"]))
