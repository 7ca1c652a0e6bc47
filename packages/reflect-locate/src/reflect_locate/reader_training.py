"""Train the model of `locate --deep` to choose among the candidates that the index found.

What the model reads of a candidate is a passage; what it makes of it is the mean log-likelihood L of the question. With
the index's score s the policy over the K candidates of a question is exact:

    π(k | question) ∝ exp((s_k + READ · L_k) / TEMPERATURE)

Supervised training lowers -log π(right files). Online RL needs no sampling here: an episode is one choice out of a list
that is read whole, so the expected reward Σ_k π(k) · [k is right] and its gradient are computed as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.ranking import find
from reflect_locate.reader import passage, question_after
from reflect_locate.reader_settings import ReaderSettings, ReaderTraining
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore
from reflect_rl.errors import ModelError, UserError
from reflect_rl.launch import release
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.network import Network
from reflect_rl.models.score import check_context, completion_losses, token_budget
from reflect_rl.training.checkpoint import Checkpoints, restore_weights
from reflect_rl.training.distributed import Engine, make_whole
from reflect_rl.training.loop import OptimiserStep, PartialLoss, cosine_factor
from reflect_rl.training.metrics import Meter, MetricsLog
from reflect_rl.types import Progress, stream

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
    """Of the index, in [0, 1]."""
    right: tuple[bool, ...]

    @property
    def is_choice(self) -> bool:
        """True = a choice can be learned from it: some candidate is right, and some is not."""
        return any(self.right) and not all(self.right)


def readings(tasks: TaskSet, questions: Sequence[Question], settings: ReaderSettings) -> Iterator[Reading]:
    """What would be read for each question; this takes some tenths of a second each in a large project.

    Args:
        tasks: which has the projects.
        questions: each is asked about its whole project, with the sentence masked that it was made from.
        settings: how many candidates are read, and how much of each.
    """
    stores = {question.snapshot: WordStore() for question in questions}
    for question in questions:
        tree = Tree(tasks.snapshot(question.snapshot), "", None, question.spans)
        answer = find(tree, question.text, StoredIndex(tree, stores[question.snapshot]))
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
        seed: of the order of the rows.
        progress: called after each step.

    Raises:
        ModelError: a passage with its question is longer than the model's context.
        RunFolderError: there are checkpoints, and all are corrupt.
        TrainingError: the loss or the gradient is not finite or too large.
        UserError: there are no rows.
    """
    if not rows:
        raise UserError(
            "no question has a right and a wrong file among its candidates. Make more with `reflect-rl tasks`."
        )
    folder.mkdir(parents=True, exist_ok=True)
    log = MetricsLog(folder)
    try:
        _Training(model, rows, config, folder, seed, log).run(progress)
    finally:
        log.close()
    make_whole(model.model)
    model.model.eval()


class _Training:
    """Loop of one training, from its last checkpoint where there is one."""

    def __init__(
        self,
        model: LanguageModel,
        rows: Sequence[Reading],
        config: ReaderTraining,
        folder: Path,
        seed: int,
        log: MetricsLog,
    ) -> None:
        self.model, self.rows, self.config, self.log = model, rows, config, log
        self.order = _order(seed, len(rows), config.steps * config.batch_size)
        self.tokens = {number: _tokens(model, rows[number]) for number in dict.fromkeys(self.order)}
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.meter = Meter(model, config.steps)
        self.done = 0
        saved = self.checkpoints.load()
        if saved is not None:
            tensors, state = saved
            restore_weights(model.model, tensors["weights"])
            self.done, self.meter.seconds = state["step"], state["seconds"]
        log.keep_until(*((self.done, saved[1]["metrics"]) if saved else (-1, None)))
        engine = Engine(model.device)
        trained = [weight for weight in model.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, config.learning_rate, weight_decay=config.weight_decay)
        limits = {"max_grad_norm": config.max_grad_norm, "stop_grad_norm": config.stop_grad_norm}
        self.step = OptimiserStep(engine, Network(model), self.optimizer, **limits)
        self.engine = engine
        if saved is not None:
            engine.restore_optimizer(self.optimizer, saved[0]["optimizer"])

    def run(self, progress: Progress) -> None:
        """Train to the end."""
        self.model.model.train()
        self.meter.begin(self.done)
        while self.done < self.config.steps:
            metrics = self._one_step()
            self.done += 1
            metrics |= self.meter.measure(self.done, self.step.tokens)
            self.log.append({"step": self.done, **metrics}, "step")
            progress(self.done, self.config.steps, f"loss {metrics['loss']:.4f}, right {metrics['right']:.2f}")
            if self.done % self.config.save_steps == 0 or self.done == self.config.steps:
                self._save()
            release()

    def _one_step(self) -> dict[str, float]:
        config = self.config
        batch = self.order[self.done * config.batch_size : (self.done + 1) * config.batch_size]
        rate = config.learning_rate * cosine_factor(
            self.done, min(config.warmup_steps, config.steps // 4), config.steps
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate

        def loss(part: list[int]) -> PartialLoss:
            policies = [self._log_policy(batch[place]) for place in part]
            rights = [torch.tensor(self.rows[batch[place]].right, device=self.model.device) for place in part]
            logs = torch.stack([policy[right].logsumexp(0) for policy, right in zip(policies, rights, strict=True)])
            losses = -logs if config.objective == "sft" else -logs.exp()
            chosen = [bool(right[policy.argmax()]) for policy, right in zip(policies, rights, strict=True)]
            metrics = {"loss": float(losses.detach().mean()), "right": sum(chosen) / len(chosen)}
            return PartialLoss(losses.sum() / len(batch), len(part), metrics)

        # A question's candidates are read in one padded pass.
        lengths = [len(tokens) * max(len(ids) for ids, _ in tokens) for tokens in map(self.tokens.__getitem__, batch)]
        means = self.step.accumulate(lengths, token_budget(self.model), loss)
        norm = self.step.clip(self.model.model.parameters(), means["loss"])
        self.step.apply()
        return {**means, "gradient_norm": norm, "learning_rate": rate}

    def _log_policy(self, number: int) -> Tensor:
        tokens = self.tokens[number]
        ids, masks = [ids for ids, _ in tokens], [mask for _, mask in tokens]
        losses = completion_losses(self.model, ids, masks, self.step.network)
        counts = [sum(mask) for mask in masks]
        likelihoods = -torch.stack([part.mean() for part in losses.split(counts)])
        return log_policy(torch.tensor(self.rows[number].scores, device=self.model.device), likelihoods)

    def _save(self) -> None:
        tensors: Mapping[str, Mapping[str, Tensor]] = {
            "weights": self.engine.whole_weights(self.model.model),
            "optimizer": self.engine.optimizer_state(self.optimizer),
        }
        state = {"step": self.done, "seconds": self.meter.elapsed(), "metrics": self.log.mark()}
        self.checkpoints.save(self.done, tensors, state)


def _order(seed: int, rows: int, count: int) -> list[int]:
    """Numbers of rows: all in a random order, and again in another."""
    passes = (stream(seed, "readings", number).permutation(rows) for number in range(-(-count // rows)))
    return [int(row) for order in passes for row in order][:count]


def _tokens(model: LanguageModel, row: Reading) -> list[tuple[list[int], list[int]]]:
    """Tokens of each passage with the question, and which of them are the question's."""
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
