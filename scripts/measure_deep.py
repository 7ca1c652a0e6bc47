r"""How often `reflect-rl locate --deep` has the right file first, beside the index alone.

    reflect-rl tasks configs/autoexplore/tasks-installed.toml
    python scripts/measure_deep.py runs/tasks-installed read.jsonl --split validation --questions 250
    python scripts/measure_deep.py runs/tasks-installed read-test.jsonl --split test --questions 250 --weight 0.5

The model reads the ten candidates of each question once; what it makes of them goes to a file, line by line, so that
the same command goes on after an interruption and prints the table for every weight in a moment. Questions are drawn as
by `measure_find.py`: on the whole project with the sentence masked that they were made from, and once more without the
file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from measure_find import rate
from pydantic import BaseModel

from reflect_locate.evidence import DEFAULT_WEIGHTS, Evidence, confidence, score
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.ranking import find
from reflect_locate.reader import READER, Reader, load_reader, passage, with_reading
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 1000.0)
"""Of the reading, beside the default weights of the index; the last one leaves the order to the model."""
TOP = 5


class Asked(BaseModel, frozen=True):
    """A question on one tree: its candidates by the index, and what the model makes of them."""

    key: str
    has_file: bool
    evidence: tuple[Evidence, ...]
    right: tuple[bool, ...]
    likelihoods: tuple[float, ...]
    """Of the first candidates, as many as the reader reads."""
    seconds: float
    """CPU time of the reading."""

    def place(self, weight: float) -> tuple[int, float]:
        """Place of the first right file (0 = not among the candidates), and the confidence in the first file."""
        weights = replace(DEFAULT_WEIGHTS, read=weight)
        read = with_reading(self.evidence, self.likelihoods) if weight else self.evidence
        scores = [score(evidence, weights) for evidence in read]
        order = sorted(range(len(scores)), key=lambda number: -scores[number])
        ranks = [rank for rank, number in enumerate(order, start=1) if self.right[number]]
        return min(ranks, default=0), confidence([scores[number] for number in order])


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
    parser.add_argument("--weight", type=float, nargs="*", default=WEIGHTS)
    options = parser.parse_args(arguments)
    tasks = TaskSet.load(options.tasks)
    questions = tasks.draw(options.split, options.questions, options.seed)
    options.out.touch()
    known = {entry.key: entry for entry in map(Asked.model_validate_json, options.out.read_text().splitlines())}
    left = [question for question in questions if f"{question.key}/1" not in known]
    if left:
        reader = load_reader(options.model, options.precision)
        stores = {question.snapshot: WordStore() for question in left}
        with options.out.open("a") as file:
            for number, question in enumerate(left, start=1):
                for entry in ask(tasks, question, stores[question.snapshot], reader):
                    known[entry.key] = entry
                    print(entry.model_dump_json(), file=file, flush=True)
                print(f"\r{number} of {len(left)}", end="", file=sys.stderr, flush=True)
    # The trees without the file are written last, so a question is known as soon as both are.
    asked = [known[f"{question.key}/{part}"] for question in questions for part in (0, 1)]
    show(asked, options.weight)
    return 0


def ask(tasks: TaskSet, question: Question, store: WordStore, reader: Reader) -> Iterator[Asked]:
    """The question on its whole project, and on the project without the file."""
    snapshot = tasks.snapshot(question.snapshot)
    whole = Tree(snapshot, "", None, question.spans)
    rest = Tree(snapshot, "", [path for path in whole.paths if path not in question.targets], {})
    said: dict[str, float] = {}
    for part, tree in enumerate((whole, rest)):
        answer, started = find(tree, question.text, StoredIndex(tree, store)), time.process_time()
        best, settings = answer.files[: reader.settings.candidates], reader.settings
        texts = [passage(entry.path, tree.text(entry.path), answer.rarity, settings) for entry in best]
        fresh = [text for text in texts if text not in said]
        said |= dict(zip(fresh, reader.likelihoods(question.text, fresh), strict=True))
        yield Asked(
            key=f"{question.key}/{part}",
            has_file=part == 0,
            evidence=tuple(entry.evidence for entry in answer.files),
            right=tuple(entry.path in question.targets for entry in answer.files),
            likelihoods=tuple(said[text] for text in texts),
            seconds=time.process_time() - started,
        )


def show(asked: Sequence[Asked], weights: Sequence[float]) -> None:
    """Print for each weight how often the right file comes first, and among the first five."""
    there = [entry for entry in asked if entry.has_file]
    print(f"{len(there)} questions; reading took {sum(entry.seconds for entry in there) / len(there):.1f} CPU s each")
    for weight in weights:
        places = [entry.place(weight)[0] for entry in there]
        first, top = rate([place == 1 for place in places]), rate([1 <= place <= TOP for place in places])
        gain = sum(1 / place for place in places if place) / len(places)
        print(f"weight {weight:6g}   first {first}   first {TOP} {top}   MRR {gain:.3f}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
