"""An index on the same tasks: the rank of each target among the files of its tree, by BM25.

These are no players: they see every file at once and walk nowhere. Their rows have the form of evaluation rows, with
the first file as the answer, so that reports show them in the same table.

- `bm25_names`: words of the paths;
- `bm25_contents`: words of the paths and of the full contents (without the source sentence where `hard` masks it).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from reflect_locate.envs.task_sampling import QuestionTaskConfig, sampled_tree, task_set
from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import content_index, path_index
from reflect_locate.repositories.words import words
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import UserError
from reflect_rl.evaluation.evaluate import EvaluationConfig
from reflect_rl.evaluation.measures import by_strata
from reflect_rl.statistics import wilson_interval
from reflect_rl.types import Task

__all__ = ["first_rank", "ranks", "rows"]


def rows(
    spec: EnvSpec, config: EvaluationConfig, horizons: Sequence[int], mode: str, index: str
) -> list[dict[str, Any]]:
    """A result row for each horizon; they differ in nothing else, as an index takes no turns.

    Args:
        spec: a game that asks questions.
        config: the split.
        horizons: in turns.
        mode: variant of the game.
        index: `bm25_names` or `bm25_contents`.

    Raises:
        UserError: the game asks no questions about files.
    """
    started = time.perf_counter()
    found = ranks(spec, config.split, mode, index)
    seconds = time.perf_counter() - started
    row = _row(list(found.values())) | {"strata": by_strata(spec, _outcomes(spec, config, mode, found))}
    row["measures"]["seconds_per_episode"] = seconds / len(found)
    return [{"horizon": horizon} | row for horizon in horizons]


def _outcomes(
    spec: EnvSpec, config: EvaluationConfig, mode: str, found: dict[str, int | None]
) -> list[tuple[Task, bool]]:
    tasks = spec.tasks(mode, config.split)
    return [(task, found[task.key] == 1) for task in tasks]


def ranks(spec: EnvSpec, split: str, mode: str, index: str) -> dict[str, int | None]:
    """Place of the target of each task, by task key, counted from 1; None where it shares no word with the question.

    Files of equal score are in the order of their paths.

    Raises:
        UserError: the game asks no questions about files.
    """
    environment = spec.config
    if not isinstance(environment, QuestionTaskConfig):
        raise UserError(f"{index!r} ranks the files of a tree, and {spec.name} has no files. Leave it out.")
    found = dict[str, int | None]()
    for task in spec.tasks(mode, split):
        question = task_set(environment.tasks).question(task.data["question"])
        tree = sampled_tree(environment, task.mode, question.key, task.data["variant"])
        ranking = _index(tree, index).rank(words(question.text))
        targets = {target.removeprefix(tree.prefix) for target in question.targets}
        found[task.key] = first_rank((path for path, _ in ranking), targets)
    return found


def _index(tree: Tree, index: str) -> BM25:
    return path_index(tree) if index == "bm25_names" else content_index(tree)


def first_rank(ranking: Iterable[str], targets: Collection[str]) -> int | None:
    """Place of the first target, counted from 1; None where none is ranked.

    >>> first_rank(["b", "a", "c"], {"c", "a"}), first_rank(["b"], {"a"})
    (2, None)
    """
    return next((place for place, path in enumerate(ranking, start=1) if path in targets), None)


def _row(found: Sequence[int | None]) -> dict[str, Any]:
    """Success = the target is ranked first; `success_at_5`, and the mean of 1 / rank (0 where it is not ranked)."""
    episodes, successes = len(found), sum(rank == 1 for rank in found)
    return {
        "episodes": episodes,
        "successes": successes,
        "success_rate": successes / episodes,
        "ci95": list(wilson_interval(successes, episodes)),
        "measures": {
            "success_at_5": sum(rank is not None and rank <= 5 for rank in found) / episodes,
            "mrr": sum(1 / rank for rank in found if rank) / episodes,
        },
    }
