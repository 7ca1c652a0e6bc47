r"""Right files first by `reflect-rl locate --deep`, beside the index alone.

    reflect-rl tasks configs/autoexplore/tasks-installed.toml
    python scripts/measure_deep.py runs/tasks-installed read.jsonl --split validation --questions 250
    python scripts/measure_deep.py runs/tasks-installed read-test.jsonl --split test --questions 250 --weight 0.5

The model reads the best candidates of each question once; what it makes of them goes to a file, line by line, so that
the same command goes on after an interruption and prints the table for every weight in a moment. Questions are drawn as
by `measure_find.py`, and subjects of commits, too, where the set has any: on the whole project with the sentence masked
that they were made from, and once more without the file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from measure_find import rate

from reflect_locate.places import first_place, mean_reciprocal_rank, ndcg
from reflect_locate.questions.task_set import TaskSet
from reflect_locate.reader_settings import READER
from reflect_locate.reader_weight import WEIGHTS, Asked, ask
from reflect_locate.repositories.word_store import WordStore
from reflect_locate.rereading import open_reader
from reflect_rl.evaluation.compare import paired_difference

SHOWN = (0.0, *WEIGHTS, 1000.0)
"""Weights of the reading, beside the default ones of the index; the last one leaves the order to the model."""
TOP, MOST = 5, 10


def main(arguments: Sequence[str]) -> int:
    """Ask what was not asked yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, help="folder of a task set")
    parser.add_argument("out", type=Path, help="JSONL file of what was read; the same command goes on with it")
    parser.add_argument("--split", default="validation", choices=("train", "validation", "test"))
    parser.add_argument("--questions", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default=READER)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--weight", type=float, nargs="*", default=SHOWN)
    options = parser.parse_args(arguments)
    tasks = TaskSet.load(options.tasks)
    questions = tasks.draw(options.split, options.questions, options.seed, commits=True)
    options.out.touch()
    known = {entry.key: entry for entry in map(Asked.model_validate_json, options.out.read_text().splitlines())}
    left = [question for question in questions if f"{question.key}/1" not in known]
    if left:
        reader = open_reader(options.model, options.precision)
        stores = {question.snapshot: WordStore() for question in left}
        with options.out.open("a") as file:
            for number, question in enumerate(left, start=1):
                for entry in ask(tasks, question, stores[question.snapshot], reader):
                    known[entry.key] = entry
                    print(entry.model_dump_json(), file=file, flush=True)
                print(f"\r{number} of {len(left)}", end="", file=sys.stderr, flush=True)
    # The trees without the file are written last, so a question is known as soon as both are.
    show(
        [known[f"{question.key}/0"] for question in questions],
        [len(question.targets) for question in questions],
        options.weight,
    )
    return 0


def show(asked: Sequence[Asked], targets: Sequence[int], weights: Sequence[float]) -> None:
    """Print for each weight how often the right file comes first and among the first five, and the gain over the index.

    Args:
        asked: questions with their files in the trees.
        targets: number of right files of each.
        weights: that are shown.
    """
    print(f"{len(asked)} questions; reading took {sum(entry.seconds for entry in asked) / len(asked):.1f} CPU s each")
    alone = [entry.place(0.0)[0] == 1 for entry in asked]
    for weight in weights:
        ranked = [entry.ranked(weight)[0] for entry in asked]
        places = [first_place(right) for right in ranked]
        first, top = [place == 1 for place in places], rate([1 <= place <= TOP for place in places])
        gain = sum(ndcg(right, MOST, count) for right, count in zip(ranked, targets, strict=True)) / len(ranked)
        print(
            f"weight {weight:6g}   first {rate(first)}   first {TOP} {top}   MRR {mean_reciprocal_rank(places):.3f}   "
            f"NDCG@{MOST} {gain:.3f}   gain {paired_difference(first, alone)}"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
