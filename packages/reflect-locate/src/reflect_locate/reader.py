"""A language model reads the best lines of each candidate, and the ranking is made anew (`locate --deep`).

A candidate is worth the likelihood of the question after its lines, as in query likelihood (Ponte and Croft 1998) and
its form with a language model (Sachan et al. 2022, "Improving Passage Retrieval with Zero-Shot Question Generation").
The model needs no training for this, and generates nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from reflect_locate.evidence import DEFAULT_WEIGHTS, LIKELY, Evidence, score
from reflect_locate.ranking import Answer, answer_of, check_question
from reflect_locate.repositories.best_lines import best_lines
from reflect_locate.repositories.tree import Tree
from reflect_rl.config import ModelConfig
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.score import completion_losses

if TYPE_CHECKING:
    from collections.abc import Mapping

READER = "smollm2-135m"
"""The model that reads, by its name in `reflect-rl model list`."""
LINES, LINES_BEFORE = 16, 5
"""Lines that are read of a candidate, and how many of them stand before the best line."""
LONGEST = 1500
"""Characters that are read of a candidate, about 400 tokens of code; a question has to fit behind them."""
REQUEST = "Write one question about this project that this file answers."


@dataclass(frozen=True)
class Reader:
    """A loaded language model."""

    model: LanguageModel

    def likelihoods(self, question: str, passages: Sequence[str]) -> list[float]:
        """Mean log-likelihood of the question's tokens after each passage, in nats, at most 0.

        Args:
            question: as it was asked.
            passages: as `passage` makes them.
        """
        # One at a time: passages differ in length, and padding would cost more than a batch saves on a CPU.
        return [self._likelihood(question, text) for text in passages]

    def _likelihood(self, question: str, text: str) -> float:
        prompt = f"{text}\n\n{REQUEST}"
        head, body = self.model.encode_prompt(prompt), self.model.encode_after(prompt, question)
        mask = [0] * len(head) + [1] * len(body)
        with torch.inference_mode():
            return -float(completion_losses(self.model, [[*head, *body]], [mask]).mean())


def load_reader(path: str = READER, precision: str = "auto") -> Reader:
    """The model of a name, a folder or a hub id.

    Raises:
        ModelError: it cannot be loaded; the message says what to do.
    """
    config = ModelConfig.model_validate({"path": path, "precision": precision})
    return Reader(load_model(config, trainable=False))


def passage(path: str, text: str, rarity: Mapping[str, float]) -> str:
    r"""What is read of a file: its path, and the lines around the best one.

    Args:
        path: of the file.
        text: of the file.
        rarity: of each word of the question, as `Answer.rarity`.

    >>> passage("tea/pot.py", "import tea\n\ndef pour():\n    return tea.cup()", {"pour": 1.0})
    'File tea/pot.py:\nimport tea\n\ndef pour():\n    return tea.cup()'
    """
    first = max(0, best_lines(path, text, rarity)[0].excerpt_line - 1 - LINES_BEFORE)
    shown = "\n".join(text.split("\n")[first : first + LINES])
    return f"File {path}:\n{shown[:LONGEST]}"


def reread(reader: Reader, tree: Tree, question: str, answer: Answer, threshold: float | None = None) -> Answer:
    """The answer after the model has read every candidate; which files are candidates does not change.

    Args:
        reader: the model.
        tree: that was asked about.
        question: as it was asked.
        answer: of the index.
        threshold: confidence below which the answer is a guess (None: as measured).

    Raises:
        UserError: the question says nothing.
    """
    started = time.perf_counter()
    asked = check_question(question)
    texts = [passage(entry.path, tree.text(entry.path), answer.rarity) for entry in answer.files]
    read = with_reading([entry.evidence for entry in answer.files], reader.likelihoods(asked, texts))
    files = [
        replace(entry, evidence=evidence, score=score(evidence, DEFAULT_WEIGHTS), sureness="a guess")
        for entry, evidence in zip(answer.files, read, strict=True)
    ]
    # The path decides between equal scores, as in the ranking of the index.
    files.sort(key=lambda entry: (-entry.score, entry.path))
    seconds = answer.seconds + time.perf_counter() - started
    return answer_of(files, answer.rarity, LIKELY if threshold is None else threshold, answer.episodes, seconds)


def with_reading(evidence: Sequence[Evidence], likelihoods: Sequence[float]) -> list[Evidence]:
    """The evidence for the candidates of a question, with what the model makes of them.

    Args:
        evidence: of each candidate.
        likelihoods: mean log-likelihood of the question after each, in nats.

    >>> [entry.read for entry in with_reading([Evidence(1, 1, 1, None)] * 2, [-3.0, -2.0])]
    [0.36787944117144233, 1.0]
    """
    best = max(likelihoods, default=0.0)
    return [replace(entry, read=math.exp(value - best)) for entry, value in zip(evidence, likelihoods, strict=True)]
