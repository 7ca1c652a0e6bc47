r"""Right files first by `reflect-rl locate`, for commits and documents of repositories, and what is behind its words.

    python scripts/measure_commits.py ~/src/flask ~/src/httpx --era later --out rows.jsonl

Questions are those of `reflect-rl adapt`: subjects of commits, asked about the tree before them (any changed file is
right), and masked sentences of docstrings and documents. `--era earlier` takes those to which `adapt` fits weights, on
which choices may be made. A second column ranks without the names that files have and define (`definitions.py`).
With `--reader`, a third one has the ranking of `--deep` after this model has read the best files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from measure_find import rate

from reflect_locate.adapt import Asker, eras_of
from reflect_locate.evidence import DEFAULT_WEIGHTS, Sureness, score
from reflect_locate.places import first_place, mean_reciprocal_rank
from reflect_locate.questions.task_set import Question
from reflect_locate.ranking import Answer
from reflect_locate.rereading import open_reader, reread
from reflect_rl.evaluation.compare import paired_difference

TOP = 5
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
    rows = list[Row]()
    for place in options.repositories:
        era = eras_of(place.resolve())[options.era == "later"]
        asker = Asker(era, None)
        for kind, questions in (("commit", era.commits), ("document", era.documents)):
            for question in questions:
                answer = asker.ask(question)
                deep = reread(reader, asker.tree(question), question.text, answer) if reader else None
                rows.append(row_of(place.name, kind, question, answer, deep))
        print(f"{place}: {len(era.commits)} commits, {len(era.documents)} sentences", file=sys.stderr, flush=True)
    if options.out:
        options.out.write_text("".join(f"{json.dumps(asdict(row))}\n" for row in rows), encoding="utf-8")
    for kind in ("commit", "document"):
        show(kind, [row for row in rows if row.kind == kind])
    return 0


def row_of(repository: str, kind: str, question: Question, answer: Answer, deep: Answer | None = None) -> Row:
    """Judge an answer, and the one of `--deep`."""
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
    )


def _paths(answer: Answer) -> list[str]:
    return [entry.path for entry in answer.files]


def _place(paths: Sequence[str], question: Question) -> int:
    return first_place(path in question.targets for path in paths)


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
    if read := [row.deep for row in rows if row.deep is not None]:
        deep = [place == 1 for place in read]
        print(f"  with --deep      {rate(deep)}")
        print(f"  difference       {paired_difference(deep, first)}")
        print(f"  first {TOP}          {rate([1 <= place <= TOP for place in read])}")
        alone, both = (mean_reciprocal_rank(places) for places in ([row.rank for row in rows], read))
        print(f"  MRR              {alone:.3f}, with --deep {both:.3f}")
    for word in WORDS:
        print(f"  {word:8} first right {rate([row.rank == 1 for row in rows if row.sureness == word])}")


def _sides(rows: Sequence[Row]) -> tuple[list[int], list[int]]:
    return [row.rank for row in rows], [row.without_names for row in rows]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
