"""Adapt the ranking of `locate` to one repository, and measure on later commits whether that helps.

The history is cut twice. Commits before the first cut say what each file is about (`history` of `evidence.py`). The
subjects of those between the cuts are questions to which the weights of the evidence are fitted. The subjects of those
after the second cut are asked before and after; by then the commits up to it are known. Each is asked about the tree at
the cut before it, so nothing of a change is seen in advance. Sentences of docstrings and documents are asked, too,
masked where they stand: half of them to fit, half to measure.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reflect_locate.adapted_ranking import AdaptedRanking
from reflect_locate.evidence import DEFAULT_WEIGHTS, Sureness, Weights
from reflect_locate.fitting import fit
from reflect_locate.places import first_place
from reflect_locate.questions.commit_subjects import subject
from reflect_locate.questions.commits import HistoryError, count_commits, is_shallow, paths_at, revision_before
from reflect_locate.questions.filters import FilterConfig, questions_of
from reflect_locate.questions.sources import docstrings, documents
from reflect_locate.questions.sources.history import WIDEST_QUESTION, FileCommit, later_commits, past_commits
from reflect_locate.questions.task_set import Question
from reflect_locate.ranking import Answer, find
from reflect_locate.repositories.git import GitRepository
from reflect_locate.repositories.ingest import ingest
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.text_rules import ALL_TEXT
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore
from reflect_locate.repositories.words import words
from reflect_rl.evaluation.compare import PairedDifference, paired_difference
from reflect_rl.evaluation.evaluate import wilson_interval
from reflect_rl.types import seed_for

KINDS = ("coverage", "match", "path", "defined", "stem", "history")
"""Evidence whose weights are fitted."""
SHARE = 0.2
"""Share of the usable commits on which is measured, and of those to which weights are fitted."""
FEWEST_QUESTIONS = 10
"""Later commits that a comparison needs."""
WIDEST_CHANGE = 10
"""Files of a commit that says something about each of them."""
FEWEST_WORDS, MOST_WORDS = 3, 40
"""Different content words, and words, of a subject that is asked."""
TOP = 5
PROBES, SAMPLED = 3, 1_000
"""Questions of each kind that are timed, and newest commits that are read, to say how long all will take."""
READINGS, TREES = 4, 3
"""Times that the history is read, in whole or in part, and trees that are read and indexed."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time that adapting will take, as far as the newest commits and files tell."""

    commits: int
    """Commits of the history."""
    minutes: float
    """All in all."""
    seconds_each: float
    """Seconds to ask a question once."""


@dataclass(frozen=True, slots=True)
class Era:
    """A tree at a moment, what commits said until then, and questions about it."""

    tree: Tree
    said: Mapping[str, Mapping[str, int]]
    """Path -> word -> commits (`AdaptedRanking.said`)."""
    commits: tuple[Question, ...]
    """Subjects of the commits that came next."""
    documents: tuple[Question, ...]
    """Sentences of the tree, with the places where they stand."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions."""
        return self.commits + self.documents


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one question."""

    key: str
    text: str
    targets: tuple[str, ...]
    before: int
    """Place of the first right file in the ranking as it comes, 0 = it is not there."""
    after: int
    """The same by the adapted ranking."""
    word_before: Sureness
    """Word of the ranking as it comes."""
    word_after: Sureness
    """The same of the adapted ranking."""


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Comparison of before and after on some questions."""

    name: str
    questions: int
    before: tuple[int, tuple[float, float]]
    """Right answers, and the 95% interval of their rate."""
    after: tuple[int, tuple[float, float]]
    difference: PairedDifference


@dataclass(frozen=True, slots=True)
class Adapted:
    """Result of adapting."""

    ranking: AdaptedRanking
    """With all commits, and the weights that were measured."""
    outcomes: tuple[Outcome, ...]
    comparisons: tuple[BeforeAfter, ...]
    """The first file of later commits, the first five, then the same of documents as far as there are any."""

    @property
    def helps(self) -> bool:
        """Tell whether later commits are found better, beyond chance, and documents not worse."""
        # Both bounds of 95%: a ranking that is as good as before is not worth a file that grows old.
        first, *others = (entry for entry in self.comparisons if entry.name.endswith("first"))
        return first.difference.lo > 0 and all(entry.difference.hi >= 0 for entry in others)


def estimate(folder: Path, revision: str = "HEAD", most: int = 300, seed: int = 0) -> Estimate:
    """Estimate of the time that all will take, made before the history is read; it takes a tenth of that or less.

    Args:
        folder: as that of `eras_of`, and so are the others.
        revision: the end of its history.
        most: questions of each kind in each part.
        seed: draws the sentences of documents.

    Raises:
        SnapshotError: it is no repository that git can read.
    """
    total, started = count_commits(folder, revision), time.perf_counter()
    newest = list(past_commits(folder, revision, paths_at(folder, revision), WIDEST_CHANGE, SAMPLED))
    read = time.perf_counter()
    tree = Tree(ingest(f"{folder}@{revision}", ALL_TEXT, folder.name))
    asked = _asked(tree.snapshot, [found for commit in newest if (found := _question(commit))])
    sentences = _documents(tree.snapshot, most, seed, is_tested=True)
    asker = Asker(Era(tree, said_by(newest), asked, sentences), DEFAULT_WEIGHTS)
    indexed = time.perf_counter()
    # Twice each, as most are asked: at the second time, much of what was read is known.
    probes = 2 * [*asked[:PROBES], *sentences[:PROBES]]
    for question in probes:
        asker.ask(question)
    each = (time.perf_counter() - indexed) / max(1, len(probes))
    scale = max(1.0, total / SAMPLED)
    commits = min(most, int(SHARE * scale * len(asked)))
    times = commits + min(commits, len(sentences)) + 2 * (commits + len(sentences))
    seconds = READINGS * scale * (read - started) + TREES * (indexed - read) + times * each
    return Estimate(total, seconds / 60, each)


def eras_of(folder: Path, revision: str = "HEAD", most: int = 300, seed: int = 0) -> tuple[Era, Era]:
    """The questions to fit to, and those to measure on.

    Args:
        folder: top folder of a git checkout, or a bare repository; nothing of it is executed.
        revision: the end of its history.
        most: questions of each kind in each part.
        seed: draws the sentences of documents.

    Raises:
        HistoryError: the history is too short.
        SnapshotError: it is no repository that git can read.
    """
    known = past_commits(folder, revision, paths_at(folder, revision), WIDEST_CHANGE)
    times = sorted((commit.time for commit in known if _question(commit)), reverse=True)
    count = min(most, int(SHARE * len(times)))
    if count < FEWEST_QUESTIONS:
        rest = " It is a shallow clone: `git fetch --unshallow` fetches the rest." if is_shallow(folder) else ""
        raise HistoryError(
            f"the history of {str(folder)!r} has {len(times)} commits that say what they do and change at most "
            f"{WIDEST_QUESTION} files. Adapting needs {int(FEWEST_QUESTIONS / SHARE)}; `locate` works without.{rest}"
        )
    cuts = [revision_before(folder, revision, times[count * part - 1]) for part in (2, 1)]
    if not all(cuts) or cuts[0] == cuts[1]:
        raise HistoryError(
            f"the history of {str(folder)!r} cannot be cut by time: its main line has too few commits, or too many of "
            "one time, as after an import. `locate` works without."
        )
    fitted = _era(folder, cuts[0], cuts[1], most, seed, is_tested=False)
    tested = _era(folder, cuts[1], revision, most, seed, is_tested=True)
    if min(len(fitted.commits), len(tested.commits)) < FEWEST_QUESTIONS:
        raise HistoryError(
            f"the history of {str(folder)!r} gives {len(fitted.commits)} and {len(tested.commits)} questions about "
            f"older files. Adapting needs {FEWEST_QUESTIONS} of each; `locate` works without."
        )
    return fitted, tested


def _era(folder: Path, cut: str, until: str, most: int, seed: int, *, is_tested: bool) -> Era:
    snapshot = ingest(f"{folder}@{cut}", ALL_TEXT, folder.name)
    past = list(past_commits(folder, cut, snapshot.files.keys(), WIDEST_CHANGE))
    later = later_commits(folder, cut, until, snapshot.files.keys(), WIDEST_CHANGE)
    # A commit that was made twice, as on two branches, would be found by its own words, or be counted twice.
    known = {_bag(commit.subject) for commit in past}
    new = {_bag(commit.subject): commit for commit in later}
    asked = [found for bag, commit in new.items() if bag not in known and (found := _question(commit))][-most:]
    # Not more sentences than commits are fitted to: docstrings are many, and would decide about the weights alone.
    sentences = _documents(snapshot, most if is_tested else len(asked), seed, is_tested=is_tested)
    return Era(Tree(snapshot), said_by(past), _asked(snapshot, asked), sentences)


def _asked(snapshot: Snapshot, found: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[Question, ...]:
    return tuple(
        Question(f"commit/{number}", text, snapshot.name, snapshot.name, targets, "git")
        for number, (text, targets) in enumerate(found)
    )


def _bag(text: str) -> frozenset[str]:
    return frozenset(words(text))


def _question(commit: FileCommit) -> tuple[str, tuple[str, ...]] | None:
    """Question that a commit makes, and the files that answer it."""
    text = subject(commit.subject)
    if not 1 <= len(commit.main) <= WIDEST_QUESTION or len(_bag(text)) < FEWEST_WORDS:
        return None
    return " ".join(text.split()[:MOST_WORDS]), commit.main


def _documents(snapshot: Snapshot, most: int, seed: int, *, is_tested: bool) -> tuple[Question, ...]:
    """Sentences of docstrings and documents about half of the files."""
    candidates = [*docstrings.candidates(snapshot, []), *documents.candidates(snapshot)]
    found = questions_of(snapshot, snapshot.name, candidates, FilterConfig(), seed).questions
    # By file, not by question: sentences of one file are alike. The hash lets both trees agree on the halves.
    mine = [
        question
        for question in found
        if question.supported and question.spans and seed_for(seed, "half", question.targets[0]) % 2 == is_tested
    ]
    return tuple(sorted(mine, key=lambda question: seed_for(seed, "documents", question.key))[:most])


def said_by(commits: Iterable[FileCommit]) -> dict[str, dict[str, int]]:
    """For each file the words of the subjects of its commits, with the number of commits that hold each."""
    said: dict[str, Counter[str]] = {}
    for commit in commits:
        told = _bag(commit.subject)
        for path in commit.paths:
            said.setdefault(path, Counter()).update(told)
    return {path: dict(sorted(counts.items())) for path, counts in sorted(said.items())}


class Asker:
    """Asks the questions of an era; the words of its files are counted once.

    Args:
        era: tree and history.
        weights: of the evidence with the history (None: the ranking as it comes, without the history).
    """

    def __init__(self, era: Era, weights: Weights | None) -> None:
        self._era, self._store = era, WordStore()
        self._index = StoredIndex(era.tree, self._store)
        self._adapted = AdaptedRanking(repository="", commit="", weights=weights, said=era.said) if weights else None

    def ask(self, question: Question) -> Answer:
        """All candidates for a question, best first."""
        tree = self.tree(question)
        index = StoredIndex(tree, self._store) if question.spans else self._index
        return find(tree, question.text, index, adapted=self._adapted)

    def tree(self, question: Question) -> Tree:
        """Tree that a question is asked about, without the sentence that it was made from."""
        return Tree(self._era.tree.snapshot, masks=question.spans) if question.spans else self._era.tree


def fitted_weights(era: Era, progress: Callable[[], None] = lambda: None) -> Weights:
    """Weights under which the right files of the questions of an era are most likely (`fitting.fit`).

    Args:
        era: to fit to.
        progress: called after each question.
    """
    asker, lists = Asker(era, DEFAULT_WEIGHTS), []
    for question in era.questions:
        lists.append([(entry.evidence, entry.path in question.targets) for entry in asker.ask(question).files])
        progress()
    return fit(lists, DEFAULT_WEIGHTS, KINDS)


def adapt(
    folder: Path, fitted: Era, tested: Era, revision: str = "HEAD", progress: Callable[[], None] = lambda: None
) -> Adapted:
    """Fit the weights, and ask the questions of the later commits before and after.

    Args:
        folder: the repository.
        fitted: to fit to.
        tested: to measure on.
        revision: the end of the history, up to which the result knows it.
        progress: called after each question.
    """
    weights = fitted_weights(fitted, progress)
    askers, outcomes = (Asker(tested, None), Asker(tested, weights)), []
    for question in tested.questions:
        targets = question.targets
        old, new = (asker.ask(question) for asker in askers)
        before, after = (first_place(entry.path in targets for entry in answer.files) for answer in (old, new))
        outcomes.append(Outcome(question.key, question.text, targets, before, after, old.sureness, new.sureness))
        progress()
        progress()
    commit = GitRepository(folder).commit(revision)
    files = ingest(f"{folder}@{commit}", ALL_TEXT).files.keys()
    said = said_by(past_commits(folder, commit, files, WIDEST_CHANGE))
    ranking = AdaptedRanking(repository=str(folder), commit=commit, weights=weights, said=said)
    return Adapted(ranking, tuple(outcomes), tuple(compare(outcomes, len(tested.commits))))


def compare(outcomes: Sequence[Outcome], commits: int) -> list[BeforeAfter]:
    """Differences at the first place and among the first five.

    Args:
        outcomes: of later commits, then of documents.
        commits: number of the former.
    """
    rows = []
    for name, part in (("later commits", outcomes[:commits]), ("documents", outcomes[commits:])):
        for measure, last in (("first", 1), (f"first {TOP}", TOP)):
            if part:
                old, new = ([1 <= rank <= last for rank in ranks] for ranks in _sides(part))
                before, after = ((sum(side), wilson_interval(sum(side), len(side))) for side in (old, new))
                difference = paired_difference(new, old)
                rows.append(BeforeAfter(f"{name}, {measure}", len(part), before, after, difference))
    return rows


def _sides(outcomes: Sequence[Outcome]) -> tuple[list[int], list[int]]:
    return [entry.before for entry in outcomes], [entry.after for entry in outcomes]


def figures(adapted: Adapted) -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "repository": adapted.ranking.repository,
        "commit": adapted.ranking.commit,
        "helps": adapted.helps,
        "weights": {kind: value for kind, value in asdict(adapted.ranking.weights).items() if kind in KINDS},
        "comparisons": [asdict(entry) for entry in adapted.comparisons],
    }
