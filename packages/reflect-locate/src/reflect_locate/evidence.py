"""Evidence for a file, and the weight of each kind.

The score of a file is the weighted mean of its evidence. Tests (`TEST_SHARE`), documents (`DOCUMENT_SHARE`) and data
(`DATA_SHARE`) count for less, and so does what holds no instructions where a question asks for them (`ASIDE_SHARE`).
The weights are fitted to questions (`fitting.py`). What counts for a ranking are their ratios, so they are given with
the largest as 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from annotated_types import Gt

from reflect_locate.repositories.roles import TEST_SHARE

LEAD = 2.0
"""Weight of the best file's lead in the confidence; its score has the weight 1."""
DOCUMENT_SHARE = 0.8
"""Factor of a document's score. Prose holds all words of a question close together; who asks where something is done
wants the code. Chosen on commits of four repositories (`docs/results/log.md`, "Documents before sources")."""
DATA_SHARE = 0.7
"""Factor of the score of data, such as a results file whose keys repeat the names of settings. That of a test, as
commits of seven repositories do not tell it: none of 1,615 is found better or worse with any share from 0.5 to 0.9."""
ASIDE_SHARE = 0.7
"""Factor of the score of code and release notes where a question asks for instructions, as `how to install` does.
Chosen on questions to seven repositories (`docs/results/log.md`, "Questions that ask for instructions")."""
SURE, LIKELY = 0.4, 0.22
"""Confidence from which an answer is sure, and likely (`docs/start/locate.md`, "How sure it is")."""
PLAYER_SURE = 0.6
"""The same bound for the answers of a trained player, who looks at no names: its scores have fewer parts."""
Sureness = Literal["sure", "likely", "a guess"]


# No pydantic model, whose library takes as long to import as an answer: where one holds weights, it checks the bounds.
@dataclass(frozen=True)
class Weights:
    """Weight of each kind of evidence; only the ratios matter."""

    coverage: Annotated[float, Gt(0)] = 1.0
    """Weight of the words of the question that stand close together."""
    match: Annotated[float, Gt(0)] = 1.0
    """Weight of the contents' match in the index."""
    path: Annotated[float, Gt(0)] = 0.4
    """Weight of the path's match."""
    defined: Annotated[float, Gt(0)] = 1.0
    """Weight of the best name that the file defines."""
    stem: Annotated[float, Gt(0)] = 0.1
    """Weight of the file's own name."""
    written: Annotated[float, Gt(0)] = 2.0
    """Weight of the definition of a name that the question holds as it is written in the code."""
    named: Annotated[float, Gt(0)] = 0.05
    """Weight of the policy's word."""
    read: Annotated[float, Gt(0)] = 1.0
    """Weight of what a language model makes of its best lines."""
    history: Annotated[float, Gt(0)] = 1.0
    """Weight of what earlier commits said about it."""


DEFAULT_WEIGHTS = Weights()
"""Chosen on 250 validation questions (`docs/results/log.md`, "What an answer is made of"), `defined` and `stem` on
commits and sentences of six repositories ("Names that a file defines")."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for a file; each number is in [0, 1], None = it was not asked for."""

    coverage: float
    """Share of the question's words that stand close together in it."""
    match: float | None
    """BM25 score of its contents, divided by that of the best file."""
    path: float | None
    """The same for the words of its path."""
    named: float | None
    """Mean probability that the player names it, None = no player was asked."""
    is_test: bool = False
    """A test file, and the question does not speak of tests."""
    is_document: bool = False
    """A document, and the question does not speak of documents."""
    is_aside: bool = False
    """Code or release notes, and the question asks for instructions; no test, and it asks for tests alone."""
    is_data: bool = False
    """Data, and the question does not speak of data."""
    read: float | None = None
    """Likelihood of the question after the file's best lines: 1 = as after those of the best file, 0 = some nats less a
    token; None = no language model read them."""
    history: float | None = None
    """BM25 score of the subjects of its earlier commits, divided by that of the best file; None = not known."""
    defined: float | None = None
    """Fit of the best name that it defines with the question (`definitions.best_name`); None = not looked at."""
    stem: float | None = None
    """Share of the words of its own name that the question has; None = not looked at."""
    written: float | None = None
    """Worth of its definitions of the names that the question holds as they are written (`definitions.definition`),
    their mean; None = it holds none."""
    asked: bool | None = None
    """The question names this very file (`file_names.files_asked_for`); None = it names none."""
    quoted: float | None = None
    """Share of the question's words that its strings hold as they stand (`quotes.quoted`); None = no file does."""


KINDS = tuple(field.name for field in fields(Weights))


def score(evidence: Evidence, weights: Weights) -> float:
    """Weighted mean of the evidence that there is, in [0, 1]; of a test, a document or code perhaps a share of it.

    Where the question names files, they have the upper half of the scale, and all others the lower one. Where files
    hold its words as they stand, half of the scale is the share that they hold.

    >>> score(Evidence(1.0, None, None, 0.0), Weights(coverage=3, named=1))
    0.75
    """
    # Without an index two kinds are missing; the mean over the others stays on the same scale.
    known = [(getattr(weights, kind), value) for kind in KINDS if (value := getattr(evidence, kind)) is not None]
    mean = sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)
    found = share_of(evidence) * mean
    found = found if evidence.quoted is None else (evidence.quoted + found) / 2
    return found if evidence.asked is None else (evidence.asked + found) / 2


def share_of(evidence: Evidence) -> float:
    """Factor of a file's score by its role."""
    # A document among the tests is a test.
    share = DOCUMENT_SHARE if evidence.is_document else DATA_SHARE if evidence.is_data else 1.0
    share = TEST_SHARE if evidence.is_test else share
    return share * ASIDE_SHARE if evidence.is_aside else share


def confidence(scores: Sequence[float]) -> float:
    """Confidence in the first of these scores, which are in falling order: high when it is high and stands out.

    >>> confidence([0.75, 0.5]), confidence([0.5]), confidence([])
    (0.4166666666666667, 0.5, 0.0)
    """
    # With one candidate the lead is its whole score.
    first, second = [*scores, 0.0, 0.0][:2]
    return (first + LEAD * (first - second)) / (1 + LEAD)


def sureness(confidence: float, sure: float = SURE, likely: float = LIKELY) -> Sureness:
    """The word for a confidence.

    >>> sureness(0.95), sureness(0.0), sureness(0.5, likely=0.6)
    ('sure', 'a guess', 'a guess')
    """
    # Without any evidence even a bound of 0 makes no answer.
    if confidence < likely or confidence <= 0:
        return "a guess"
    return "sure" if confidence >= sure else "likely"
