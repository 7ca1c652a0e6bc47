r"""Right files first by `reflect-rl locate`, and by an index, on the same trees.

    reflect-rl tasks configs/autoexplore/tasks-installed.toml
    python scripts/measure_locate.py runs/tasks-installed --split test --questions 150 --log runs/locate-test.jsonl
    python scripts/measure_locate.py runs/tasks-installed --split validation --questions 200 --without \
        --log runs/locate-validation.jsonl

Questions are drawn by the seed; the sentence that each was made from is masked, and trees have at most 256 files. With
`--without`, each is asked once more on the tree without its file, and the weights and the threshold are printed that
`reflect-rl export` would give the player. A question is one line of the log: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from reflect_locate.calibrate import Candidates, ask, best_threshold, calibrate, judge, trees_of
from reflect_locate.evidence import Evidence, Weights, score
from reflect_locate.finder import SearchOptions
from reflect_locate.places import first_place
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.repositories.tree_index import forget_indexes, index_matches
from reflect_locate.trained_player import Player, load_player
from reflect_rl.errors import UserError
from reflect_rl.evaluation.compare import paired_difference
from reflect_rl.evaluation.evaluate import wilson_interval
from reflect_rl.runs.workers import silence
from reflect_rl.store import append_jsonl, read_jsonl
from reflect_rl.types import stream

TOP = 5


def main(arguments: Sequence[str]) -> int:
    """Ask, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, help="folder of a task set")
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"))
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--without", action="store_true", help="ask about trees without the file, too")
    parser.add_argument("--model", type=Path, default=None, help="player or run (default: the packaged player)")
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=600.0, help="longest search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True, help="JSONL, a question a line")
    options = parser.parse_args(arguments)
    try:
        silence()
        player = load_player(options.model)
        rows = _measure(player, options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    _show(rows, player.settings.weights)
    if options.without:
        _show_thresholds([_candidates(part) for row in rows for part in row["asked"]], player.settings.weights)
    return 0


def _measure(player: Player, options: argparse.Namespace) -> list[dict[str, Any]]:
    tasks = TaskSet.load(options.tasks)
    usable = [question for question in tasks.questions if question.split == options.split and question.supported]
    order = stream(options.seed, "measure locate").permutation(len(usable))[: options.questions]
    rows = read_jsonl(options.log, "Delete it.") if options.log.exists() else []
    about = {
        "player": player.model.hash(),
        "tasks": tasks.identity,
        "split": options.split,
        "episodes": options.episodes,
        "seed": options.seed,
        "without": options.without,
    }
    if any(row["about"] != about for row in rows):
        raise UserError(f"{options.log} holds answers under other settings. Name another --log.")
    known = {row["key"]: row for row in rows}
    effort = SearchOptions(options.episodes, options.seconds, seed=options.seed)
    for number, question in enumerate((usable[index] for index in order), start=1):
        if question.key not in known:
            known[question.key] = _row(player, tasks, question, effort, without=options.without) | {"about": about}
            append_jsonl(options.log, [known[question.key]])
        print(f"\r{number} of {len(order)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [known[usable[index].key] for index in order]


def _row(player: Player, tasks: TaskSet, question: Question, effort: SearchOptions, *, without: bool) -> dict[str, Any]:
    """Outcome of one question: on the tree with the file, and, if wanted, on the one without it."""
    whole, rest = trees_of(question, tasks, effort.seed)
    indexed = list(index_matches(whole, question.text).contents)
    ranks = [indexed.index(path) + 1 for path in question.targets if path in indexed]
    asked = [ask(player, tree, question, effort) for tree in ((whole, rest) if without and rest.paths else (whole,))]
    forget_indexes()
    return {
        "key": question.key,
        "leak": question.leak,
        "index": min(ranks, default=0),
        "asked": list(map(asdict, asked)),
    }


def _candidates(part: dict[str, Any]) -> Candidates:
    return Candidates(part["has_file"], tuple((Evidence(**evidence), right) for evidence, right in part["files"]))


def _show(rows: Sequence[dict[str, Any]], weights: Weights) -> None:
    asked = [_candidates(row["asked"][0]) for row in rows]
    ranks = {
        "locate": [_rank(entry, weights, tests_behind=True) for entry in asked],
        "the same files, tests not held back": [_rank(entry, weights, tests_behind=False) for entry in asked],
        "the policy's word alone": [_rank(entry, None, tests_behind=False) for entry in asked],
        "BM25 over contents": [row["index"] for row in rows],
    }
    print(f"{len(rows)} questions, {sum(row['leak'] == 'none' for row in rows)} that do not name the file")
    for name, places in ranks.items():
        first, near = ([1 <= rank <= most for rank in places] for most in (1, TOP))
        gain = paired_difference([rank == 1 for rank in ranks["locate"]], first)
        print(
            f"{name:36} first {_rate(first)}   first {TOP} {_rate(near)}   locate has first "
            f"{100 * gain.difference:+.1f} [{100 * gain.lo:+.1f}, {100 * gain.hi:+.1f}], p {gain.p_value:.2g}"
        )


def _show_thresholds(asked: Sequence[Candidates], weights: Weights) -> None:
    """Thresholds that export would give the player, and what its own weights do on the same answers."""
    try:
        fitted = calibrate(asked)
        kept = best_threshold([judge(part, weights) for part in asked], weights)
    except ValueError as error:
        print(f"no threshold: {error}")
        return
    for name, found in {"export would give": fitted, "with the player's weights": kept}.items():
        print(f"{name}: {json.dumps(asdict(found))}")


def _rank(candidates: Candidates, weights: Weights | None, *, tests_behind: bool) -> int:
    """Place of the best accepted file, 0 = it is not there; without weights by the policy's word."""

    def worth(evidence: Evidence) -> float:
        if weights is None:
            return evidence.named
        return score(evidence if tests_behind else replace(evidence, is_test=False), weights)

    ranked = sorted(candidates.files, key=lambda pair: -worth(pair[0]))
    return first_place(is_right for _, is_right in ranked)


def _rate(outcomes: Sequence[bool]) -> str:
    low, high = wilson_interval(sum(outcomes), len(outcomes))
    return f"{sum(outcomes):4} = {100 * sum(outcomes) / len(outcomes):5.1f} [{100 * low:.0f}, {100 * high:.0f}]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
