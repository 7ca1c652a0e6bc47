"""Optimiser steps of one update: episodes in, better weights out.

Turns with the same prompt are computed once: minibatches are cut by prompt, never through the turns of one. A minibatch
is computed in micro-batches of similar length that fit the memory; its loss is the mean over its turns, however it is
divided among micro-batches and processes. Turns that cannot change a weight are not computed, but counted in that mean.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import zip_longest
from numbers import Integral
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from reflect_rl import registry
from reflect_rl.algorithms import MOVED_BY_ADVANTAGES, Batch, Critic, Loss, Outputs, PolicyGradientConfig
from reflect_rl.batch import by_action, collate
from reflect_rl.config import Rule
from reflect_rl.envs.base import require_known
from reflect_rl.errors import ConfigError, TrainingError, UserError
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel, forked_rng
from reflect_rl.models.network import Network, ValueHead, shares
from reflect_rl.models.score import Scores, check_fits, least_shared, row_tokens, score, token_budget
from reflect_rl.players.language_model import tokenize
from reflect_rl.store import write_jsonl
from reflect_rl.training.checkpoint import Checkpoints
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.distributed import Engine
from reflect_rl.training.loop import ExplosionError, OptimiserStep, PartialLoss, side_by_side, weighted_means
from reflect_rl.types import Episode, View, seed_for, stream

Tokens = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Ids of a prompt and of its actions."""


class Learner:
    """The policy, its critic and their optimiser.

    Raises:
        ConfigError: the weights are sharded, and the rule is another than `choice_token`.
    """

    def __init__(
        self,
        model: LanguageModel,
        labels: Labels,
        config: RLFTConfig,
        seed: int,
        engine: Engine,
        *,
        reference: LanguageModel | None = None,
        rule: Rule = "choice_token",
        excluded: frozenset[str] = frozenset(),
    ) -> None:
        self.model, self.labels, self.config, self.seed, self.engine = model, labels, config, seed, engine
        self.reference, self.rule, self.excluded = reference, rule, excluded
        self.together = config.turns_together > 1
        self.token_budget = config.micro_batch_tokens or token_budget(model)
        self.algorithm = registry.find("algorithms", config.algorithm.name)(config.algorithm)
        require_known(f"critic of the algorithm {config.algorithm.name!r}", self.algorithm.critic, get_args(Critic))
        check_epochs(self.algorithm.epochs, config.algorithm.name)
        self.value_head = self._value_head()
        self.own = Network(model, self.value_head)
        """The network that plays: all weights."""
        if engine.sharded and rule != "choice_token":
            # The processes would need different numbers of passes, and each pass of sharded weights needs them all.
            raise ConfigError(f"prompt.scoring {rule!r} does not run with sharded weights. Use 'choice_token', or DDP.")
        # Every process plays at its own pace, so what plays stays whole.
        self.trained: Any = engine.trainable(self.own, plays=True)
        # The first group is the policy's: its learning rate follows the schedule, that of the critic is constant.
        groups: list[dict[str, Any]] = [{"params": self.parameters, "lr": config.learning_rate}]
        if self.value_head is not None:
            groups.append({"params": self._critic_parameters(), "lr": config.value_learning_rate})
        # Decay would move the weights although no turn asks for it.
        self.optimizer = torch.optim.AdamW(groups, weight_decay=0.0, fused=True)
        limits = {"max_grad_norm": config.max_grad_norm, "stop_grad_norm": config.stop_grad_norm}
        self.step = OptimiserStep(engine, self.trained, self.optimizer, fits=partial(check_fits, model), **limits)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Parameters of the policy that are trained."""
        return [p for p in self.trained.language_model.parameters() if p.requires_grad]

    def _critic_parameters(self) -> list[nn.Parameter]:
        return [] if self.trained.head is None else list(self.trained.head.parameters())

    def _value_head(self) -> ValueHead | None:
        if self.algorithm.critic == "none":
            return None
        size = self.model.model.get_output_embeddings().weight.shape[1]
        outputs = 1 if self.algorithm.critic == "state" else len(self.labels.ids)
        # A stream of its own: the head's weights do not depend on what was drawn before it was made.
        with forked_rng(seed_for(self.seed, "value head")):
            head = ValueHead(size, self.config.value_head, outputs)
        return head.to(self.model.device)

    def learn(self, views: Sequence[View], batch: Batch, update: int, learning_rate: float) -> dict[str, float]:
        """Learn from the turns of update number `update`, as `batch_of` gives them; what to log about it.

        Raises:
            ModelError: the memory does not hold the activations of a prompt.
            TrainingError: a loss or gradient is not finite, or has exploded; the turns are saved.
        """
        no_dropout(self.trained.language_model)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        moving = (batch.advantages != 0).tolist()
        computed = moving if self._only_advantages_move() else [True] * len(views)
        batch = batch.map(lambda part: part.to(self.model.device))
        prompts = {view: tokenize(self.model, self.labels, view, self.rule) for view in dict.fromkeys(views)}
        rows: list[tuple[int, dict[str, float]]] = []
        limit, steps = self.config.target_kl or math.inf, 0
        # Sorted, turns that begin alike are neighbours.
        order = sorted(prompts, key=prompts.__getitem__) if self.together else list(prompts)
        for turns in self.minibatches(views, order, update):
            # Turns left out still count in the mean: the gradient is scaled by their share below.
            learnt = [turn for turn in turns if computed[turn]]
            if not learnt:
                continue
            metrics = self._gradient(views, prompts, batch, learnt, len(learnt) / len(turns), update)
            rows.append((1, metrics))
            # Replayed turns are far from the policy before any step, and must not end each update before it.
            if steps and metrics[BOUNDED] > limit:
                break  # before the step: the weights stay where the divergence was last small enough
            self.step.apply()
            steps += 1
        self.engine.refresh(self.own, self.trained)
        own = {"policy/unique_prompts": len(prompts) / len(views), "policy/moving_share": sum(moving) / len(moving)}
        return weighted_means(rows) | own | {"policy/steps": steps}

    def batch_of(self, episodes: Sequence[Episode], replayed: Sequence[Episode] = ()) -> tuple[list[View], Batch]:
        """The turns of these episodes that are learnt from, with their advantages by the present weights.

        Values and reference are those before the update: they are constants of its loss.
        """
        values = self._values if self.algorithm.critic == "state" else None
        reference = self._reference if self.reference is not None else None
        return collate(self.algorithm, episodes, replayed, self.excluded, values, reference)

    def minibatches(self, views: Sequence[View], order: Sequence[View], update: int) -> Iterator[list[int]]:
        """Minibatches of all passes over the turns.

        Args:
            views: of the turns.
            order: the different ones; with `turns_together`, neighbours stay in one minibatch.
            update: number of the update.
        """
        for epoch in range(self.algorithm.epochs):
            rng = stream(self.seed, "minibatches", update, epoch)
            drawn = [order[place] for place in side_by_side(len(order), self.config.turns_together, rng)]
            yield from _cut(views, self.config.minibatch_turns, drawn)

    def _only_advantages_move(self) -> bool:
        """Tell whether a turn with the advantage 0 has no gradient."""
        config = self.config.algorithm
        # Nothing is known of the loss of a stranger's algorithm, so all of its turns are computed.
        known = isinstance(config, PolicyGradientConfig) and not config.regularised
        return known and type(self.algorithm).loss in MOVED_BY_ADVANTAGES and self.algorithm.critic == "none"

    def _gradient(
        self,
        views: Sequence[View],
        prompts: dict[View, Tokens],
        batch: Batch,
        turns: Sequence[int],
        share: float,
        update: int,
    ) -> dict[str, float]:
        """The gradient of the turns, which are this share of their minibatch, ready for an optimiser step."""
        by_view: dict[View, list[int]] = defaultdict(list)
        for turn in turns:
            by_view[views[turn]].append(turn)
        unique = list(by_view)

        def loss(part: list[int]) -> PartialLoss:
            own = [turn for place in part for turn in by_view[unique[place]]]
            outputs = self._outputs([views[turn] for turn in own], prompts)
            at = torch.tensor(own, device=self.model.device)
            result = self.algorithm.loss(batch.select(at), outputs)
            check_loss(result, type(self.algorithm).__name__)
            moved = kl_to_behaviour(batch.select(at), outputs)
            metrics = result.metrics | {"policy/total_loss": float(result.value.detach()), BOUNDED: moved}
            return PartialLoss(result.value * (share * len(own) / len(turns)), len(own), metrics)

        # The budget is of prompts, not turns: equal prompts go through the model once.
        lengths = [row_tokens(self.model, *prompts[view], self.rule) for view in unique]
        beginnings = None
        if shares(self.model.model, together=self.together):
            own = [prompts[view][0] for view in unique]
            beginnings = own, least_shared(self.model, own, [len(ids) + 1 for ids in own], together=self.together)
        metrics = self.step.accumulate(lengths, self.token_budget, loss, beginnings)
        # Before the norm is taken, which is that of the gradient that will be applied.
        self._hold_back(update)
        try:
            norm = self.step.clip(self.parameters, metrics["policy/total_loss"])
        except ExplosionError as error:
            raise OffendingTurnsError(error, update, [_record(views[turn], batch, turn) for turn in turns]) from None
        return metrics | {"policy/gradient_norm": norm}

    def _outputs(self, views: Sequence[View], prompts: dict[View, Tokens]) -> Outputs:
        # In one pass: the turns were cut to the budget before, and what wraps the network to train it on several
        # processes waits in each pass for the others, which may need fewer.
        scores = self._scores(self.model, views, prompts, self.step.network, sys.maxsize)
        if scores.values is None:
            return Outputs(scores.log_probs)
        if self.algorithm.critic == "state":
            return Outputs(scores.log_probs, scores.values[:, 0])
        return Outputs(scores.log_probs, action_values=by_action(scores.values, views))

    def _scores(
        self,
        model: LanguageModel,
        views: Sequence[View],
        prompts: dict[View, Tokens],
        network: nn.Module | None,
        max_tokens: int,
    ) -> Scores:
        pairs = [prompts[view] for view in views]
        prompts_only, actions = [prompt for prompt, _ in pairs], [actions for _, actions in pairs]
        temperature, together = self.config.temperature, self.together
        return score(model, prompts_only, actions, self.rule, max_tokens, network, temperature, together=together)

    def _hold_back(self, update: int) -> None:
        """Drop the gradients of what this update does not train."""
        if self.value_head is not None and update < self.config.critic_warmup_updates:
            _forget_gradients(self.parameters)

    @torch.no_grad()
    def _values(self, views: Sequence[View]) -> Tensor:
        """(N,) V(s) before the update."""
        rows = self._scores_of_all(views, self.model, self.own, lambda scores: scores.values)
        return torch.tensor([row[0] for row in rows])

    @torch.no_grad()
    def _reference(self, views: Sequence[View]) -> Tensor:
        """(N, A) log π_ref, -inf where there is no action."""
        if self.reference is None:
            raise ValueError("no reference policy was given")
        rows = self._scores_of_all(views, self.reference, None, lambda scores: scores.log_probs)
        # Each process has padded its rows to the widest of its own states.
        width = max(len(view.observation.actions) for view in views)
        return torch.tensor([[*row[:width], *[-math.inf] * (width - len(row))] for row in rows])

    def _scores_of_all(
        self,
        views: Sequence[View],
        model: LanguageModel,
        network: nn.Module | None,
        part: Callable[[Scores], Tensor | None],
    ) -> list[list[float]]:
        """A part of the scores of each view; every process computes its share of the different ones."""
        unique = list(dict.fromkeys(views))
        mine = self.engine.share(unique)
        rows: list[list[float]] = []
        if mine:
            prompts = {view: tokenize(model, self.labels, view, self.rule) for view in mine}
            table = part(self._scores(model, mine, prompts, network, self.token_budget))
            if table is None:
                raise ValueError("this algorithm has no critic")
            rows = table.tolist()
        gathered = self.engine.all_gather([rows])
        # Shares were dealt out in turn, so taking one row of each process in turn restores the order.
        merged = [row for group in zip_longest(*gathered) for row in group if row is not None]
        by_view = dict(zip(unique, merged, strict=True))
        return [by_view[view] for view in views]


BOUNDED = "policy/kl_to_behaviour"
"""Metric that `target_kl` bounds, of every algorithm."""


def kl_to_behaviour(batch: Batch, outputs: Outputs) -> float:
    """Mean of ρ - 1 - log ρ: an estimate of KL(π_behaviour ‖ π) that is never negative."""
    log_ratio = (outputs.chosen(batch) - batch.behaviour_log_probs).detach()
    # expm1 keeps the small differences that exp(x) - 1 would round away.
    return float((log_ratio.expm1() - log_ratio).mean())


class OffendingTurnsError(TrainingError):
    """A refused step of online training, with the turns of its batch."""

    def __init__(self, error: ExplosionError, update: int, turns: list[dict[str, Any]]) -> None:
        self.turns = turns
        super().__init__(f"update {update}: {error}")

    def saved(self, folder: Path, main: bool) -> TrainingError:
        """Write the turns to a file of the folder, in the main process; the error that says so."""
        path = folder / "offending_batch.jsonl"
        if main:
            write_jsonl(path, self.turns)
        checkpoints = Checkpoints(folder / "checkpoints")
        kept = f"the last checkpoint in {checkpoints.folder} is kept, " if checkpoints.exist else ""
        return TrainingError(
            f"{self}. Nothing was changed by it: {kept}the {len(self.turns)} turns are in {path}. Lower "
            "rlft.learning_rate or raise rlft.algorithm.kl_coef; if such norms are usual with this model, raise "
            "rlft.stop_grad_norm."
        )


def _cut(views: Sequence[View], size: int, order: Sequence[View]) -> Iterator[list[int]]:
    """The turns in minibatches of about `size`, in the order of their different views; equal ones stay together."""
    by_view: dict[View, list[int]] = defaultdict(list)
    for turn, view in enumerate(views):
        by_view[view].append(turn)
    count = min(math.ceil(len(views) / size), len(order))
    part: list[int] = []
    done, ended = 0, 0
    for view in order:
        part += by_view[view]
        done += len(by_view[view])
        # The k-th minibatch ends when k/count of all turns are in.
        if done * count >= (ended + 1) * len(views):
            yield part
            part, ended = [], done * count // len(views)


def no_dropout(model: nn.Module) -> None:
    """Eval mode, in which nothing is dropped.

    Gradient checkpointing works in training mode only, so the layers that recompute are put into it, and they alone:
    what drops inside them (dropout layers, attention) stays in eval mode.
    """
    model.eval()
    # Set on the layer itself: `train()` would reach the dropout layers inside it.
    for module in model.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.training = True
            for name in OWN_DROPOUT & vars(module).keys():
                setattr(module, name, 0.0)


OWN_DROPOUT = {"dropout", "activation_dropout", "attention_dropout", "layerdrop"}
"""Attributes of layers that drop by themselves and not by a layer inside them, as those of OPT do."""


def _forget_gradients(parameters: Any) -> None:
    # AdamW skips a parameter without a gradient; with one of zero it would still follow its momentum.
    for parameter in parameters:
        parameter.grad = None


def _record(view: View, batch: Batch, turn: int) -> dict[str, Any]:
    """A turn as it was learnt from, for the file of an offending batch."""
    return {
        "observation": asdict(view.observation),
        "order": list(view.order),
        "reflection": view.reflection,
        "action": int(batch.actions[turn]),
        "behaviour_log_prob": float(batch.behaviour_log_probs[turn]),
        "advantage": float(batch.advantages[turn]),
        "return": float(batch.returns[turn]),
        "replayed": bool(batch.replayed[turn]),
    }


def check_epochs(epochs: object, name: str) -> None:
    """Check the number of passes of the algorithm `name`.

    Raises:
        UserError: it is no whole number from 1 on.
    """
    # With none, nothing would be trained, and no word said.
    if not isinstance(epochs, Integral) or isinstance(epochs, bool) or epochs < 1:
        raise UserError(f"the algorithm {name!r} makes {epochs!r} epochs over each batch. Set epochs = 1, or more.")


def check_loss(loss: Any, name: str) -> None:
    """Check what the loss of the algorithm `name` gave.

    Raises:
        UserError: it is no Loss, its value is no scalar with a gradient, or a metric is no number.
    """
    if not isinstance(loss, Loss):
        raise UserError(f"the loss of {name!r} is of type {type(loss).__name__}. Return a Loss.")
    if loss.value.numel() != 1:
        raise UserError(f"the loss of {name!r} has the shape {tuple(loss.value.shape)}. Give its mean, one number.")
    if not loss.value.requires_grad:
        raise UserError(f"the loss of {name!r} has no gradient. Compute it from `outputs`, without detach or item.")
    for key, value in loss.metrics.items():
        if not isinstance(value, int | float):
            kind = type(value).__name__
            raise UserError(f"the metric {key!r} of the loss of {name!r} is of type {kind}. Give float(...) of it.")
