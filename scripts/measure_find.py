r"""Right files first by the index of `reflect-rl locate`, and what stands behind its words.

    reflect-rl tasks configs/autoexplore/tasks-installed.toml
    python scripts/measure_find.py runs/tasks-installed --split validation --questions 400 --fit
    python scripts/measure_find.py runs/tasks-installed --split test --questions 400

Questions are drawn by the seed, equally many of each project as far as there are. Each is asked about its whole
project, with the sentence that it was made from masked; then once more without the file. `--fit` prints the bounds of
confidence that give the words `sure` and `likely` their shares on these questions.

Where the sentence is that of a function or class, lines are judged, too: those of the first file if it is the right
one, and the best five of all files (`find_passage` of `reflect-rl serve`). They are right when they lie in the
definition or in a method of it. The mask takes the sentence that tells what the definition does, so one row has the
same questions with the lines chosen in the file as it is.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reflect_locate.evidence import sureness
from reflect_locate.places import first_place
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.ranking import Answer, find, passages
from reflect_locate.repositories.best_lines import BestLines, best_lines
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.symbols import symbols
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore
from reflect_rl.evaluation.evaluate import wilson_interval

SHARES = {"sure": 0.9, "likely": 0.6}
"""Least share of right answers from a bound on."""
TOP = 5
SYMBOL = "symdoc"
"""Source of questions that were made from the docstring of a function or class."""


@dataclass(frozen=True)
class Lines:
    """Verdict on the lines for a question."""

    has_place: bool
    """They hold the place of the docstring."""
    has_definition: bool
    """They lie in the function or class of the docstring."""
    has_definition_unmasked: bool
    """The same with the lines chosen in the file as it is."""


@dataclass(frozen=True)
class Asked:
    """Outcome of a question."""

    has_file: bool
    confidence: float
    index: int
    """Place of the right file by the index's score alone; 0 = not among the candidates."""
    rank: int
    lines: Lines | None
    """None where the file is not first, or it is no docstring of a symbol."""
    passage: int | None
    """Place of the right lines among the best of all files; 0 = not among five, None: no docstring of a symbol."""


def main(arguments: Sequence[str]) -> int:
    """Ask, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, help="folder of a task set")
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"))
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fit", action="store_true", help="print the bounds of confidence that fit these questions")
    options = parser.parse_args(arguments)
    tasks = TaskSet.load(options.tasks)
    questions = tasks.draw(options.split, options.questions, options.seed)
    started, asked = time.process_time(), list[Asked]()
    stores = {question.snapshot: WordStore() for question in questions}
    for number, question in enumerate(questions, start=1):
        asked += ask(tasks, question, stores[question.snapshot])
        print(f"\r{number} of {len(questions)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    show(asked, len({question.snapshot for question in questions}), time.process_time() - started)
    if options.fit:
        fit(asked)
    return 0


def ask(tasks: TaskSet, question: Question, store: WordStore) -> list[Asked]:
    """The question on its whole project, and on the project without the file."""
    snapshot = tasks.snapshot(question.snapshot)
    whole = Tree(snapshot, "", None, question.spans)
    rest = Tree(snapshot, "", [path for path in whole.paths if path not in question.targets], {})
    found = [(tree, find(tree, question.text, StoredIndex(tree, store))) for tree in (whole, rest) if tree.paths]
    return [_asked(tree, answer, question) for tree, answer in found]


def _asked(tree: Tree, answer: Answer, question: Question) -> Asked:
    indexed = sorted(answer.files, key=lambda entry: -(entry.evidence.match or 0.0))
    index = first_place(entry.path in question.targets for entry in indexed)
    rank = first_place(entry.path in question.targets for entry in answer.files)
    has_file = any(path in question.targets for path in tree.paths)
    lines = passage = None
    if has_file and question.source == SYMBOL:
        # A file may be right through another accepted place of the same sentence.
        lines = judged(tree, answer, question) if rank == 1 and answer.files[0].path in question.spans else None
        passage = place_of(tree, answer, question)
    return Asked(has_file, answer.confidence, index, rank, lines, passage)


def judged(tree: Tree, answer: Answer, question: Question) -> Lines:
    """Verdict on the lines of the first file, which is the right one."""
    path = answer.files[0].path
    text = tree.text(path)
    best, plain = (best_lines(path, seen, answer.rarity)[0] for seen in (text, tree.snapshot.files[path]))
    has_place = any(best.first <= place <= best.last for place in _places(tree, path, question))
    tops = _definitions(tree, path, question)
    return Lines(has_place, *(_top(found) in tops for found in (best, plain)))


def place_of(tree: Tree, answer: Answer, question: Question) -> int:
    """Place of the first right lines among the best of all files, 0 = none."""
    right = {path: _definitions(tree, path, question) for path in question.spans}
    found = enumerate(passages(tree, answer, TOP), start=1)
    return next((number for number, (path, lines) in found if _top(lines) in right.get(path, ())), 0)


def _places(tree: Tree, path: str, question: Question) -> set[int]:
    """Numbers of the lines at which the sentence begins."""
    return {tree.text(path).count("\n", 0, start) + 1 for start, _ in question.spans[path]}


def _definitions(tree: Tree, path: str, question: Question) -> set[str]:
    """Names of the functions or classes that the sentence stands in."""
    places = _places(tree, path, question)
    # Docstrings that are asked about stand at the top level, and overloads share their name.
    return {
        symbol.name
        for symbol in symbols(path, tree.text(path))
        if "." not in symbol.name and any(symbol.first <= place <= symbol.last for place in places)
    }


def _top(lines: BestLines) -> str:
    """Name of the outermost function or class around these lines; empty = none."""
    return lines.symbol.partition(".")[0]


def show(asked: Sequence[Asked], projects: int, seconds: float) -> None:
    """Print how often the right file is first, and the share right behind each word."""
    there = [entry for entry in asked if entry.has_file]
    print(f"{len(there)} questions about {projects} projects, {1000 * seconds / len(asked):.0f} ms of CPU each")
    print(f"first            {rate([entry.rank == 1 for entry in there])}")
    print(f"first {TOP}          {rate([1 <= entry.rank <= TOP for entry in there])}")
    print(f"BM25 first       {rate([entry.index == 1 for entry in there])}")
    print(f"BM25 first {TOP}     {rate([1 <= entry.index <= TOP for entry in there])}")
    lines = [entry.lines for entry in there if entry.lines]
    print(f"place in lines   {rate([entry.has_place for entry in lines])}")
    print(f"definition       {rate([entry.has_definition for entry in lines])}")
    print(f"  unmasked file  {rate([entry.has_definition_unmasked for entry in lines])}")
    passage = [entry.passage for entry in there if entry.passage is not None]
    print(f"passage first    {rate([place == 1 for place in passage])}")
    print(f"passage first {TOP}  {rate([place > 0 for place in passage])}")
    absent = [entry for entry in asked if not entry.has_file]
    for word in ("sure", "likely", "a guess"):
        named = [entry.rank == 1 for entry in there if sureness(entry.confidence) == word]
        without = sum(sureness(entry.confidence) == word for entry in absent)
        print(f"{word:8} first right {rate(named)}; said of {without} of {len(absent)} trees without the file")


def fit(asked: Sequence[Asked]) -> None:
    """Print for each word the lowest confidence from which the wanted share of answers is right."""
    there = sorted((entry for entry in asked if entry.has_file), key=lambda entry: -entry.confidence)
    for word, share in SHARES.items():
        right, bound, said = 0, 1.0, 0
        for number, entry in enumerate(there, start=1):
            right += entry.rank == 1
            # `likely` is judged by the answers that are not `sure`, too: the bound is about all answers from it on.
            if right / number >= share:
                bound, said = entry.confidence, number
        print(f"{word}: {bound:.3f} ({said} of {len(there)} answers)")


def rate(outcomes: Sequence[bool]) -> str:
    """A share in percent with Wilson's interval."""
    if not outcomes:
        return "-"
    low, high = wilson_interval(sum(outcomes), len(outcomes))
    rate = sum(outcomes) / len(outcomes)
    return f"{sum(outcomes):4} of {len(outcomes):4} = {100 * rate:5.1f} [{100 * low:.0f}, {100 * high:.0f}]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
