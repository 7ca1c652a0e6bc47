"""A language model reads the best lines of each candidate, and the ranking is made anew (`locate --deep`).

A candidate is worth the likelihood of the question after its lines, as in query likelihood (Ponte and Croft 1998) and
its form with a language model (Sachan et al. 2022, "Improving Passage Retrieval with Zero-Shot Question Generation").
The model needs no training for this, and generates nothing; `reader_training.py` makes it better.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat

from reflect_locate.evidence import DEFAULT_WEIGHTS, Evidence, score
from reflect_locate.ranking import Answer, answer_of, cautious, check_question
from reflect_locate.reader_settings import READER, ReaderSettings, is_small
from reflect_locate.repositories.best_lines import best_lines
from reflect_locate.repositories.tree import Tree
from reflect_rl.paths import expanded

REQUEST = "Write one question about this project that this file answers."
NATS = 4.0
"""From so many nats a token below the best one on, a file's reading counts 0."""


class PassageReader(ABC):
    """A language model that says how likely a question is after a passage."""

    settings: ReaderSettings

    @abstractmethod
    def likelihood(self, question: str, text: str) -> float:
        """Mean log-likelihood of the question's tokens after a passage, in nats, at most 0.

        Args:
            question: as it was asked.
            text: as `passage` makes it.
        """

    def likelihoods(self, question: str, passages: Sequence[str]) -> list[float]:
        """The likelihood after each of these passages."""
        # One at a time: passages differ in length, and padding would cost more than a batch saves on a CPU.
        return [self.likelihood(question, text) for text in passages]


@dataclass(frozen=True)
class ReaderBeside(PassageReader):
    """A model and the packaged reader, which errs on other files: the likelihood is a weighted mean of both."""

    settings: ReaderSettings
    """Settings of the model."""
    model: PassageReader
    small: PassageReader

    def likelihood(self, question: str, text: str) -> float:
        """See `PassageReader`."""
        share = self.settings.small_share
        return (1 - share) * self.model.likelihood(question, text) + share * self.small.likelihood(question, text)


def open_reader(name: str = READER, precision: str = "auto") -> PassageReader:
    """The reader of a name, a folder or a hub id, with the settings that a trained reader has beside it.

    Args:
        name: `READER`, or any other model. Small ones are computed by numpy; for all others torch is loaded.
        precision: number format of what torch computes; numpy computes in float32.

    Raises:
        ConfigError: its settings are of another version, or damaged.
        ModelError: it cannot be loaded; the message says what to do.
    """
    from reflect_locate.small_reader import load_small_reader

    if name == READER:
        return load_small_reader()
    reader: PassageReader
    if precision in ("auto", "float32") and is_small(folder := expanded(name)):
        reader = load_small_reader(folder)
    else:
        from reflect_locate.reader import load_reader

        reader = load_reader(name, precision)
    return ReaderBeside(reader.settings, reader, load_small_reader()) if reader.settings.small_share else reader


def asked_after(text: str) -> str:
    """Text before the question: a passage, and what is asked for."""
    return f"{text}\n\n{REQUEST}"


def passage(
    path: str,
    text: str,
    rarity: Mapping[str, float],
    settings: ReaderSettings,
    names: Sequence[str] = (),
    *,
    wants_tests: bool = False,
) -> str:
    r"""Text that is read of a file: its path, and the lines around the best one.

    Args:
        path: of the file.
        text: of the file.
        rarity: of each word of the question, as `Answer.rarity`.
        settings: how much is read.
        names: of code in the question, as `Answer.names`.
        wants_tests: as `Answer.wants_tests`.

    >>> passage("tea/pot.py", "import tea\n\ndef pour():\n    return tea.cup()", {"pour": 1.0}, ReaderSettings())
    'File tea/pot.py:\nimport tea\n\ndef pour():\n    return tea.cup()'
    """
    best = best_lines(path, text, rarity, names=names, wants_tests=wants_tests)[0]
    first = max(0, best.excerpt_line - 1 - settings.lines_before)
    shown = "\n".join(text.split("\n")[first : first + settings.lines])
    return f"File {path}:\n{shown[: settings.longest]}"


def reread(reader: PassageReader, tree: Tree, question: str, answer: Answer, threshold: float | None = None) -> Answer:
    """The answer after the model has read the candidates; which files are candidates does not change.

    It stays as it was where there is nothing to compare: one candidate, or no word of the question that is known.

    Args:
        reader: the model.
        tree: that was asked about.
        question: as it was asked.
        answer: of the index.
        threshold: confidence below which the answer is a guess (None: that of the reader).

    Raises:
        UserError: the question is empty.
    """
    started = time.perf_counter()
    asked = check_question(question)
    settings = reader.settings
    if len(answer.files) == 1 or not any(answer.rarity.values()):
        return answer
    best = answer.files[: settings.candidates]
    texts = [
        passage(
            entry.path,
            tree.text(entry.path),
            answer.rarity,
            settings,
            answer.names,
            wants_tests=answer.wants_tests,
        )
        for entry in best
    ]
    read = with_reading([entry.evidence for entry in answer.files], reader.likelihoods(asked, texts))
    weights = replace(DEFAULT_WEIGHTS, read=settings.weight)
    files = [
        replace(entry, evidence=evidence, score=score(evidence, weights), sureness="a guess")
        for entry, evidence in zip(answer.files, read, strict=True)
    ]
    # The path decides between equal scores, as in the ranking of the index.
    files.sort(key=lambda entry: (-entry.score, entry.path))
    seconds = answer.seconds + time.perf_counter() - started
    likely = settings.likely if threshold is None else threshold
    again = replace(
        answer_of(files, answer.rarity, likely, answer.episodes, seconds),
        names=answer.names,
        wants_tests=answer.wants_tests,
        lines=answer.lines,
    )
    return cautious(again, tree)


def with_reading(evidence: Sequence[Evidence], likelihoods: Sequence[float]) -> list[Evidence]:
    """The evidence for the candidates of a question, with what the model makes of them.

    Args:
        evidence: of each candidate.
        likelihoods: mean log-likelihood of the question after each of the first ones, in nats; the others, which
            were not read, count as the worst.

    >>> [entry.read for entry in with_reading([Evidence(1, 1, 1, None)] * 3, [-3.0, -2.0])]
    [0.75, 1.0, 0.0]
    """
    best = max(likelihoods, default=0.0)
    read = [max(0.0, 1 - (best - value) / NATS) for value in likelihoods]
    return [replace(entry, read=value) for entry, value in zip(evidence, chain(read, repeat(0.0)), strict=False)]


def told_change(before: Answer, after: Answer, prefix: str = "") -> str:
    """Tell what the model changed at the first place, for example `the reader puts b.py first, as the index does`.

    Args:
        before: the answer of the index.
        after: what `reread` has made of it.
        prefix: of the paths, as `Tree.prefix`.
    """
    first = after.files[0].path
    if after.files[0].evidence.read is None:
        return f"the reader has nothing to compare, so {prefix}{first} stays first."
    place = 1 + [entry.path for entry in before.files].index(first)
    told = "as the index does" if place == 1 else f"from place {place}; the index has {prefix}{before.files[0].path}"
    return f"the reader puts {prefix}{first} first, {told}."
