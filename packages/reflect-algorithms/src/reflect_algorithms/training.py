"""The loop that all learners share: optimiser steps on an objective, from the last checkpoint where there is one.

An objective is a list of examples, each about one or several views, and a loss of the scores of these views. The same
seed gives the same weights, bit for bit on one kind of machine, with or without interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from reflect_algorithms.comparisons import Comparison
from reflect_rl.algorithms import Loss, Outputs
from reflect_rl.config import Rule
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import ConfigError, TrainingError
from reflect_rl.launch import release
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.network import Network
from reflect_rl.models.score import LISTED, check_context, score, token_budget
from reflect_rl.players.language_model import score_views, tokenize
from reflect_rl.rollout import Reflector
from reflect_rl.training.checkpoint import Checkpoints, restore_weights
from reflect_rl.training.config import OptimiserConfig
from reflect_rl.training.distributed import Engine, make_whole
from reflect_rl.training.learner import no_dropout
from reflect_rl.training.loop import ExplosionError, OptimiserStep, PartialLoss, cosine_factor
from reflect_rl.training.metrics import Meter, MetricsLog
from reflect_rl.types import Episode, Progress, Task, View, stream
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

AT_ONCE = 512
"""Views that a frozen model scores in one call."""


class Reward(Protocol):
    """A learned reward."""

    def rewards(self, views: Sequence[View], actions: Tensor) -> Tensor:
        """(N,) reward of each action (N,) in its state."""
        ...


@dataclass(frozen=True)
class Training:
    """All that a learner is given: the model that it changes in place, and what it may learn from."""

    model: LanguageModel
    """Trainable."""
    labels: Labels
    start: Callable[[], LanguageModel]
    """Another, frozen copy of the model as it was at the start, also after an interruption."""
    spec: EnvSpec
    episodes: Sequence[Episode]
    """The log; empty for learners that need none."""
    tasks: Sequence[Task]
    """Starts that a learner may play."""
    config: OptimiserConfig
    folder: Path
    """Place of metrics and checkpoints; a training that was interrupted there goes on."""
    seed: int
    progress: Progress
    metrics: MetricsLog | None = None
    """Place of the rows of metrics; None: `folder/metrics.jsonl` alone."""
    rule: Rule = "choice_token"
    shuffle_labels: bool = False
    excluded: frozenset[str] = frozenset()
    """States that nothing is learned from."""
    limits: Limits = field(default=DEFAULT_LIMITS)
    comparisons: Sequence[Comparison] = ()
    """Pairs to learn from; empty for learners that need none."""
    held_out: Sequence[Comparison] = ()
    """Pairs of other starts, to be measured with."""
    reward: Callable[[], Reward] | None = None
    """Loads the reward model; None for learners that need none."""

    @property
    def checkpoints(self) -> Checkpoints:
        """Its checkpoints."""
        return Checkpoints(self.folder / "checkpoints")


class Learner(Protocol):
    """A way to train a policy."""

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings of a run."""
        ...

    def train(self, training: Training) -> None:
        """Train the model in place.

        Raises:
            TrainingError: the loss or the gradient is not finite or too large.
            UserError: the log lacks what the learner needs; the message says what, and what to do.
        """
        ...


@runtime_checkable
class AsksOutcome(Protocol):
    """A learner whose policy must be asked for an outcome at test time."""

    reflector: Reflector
    """Asks for the outcome."""


class Objective(Protocol):
    """Examples, and their loss."""

    views: Sequence[View]
    """Views of all examples; equal ones are computed once in a batch."""
    examples: Sequence[Sequence[int]]
    """Numbers of each example's views, in the order in which `loss` gets their scores."""
    weights: Sequence[float] | None
    """Weights by which examples are drawn; None: all in a random order, and again in another."""

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """Mean loss over the examples.

        Args:
            examples: (M,) their numbers.
            outputs: scores of their views, those of the first example first.
        """
        ...


class Trainer:
    """Optimiser steps on one objective after another.

    Args:
        training: the model and its settings.
        total: optimiser steps of all objectives.
        head: a critic's or reward's head that is trained with the model.

    Raises:
        ConfigError: the training cannot be distributed as it was launched.
        RunFolderError: there are checkpoints, and all are corrupt.
    """

    def __init__(self, training: Training, total: int, head: nn.Module | None = None) -> None:
        self.training, self.config, self.total, self.head = training, training.config, total, head
        self.model = training.model
        training.folder.mkdir(parents=True, exist_ok=True)
        self.engine = Engine(self.model.device)
        if self.engine.sharded and training.rule != "choice_token":
            # The processes would need different numbers of passes, and each pass of sharded weights needs them all.
            raise ConfigError(
                f"prompt.scoring {training.rule!r} does not run with sharded weights. Use 'choice_token'."
            )
        self.log = training.metrics or MetricsLog(training.folder, main=self.engine.main)
        self.meter = Meter(self.model, total)
        # About a hundred rows, however long the training is.
        self.every = max(1, total // 100)
        self.done = 0
        self.rows: list[dict[str, float]] = []
        """Metrics of the steps since the last row."""
        self._tokens: dict[View, tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]] = {}
        with self.engine.first():
            saved = training.checkpoints.load()
        # Weights are put back while they are whole; sharding follows.
        if saved is not None:
            restore_weights(self.model.model, saved[0]["weights"])
            if head is not None:
                head.load_state_dict(saved[0]["head"])
        trained = self.engine.trainable(Network(self.model, head), plays=False)
        groups: list[dict[str, Any]] = [
            {"params": [p for p in trained.parameters() if p.requires_grad and p.ndim > 1]},
            # Norms and biases do not decay.
            {"params": [p for p in trained.parameters() if p.requires_grad and p.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=self.config.learning_rate, weight_decay=self.config.weight_decay, fused=True
        )
        limits = {"max_grad_norm": self.config.max_grad_norm, "stop_grad_norm": self.config.stop_grad_norm}
        self.step = OptimiserStep(self.engine, trained, self.optimizer, **limits)
        if saved is None:
            self.log.keep_until(-1)
        else:
            self.engine.restore_optimizer(self.optimizer, saved[0].get("optimizer", {}))
            state = saved[1]
            self.log.keep_until(state["step"], state["metrics"])
            self.done, self.rows, self.meter.seconds = state["step"], state["rows"], state["seconds"]

    def fit(self, objective: Objective, until: int | None = None) -> None:
        """Train on an objective until this step (None: to the end); nothing where a checkpoint is past it.

        Raises:
            ModelError: a prompt is longer than the model's context.
            TrainingError: before the step that would have spoilt the weights.
        """
        until, begin = self.total if until is None else until, self.done
        order = draw_examples(objective, self.training.seed, until * self.config.batch_size)
        # Dropout would make the probabilities of a log's actions others than those that are compared with.
        no_dropout(self.model.model)
        self.meter.begin(begin)
        while self.done < until:
            batch = order[self.done * self.config.batch_size : (self.done + 1) * self.config.batch_size]
            self.rows.append(self._one_step(objective, batch))
            self.done += 1
            last = self.done == until
            if self.done % self.every == 0 or last:
                self._report()
            if self.done % self.config.save_steps == 0 or last:
                self._save()
        self.model.model.eval()

    def close(self) -> None:
        """End the training: close the log, and put together the weights that were sharded."""
        self.log.close()
        make_whole(self.model.model)
        self.model.model.eval()

    def _one_step(self, objective: Objective, batch: Sequence[int]) -> dict[str, float]:
        # A short training would end before its warm-up.
        warmup = min(self.config.warmup_steps, self.total // 4)
        rate = self.config.learning_rate * cosine_factor(self.done, warmup, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

        def loss(part: list[int]) -> PartialLoss:
            # Sorted: a batch that fits into one pass keeps the order in which it was drawn.
            numbers = [batch[place] for place in sorted(part)]
            outputs = self._outputs([objective.views[row] for number in numbers for row in objective.examples[number]])
            result = objective.loss(torch.tensor(numbers), outputs)
            metrics = {"loss": float(result.value.detach())} | result.metrics
            return PartialLoss(result.value * (len(part) / len(batch)), len(part), metrics)

        lengths = [sum(self._length(objective.views[row]) for row in objective.examples[number]) for number in batch]
        metrics = self.step.accumulate(lengths, token_budget(self.model), loss)
        try:
            norm = self.step.clip(
                (p for group in self.optimizer.param_groups for p in group["params"]), metrics["loss"]
            )
        except ExplosionError as error:
            self.engine.wait()  # a launcher ends the others when one process ends
            raise TrainingError(
                f"step {self.done + 1}: {error}. Nothing was changed by it: the checkpoints in {self.training.folder} "
                "are kept. Lower learning_rate; if such norms are usual with this model, raise stop_grad_norm."
            ) from None
        self.step.apply()
        return metrics | {"gradient_norm": norm, "learning_rate": rate}

    def _outputs(self, views: Sequence[View]) -> Outputs:
        pairs = [self._tokenized(view) for view in views]
        prompts, actions = [prompt for prompt, _ in pairs], [texts for _, texts in pairs]
        # One pass: the examples were cut to the budget before.
        whole = sum(self._length(view) for view in views) + max(map(self._length, views)) * len(views)
        scores = score(self.model, prompts, actions, self.training.rule, whole, self.step.network)
        if scores.values is None:
            return Outputs(scores.log_probs)
        if scores.values.shape[1] == 1:
            return Outputs(scores.log_probs, scores.values[:, 0])
        return Outputs(scores.log_probs, action_values=by_action(scores.values, views))

    def _tokenized(self, view: View) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        if view not in self._tokens:
            self._tokens[view] = tokenize(self.model, self.training.labels, view, self.training.rule)
            check_context(self.model, len(self._tokens[view][0]), view.observation.text)
        return self._tokens[view]

    def _length(self, view: View) -> int:
        """Padded tokens that a view needs."""
        ids, actions = self._tokenized(view)
        return len(ids) if self.training.rule in LISTED else len(actions) * (len(ids) + max(map(len, actions)))

    def _report(self) -> None:
        names = dict.fromkeys(name for row in self.rows for name in row)
        means = {name: _mean([row[name] for row in self.rows if name in row]) for name in names}
        self.rows = []
        row = {"step": self.done, **means} | self.meter.measure(self.done, self.step.tokens)
        # Sizes never change, so the first row says them for all.
        self.log.append(row | (self.meter.sizes() if self.done <= self.every else {}), "step")
        release()
        if self.engine.main:
            self.training.progress(self.done, self.total, f"loss {means['loss']:.4f}, {self.meter.note()}")

    def _save(self) -> None:
        # All processes ask: where weights are sharded, each holds a part.
        tensors = {
            "weights": self.engine.whole_weights(self.model.model),
            "optimizer": self.engine.optimizer_state(self.optimizer),
        }
        if self.head is not None:
            tensors["head"] = self.head.state_dict()
        if self.engine.main:
            seconds, mark = self.meter.elapsed(), self.log.mark()
            state = {"step": self.done, "rows": self.rows, "seconds": seconds, "metrics": mark}
            self.training.checkpoints.save(self.done, tensors, state)


def fit(training: Training, objective: Objective) -> None:
    """Train on one objective from the first step to the last.

    Raises:
        TrainingError: the loss or the gradient is not finite or too large.
    """
    trainer = Trainer(training, training.config.steps)
    trainer.fit(objective)
    trainer.close()


def draw_examples(objective: Objective, seed: int, count: int) -> list[int]:
    """`count` numbers of examples: by their weights, or all in a random order, and again in another."""
    examples = len(objective.examples)
    if objective.weights is not None:
        weights = torch.tensor(objective.weights, dtype=torch.float64).numpy()
        return [int(k) for k in stream(seed, "weighted examples").choice(examples, count, p=weights / weights.sum())]
    # Each pass has a stream of its own: more steps prolong the order and change nothing before.
    passes = (stream(seed, "examples", number).permutation(examples) for number in range(math.ceil(count / examples)))
    return [int(k) for order in passes for k in order][:count]


@dataclass(frozen=True)
class Frozen:
    """Scores of a frozen model. Letters: N views, A the largest number of actions among them, H hidden size."""

    log_probs: Tensor
    """(N, A) log π(a|s), -inf where there is no action."""
    hidden: Tensor
    """(N, H) hidden state at the end of each prompt."""


@torch.no_grad()
def frozen_scores(
    model: LanguageModel, labels: Labels, views: Sequence[View], rule: Rule, *, temperature: float = 1.0
) -> Frozen:
    """Score views by a model that is not trained, on the CPU; equal views are computed once."""
    unique = list(dict.fromkeys(views))
    parts = [
        score_views(model, labels, unique[k : k + AT_ONCE], rule, temperature) for k in range(0, len(unique), AT_ONCE)
    ]
    width = max(part.log_probs.shape[1] for part in parts)

    def wide(table: Tensor) -> Tensor:
        return torch.nn.functional.pad(table, (0, width - table.shape[1]), value=-math.inf)

    place = {view: row for row, view in enumerate(unique)}
    rows = torch.tensor([place[view] for view in views])
    log_probs = torch.cat([wide(part.log_probs).cpu() for part in parts])
    return Frozen(log_probs[rows], torch.cat([part.hidden.float().cpu() for part in parts])[rows])


def chosen(log_probs: Tensor, actions: Tensor) -> Tensor:
    """(N,) log-probabilities of the actions (N,) in a table (N, A)."""
    return log_probs.gather(1, actions.to(log_probs.device)[:, None])[:, 0]


def by_action(values: Tensor, views: Sequence[View]) -> Tensor:
    """Outputs of a head for the listed numbers (N, labels), in the order of the actions of each view, (N, A)."""
    width = max(len(view.observation.actions) for view in views)
    # Filled up with the first one: nobody reads what stands where there is no action.
    numbers = [[view.order.index(k) if k < len(view.order) else 0 for k in range(width)] for view in views]
    return values.gather(1, torch.tensor(numbers, device=values.device))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def silent(done: int, total: int, note: str) -> None:
    """Progress that nobody asked for."""
