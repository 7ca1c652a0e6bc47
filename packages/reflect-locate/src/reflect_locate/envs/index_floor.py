"""An index on the same tasks: the rank of each target among the files of its tree, by BM25.

These are no players: they see every file at once and walk nowhere. The first file counts as the answer, so that reports
show them in the same table.

- `bm25_names`: words of the paths;
- `bm25_contents`: words of the paths and of the full contents (without the source sentence where `hard` masks it).
"""

from __future__ import annotations

import time

from reflect_locate.envs.task_sampling import QuestionTaskConfig, sampled_tree, task_set
from reflect_locate.places import first_place, mean_reciprocal_rank
from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import content_index, path_index
from reflect_locate.repositories.words import words
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import UserError
from reflect_rl.evaluation.evaluate import Measurement, by_strata, wilson_interval


def bm25_names(spec: EnvSpec, mode: str, split: str) -> Measurement:
    """Result of an index of the words of the paths.

    Raises:
        UserError: the game asks no questions about files.
    """
    return _measured(spec, mode, split, "bm25_names")


def bm25_contents(spec: EnvSpec, mode: str, split: str) -> Measurement:
    """Result of an index of the words of the paths and of the full contents.

    Raises:
        UserError: the game asks no questions about files.
    """
    return _measured(spec, mode, split, "bm25_contents")


def _measured(spec: EnvSpec, mode: str, split: str, index: str) -> Measurement:
    """Success = the target is ranked first; `success_at_5`, and the mean of 1 / rank (0 where it is not ranked)."""
    started = time.perf_counter()
    found = ranks(spec, split, mode, index)
    seconds = time.perf_counter() - started
    places = list(found.values())
    episodes, successes = len(places), sum(place == 1 for place in places)
    return Measurement(
        episodes=episodes,
        successes=successes,
        success_rate=successes / episodes,
        ci95=wilson_interval(successes, episodes),
        measures={
            "success_at_5": sum(1 <= place <= 5 for place in places) / episodes,
            "mrr": mean_reciprocal_rank(places),
            "seconds_per_episode": seconds / episodes,
        },
        strata=by_strata(spec, [(task, found[task.key] == 1) for task in spec.tasks(mode, split)]),
    )


def ranks(spec: EnvSpec, split: str, mode: str, index: str) -> dict[str, int]:
    """Place of the target of each task, by task key, counted from 1; 0 where it shares no word with the question.

    Files of equal score are in the order of their paths.

    Raises:
        UserError: the game asks no questions about files.
    """
    environment = spec.config
    if not isinstance(environment, QuestionTaskConfig):
        raise UserError(f"{index!r} ranks the files of a tree, and {spec.name} has no files. Leave it out.")
    found = dict[str, int]()
    for task in spec.tasks(mode, split):
        question = task_set(environment.tasks).question(task.data["question"])
        tree = sampled_tree(environment, task.mode, question.key, task.data["variant"])
        ranking = _index(tree, index).rank(words(question.text))
        inside = [path for path in question.targets if path.startswith(tree.prefix)]
        targets = {path.removeprefix(tree.prefix) for path in inside}
        found[task.key] = first_place(path in targets for path, _ in ranking)
    return found


def _index(tree: Tree, index: str) -> BM25:
    return path_index(tree) if index == "bm25_names" else content_index(tree)
