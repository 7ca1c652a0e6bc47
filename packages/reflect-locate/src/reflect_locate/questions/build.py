"""Trees of files -> a task set: read, ask, filter, divide, note what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from reflect_locate.questions.candidate import CandidateQuestion
from reflect_locate.questions.card import CorpusQuestions, card_of
from reflect_locate.questions.commits import HistoryError, commit_time
from reflect_locate.questions.config import SPLITS, TasksConfig
from reflect_locate.questions.filters import is_excluded, questions_of
from reflect_locate.questions.sources import docstrings, documents, endpoint, history, tables
from reflect_locate.questions.splits import by_files, by_lists, by_projects, by_time, without_held_out
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.repositories.corpora import corpus, project_name
from reflect_locate.repositories.ingest import split_revision
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError
from reflect_rl.errors import ConfigError
from reflect_rl.launch import collector_off
from reflect_rl.paths import in_home
from reflect_rl.types import seed_for
from reflect_served.llm import STORE, Spent

FEWEST_TESTED = 10
"""Newest commits that make a division by time worth while, before the filters."""
NEWEST = 0.2
"""Share of the usable commits that are asked about the newest of the earlier trees, where they are not the test."""
OLDER = 0.25
"""Share of the other usable commits that are asked about a second, older tree; commits before that ask nothing."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Built:
    """A task set before it is written."""

    questions: list[Question]
    snapshots: list[Snapshot]
    card: dict[str, object]


@dataclass(slots=True)
class _Corpus:
    """A tree of files, and what is asked about it."""

    project: str
    snapshot: Snapshot
    reading: CorpusQuestions
    questions: list[Question] = field(default_factory=list)
    now: int | None = None
    """Time of its commit, if it is an earlier tree of a repository."""


def build_task_set(config: TasksConfig, tell: Tell = print) -> TaskSet:
    """Build a task set and write it to `config.output_dir`.

    Args:
        config: which corpora, sources and shares.
        tell: is told each corpus that was read.

    Raises:
        ConfigError: no corpus, one of them twice, or an output folder that holds something else.
        UserError: a corpus cannot be read.
    """
    folder = config.output_dir
    listing = folder / "questions.jsonl"
    # The folder is replaced below, so that a mistyped path must not cost a user other files.
    if folder.exists() and not listing.exists() and not (folder.is_dir() and _is_free(folder)):
        raise ConfigError(f"{folder} holds something else than a task set. Choose another --output-dir.")
    built = build(config, tell)
    listing.unlink(missing_ok=True)  # until the new set is whole there is none
    # Snapshots of an earlier set would stay for ever: no listing names them any more.
    kept = {f"{snapshot.name}.json.gz" for snapshot in built.snapshots}
    for old in (folder / "snapshots").glob("*.json.gz"):
        if old.name not in kept:
            old.unlink()
    return TaskSet.save(folder, built.questions, built.snapshots, built.card)


def _is_free(folder: Path) -> bool:
    """Tell whether there is nothing in a folder, or only what an interrupted call has asked an endpoint."""
    return all(path.name.startswith(STORE) for path in folder.iterdir())


def build(config: TasksConfig, tell: Tell = print) -> Built:
    """The questions about all corpora, with their splits, and what to note about them.

    Raises:
        ConfigError: no corpus, two corpora of one project in two lists, or one corpus twice.
        UserError: a corpus cannot be read.
    """
    projects = _projects(config)
    # Checked before anything is read: a project in two lists should fail in a second, not after minutes.
    splits = by_lists({split: getattr(config, split) for split in SPLITS}, projects)
    alone = _is_alone(config, projects)
    names: Counter[str] = Counter()
    corpora = list[_Corpus]()
    for spec, project in projects.items():
        # A clone and an earlier revision of it have the same commits, which would be asked about twice.
        once = config if project not in {entry.project for entry in corpora} else _without_history(config)
        for entry in _read(spec, project, once, names, tell, alone=alone):
            corpora.append(entry)
            tell(f"{entry.snapshot.name}: {len(entry.snapshot.files)} files, {len(entry.questions)} questions")
            for note in entry.reading.notes:
                tell(f"  {note}")
    # Before the division, so that the shares are shares of the questions that stay.
    _limit(corpora, config)
    if alone:
        questions = _inside(corpora, config)
    else:
        splits = splits or by_projects(projects.values(), config.fractions, config.seed)
        questions = [replace(q, split=splits[q.repository]) for entry in corpora for q in entry.questions]
    # Copied files have copies of docstrings, so whole projects apart do not keep questions apart.
    kept = without_held_out(questions)
    if not kept:
        found = sum(sum(entry.reading.filtered.found.values()) for entry in corpora)
        told = "".join(f" {note}" for entry in corpora for note in entry.reading.notes)
        raise ConfigError(
            f"no question is left of {found} candidates.{told} Name other corpora or sources, or loosen the filters."
        )
    by_snapshot = Counter(question.snapshot for question in kept)
    for entry in corpora:
        entry.reading.kept = by_snapshot[entry.snapshot.name]
    held_out = Counter(question.source for question in questions)
    held_out.subtract(question.source for question in kept)
    card = card_of(config, kept, [entry.reading for entry in corpora], held_out)
    return Built(kept, [entry.snapshot for entry in corpora], card)


def preview(config: TasksConfig) -> str:
    """Requests that `build` would send to the endpoint, and their cost; nothing is sent, and no task set is written.

    Raises:
        ConfigError: no corpus.
        UserError: a corpus cannot be read.
    """
    projects = _projects(config)
    if not config.endpoint.base_url:
        return "endpoint.base_url is empty: no language model is asked, and nothing would be sent."
    alone, missing = _is_alone(config, projects), dict[str, str]()
    for spec in projects:
        snapshot = _trees(spec, config, [], alone=alone)[0].snapshot
        missing |= endpoint.prompts(snapshot, config.endpoint, _answers(config), _asked_about(snapshot, config))
    return endpoint.preview(missing, config.endpoint, config.output_dir)


def _projects(config: TasksConfig) -> dict[str, str]:
    """The project of each corpus that is named."""
    specs = [*config.corpora, *(spec for split in SPLITS for spec in getattr(config, split))]
    if not specs:
        raise ConfigError("no corpus is named. Name a folder, an archive, or stdlib: reflect-rl tasks PATH.")
    return {spec: project_name(spec) for spec in specs}


def _without_history(config: TasksConfig) -> TasksConfig:
    return config.model_copy(update={"sources": tuple(name for name in config.sources if name != history.NAME)})


def _is_alone(config: TasksConfig, projects: Mapping[str, str]) -> bool:
    """Tell whether there is one project, to be divided inside."""
    return bool(config.corpora) and len(set(projects.values())) == 1


def _read(
    spec: str, project: str, config: TasksConfig, names: Counter[str], tell: Tell, *, alone: bool
) -> Iterator[_Corpus]:
    """Corpus with its questions, then its earlier trees with theirs."""
    notes: list[str] = []
    for number, tree in enumerate(_trees(spec, config, notes, alone=alone)):
        snapshot, skipped, candidates = _named(tree.snapshot, names), list[str](), list(tree.commits)
        # A sentence stands in each version of its file, so one tree alone is asked about its sentences.
        if number == 0:
            # Syntax trees have no cycles, and looking for some takes more time than parsing.
            with collector_off():
                candidates = [*_candidates(snapshot, config, skipped), *candidates]
            if config.endpoint.base_url:
                candidates += _of_endpoint(snapshot, config, notes, tell)
        # All sources together: an `llm` question can make a docstring ambiguous, and the reverse.
        filtered = questions_of(snapshot, project, candidates, config.filters, config.seed)
        if number == 0 or filtered.questions:
            told = tuple(notes) if number == 0 else ()
            reading = CorpusQuestions(tree.spec, project, snapshot, filtered, tuple(skipped), told)
            yield _Corpus(project, snapshot, reading, filtered.questions, tree.now)


@dataclass(frozen=True, slots=True)
class _Tree:
    """The files of a corpus at a moment, and the subjects of the commits that came next."""

    spec: str
    snapshot: Snapshot
    commits: tuple[CandidateQuestion, ...] = ()
    now: int | None = None
    """Time of its commit, if `commits` came after it."""


def _trees(spec: str, config: TasksConfig, notes: list[str], *, alone: bool) -> list[_Tree]:
    """The tree of a corpus that is described, then those of its history that commits are asked about.

    Raises:
        UserError: the corpus cannot be read, or a division by time was asked for, and cannot be made.
    """
    place, share = _git_place(spec), config.fractions[2]
    asks_commits = place is not None and history.NAME in config.sources
    # Two corpora of one project, as a clone and an sdist, may be of different times.
    is_by_time = len(config.corpora) == 1 and config.divide != "files" and 0 < share < 1
    if config.divide == "time" and not (is_by_time and asks_commits):
        raise ConfigError(
            'divide = "time" divides the history of one git repository: name its top folder alone in corpora, history '
            "among the sources, and a share of the test between 0 and 1."
        )
    if place and asks_commits and (is_by_time or not alone):
        try:
            past = list(_past(place, share if is_by_time else NEWEST, config))
        except (HistoryError, SnapshotError) as error:
            # Asked for by name, it must not silently become another division; `auto` may.
            if config.divide == "time":
                raise
            notes.append(str(error))
            past = []
        if past and not is_by_time:
            is_told = config.endpoint.base_url or set(config.sources) != {history.NAME}
            now = [_Tree(spec, corpus(spec, config.rules, _cache(config)))] if is_told else []
            return [*now, *past]
        # Fewer questions give an interval so wide that the test would say nothing.
        if past and (len(past[0].commits) >= FEWEST_TESTED or config.divide == "time"):
            return past
        if past:
            notes.append(f"too few commits for a division by time: {len(past[0].commits)} for the test")
    return [_Tree(spec, corpus(spec, config.rules, _cache(config)))]


def _past(place: tuple[Path, str], newest: float, config: TasksConfig) -> Iterator[_Tree]:
    """Earlier trees of a repository, newest first, each with the commits up to the next.

    Args:
        place: folder and last revision.
        newest: share of the usable commits that come after the newest of these trees.
        config: which files are read.
    """
    repository, until = place
    for base in history.earlier_revisions(repository, [newest, newest + OLDER * (1 - newest)], until):
        spec = f"{repository}@{base}"
        try:
            snapshot = corpus(spec, config.rules, _cache(config))
        except SnapshotError:
            # A young repository may have held nothing that is read.
            if until != place[1]:
                return
            raise
        # Targets get the names of the older tree, which is the one that the player sees.
        asked = tuple(history.candidates(repository, base, snapshot, until))
        yield _Tree(spec, snapshot, asked, commit_time(repository, base))
        until = base


def _named(snapshot: Snapshot, names: Counter[str]) -> Snapshot:
    """The snapshot under a name that no other one has."""
    names[snapshot.name] += 1
    if names[snapshot.name] == 1:
        return snapshot
    return _named(Snapshot(f"{snapshot.name}-{names[snapshot.name]}", snapshot.files, snapshot.left_out), names)


def _candidates(snapshot: Snapshot, config: TasksConfig, skipped: list[str]) -> Iterator[CandidateQuestion]:
    """Candidates from what the files say about themselves."""
    if docstrings.NAME in config.sources:
        yield from docstrings.candidates(snapshot, skipped)
    if documents.NAME in config.sources:
        yield from documents.candidates(snapshot)
    if tables.NAME in config.sources:
        yield from tables.candidates(snapshot)


def _git_place(spec: str) -> tuple[Path, str] | None:
    """Folder and revision of a corpus that is a git repository."""
    top, revision = split_revision(spec)
    # `.git` is a file in worktrees and submodules; a bare repository has none.
    is_git = (top / ".git").exists() or ((top / "HEAD").is_file() and (top / "objects").is_dir())
    return (top, revision or "HEAD") if is_git else None


def _of_endpoint(snapshot: Snapshot, config: TasksConfig, notes: list[str], tell: Tell) -> list[CandidateQuestion]:
    """Candidates from what a language model asks about the files that can be targets."""
    counts, paths = endpoint.Counts(), _asked_about(snapshot, config)

    def progress(done: int, total: int, spent: Spent) -> None:
        # Told at each tenth: a line for each of thousands of answers would bury the rest.
        if done * TOLD // total > (done - 1) * TOLD // total:
            price = f", cost {spent.cost:.4g}" if spent.cost else ""
            tokens = spent.prompt_tokens + spent.completion_tokens
            tell(f"  endpoint: {done} of {total} answers, {tokens:,} tokens{price}")

    found = endpoint.candidates(snapshot, config.endpoint, _answers(config), paths, counts, config.output_dir, progress)
    candidates = list(found)
    notes.append("endpoint: " + ", ".join(f"{name} {count}" for name, count in asdict(counts).items()))
    return candidates


TOLD = 10
"""Times that is told how far an endpoint is, for each corpus."""


def _cache(config: TasksConfig) -> Path:
    return in_home(config.cache, "Set cache to a folder for downloads.")


def _answers(config: TasksConfig) -> Path:
    """File of the answers of endpoints so far, about any corpus."""
    return _cache(config) / "answers.sqlite"


def _asked_about(snapshot: Snapshot, config: TasksConfig) -> list[str]:
    """The files that can be targets."""
    return [path for path in snapshot.files if not is_excluded(path, config.filters)]


def _limit(corpora: Sequence[_Corpus], config: TasksConfig) -> None:
    """Keep at most so many questions of each project, in their order."""
    most = config.max_questions_per_repository
    for project in {entry.project for entry in corpora} if most else ():
        mine = [entry for entry in corpora if entry.project == project]
        # Over all corpora of the project: a clone and an sdist of it share one limit.
        keys = [question.key for entry in mine for question in entry.questions]
        chosen = set(sorted(keys, key=lambda key: seed_for(config.seed, "most", key))[:most])
        for entry in mine:
            entry.questions = [question for question in entry.questions if question.key in chosen]


def _inside(corpora: Sequence[_Corpus], config: TasksConfig) -> list[Question]:
    """The questions of a single project, divided by time or by files."""
    questions = [question for entry in corpora for question in entry.questions]
    if (now := next((entry.now for entry in corpora if entry.now is not None), None)) is not None:
        train, validation, _ = config.fractions
        return by_time(questions, now, validation / max(train + validation, 1e-9))
    snapshots = {entry.snapshot.name: entry.snapshot for entry in corpora}
    return by_files(questions, snapshots, config.fractions, config.seed)
