"""Find the file that answers a question by an index alone, and what an answer holds. Nothing here loads a model.

Candidates are the best files of the index, and a few that define a name of just the question's words or whose strings
hold these as they stand. They are ranked by evidence (`evidence.py`): how well the index matches the contents and the
path, how many words of the question stand close together, and what names the file has and defines.
Tests come behind what they test, unless the question speaks of tests, and documents and data behind code in the same
way. Where a question asks for instructions (`how to`), code comes behind documents, whose headings then count as names;
where it begins with tests, all else comes behind them.
Files that a question names (`file_names.py`) come first. `finder.py` adds what a trained player says.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from reflect_locate.evidence import (
    ASIDE_SHARE,
    DATA_SHARE,
    DEFAULT_WEIGHTS,
    LIKELY,
    SURE,
    Evidence,
    Sureness,
    Weights,
    confidence,
    score,
    sureness,
)
from reflect_locate.repositories.best_lines import BestLines, best_lines
from reflect_locate.repositories.definitions import (
    INSIDE,
    MEMBER_WORTH,
    VALUES,
    asked_stem,
    best_name,
    defined_at_margin,
    defined_name,
    defines_member,
    definition,
    heading,
    lines_with,
    may_define,
    modules_asked_for,
    names_asked_for,
    spelled,
)
from reflect_locate.repositories.file_names import LAST, NONE, AskedFiles, files_asked_for
from reflect_locate.repositories.gate import Reason
from reflect_locate.repositories.passages import words_together
from reflect_locate.repositories.quotes import is_enough, may_quote, quoted, quoted_over_lines, quotes
from reflect_locate.repositories.roles import (
    TEST_SHARE,
    TESTS,
    TESTS_ALONE,
    TRANSLATIONS,
    is_change_note,
    is_data,
    is_document,
    is_test,
)
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.text_lines import lines_of
from reflect_locate.repositories.text_rules import SOURCE
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import IndexMatches
from reflect_locate.repositories.word_store import WordStore
from reflect_locate.repositories.words import composed, question_words, surface, words
from reflect_rl.errors import UserError

if TYPE_CHECKING:
    from reflect_locate.adapted_ranking import AdaptedRanking

LONGEST_QUESTION = 40
"""Words that are read of a question; the player was trained on questions of at most so many."""
CAUTIOUS: Mapping[Sureness, Sureness] = {"sure": "likely", "likely": "a guess", "a guess": "a guess"}
"""The next lower word."""
HOW_TO = re.compile(r"\W*how (?:to|(?:do|can|could|should) (?:i|you))\b", re.IGNORECASE)
"""Beginning of a question that asks for instructions: for documents, and never for tests. `how do we` is not one: it
mostly asks about the code of whoever says it."""
DOCUMENT = frozenset(words("docs documents documentation readme guides tutorials changelog"))
"""Words of a question that asks for documents."""
TOLD = re.compile(
    r"\b(?:which|what) (?:pages?|documents?|guides?|manuals?)\b.{0,40}?"
    r"\b(?:tells?|says?|explains?|describes?|documents|mentions?|covers?|(?:is|are) about)\b",
    re.IGNORECASE,
)
"""A question that asks for documents by what they do. A page alone may be one that the code makes."""
DATA_WORDS = frozenset(words("json jsonl csv tsv svg fixture dataset"))
"""Words of a question that asks for data."""
INDEXED = 20
"""Best files of the index that are candidates (`docs/results/log.md`, "More candidates"), and of a list of guesses."""
LOOKED_AT = 200
"""Most files in which the definition of a name is looked for: of those that hold it, those that seem to define it, and
those that hold its words most often."""
BEYOND = 5
"""Most files besides the best ones that are candidates for a name or a message, of each kind."""
MEMBER_SHARE = 0.8
"""Share of the worth of a method where another file defines a function or class of its name at the margin."""
LIMITS = (Reason.OVER_LIMIT, Reason.TOO_MANY, Reason.TOO_DEEP)
"""Reasons for which files of any kind were left out."""
PASSAGES_OF_FILE = 3
"""Most passages of one file among those of all files."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may answer the question."""

    path: str
    score: float
    """Weighted mean of the evidence, in [0, 1]."""
    evidence: Evidence
    """Parts of the score."""
    words: tuple[str, ...]
    """Words of the question that stand close together in it."""
    walk: tuple[str, ...] = ()
    """Commands of the episode that was surest of it."""
    reasons: tuple[str, ...] = ()
    """Reflections of that episode: after the file was read, and before it was named."""
    sureness: Sureness = "a guess"
    """Word for the trust that this file answers; of all but the first file `a guess`."""
    lines: BestLines | None = None
    """Its best part (`Answer.with_lines`)."""
    quoted_line: int = 0
    """Number of the line that holds most of the question's words as they stand; 0 = none does."""

    def to_json(self) -> dict[str, Any]:
        """JSON form, for example `{"path": "a/b.py", "sureness": "likely", "score": 0.82, "words": ["rate"], ...}`."""
        return {
            "path": self.path,
            "sureness": self.sureness,
            **(self.lines.to_json() if self.lines else {}),
            "score": round(self.score, 4),
            "named": round(self.evidence.named or 0.0, 4),
            "read": round(self.evidence.read or 0.0, 4),
            "match": round(self.evidence.match or 0.0, 4),
            "path_match": round(self.evidence.path or 0.0, 4),
            "defined": round(self.evidence.defined or 0.0, 4),
            "stem": round(self.evidence.stem or 0.0, 4),
            "written": round(self.evidence.written or 0.0, 4),
            "asked": bool(self.evidence.asked),
            "quoted": round(self.evidence.quoted or 0.0, 4),
            "history": round(self.evidence.history or 0.0, 4),
            "is_test": self.evidence.is_test,
            "is_document": self.evidence.is_document,
            "is_data": self.evidence.is_data,
            "is_aside": self.evidence.is_aside,
            "words": list(self.words),
            "coverage": round(self.evidence.coverage, 4),
            "walk": list(self.walk),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """Ranked files, and how sure it is that the first one answers."""

    files: tuple[FoundFile, ...]
    """Best first: all candidates."""
    confidence: float
    """Confidence in the best file, (score + 2 x lead over the second) / 3, in [0, 1]; 0 without files."""
    threshold: float
    """Confidence below which the answer is only a guess."""
    episodes: int
    """Episodes that were finished; 0 where no player was asked."""
    seconds: float
    rarity: Mapping[str, float]
    """Inverse document frequency of each word of the question."""
    names: tuple[str, ...] = ()
    """Names of code in the question, as they are written there."""
    wants_tests: bool = False
    """True where the question asks for tests."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """File -> number of its line that the question names, or that holds most of its words as they stand."""

    @property
    def sureness(self) -> Sureness:
        """Word for the trust that the first file answers."""
        return self.files[0].sureness if self.files else "a guess"

    @property
    def found(self) -> bool:
        """Tell whether the answer is more than a guess."""
        return self.sureness != "a guess"

    def with_lines(self, tree: Tree, most: int) -> tuple[FoundFile, ...]:
        """The first files, each with its best part.

        Args:
            tree: that was asked about.
            most: number of files; reading them takes milliseconds each.
        """
        return tuple(replace(entry, lines=self.best_lines(tree, entry.path)[0]) for entry in self.files[:most])

    def best_lines(self, tree: Tree, path: str, most: int = 1) -> list[BestLines]:
        """The best parts of a file, best first.

        Args:
            tree: that was asked about.
            path: of the file.
            most: number of parts.
        """
        line = self.lines.get(path, 0)
        return best_lines(path, tree.text(path), self.rarity, most, self.names, wants_tests=self.wants_tests, line=line)


@dataclass(frozen=True, slots=True)
class AskedNames:
    """Names in a question, looked up in a tree."""

    written: Mapping[str, float] | None = None
    """See `definers` (None: the question holds no name of code)."""
    files: AskedFiles = NONE
    """Files that the question names."""
    beyond: Sequence[str] = ()
    """Files that are candidates besides the best ones: they define a name of the question's words, or hold these as
    they stand."""


NO_NAMES = AskedNames()


def check_question(question: str) -> str:
    """The question as it is asked: one line, at most 40 words, a letter with an accent one character.

    The first words are kept; of a trace that ends where it broke, its mark and the last ones.

    Raises:
        UserError: it is empty.
    """
    said = question.split()
    if not said:
        raise UserError('the question is empty. Ask for example: "Where are rate limits parsed?"')
    # Cut and not refused: a pasted error message still has its first words to go by.
    kept = said[:LONGEST_QUESTION]
    if len(said) > LONGEST_QUESTION and LAST in " ".join(said):
        mark = LAST.split()
        kept = [*mark, *said[len(mark) - LONGEST_QUESTION :]]
    return composed(" ".join(kept))


def find(
    tree: Tree,
    question: str,
    index: StoredIndex | None = None,
    threshold: float | None = None,
    adapted: AdaptedRanking | None = None,
) -> Answer:
    """The files of a tree that answer a question, by the index alone.

    >>> from reflect_locate.repositories.snapshot import Snapshot
    >>> tree = Tree(Snapshot("kettle", {"limits.py": "# Parsing of rate limits.", "clock.py": "# Watches."}))
    >>> answer = find(tree, "Where are rate limits parsed?")
    >>> answer.files[0].path, answer.sureness
    ('limits.py', 'sure')

    Args:
        tree: the files.
        question: in words; see `check_question`.
        index: of this tree, if it is at hand.
        threshold: confidence below which the answer is a guess (None: as measured).
        adapted: to the repository that the tree is of; its commits are further evidence. One of another repository is
            not used.

    Raises:
        UserError: the tree is empty, or the question says nothing.
    """
    started = time.perf_counter()
    question = check_question(question)
    check_tree(tree)
    index = index or StoredIndex(tree, WordStore())
    matches, rarity = index.ask(question)
    # A question how to use a file asks for instructions.
    top = tree.prefix.rstrip("/").rpartition("/")[2] or tree.snapshot.name
    named = NONE if HOW_TO.match(question) else files_asked_for(question, tree.paths, top)
    names = () if named.is_written else names_asked_for(question)
    written = definers(tree, index, names, modules_asked_for(question)) if names else None
    # One of another repository would rank by the words of strangers.
    adapted = adapted if adapted and adapted.fits(tree) else None
    past = adapted.matches(tree, question) if adapted else None
    weights = adapted.weights if adapted else DEFAULT_WEIGHTS
    beyond = beyond_best(tree, index, question, matches.contents)
    files = ranked(tree, question, None, matches, weights, past, rarity, AskedNames(written, named, beyond))
    likely, seconds = LIKELY if threshold is None else threshold, time.perf_counter() - started
    # A name of a file need not stand in any.
    of_files = named.words if named.is_written else frozenset[str]()
    heard = of_files | (adapted.heard(question) if adapted else frozenset())
    answer = answer_of(files, rarity, likely, 0, seconds, heard)
    # Words that name the file stand in its lines by chance, as where another one is imported.
    answer = replace(
        answer,
        rarity={word: value for word, value in rarity.items() if word not in of_files},
        names=names,
        wants_tests=asks_for_tests(question),
        lines={entry.path: entry.quoted_line for entry in files if entry.quoted_line} | dict(named.lines),
    )
    return cautious(answer, tree)


def definers(tree: Tree, index: StoredIndex, names: Sequence[str], modules: Set[str] = frozenset()) -> dict[str, float]:
    """Files that define one of these very names, each with the mean worth of its definitions.

    Args:
        tree: the files.
        index: of this tree.
        names: as they are written in the code, at least one.
        modules: names that stood before them; where paths have such parts, those with most of them count alone.
    """
    found: dict[str, float] = {}
    for name in names:
        for path in _looked_at(tree, index, name):
            # Settings of a run are no definition of the setting.
            worth = definition(tree.text(path).split("\n"), name)[1]
            if worth == 1 or (worth and PurePosixPath(path).suffix not in VALUES):
                found[path] = found.get(path, 0.0) + worth / len(names)
    parts = {path: len(modules & set(PurePosixPath(path).with_suffix("").parts)) for path in found if modules}
    found = {path: worth for path, worth in found.items() if not parts or parts[path] == max(parts.values())}
    # Where `app.use = function` stands, a variable `app` elsewhere is another one.
    dotted = {path: 1.0 for path in found if defines_member(tree.text(path).split("\n"), names)}
    if dotted or len(names) > 1:
        return dotted or found
    # A bare name is rather that of a function than that of a method; which class is meant would be said.
    whole = {path for path, worth in found.items() if worth == 1 and defined_at_margin(tree.text(path), names[0])}
    return {path: worth * (MEMBER_SHARE if whole and path not in whole else 1) for path, worth in found.items()}


def _looked_at(tree: Tree, index: StoredIndex, name: str) -> list[str]:
    """Files in which the definition of a name is looked for."""
    held = words(name)
    # No index has the words that stand in every file, so a name of such words is looked for in all files.
    texts = ((path, tree.text(path)) for path in (index.holding(held) if held else tree.paths))
    holding = [path for path, text in texts if name in text]
    # A thousand files may use the name, and only one of them define it.
    if len(holding) > LOOKED_AT:
        holding.sort(key=lambda path: not may_define(tree.text(path), name))
    return holding[:LOOKED_AT]


def beyond_best(tree: Tree, index: StoredIndex, question: str, contents: Mapping[str, float]) -> tuple[str, ...]:
    """Files that a question may well ask for although others hold its words more often.

    These are files that define a function or class of just its words, as `rotate_checkpoints` for `rotate checkpoints`,
    and sources whose strings hold its words as they stand.

    Args:
        tree: the files.
        index: of this tree.
        question: in words.
        contents: how well the contents of each file match.
    """
    names = spelled(question)
    # All have the same words.
    texts = [(path, tree.text(path)) for path in (index.holding(words(names[0])) if names else ())]
    defining = [
        path
        for path, text in texts
        if any(defined_name(line).strip("_") == name for name in names for line in lines_with(text, name))
    ]
    # A masked sentence stands for a question in other words, and its copies elsewhere would be quoted.
    is_plain = not (tree.masks or asks_for_tests(question) or asks_for_documents(question))
    quoting = _quoting(tree, index, question) if is_plain else {}
    best = sorted(quoting, key=lambda path: (-quoting[path], -contents.get(path, 0.0)))
    return (*sorted(defining, key=lambda path: -contents.get(path, 0.0))[:BEYOND], *best[:BEYOND])


def _quoting(tree: Tree, index: StoredIndex, question: str) -> dict[str, float]:
    """Sources whose strings hold words of a question as they stand, with the share of these."""
    parts = quotes(question)
    # Few files hold all words of a part, and the index has them; a part of words that it lacks may stand anywhere.
    asked = [words(part) for part in parts]
    holders = {word: index.holders(word) for word in {word for held in asked for word in held}}
    anywhere = sum(1 << place for place, held in enumerate(asked) if not held)
    near: dict[str, int] = {}
    for place, held in enumerate(asked):
        for path in set.intersection(*(holders[word] for word in held)) if held else ():
            near[path] = near.get(path, anywhere) | 1 << place
    found = {}
    for path, places in near.items():
        if is_enough(question, places) and may_quote(tree.text(path), question, parts, places) and tells(path):
            found[path], _ = quoted(tree.text(path), question, parts)
    return {path: share for path, share in found.items() if share}


def tells(path: str) -> bool:
    """Tell whether the strings of a file may be what a program says: no document, data, translation or test."""
    place = PurePosixPath(path)
    is_other = is_document(path) or is_data(path) or is_test(path) or is_change_note(path)
    return bool(place.suffix) and place.suffix.lower() not in TRANSLATIONS and not is_other


def cautious(answer: Answer, tree: Tree) -> Answer:
    """The answer, with the next lower word where files were left out over a limit: one of them may be the better one.

    Args:
        answer: to a question.
        tree: that was asked about.
    """
    own = [entry for entry in tree.snapshot.left_out if not entry.path or entry.path.startswith(("./", tree.prefix))]
    reasons = [(entry.reason.partition(": ")[0], entry.path.lower()) for entry in own]
    is_cut = any(reason in LIMITS for reason, _ in reasons)
    # A large source is mostly generated: it takes the certainty, and makes no guess. Other large files are data.
    is_large = any(reason == Reason.TOO_LARGE and path.endswith(SOURCE) for reason, path in reasons)
    if not answer.files or not (is_cut or (is_large and answer.sureness == "sure")):
        return answer
    first = replace(answer.files[0], sureness=CAUTIOUS[answer.sureness])
    return replace(answer, files=(first, *answer.files[1:]))


def passages(tree: Tree, answer: Answer, most: int) -> list[tuple[str, BestLines]]:
    """The best passages of all candidates, best first, each with its file.

    Args:
        tree: that was asked about.
        answer: to the question; its candidates are read.
        most: number of passages.
    """
    # By their own words as well as by the file's evidence: a long file may hold the one right function.
    found = [
        (entry.score * lines.score, entry.path, lines)
        for entry in answer.files
        for lines in answer.best_lines(tree, entry.path, PASSAGES_OF_FILE)
    ]
    return [(path, lines) for _, path, lines in sorted(found, key=lambda row: -row[0])[:most]]


def check_tree(tree: Tree) -> None:
    """Refuse a tree without files.

    Raises:
        UserError: there are none.
    """
    if not tree.paths:
        raise UserError(
            f"{tree.snapshot.name!r} has no files below {tree.prefix or 'its root'}, so there is no answer."
        )


def answer_of(
    files: Sequence[FoundFile],
    rarity: Mapping[str, float],
    threshold: float,
    episodes: int,
    seconds: float,
    heard: Set[str] = frozenset(),
    sure: float = SURE,
) -> Answer:
    """The answer with these files, best first; the first one gets its word.

    Args:
        files: best first.
        rarity: of each word of the question; 0 = it stands nowhere in the tree.
        threshold: confidence below which the answer is a guess.
        episodes: of the player.
        seconds: that it took.
        heard: words of the question that are known although they may stand nowhere.
        sure: confidence from which the answer is sure.
    """
    trust = confidence([entry.score for entry in files])
    # Few words that meet tell little about a question whose other words stand nowhere in the tree.
    known = sum(value > 0 or word in heard for word, value in rarity.items())
    meant = sum(bool(entry.evidence.asked) for entry in files)
    # The one file that a question names is what it asks for; of several it tells none.
    bound = threshold if meant == 1 else sure
    is_known = not rarity or 2 * known > len(rarity) or (files and files[0].evidence.asked)
    told_word: Sureness = sureness(trust, bound, threshold) if is_known else "a guess"
    if told_word == "sure" and (known < len(rarity) or meant > 1):
        told_word = "likely"
    told = tuple(replace(entry, sureness=told_word) if entry is files[0] else entry for entry in files)
    return Answer(told, trust, threshold, episodes, seconds, rarity)


def asks_for_tests(question: str) -> bool:
    """Tell whether a question asks for tests; one how to run them asks for instructions.

    >>> asks_for_tests("which test covers the timeout"), asks_for_tests("how to run the tests")
    (True, False)
    """
    return bool(TESTS.search(question)) and not HOW_TO.match(question)


def asks_for_documents(question: str) -> bool:
    """Tell whether a question asks for documents, or for instructions.

    >>> asks_for_documents("which page tells about tea"), asks_for_documents("how to make tea")
    (True, True)
    """
    asked = question_words(question)
    return bool(HOW_TO.match(question) or TOLD.search(question)) or not DOCUMENT.isdisjoint(asked)


def ranked(
    tree: Tree,
    question: str,
    named: Mapping[str, float] | None,
    matches: IndexMatches | None,
    weights: Weights,
    past: Mapping[str, float] | None = None,
    rarity: Mapping[str, float] | None = None,
    names: AskedNames = NO_NAMES,
) -> list[FoundFile]:
    """Candidates, best first.

    Args:
        tree: the files.
        question: in words.
        named: of each file that a player read, the mean probability that it names it (None: no player was
            asked).
        matches: of the index (None: it is not used).
        weights: of the evidence.
        past: how well the earlier commits of each file match, relative to the best one (None: not known).
        rarity: of the question's words (None: names do not count, as where a player's weights were fitted without).
        names: of code and of files in the question.
    """
    asked = question_words(question)
    roles = _roles(tree, question, asked)
    shares = roles.shares()
    # Files of the index are candidates even if no episode read them; the policy then says nothing about them.
    indexed = _best(matches.contents, shares) if matches else ()
    known = dict.fromkeys([*indexed, *(named or ()), *_best(past or {}, shares), *_best(names.written or {}, shares)])
    meant = _meant(names.files, roles.tests, question)
    # A hundred files may be called `__init__.py`.
    near_names = {
        path: matches.contents.get(path, 0.0) + matches.paths.get(path, 0.0) if matches else 0.0 for path in meant
    }
    known |= dict.fromkeys([*_best(near_names, shares), *names.beyond])
    first = {} if known else {path: place for place, path in enumerate(_first_files(tree))}
    candidates = known or first
    has_compound = any(INSIDE.search(word) for word in question.split())
    found = []
    for path in candidates:
        read = lines_of(tree.text(path))
        held = read.holding(asked)
        near = words_together({bisect_left(read.written, number): shared for number, shared in held.items()}, asked)
        match, name = (matches.contents.get(path, 0.0), matches.paths.get(path, 0.0)) if matches else (None, None)
        # Rounding can take a mean of probabilities above 1.
        share = None if named is None else min(1.0, named.get(path, 0.0))
        history = None if past is None else past.get(path, 0.0)
        prose = is_document(path)
        evidence = Evidence(
            len(near) / max(len(asked), 1),
            match,
            name,
            share,
            is_test=path in roles.tests,
            is_document=prose and not roles.wants_documents,
            is_aside=path in roles.aside,
            is_data=path in roles.data,
            history=history,
        )
        if rarity is not None:
            # Headings tell what a document instructs in.
            headed = prose and roles.how_to
            own = (heading(read.lines, number) if headed else defined_name(read.lines[number]) for number in held)
            # Where `MAX_TEA` is defined, `max_tea` is another name; `kettle` may well mean a `Kettle`.
            is_other = has_compound and names.written and path not in names.written
            defined = 0.0 if is_other else best_name(own, asked, rarity)
            held_names = None if names.written is None else names.written.get(path, 0.0)
            evidence = replace(evidence, defined=defined, stem=asked_stem(path, asked), written=held_names)
        found.append(FoundFile(path, score(evidence, weights), evidence, surface(question, near)))
    # Questions for tests or documents ask for no source. A masked sentence stands for a question in other words, and
    # its copies elsewhere would be quoted.
    if rarity is not None and not (roles.wants_tests or roles.wants_documents or tree.masks):
        found = _with_quotes(found, tree, question, shares, weights)
    # A message may tell a place on the way to the file that holds its text.
    is_told = names.files.is_message and any(entry.quoted_line and entry.path not in meant for entry in found)
    if meant and not is_told and (names.files.is_written or not _is_defined_beside(meant, found, has_compound)):
        judged = [(entry, replace(entry.evidence, asked=entry.path in meant)) for entry in found]
        found = [replace(entry, evidence=evidence, score=score(evidence, weights)) for entry, evidence in judged]
    # The path decides between equal scores, so that the answer does not depend on the order of episodes.
    return sorted(found, key=lambda entry: (-entry.score, first.get(entry.path, 0), entry.path))


@dataclass(frozen=True, slots=True)
class _Roles:
    """Wishes of a question, and the files that count for less with it."""

    how_to: bool
    """It asks for instructions."""
    wants_documents: bool
    wants_tests: bool
    tests: Set[str]
    data: Set[str]
    aside: Set[str]
    """Code and release notes where instructions are asked for; all but tests where it begins with tests."""

    def shares(self) -> dict[str, float]:
        """Factor of the score of each of these files."""
        shares = dict.fromkeys(self.data, DATA_SHARE) | dict.fromkeys(self.aside, ASIDE_SHARE)
        return shares | {path: TEST_SHARE * shares.get(path, 1.0) for path in self.tests}


def _roles(tree: Tree, question: str, asked: Sequence[str]) -> _Roles:
    how_to, wants_tests = bool(HOW_TO.match(question)), asks_for_tests(question)
    aside = {path for path in tree.paths if not is_document(path) or is_change_note(path)} if how_to else set()
    if wants_tests and TESTS_ALONE.match(question) and any(map(is_test, tree.paths)):
        aside = {path for path in tree.paths if not is_test(path)}
    return _Roles(
        how_to=how_to,
        wants_documents=asks_for_documents(question),
        wants_tests=wants_tests,
        tests=set() if wants_tests else {path for path in tree.paths if is_test(path)},
        data=set() if not DATA_WORDS.isdisjoint(asked) else {path for path in tree.paths if is_data(path)},
        aside=aside,
    )


def _with_quotes(
    found: list[FoundFile], tree: Tree, question: str, shares: Mapping[str, float], weights: Weights
) -> list[FoundFile]:
    """The files, with what those hold of the question's words as they stand: an error message is pasted so.

    Sources alone: documents, tests and data repeat what the code says, and a changelog what subjects of commits say.
    """
    parts = quotes(question)

    def held(path: str) -> tuple[float, int]:
        if path in shares or not tells(path):
            return 0.0, 0
        text = tree.text(path)
        numbers = lines_of(text).holding(question_words(question))
        over = quoted_over_lines(lines_of(text).lines, numbers, question, parts)
        return max(quoted(text, question, parts), over, key=lambda row: row[0])

    told = [held(entry.path) for entry in found] if parts else []
    if not any(share for share, _ in told):
        return found
    judged = [
        (entry, replace(entry.evidence, quoted=share), line) for entry, (share, line) in zip(found, told, strict=True)
    ]
    return [
        replace(entry, evidence=evidence, score=score(evidence, weights), quoted_line=line)
        for entry, evidence, line in judged
    ]


def _meant(files: AskedFiles, tests: Set[str], question: str) -> frozenset[str]:
    """Files that a question names. By words alone it names no test of what it asks about, but `conftest` itself."""
    is_open = files.is_written or "test" in question_words(question)
    literal = question.strip().lower()

    def is_itself(path: str) -> bool:
        place = PurePosixPath(path)
        return place.stem.lower() == literal and is_test(place.name)

    return frozenset(path for path in files.paths if is_open or path not in tests or is_itself(path))


def _is_defined_beside(meant: Set[str], found: Sequence[FoundFile], has_compound: bool) -> bool:
    """Tell whether another file defines a function or class whose name has the words of the question, and no others.

    A constant will do where the question holds a name of several words, as no sentence has it.
    """
    others = (entry.evidence for entry in found if entry.path not in meant)
    sources = (evidence for evidence in others if not evidence.is_test and not evidence.is_document)
    # Where a question holds two names, each counts for a half.
    least = MEMBER_WORTH / 2 if has_compound else 1.0
    # A sum in another order may be off by a rounding.
    return any((entry.written or 0.0) >= least or round(entry.defined or 0.0, 6) == 1 for entry in sources)


def _best(matches: Mapping[str, float], shares: Mapping[str, float]) -> list[str]:
    """The best files by these scores."""
    # Weighed here too, or the tests of a popular file would fill all places.
    weighed = {path: match * shares.get(path, 1.0) for path, match in matches.items()}
    return sorted(weighed, key=lambda path: -weighed[path])[:INDEXED]


def _first_files(tree: Tree) -> list[str]:
    """Files to begin with where no word of a question is known: introductions, then the top, empty ones last."""

    def place(path: str) -> tuple[int, bool, str]:
        return path.count("/"), PurePosixPath(path).stem.lower() != "readme", path

    ordered = sorted(tree.paths, key=place)
    # As many texts as are shown are looked at, and not those of the whole tree.
    filled = dict.fromkeys(islice((path for path in ordered if tree.text(path).strip()), INDEXED))
    return list(filled | dict.fromkeys(ordered[:INDEXED]))[:INDEXED]
