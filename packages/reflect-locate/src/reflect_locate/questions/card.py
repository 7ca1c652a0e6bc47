"""The card of a task set: what was read, what was asked, what was left out and why."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from reflect_locate.questions.config import SPLITS, TasksConfig
from reflect_locate.questions.filters import REASONS, Filtered
from reflect_locate.questions.task_set import Question
from reflect_locate.repositories.snapshot import Snapshot

DEPTHS = ("0", "1", "2", "3+")


@dataclass(slots=True)
class CorpusQuestions:
    """A corpus that was read."""

    spec: str
    project: str
    snapshot: Snapshot
    filtered: Filtered
    unparsed: tuple[str, ...]
    """Python files that do not parse."""
    notes: tuple[str, ...]
    kept: int = 0
    """Questions in the task set."""


def card_of(
    config: TasksConfig, questions: Sequence[Question], readings: Sequence[CorpusQuestions], held_out: Mapping[str, int]
) -> dict[str, object]:
    """The card; equal task sets have equal cards.

    Args:
        config: of the task set.
        questions: all of them.
        readings: of the corpora, in their order.
        held_out: source -> questions left out because a later split asks the same.
    """
    return {
        "python": platform.python_version(),
        "questions": len(questions),
        "splits": {split: _counts([q for q in questions if q.split == split]) for split in SPLITS},
        "all": _counts(questions),
        "filtered": _funnel(readings, questions, held_out),
        "corpora": [_corpus(reading, questions) for reading in readings],
        # Folders differ between machines; without them equal task sets have equal cards.
        "settings": config.model_dump(mode="json", exclude={"output_dir", "cache"}),
    }


def _counts(questions: Sequence[Question]) -> dict[str, Any]:
    def by(value: Callable[[Question], Hashable]) -> dict[str, int]:
        return {str(key): count for key, count in sorted(Counter(map(value, questions)).items(), key=str)}

    return {
        "questions": len(questions),
        "projects": len({question.repository for question in questions}),
        "files": len({(question.snapshot, question.targets[0]) for question in questions}),
        "sources": by(lambda q: q.source),
        "depths": by(lambda q: DEPTHS[min(q.depth, 3)]),
        "leaks": by(lambda q: q.leak),
        "folder_leaks": sum(q.folder_leak for q in questions),
        "unsupported": sum(not q.supported for q in questions),
        "several_targets": sum(len(q.targets) > 1 for q in questions),
        # Questions of an environment in its default setting: no leak, and something but the sentence points there.
        "usable_depths": {
            str(depth): sum(q.depth >= depth and q.leak == "none" and q.supported for q in questions)
            for depth in (1, 2, 3)
        },
    }


def _funnel(
    readings: Iterable[CorpusQuestions], questions: Sequence[Question], held_out: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Source -> candidates found, left out for each reason, and questions kept."""
    found: Counter[str] = Counter()
    dropped: dict[str, Counter[str]] = {}
    for reading in readings:
        found.update(reading.filtered.found)
        for source, reasons in reading.filtered.dropped.items():
            dropped.setdefault(source, Counter()).update(reasons)
    kept = Counter(question.source for question in questions)
    rows: dict[str, dict[str, int]] = {}
    for source in sorted(found):
        row = {"found": found[source], **{reason: dropped[source][reason] for reason in REASONS}}
        row["held out"] = held_out.get(source, 0)
        # The rest of the sum: the limit of a project is drawn over all sources, so no filter has counted it.
        row["per project"] = found[source] - sum(dropped[source].values()) - row["held out"] - kept[source]
        rows[source] = {**row, "kept": kept[source]}
    return rows


def _corpus(reading: CorpusQuestions, questions: Iterable[Question]) -> dict[str, object]:
    snapshot = reading.snapshot
    return {
        "corpus": reading.spec,
        "project": reading.project,
        "snapshot": snapshot.name,
        "identity": snapshot.identity,
        "files": len(snapshot.files),
        "characters": sum(map(len, snapshot.files.values())),
        "questions": reading.kept,
        "splits": dict(Counter(q.split for q in questions if q.snapshot == snapshot.name)),
        "unparsed": len(reading.unparsed),
        "left_out": dict(sorted(Counter(str(entry.reason) for entry in snapshot.left_out).items())),
        "notes": list(reading.notes),
    }


def card_tables(card: Mapping[str, Any]) -> Group:
    """The card in two small tables: questions by split, and the way from candidates to questions."""
    return Group(_split_table(card), _funnel_table(card))


def _split_table(card: Mapping[str, Any]) -> Table:
    corpora = card["corpora"]
    files, letters = (sum(entry[key] for entry in corpora) for key in ("files", "characters"))
    title = f"{card['questions']} questions about {files} files ({letters / 1e6:.1f} million characters)"
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("split")
    for name in ("projects", "all", "no leak", "supported", f"depth {DEPTHS[0]}", *DEPTHS[1:]):
        table.add_column(name, justify="right", no_wrap=True)
    for split, counts in card["splits"].items():
        cells = [counts["projects"], counts["questions"], counts["leaks"].get("none", 0)]
        cells += [counts["questions"] - counts["unsupported"], *(counts["depths"].get(depth, 0) for depth in DEPTHS)]
        table.add_row(split, *map(str, cells))
    return table


def _funnel_table(card: Mapping[str, Any]) -> Table:
    rows: Mapping[str, Mapping[str, int]] = card["filtered"]
    table = Table(title=Text("From candidates to questions"), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("left out")
    for source in rows:
        table.add_column(source, justify="right", no_wrap=True)
    # A reason that left nothing out would only lengthen the table.
    for reason in next(iter(rows.values()), {}):
        counts = [row[reason] for row in rows.values()]
        if any(counts) or reason in ("found", "kept"):
            table.add_row(reason, *map(str, counts))
    return table
