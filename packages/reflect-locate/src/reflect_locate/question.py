"""A user's own question about a tree in memory, as a game that `rollout.play` can play.

It is AutoExplore (`environments/autoexplore.py`) without a task set: a task names a tree that this process holds, and a
question whose answer nobody knows. So it has no splits and no modes, and is no benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from weakref import WeakValueDictionary

from pydantic import Field

from reflect_locate.envs import autoexplore
from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.words import words
from reflect_rl.config import EnvironmentConfig
from reflect_rl.errors import UserError
from reflect_rl.types import Observation, Task

__all__ = ["NAME", "VERSION", "Config", "Environment", "Matches", "errand", "forget_trees", "matches"]

NAME = autoexplore.NAME
VERSION = autoexplore.VERSION

_trees: WeakValueDictionary[str, Tree] = WeakValueDictionary()
"""Trees that tasks name; whoever asks about one keeps it alive."""


class Config(EnvironmentConfig):
    """The game that is played."""

    name: Literal["reflect_locate.question"] = "reflect_locate.question"
    """The dotted name of this module."""
    game: autoexplore.Config = Field(default_factory=autoexplore.Config)
    """Settings of AutoExplore; its task set is not used."""


def errand(tree: Tree, question: str) -> Task:
    """The task to answer a question about a tree; the caller keeps the tree for as long as the task is played."""
    key = f"{tree.snapshot.identity}/{tree.prefix}{id(tree)}"
    _trees[key] = tree
    return Task(question, "errand", "test", {"tree": key, "question": question})


class Environment(autoexplore.Environment):
    """AutoExplore on the tree that a task names."""

    def __init__(self, config: Config, render_mode: str | None = None) -> None:
        super().__init__(config.game, render_mode)

    def start(self, task: Task) -> Observation:
        """Stand at the root of the tree.

        Raises:
            UserError: the task is none of `errand`, or its tree is gone.
        """
        tree = _trees.get(str(task.data.get("tree")))
        if tree is None:
            raise UserError(f"the tree of the question {task.key!r} is gone. Make the task with errand().")
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
