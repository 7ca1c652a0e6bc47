r"""Right files first by `reflect-rl locate`, for commits and documents of repositories, and what is behind its words.

    python scripts/measure_commits.py ~/src/flask ~/src/httpx --era later --out rows.jsonl

Questions are those of `reflect-rl adapt`: subjects of commits, asked about the tree before them (any changed file is
right), and masked sentences of docstrings and documents. `--era earlier` takes those to which `adapt` fits weights, on
which choices may be made. A second column ranks without the names that files have and define (`definitions.py`).
With `--reader`, a third one has the ranking of `--deep` after this model has read the best files. The same command goes
on with the file of `--out` after an interruption.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

from measure_find import rate

from reflect_locate.adapt import Asker, eras_of
from reflect_locate.evidence import DEFAULT_WEIGHTS, Sureness, score
from reflect_locate.places import first_place, mean_reciprocal_rank, ndcg
from reflect_locate.questions.task_set import Question
from reflect_locate.ranking import Answer
from reflect_locate.rereading import open_reader, reread
from reflect_rl.errors import UserError
from reflect_rl.evaluation.compare import paired_difference

TOP, MOST = 5, 10
WORDS: tuple[Sureness, ...] = ("sure", "likely", "a guess")


@dataclass(frozen=True)
class Row:
    """Outcome of a question; a place is that of the first right file, 0 = it is not among the candidates."""

    repository: str
    kind: str
    rank: int
    without_names: int
    """Place when names do not count."""
    confidence: float
    sureness: Sureness
    deep: int | None
    """Place after a model has read the best files (None: no model was asked)."""
    ndcg: float = 0.0
    """Discounted gain of the first ten files, of all right ones."""
    deep_ndcg: float | None = None
    """The same after the reading."""
    deep_seconds: float | None = None
    """CPU time of the reading."""
    key: str = ""
    """Key of the question."""
    tree: str = ""
    """Identity of the tree that it is about, so that questions of other times are others."""
    reader: str | None = None
    """Model that has read, as it was named."""
    deep_sureness: Sureness | None = None
    """Word of the answer after the reading."""


def main(arguments: Sequence[str]) -> int:
    """Ask, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path, help="git checkouts or bare repositories")
    parser.add_argument("--era", default="later", choices=("earlier", "later"))
    parser.add_argument("--out", type=Path, help="file to write a row for each question to, JSON lines")
    parser.add_argument("--reader", help="model of `--deep`: `small`, a name of `reflect-rl model list`, or a folder")
    parser.add_argument("--precision", default="auto", help="number format of the reader")
    options = parser.parse_args(arguments)
    reader = open_reader(options.reader, options.precision) if options.reader else None
    done = options.out.read_text(encoding="utf-8") if options.out and options.out.exists() else ""
    # A line that a kill has cut is asked again.
    whole = done[: done.rfind("\n") + 1]
    written = [Row(**json.loads(line)) for line in whole.splitlines()]
    known = {(row.repository, row.tree, row.key): row for row in written}
    if other := next((row for row in written if row.reader != options.reader), None):
        parser.error(f"{options.out} has rows of another reader, {other.reader or 'none'}. Name another file.")
    if options.out:
        options.out.write_text(whole, encoding="utf-8")
    rows = list[Row]()
    for place in options.repositories:
        name = place.resolve().name
        try:
            era = eras_of(place.resolve())[options.era == "later"]
        except UserError as error:
            print(f"left out {place}: {error}", file=sys.stderr)
            continue
        tree = era.tree.snapshot.identity
        asker = Asker(era, None)
        for kind, questions in (("commit", era.commits), ("document", era.documents)):
            for question in questions:
                row = known.get((name, tree, question.key))
                if row is None:
                    answer = asker.ask(question)
                    started = time.process_time()
                    deep = reread(reader, asker.tree(question), question.text, answer) if reader else None
                    row = row_of(name, kind, question, answer, deep, time.process_time() - started)
                    row = replace(row, tree=tree, reader=options.reader)
                    if options.out:
                        with options.out.open("a", encoding="utf-8") as file:
                            print(json.dumps(asdict(row)), file=file)
                rows.append(row)
        print(f"{place}: {len(era.commits)} commits, {len(era.documents)} sentences", file=sys.stderr, flush=True)
    for kind in ("commit", "document"):
        show(kind, [row for row in rows if row.kind == kind])
    return 0


def row_of(
    repository: str, kind: str, question: Question, answer: Answer, deep: Answer | None = None, seconds: float = 0.0
) -> Row:
    """Judge an answer, and the one of `--deep`, which took these CPU seconds."""
    plain = {
        entry.path: score(replace(entry.evidence, defined=None, stem=None, written=None, asked=None), DEFAULT_WEIGHTS)
        for entry in answer.files
    }
    return Row(
        repository,
        kind,
        _place(_paths(answer), question),
        _place(sorted(plain, key=lambda path: (-plain[path], path)), question),
        round(answer.confidence, 4),
        answer.sureness,
        _place(_paths(deep), question) if deep else None,
        _gain(_paths(answer), question),
        _gain(_paths(deep), question) if deep else None,
        round(seconds, 3) if deep else None,
        question.key,
        deep_sureness=deep.sureness if deep else None,
    )


def _paths(answer: Answer) -> list[str]:
    return [entry.path for entry in answer.files]


def _place(paths: Sequence[str], question: Question) -> int:
    return first_place(path in question.targets for path in paths)


def _gain(paths: Sequence[str], question: Question) -> float:
    return round(ndcg((path in question.targets for path in paths), MOST, len(question.targets)), 4)


def show(kind: str, rows: Sequence[Row]) -> None:
    """Print how often the right file is first, and what stands behind each word."""
    if not rows:
        return
    first, plain = ([place == 1 for place in places] for places in _sides(rows))
    print(f"{kind}: {len(rows)} questions")
    print(f"  first            {rate(first)}")
    print(f"  without names    {rate(plain)}")
    print(f"  difference       {paired_difference(first, plain)}")
    print(f"  first {TOP}          {rate([1 <= row.rank <= TOP for row in rows])}")
    print(f"  without names    {rate([1 <= row.without_names <= TOP for row in rows])}")
    print(f"  MRR              {mean_reciprocal_rank([row.rank for row in rows]):.3f}")
    print(f"  NDCG@{MOST}          {fmean(row.ndcg for row in rows):.3f}")
    if read := [row.deep for row in rows if row.deep is not None]:
        deep = [place == 1 for place in read]
        print(f"  with --deep      {rate(deep)}")
        print(f"  difference       {paired_difference(deep, first)}")
        print(f"  first {TOP}          {rate([1 <= place <= TOP for place in read])}")
        gains = [row.deep_ndcg for row in rows if row.deep_ndcg is not None]
        seconds = [row.deep_seconds for row in rows if row.deep_seconds is not None]
        print(f"  MRR              {mean_reciprocal_rank(read):.3f}")
        print(f"  NDCG@{MOST}          {fmean(gains):.3f}")
        print(f"  reading          {fmean(seconds):.2f} CPU s a question")
    for word in WORDS:
        print(f"  {word:8} first right {rate([row.rank == 1 for row in rows if row.sureness == word])}")
    for word in WORDS if read else ():
        told = [row.deep == 1 for row in rows if row.deep_sureness == word]
        print(f"  {word:8} with --deep {rate(told)}")


def _sides(rows: Sequence[Row]) -> tuple[list[int], list[int]]:
    return [row.rank for row in rows], [row.without_names for row in rows]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
