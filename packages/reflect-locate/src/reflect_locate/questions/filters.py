"""Filters that make questions of what files say about themselves, and labels for what gives the answer away.

In this order (F1 to F9 of the feasibility study; F6 is the environment's paging, F7 belongs to the git source):

    words      4 to 40 words, nearly all ASCII, at least 3 different content words
    ambiguous  the same question about other files, unless all are equal (then one question with several targets)
    vague      every content word stands in more than 30 % of the files
    limit      at most 3 questions per file and source, drawn by the seed
    place      targets among tests, examples, vendored code and build scripts

What is left is labelled: whether the name or a folder of the target stands in the question, and whether anything but
the sentence itself points to the target.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pydantic import Field

from reflect_locate.questions.candidate import CandidateQuestion
from reflect_locate.questions.masked_index import MaskedIndex
from reflect_locate.questions.task_set import Question
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.words import words
from reflect_rl.config import Frozen
from reflect_rl.types import seed_for

REASONS = ("words", "ambiguous", "repeated", "vague", "limit", "place")
"""Reasons to leave out a candidate, in the order in which it is tried."""

SHORTEST_NAME = 3
"""Letters and digits of a name that can stand in a question by more than chance."""

TESTS = ("fixtures", "idle_test", "test", "test_data", "testdata", "testing_data", "tests")
EXAMPLES = ("benchmark", "benchmarks", "demo", "demos", "example", "examples", "sample", "samples")
VENDORED = ("_vendor", "_vendored", "extern", "externals", "third_party", "thirdparty", "vendor", "vendored", "vendors")
INSTALLED = ("build", "dist", "dist-packages", "node_modules", "site-packages")
# Such files are alike in all projects: no question tells one from the next.
SCRIPTS = ("conf.py", "conftest.py", "noxfile.py", "setup.py", "versioneer.py")
BEFORE, BEHIND = r"(?:(?<![^\W_])|(?<=\\[nrt]))", r"(?![^\W_])"
"""Bounds of a word, whose underscores are markup; a string in code may have an escape before it."""
TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py|tests?\.py")


class FilterConfig(Frozen):
    """Rules by which candidates become questions."""

    fewest_words: int = Field(4, ge=1)
    """Words of the shortest question."""
    most_words: int = Field(40, ge=1)
    """Words of the longest question."""
    fewest_content_words: int = Field(3, ge=1)
    """Different words that carry something."""
    ascii_share: float = Field(0.9, ge=0, le=1)
    """Smallest share of ASCII characters."""
    vague_share: float = Field(0.3, gt=0, le=1)
    """A question is vague when each of its content words stands in more than this share of the files."""
    per_file: int = Field(3, ge=1)
    """Most questions per file and source."""
    supported_rank: int = Field(20, ge=1)
    """A question is supported when the target's name or its content without the sentence ranks this high or higher."""
    excluded_folders: tuple[str, ...] = (*TESTS, *EXAMPLES, *VENDORED, *INSTALLED)
    """Folders whose files are no targets: whole names of folders, in lower case."""
    excluded_files: tuple[str, ...] = SCRIPTS
    """Files that are no targets, besides those named as tests."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The questions about one snapshot, and what was left out on the way."""

    questions: list[Question]
    found: Counter[str]
    """Candidates per source."""
    dropped: Mapping[str, Counter[str]]
    """Source -> reason -> candidates that were left out."""


@dataclass(slots=True)
class _Draft:
    """A question in the making."""

    text: str
    source: str
    time: int | None
    spans: dict[str, list[tuple[int, int]]]
    """Target -> places of the sentence."""
    words: tuple[str, ...] = field(default=())
    """Different content words of the text."""

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(sorted(self.spans))


def questions_of(
    snapshot: Snapshot, repository: str, candidates: Iterable[CandidateQuestion], config: FilterConfig, seed: int
) -> Filtered:
    """The questions that candidates make, with labels, all in the split `train`.

    Args:
        snapshot: the files.
        repository: name of the project.
        candidates: of all sources; earlier ones win where two say the same of one file.
        config: thresholds.
        seed: draws which questions of a file are kept.
    """
    drafts = [_draft(candidate) for candidate in candidates]
    found = Counter(draft.source for draft in drafts)
    dropped: dict[str, Counter[str]] = {source: Counter() for source in found}

    def keep(left: list[_Draft], reason: str) -> list[_Draft]:
        """The drafts that are left; those that are missing are counted."""
        before, after = Counter(d.source for d in drafts), Counter(d.source for d in left)
        for source, count in (before - after).items():
            dropped[source][reason] += count
        return left

    # This order is part of the results: a draft that an earlier filter drops cannot make a later one ambiguous.
    drafts = keep([draft for draft in drafts if _is_sentence(draft, config)], "words")
    drafts = keep(_unambiguous(drafts, snapshot), "ambiguous")
    drafts = keep(_distinct(drafts), "repeated")
    # The index comes after the cheap filters, because it counts only the words of the drafts that are left.
    evidence = MaskedIndex(snapshot, {word for draft in drafts for word in draft.words})
    drafts = keep([d for d in drafts if any(evidence.share(w) <= config.vague_share for w in d.words)], "vague")
    # After the filters above, so that bad drafts do not take the places of good ones.
    drafts = keep(_limited(drafts, config.per_file, seed), "limit")
    drafts = keep([d for d in drafts if not any(is_excluded(path, config) for path in d.spans)], "place")
    return Filtered(list(_labelled(drafts, snapshot, repository, evidence, config)), found, dropped)


def leak(question: str, path: str) -> str:
    """Form in which the name of a file stands in a question: `name` (as it is), `tokens` (all words of it), or `none`.

    >>> leak("Fixer for StandardError", "fixes/fix_standarderror.py"), leak("Read a CSV file", "io/csv.py")
    ('none', 'name')
    >>> leak("Labels of all figures", "label_figure.py"), leak("Last item of a list", "ast.py")
    ('tokens', 'none')
    """
    return _name_leak(question, PurePosixPath(path).name.partition(".")[0] or PurePosixPath(path).name)


def folder_leak(question: str, path: str) -> bool:
    """Tell whether the name of a folder on the way stands in a question."""
    return any(_name_leak(question, part) != "none" for part in PurePosixPath(path).parts[:-1])


def _name_leak(question: str, name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    runs = re.findall(r"[a-z0-9]+", question.lower())
    if len(plain) >= SHORTEST_NAME:
        # A name may be written in several words, but it begins where a word does: no `ast` in `last item`.
        joined = "".join(runs)
        starts = [sum(map(len, runs[:place])) for place in range(len(runs))]
        if any(joined.startswith(plain, start) for start in starts):
            return "name"
        # A longer name inside a word (`filesystem`) gives the file away as well; three letters occur by chance.
        if len(plain) > SHORTEST_NAME and any(plain in run for run in runs):
            return "name"
    tokens = set(words(name))
    return "tokens" if tokens and tokens <= set(words(question)) else "none"


def is_excluded(path: str, config: FilterConfig) -> bool:
    """Tell whether a file is no target because of its place or name; whole names count, never parts of names."""
    *folders, name = path.lower().split("/")
    if not set(folders).isdisjoint(config.excluded_folders):
        return True
    return name in config.excluded_files or TEST_FILE.fullmatch(name) is not None


def _draft(candidate: CandidateQuestion) -> _Draft:
    spans: dict[str, list[tuple[int, int]]] = {path: [] for path in candidate.others}
    spans[candidate.target] = [candidate.span] if candidate.span else []
    return _Draft(candidate.text, candidate.source, candidate.time, spans, tuple(dict.fromkeys(words(candidate.text))))


def _is_sentence(draft: _Draft, config: FilterConfig) -> bool:
    if not config.fewest_words <= len(draft.text.split()) <= config.most_words:
        return False
    # The labels for leaks compare ASCII letters only, and would call a question in another script clean.
    ascii_share = sum(letter.isascii() for letter in draft.text) / len(draft.text)
    return ascii_share >= config.ascii_share and len(draft.words) >= config.fewest_content_words


def _normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _unambiguous(drafts: Iterable[_Draft], snapshot: Snapshot) -> list[_Draft]:
    """Drafts whose text is said of the same files alone, or of files with equal contents, which all become targets."""
    alike: dict[str, list[_Draft]] = {}
    for draft in drafts:
        alike.setdefault(_normal(draft.text), []).append(draft)
    kept: list[_Draft] = []
    for group in alike.values():
        targets = {path for draft in group for path in draft.spans}
        is_said_of_all = all(draft.spans.keys() == targets for draft in group)
        # Two right answers of which one counts as wrong would punish a player for being right.
        if not is_said_of_all and len({snapshot.files[path] for path in targets}) > 1:
            continue
        # Copies of a file are equal answers, so each draft of the group accepts all of them.
        for draft in group:
            for other in group:
                for path, spans in other.spans.items():
                    draft.spans.setdefault(path, []).extend(s for s in spans if s not in draft.spans.get(path, ()))
        kept.extend(group)
    return kept


def _distinct(drafts: Iterable[_Draft]) -> list[_Draft]:
    """The first of the drafts that say the same."""
    first: dict[str, _Draft] = {}
    for draft in drafts:
        first.setdefault(_normal(draft.text), draft)
    return list(first.values())


def _limited(drafts: Iterable[_Draft], most: int, seed: int) -> list[_Draft]:
    """Drafts that are left when at most `most` are taken of each file and source, in their order."""
    drafts = list(drafts)
    taken, chosen = Counter[tuple[str, str]](), set[int]()
    # A hash of the text and not a draw in order: adding a question to a file leaves the others' order as it was.
    for draft in sorted(drafts, key=lambda draft: seed_for(seed, "limit", draft.targets[0], draft.source, draft.text)):
        files = [(path, draft.source) for path in draft.targets]
        if all(taken[file] < most for file in files):
            taken.update(files)
            # By identity: drafts of different sources can have the same text.
            chosen.add(id(draft))
    return [draft for draft in drafts if id(draft) in chosen]


def _labelled(
    drafts: Sequence[_Draft], snapshot: Snapshot, repository: str, evidence: MaskedIndex, config: FilterConfig
) -> Iterator[Question]:
    numbers: Counter[str] = Counter()
    # Sorted, so that the keys do not depend on the order in which sources are read.
    for draft in sorted(drafts, key=lambda draft: (draft.source, draft.targets)):
        targets = draft.targets
        spans = {path: _places(snapshot.files[path], draft.spans[path]) for path in targets}
        ranks = [evidence.content_rank(draft.words, path, targets, spans[path]) for path in targets]
        rank = min(evidence.name_rank(draft.words, targets), *ranks)
        # The worst leak counts: it is enough if one accepted file is named.
        leaks = [leak(draft.text, path) for path in targets]
        yield Question(
            key=f"{snapshot.name}/{draft.source}/{numbers[draft.source]}",
            text=draft.text,
            repository=repository,
            snapshot=snapshot.name,
            targets=targets,
            source=draft.source,
            leak=next((kind for kind in ("name", "tokens") if kind in leaks), "none"),
            folder_leak=any(folder_leak(draft.text, path) for path in targets),
            supported=rank <= config.supported_rank,
            spans={path: places for path, places in spans.items() if places},
            time=draft.time,
        )
        numbers[draft.source] += 1


def _places(text: str, spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The given spans, and wherever else in the text the same words stand in the same order."""
    places = set(spans)
    for start, stop in spans:
        # A copy may be wrapped otherwise, with other capitals and signs; left unmasked it would give the answer in the
        # `hard` variant.
        pattern = r"[\W_]+".join(re.findall(r"[^\W_]+", text[start:stop]))
        # The words of a given span are found again in itself, without its period.
        places.update(
            match.span()
            for match in (re.finditer(f"{BEFORE}{pattern}{BEHIND}", text, re.IGNORECASE) if pattern else ())
            if not any(first <= match.start() and match.end() <= last for first, last in spans)
        )
    return tuple(sorted(places))
