"""Objectives that learners minimise, and their examples as rows of the one loop of training (`RowTrainer`).

An objective is a list of examples, each about one or several views, and a loss of the scores of these views. The same
seed gives the same weights, bit for bit on one kind of machine, with or without interruptions.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from reflect_algorithms.comparisons import Comparison
from reflect_rl.algorithms import Loss, Outputs
from reflect_rl.batch import by_action
from reflect_rl.config import AlgorithmConfig, Rule
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import ConfigError
from reflect_rl.evaluation.evaluate import NO_ALGORITHM
from reflect_rl.launch import process_rank
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import check_context, row_tokens, score
from reflect_rl.players.language_model import score_views, tokenize
from reflect_rl.rollout import Reflector
from reflect_rl.training.config import OptimiserConfig, RLFTConfig
from reflect_rl.training.distributed import Engine
from reflect_rl.training.learner import no_dropout
from reflect_rl.training.loop import PartialLoss
from reflect_rl.training.metrics import MetricsLog
from reflect_rl.training.trainer import Rows, RowTrainer, checkpoints_in, passes
from reflect_rl.types import Episode, Progress, Task, View, stream
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

Tokens = dict[View, tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]]
"""Tokens of each view: its prompt, and its actions."""
AT_ONCE = 512
"""Views that a frozen model scores in one call."""


class Reward(Protocol):
    """A learned reward."""

    def rewards(self, views: Sequence[View], actions: Tensor) -> Tensor:
        """(N,) reward of each action (N,) in its state."""


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


class Learner(Protocol):
    """A way to train a policy."""

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings of a run."""

    def train(self, training: Training) -> None:
        """Train the model in place.

        Raises:
            TrainingError: the loss or the gradient is not finite or too large.
            UserError: the log lacks what the learner needs; the message says what, and what to do.
        """


@runtime_checkable
class AsksOutcome(Protocol):
    """A learner whose policy must be asked for an outcome at test time."""

    reflector: Reflector
    """Asks for the outcome."""


@runtime_checkable
class TrainsOnline(Protocol):
    """A learner that trains by online RL."""

    def algorithm(self) -> AlgorithmConfig:
        """The RL algorithm."""


def algorithm_of(learner: Learner) -> str:
    """Name of a learner's RL algorithm; `NO_ALGORITHM` without online RL."""
    return learner.algorithm().name if isinstance(learner, TrainsOnline) else NO_ALGORITHM


@runtime_checkable
class HasWeights(Protocol):
    """An object that is known by its weights, such as a language model or a reward model."""

    def hash(self) -> str:
        """A text that is equal exactly if the weights are."""


def settings_of(learner: Learner) -> list[str]:
    """The class of a learner and its settings, which must stay the same while its training is interrupted.

    Settings are attributes that are configurations, plain values and tuples of them, or models; other objects are left
    out.
    """
    own = {name: text for name, value in _attributes(learner).items() if (text := _as_setting(value)) is not None}
    kind = type(learner)
    return [f"{kind.__module__}.{kind.__qualname__}", *(f"{name} {value}" for name, value in sorted(own.items()))]


def _as_setting(value: object) -> str | None:
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    # A class that has weights is no object with any.
    if isinstance(value, HasWeights) and not isinstance(value, type):
        return value.hash()
    return repr(value) if _is_plain(value) else None


def stages_of(learner: Learner) -> list[str]:
    """Stages that the curriculum of a learner's online RL names, as it names them."""
    online = [value for value in _attributes(learner).values() if isinstance(value, RLFTConfig)]
    return [stage for settings in online for stage in settings.curriculum.named_modes]


def _attributes(learner: Learner) -> dict[str, object]:
    """Attributes of an object, also those in slots."""
    slots = [vars(kind).get("__slots__", ()) for kind in type(learner).__mro__]
    # One slot may be named by a text alone.
    names = [name for part in slots for name in ([part] if isinstance(part, str) else part)]
    # Two are Python's own: the dictionary of what has no slot, and who refers to the object.
    own = [name for name in names if name not in ("__dict__", "__weakref__") and hasattr(learner, name)]
    kept = {name: getattr(learner, name) for name in own}
    return kept | (vars(learner) if hasattr(learner, "__dict__") else {})


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


RESULTS = frozenset({"settings.json", "metrics.jsonl", "card.json", "checkpoints", "model"})
"""Names in the folder of a finished training that no other one goes on from."""


def end_training(begun: Path) -> None:
    """Remove the checkpoints of a finished training, and the note of its settings where nothing else could go on.

    Of several processes that trained together the main one does so.

    Args:
        begun: the note, as `begin_training` gives it.
    """
    if process_rank() != 0:
        return
    checkpoints_in(begun.parent).clear()
    # Played rounds and learned worlds are gone on from silently, so only equal settings may find them.
    if all(path.name in RESULTS for path in begun.parent.iterdir()):
        begun.unlink()


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


class Trainer(RowTrainer):
    """Optimiser steps on one objective after another.

    Args:
        training: the model and its settings.
        head: a critic's or reward's head that is trained with the model.

    Raises:
        ConfigError: the training cannot be distributed as it was launched.
        RunFolderError: there are checkpoints, and all are corrupt.
    """

    def __init__(self, training: Training, head: nn.Module | None = None) -> None:
        if Engine(training.model.device).sharded and training.rule != "choice_token":
            # The processes would need different numbers of passes, and each pass of sharded weights needs them all.
            raise ConfigError(
                f"prompt.scoring {training.rule!r} does not run with sharded weights. Use 'choice_token'."
            )
        super().__init__(
            training.model,
            training.config,
            training.folder,
            training.seed,
            head=head,
            metrics=training.metrics,
            settings="the table `training` of this method's section",
        )
        self.training = training
        self._tokens: Tokens = {}

    def fit(self, objective: Objective, until: int | None = None) -> None:
        """Train on an objective until this step (None: to the end); nothing where a checkpoint is past it.

        Raises:
            ModelError: a prompt is longer than the model's context.
            TrainingError: before the step that would have spoilt the weights.
        """
        until = self.config.steps if until is None else until
        order = draw_examples(objective, self.training.seed, until * self.config.batch_size)
        # Dropout would make the probabilities of a log's actions others than those that are compared with.
        no_dropout(self.model.model)
        self.run(_Examples(self.training, objective, self._tokens), order, self.training.progress, until)
        self.model.model.eval()


class _Examples(Rows):
    """Examples of an objective as rows of a training."""

    def __init__(self, training: Training, objective: Objective, tokens: Tokens) -> None:
        self.training, self.objective, self.tokens = training, objective, tokens

    def length(self, number: int) -> int:
        return sum(map(self._length, self._views(number)))

    def loss(self, numbers: Sequence[int], batch: Sequence[int], network: nn.Module) -> PartialLoss:
        outputs = self._outputs([view for number in numbers for view in self._views(number)], network)
        result = self.objective.loss(torch.tensor(numbers), outputs)
        metrics = {"loss": float(result.value.detach())} | result.metrics
        return PartialLoss(result.value * (len(numbers) / len(batch)), len(numbers), metrics)

    def record(self, number: int) -> dict[str, Any]:
        return {"views": [asdict(view) for view in self._views(number)]}

    def _views(self, number: int) -> list[View]:
        return [self.objective.views[row] for row in self.objective.examples[number]]

    def _outputs(self, views: Sequence[View], network: nn.Module) -> Outputs:
        pairs = [self._tokenized(view) for view in views]
        prompts, actions = [prompt for prompt, _ in pairs], [texts for _, texts in pairs]
        # One pass: the examples were cut to the budget before.
        scores = score(self.training.model, prompts, actions, self.training.rule, sys.maxsize, network)
        if scores.values is None:
            return Outputs(scores.log_probs)
        if scores.values.shape[1] == 1:
            return Outputs(scores.log_probs, scores.values[:, 0])
        return Outputs(scores.log_probs, action_values=by_action(scores.values, views))

    def _tokenized(self, view: View) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        if view not in self.tokens:
            model = self.training.model
            self.tokens[view] = tokenize(model, self.training.labels, view, self.training.rule)
            check_context(model, len(self.tokens[view][0]), view.observation.text)
        return self.tokens[view]

    def _length(self, view: View) -> int:
        """Padded tokens that a view needs."""
        return row_tokens(self.training.model, *self._tokenized(view), self.training.rule)


def fit(training: Training, objective: Objective) -> None:
    """Train on one objective from the first step to the last.

    Raises:
        TrainingError: the loss or the gradient is not finite or too large.
    """
    trainer = Trainer(training)
    trainer.fit(objective)
    trainer.close()


def draw_examples(objective: Objective, seed: int, count: int) -> list[int]:
    """`count` numbers of examples: by their weights, or all in a random order, and again in another."""
    examples = len(objective.examples)
    if objective.weights is not None:
        weights = torch.tensor(objective.weights, dtype=torch.float64).numpy()
        return [int(k) for k in stream(seed, "weighted examples").choice(examples, count, p=weights / weights.sum())]
    return passes(seed, "examples", examples, count)


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

    def scored(part: Sequence[View]) -> tuple[Tensor, Tensor]:
        scores = score_views(model, labels, part, rule, temperature)
        return scores.log_probs, scores.hidden.float()

    return Frozen(*computed_once(views, scored, -math.inf))


def computed_once(
    views: Sequence[View], compute: Callable[[Sequence[View]], Sequence[Tensor]], fill: float
) -> list[Tensor]:
    """Tables of views, on the CPU, from those of the different ones, at most `AT_ONCE` of them in a call.

    Args:
        views: N states.
        compute: gives tables of M different states, with M rows each.
        fill: what stands in a row behind its last column, where another call gave more columns.

    >>> from reflect_rl.types import Observation
    >>> a, b = (View(Observation(text, ("go",)), (0,)) for text in "ab")
    >>> computed_once([b, a, b], lambda part: [torch.arange(float(len(part)))[:, None]], 0.0)
    [tensor([[0.],
            [1.],
            [0.]])]
    """
    unique = list(dict.fromkeys(views))
    parts = [compute(unique[k : k + AT_ONCE]) for k in range(0, len(unique), AT_ONCE)]
    place = {view: row for row, view in enumerate(unique)}
    rows = torch.tensor([place[view] for view in views])
    return [_stacked(tables, fill)[rows] for tables in zip(*parts, strict=True)]


def _stacked(tables: Sequence[Tensor], fill: float) -> Tensor:
    """Tables below each other, on the CPU, as wide as the widest."""
    width = max(table.shape[1] for table in tables)
    wide = [nn.functional.pad(table, (0, width - table.shape[1]), value=fill) for table in tables]
    return torch.cat([table.cpu() for table in wide])


def chosen(log_probs: Tensor, actions: Tensor) -> Tensor:
    """(N,) log-probabilities of the actions (N,) in a table (N, A)."""
    return log_probs.gather(1, actions.to(log_probs.device)[:, None])[:, 0]
