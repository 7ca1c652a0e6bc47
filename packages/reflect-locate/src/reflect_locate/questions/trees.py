"""Trees for questions: re-rooted so that the target lies at a wanted depth, and cut down to a wanted size.

A tree of K files is made of folders: the target's, and others that are drawn with the probability that a file drawn
uniformly lies in them, as the target's was. Of each at most K/3 files are taken. So neither the size of a folder nor
its neighbours tell where the target is. Large trees come last in the curriculum: a random walk on a whole repository
finds nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from reflect_locate.questions.task_set import Question
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree

FOLDER_SHARE = 3
"""Largest share of a tree that one folder may have, as 1 / this number, as long as there are other folders."""


def root_at(path: str, depth: int) -> str | None:
    """The folder from which a file is `depth` folders away; None when it does not lie that deep.

    >>> root_at("a/b/c/file.py", 1), root_at("a/b/c/file.py", 3), root_at("file.py", 1)
    ('a/b', '', None)
    """
    parts = path.split("/")[:-1]
    return "/".join(parts[: len(parts) - depth]) if depth <= len(parts) else None


@lru_cache(256)
def _paths(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(snapshot.files)


def _range(snapshot: Snapshot, root: str) -> tuple[int, int]:
    paths = _paths(snapshot)
    if not root:
        return 0, len(paths)
    # Paths are sorted, so a folder is one range; bisection spares a look at each path for each task.
    return bisect_left(paths, root + "/"), bisect_left(paths, root + "0")  # "0" comes right after "/"


def files_below(snapshot: Snapshot, root: str) -> Sequence[str]:
    """Paths of the files below a folder, sorted."""
    start, stop = _range(snapshot, root)
    return _paths(snapshot)[start:stop]


def count_below(snapshot: Snapshot, root: str) -> int:
    """Number of files below a folder."""
    start, stop = _range(snapshot, root)
    return stop - start


def sample_tree(
    question: Question,
    snapshot: Snapshot,
    root: str,
    size: int | None,
    rng: np.random.Generator,
    *,
    hard: bool = False,
) -> Tree:
    """The tree of one episode.

    Args:
        question: whose first target lies below the root.
        snapshot: all files.
        root: folder of the snapshot that becomes the root.
        size: number of files (None: all).
        rng: draws the files.
        hard: mask the sentence that the question was made from.
    """
    below = files_below(snapshot, root)
    if size is not None and len(below) > size:
        below = _sample(below, question.targets[0], size, rng)
    cut = len(root) + 1 if root else 0
    seen = set(below)
    # Copies of the target that are in the tree are masked too: they hold the same sentence.
    masks = {path[cut:]: spans for path, spans in question.spans.items() if path in seen} if hard else {}
    return Tree(snapshot, root, (path[cut:] for path in below), masks)


def _sample(below: Sequence[str], target: str, size: int, rng: np.random.Generator) -> list[str]:
    """The target, and files of its folder and of others, in the order of a random permutation of all files."""
    most = max(1, size // FOLDER_SHARE)
    chosen, taken = {target: None}, Counter({_folder(target): 1})
    # One permutation of files gives the order of folders: a folder of many files comes early as often as it should.
    drawn = [below[index] for index in rng.permutation(len(below)).tolist()]
    # The target's folder is met as by a drawn file; any other rule gave the answer away (docs/results/log.md).
    folders = list(dict.fromkeys([_folder(target), *map(_folder, drawn)]))
    held: dict[str, list[str]] = {folder: [] for folder in folders}
    for path in drawn:
        held[_folder(path)].append(path)
    for folder in folders:
        for path in held[folder]:
            if len(chosen) < size and taken[folder] < most and path not in chosen:
                chosen[path] = None
                taken[folder] += 1
    # Where there are too few folders, the rest comes from anywhere.
    for path in drawn:
        if len(chosen) == size:
            break
        chosen.setdefault(path)
    return list(chosen)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
