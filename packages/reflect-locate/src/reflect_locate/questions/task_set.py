"""Questions about snapshots, and the folder that holds a set of them."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reflect_locate.repositories.snapshot import Snapshot
from reflect_rl.errors import UserError
from reflect_rl.store import read_json, read_jsonl, write_json, write_jsonl
from reflect_rl.types import stream

REMEDY = "Make it with `reflect-rl tasks`."


class TaskSetError(UserError):
    """A task set is missing or not readable."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the files that answer it."""

    key: str
    """Unique in a task set, for example `flask-3.1.0/symdoc/17`."""
    text: str
    repository: str
    """The project it is about; splits never part what has the same name here."""
    snapshot: str
    """Name of the snapshot."""
    targets: tuple[str, ...]
    """Accepted paths in the snapshot; several where files are equal, or where a commit changed several."""
    source: str
    """Source of the question: moddoc, symdoc, mdpara, mdhead, csvhead, git1, gitN, llm."""
    leak: str = "none"
    """`name` = the target's name stands in the question, `tokens` = all words of the name do, `none`."""
    folder_leak: bool = False
    """True if the name of a folder on the way stands in the question."""
    supported: bool = True
    """False where neither names nor contents point to the target."""
    spans: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Target -> character spans of the sentence that the question was made from."""
    time: int | None = None
    """Time of the commit that the question comes from, in seconds since 1970."""
    split: str = "train"
    """`train`, `validation` or `test`."""

    @property
    def depth(self) -> int:
        """Number of folders above the first target."""
        return self.targets[0].count("/")


class TaskSet:
    """Questions with the snapshots they are about.

    Args:
        folder: where the snapshots are.
        questions: all of them.
        identity: SHA-256 of the questions and snapshots.
        card: what the builder noted.
    """

    def __init__(
        self, folder: Path, questions: Iterable[Question], identity: str, card: Mapping[str, Any] | None = None
    ) -> None:
        self.folder, self.identity, self.card = folder, identity, dict(card or {})
        self.questions = tuple(questions)
        self._by_key = {question.key: question for question in self.questions}
        self._snapshots: dict[str, Snapshot] = {}

    def question(self, key: str) -> Question:
        """The question of a key.

        Raises:
            TaskSetError: there is none.
        """
        try:
            return self._by_key[key]
        except KeyError:
            raise TaskSetError(f"the task set {self.folder} has no question {key!r}. {REMEDY}") from None

    def snapshot(self, name: str) -> Snapshot:
        """The snapshot of a name, read on first use.

        Raises:
            SnapshotError: its file is missing or corrupt.
        """
        if name not in self._snapshots:
            # Read on first use: a set of many projects has more text than one run plays.
            self._snapshots[name] = Snapshot.load(_place(self.folder, name))
        return self._snapshots[name]

    def draw(self, split: str, most: int, seed: int, *, commits: bool = False) -> list[Question]:
        """Questions of a split whose sentence can be masked, equally many of each project as far as there are.

        Args:
            split: `train`, `validation` or `test`.
            most: how many are wanted; a split may have fewer.
            seed: of the draw.
            commits: draw subjects of commits, too, which stand nowhere in the tree.
        """
        by_project: defaultdict[str, list[Question]] = defaultdict(list)
        for question in self.questions:
            is_told = bool(question.spans) or (commits and question.source.startswith("git"))
            if question.split == split and question.supported and is_told:
                by_project[question.repository].append(question)
        rows: list[tuple[int, str, Question]] = []
        for project, found in sorted(by_project.items()):
            order = stream(seed, "measure find", project).permutation(len(found))
            rows += [(place, project, found[index]) for place, index in enumerate(order)]
        # Round after round one question of each project, so that large projects do not outweigh the others.
        return [question for _, _, question in sorted(rows, key=lambda row: row[:2])[:most]]

    @staticmethod
    def save(
        folder: Path, questions: Sequence[Question], snapshots: Iterable[Snapshot], card: Mapping[str, Any]
    ) -> TaskSet:
        """Write a task set; the list of questions last, so that a set that can be read is whole.

        Raises:
            ValueError: two questions have one key, or a snapshot is missing.
        """
        known: dict[str, str] = {}
        for snapshot in snapshots:
            snapshot.save(_place(folder, snapshot.name))
            known[snapshot.name] = snapshot.identity
        if len({question.key for question in questions}) < len(questions):
            raise ValueError("two questions have the same key")
        if missing := {question.snapshot for question in questions} - known.keys():
            raise ValueError(f"no snapshot named {sorted(missing)[0]!r} was given")
        rows = [asdict(question) for question in questions]
        identity = _identity(rows, known)
        # The card first: `questions.jsonl` is what tells a whole set from an interrupted one.
        write_json(folder / "card.json", {**card, "snapshots": known, "identity": identity})
        write_jsonl(folder / "questions.jsonl", rows)
        return TaskSet.load(folder)

    @staticmethod
    def load(folder: Path) -> TaskSet:
        """The task set in a folder.

        Raises:
            TaskSetError: the folder holds none, or a corrupt one.
        """
        if not (folder / "questions.jsonl").is_file():
            raise TaskSetError(f"no task set in {str(folder)!r}. {REMEDY}")
        rows = read_jsonl(folder / "questions.jsonl", REMEDY)
        card: Any = read_json(folder / "card.json", REMEDY)
        try:
            questions = [_question(row) for row in rows]
            identity = _identity([asdict(question) for question in questions], card["snapshots"])
        except (KeyError, TypeError, AttributeError) as error:
            raise TaskSetError(f"the task set {folder} is corrupt: {error!r}. {REMEDY}") from None
        # An edited set would still train, and its results would be compared with those of the original.
        if identity != card.get("identity"):
            raise TaskSetError(f"the task set {folder} was changed since it was made. {REMEDY}")
        return TaskSet(folder, questions, identity, card)


def _question(row: Mapping[str, Any]) -> Question:
    spans = {path: tuple((int(start), int(stop)) for start, stop in pairs) for path, pairs in row["spans"].items()}
    return Question(**{**row, "targets": tuple(row["targets"]), "spans": spans})


def _place(folder: Path, name: str) -> Path:
    return folder / "snapshots" / f"{name}.json.gz"


def _identity(rows: Sequence[Mapping[str, Any]], snapshots: Mapping[str, str]) -> str:
    text = json.dumps([rows, dict(sorted(snapshots.items()))], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
