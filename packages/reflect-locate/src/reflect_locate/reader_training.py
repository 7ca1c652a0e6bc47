"""Train the model of `locate --deep` to choose among the candidates that the index found.

What the model reads of a candidate is a passage; what it makes of it is the mean log-likelihood L of the question. With
the index's score s the policy over the K candidates of a question is exact:

    π(k | question) ∝ exp((s_k + READ · L_k) / TEMPERATURE)

Supervised training lowers -log π(right files). Online RL needs no sampling here: an episode is one choice out of a list
that is read whole, so the expected reward Σ_k π(k) · [k is right] and its gradient are computed as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.ranking import find
from reflect_locate.reader import question_after
from reflect_locate.reader_settings import Objective, ReaderSettings, ReaderTraining
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore
from reflect_locate.rereading import passage
from reflect_rl.errors import ModelError, UserError
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import check_context, completion_losses
from reflect_rl.training.loop import PartialLoss
from reflect_rl.training.trainer import Rows, RowTrainer, passes
from reflect_rl.types import Progress

Pairs = list[tuple[list[int], list[int]]]
"""Tokens of each passage with the question, and which of them are the question's."""
READ, TEMPERATURE = 0.4, 0.1
"""Weight of a nat beside the index's score, as an untrained model earns it (`docs/results/log.md`, "A language model
reads the candidates"), and how far apart two scores are to be chosen e times as often."""


@dataclass(frozen=True)
class Reading:
    """A question with what is read of its candidates."""

    key: str
    question: str
    passages: tuple[str, ...]
    """Best candidate of the index first."""
    scores: tuple[float, ...]
    """Scores of the index, in [0, 1]."""
    right: tuple[bool, ...]

    @property
    def is_choice(self) -> bool:
        """True = a choice can be learned from it: some candidate is right, and some is not."""
        return any(self.right) and not all(self.right)


def readings(drawn: Iterable[tuple[TaskSet, Question]], settings: ReaderSettings) -> Iterator[Reading]:
    """Candidates of each question, with what is read of them.

    A question takes some tenths of a second in a large project.

    Args:
        drawn: questions with the sets that have their projects. Each is asked about its whole project, with the
            sentence masked that it was made from.
        settings: how many candidates are read, and how much of each.
    """
    stores: defaultdict[tuple[Path, str], WordStore] = defaultdict(WordStore)
    for tasks, question in drawn:
        tree = Tree(tasks.snapshot(question.snapshot), "", None, question.spans)
        answer = find(tree, question.text, StoredIndex(tree, stores[tasks.folder, question.snapshot]))
        files = answer.files[: settings.candidates]
        right = tuple(entry.path in question.targets for entry in files)
        texts = [passage(entry.path, tree.text(entry.path), answer.rarity, settings) for entry in files]
        yield Reading(question.key, question.text, tuple(texts), tuple(entry.score for entry in files), right)


def log_policy(scores: Tensor, likelihoods: Tensor) -> Tensor:
    """Log-probability of each candidate (K,).

    >>> log_policy(torch.tensor([0.5, 0.5]), torch.tensor([-2.0, -2.0])).exp().tolist()
    [0.5, 0.5]

    Args:
        scores: (K,) of the index.
        likelihoods: (K,) mean log-likelihood of the question after each passage, in nats.
    """
    return torch.log_softmax((scores + READ * likelihoods) / TEMPERATURE, -1)


def train_reader(
    model: LanguageModel,
    rows: Sequence[Reading],
    config: ReaderTraining,
    folder: Path,
    seed: int,
    progress: Progress,
) -> None:
    """Train the model in place; metrics and checkpoints go to `folder`, and an interrupted training goes on from them.

    Args:
        model: a trainable language model.
        rows: what it learns from; each has a right candidate and a wrong one.
        config: optimiser steps and objective.
        folder: of metrics and checkpoints.
        seed: of the order of the rows, and of dropout.
        progress: called after each row of metrics.

    Raises:
        ConfigError: the training cannot be distributed as it was launched.
        ModelError: a passage with its question is longer than the model's context.
        RunFolderError: there are checkpoints, and all are corrupt.
        TrainingError: the loss or the gradient is not finite or too large.
        UserError: there are no rows.
    """
    if not rows:
        raise UserError(
            "no question has a right and a wrong file among its candidates. Make more with `reflect-rl tasks`."
        )
    order = passes(seed, "readings", len(rows), config.steps * config.batch_size)
    tokens = {number: _tokens(model, rows[number]) for number in dict.fromkeys(order)}
    trainer = RowTrainer(model, config, folder, seed, settings="the flags of train_reader")
    model.model.train()
    trainer.run(_Choices(model, rows, tokens, config.objective), order, progress)
    trainer.close()


class _Choices(Rows):
    """Choices among candidates as rows of a training."""

    def __init__(
        self, model: LanguageModel, rows: Sequence[Reading], tokens: Mapping[int, Pairs], objective: Objective
    ) -> None:
        self.model, self.rows, self.tokens, self.objective = model, rows, tokens, objective

    def length(self, number: int) -> int:
        # A question's candidates are read in one padded pass.
        return len(self.tokens[number]) * max(len(ids) for ids, _ in self.tokens[number])

    def loss(self, numbers: Sequence[int], batch: Sequence[int], network: nn.Module) -> PartialLoss:
        policies = [self._log_policy(number, network) for number in numbers]
        rights = [torch.tensor(self.rows[number].right, device=self.model.device) for number in numbers]
        logs = torch.stack([policy[right].logsumexp(0) for policy, right in zip(policies, rights, strict=True)])
        losses = -logs if self.objective == "sft" else -logs.exp()
        chosen = [bool(right[policy.argmax()]) for policy, right in zip(policies, rights, strict=True)]
        metrics = {"loss": float(losses.detach().mean()), "right": sum(chosen) / len(chosen)}
        return PartialLoss(losses.sum() / len(batch), len(numbers), metrics)

    def record(self, number: int) -> dict[str, Any]:
        return asdict(self.rows[number])

    def _log_policy(self, number: int, network: nn.Module) -> Tensor:
        tokens = self.tokens[number]
        ids, masks = [ids for ids, _ in tokens], [mask for _, mask in tokens]
        losses = completion_losses(self.model, ids, masks, network)
        counts = [sum(mask) for mask in masks]
        likelihoods = -torch.stack([part.mean() for part in losses.split(counts)])
        return log_policy(torch.tensor(self.rows[number].scores, device=self.model.device), likelihoods)


def _tokens(model: LanguageModel, row: Reading) -> Pairs:
    found = [question_after(model, text, row.question) for text in row.passages]
    longest = max(found, key=lambda pair: len(pair[0]))
    try:
        check_context(model, len(longest[0]), row.question)
    except ModelError as error:
        raise ModelError(
            f"a passage with its question has {len(longest[0])} tokens, more than the model reads. Lower --lines or "
            "--longest, or choose another model with --start-from."
        ) from error
    return found
