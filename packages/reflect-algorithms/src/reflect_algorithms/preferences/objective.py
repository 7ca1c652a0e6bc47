"""Pairs as examples of the shared loop: turns of both sides, their sums, and the share that is ranked right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from reflect_algorithms.comparisons import Comparison
from reflect_algorithms.training import Trainer, Training
from reflect_rl.algorithms import Loss
from reflect_rl.errors import UserError
from reflect_rl.evaluation.evaluate import wilson_interval
from reflect_rl.store import write_json
from reflect_rl.training.config import OptimiserConfig
from reflect_rl.types import View

Score = Callable[[Sequence[View], Tensor], Tensor]
"""Views and the actions in them (N,) -> a number for each (N,)."""


class Compared:
    """Examples that are pairs: the turns of the better side, then those of the worse one.

    Args:
        comparisons: the pairs, M of them with N turns in all.
    """

    weights: Sequence[float] | None = None

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        turns = [turn for one in comparisons for turn in (*one.better, *one.worse)]
        self.views: Sequence[View] = [view for view, _ in turns]
        self.actions = torch.tensor([action for _, action in turns])
        self.lengths = torch.tensor([[len(one.better), len(one.worse)] for one in comparisons])
        """(M, 2) turns of the better and of the worse side."""
        ends = self.lengths.sum(1).cumsum(0).tolist()
        self.examples: Sequence[Sequence[int]] = [
            range(end - int(count), end) for end, count in zip(ends, self.lengths.sum(1).tolist(), strict=True)
        ]

    def rows(self, examples: Tensor) -> Tensor:
        """(R,) numbers of the turns of some pairs, in the order in which the loop scores them."""
        return torch.tensor([row for number in examples.tolist() for row in self.examples[number]])

    def sums(self, examples: Tensor, numbers: Tensor) -> Tensor:
        """(len(examples), 2) sums over the turns of the better and of the worse side.

        Args:
            examples: numbers of the pairs.
            numbers: (R,) one for each of their turns, as `rows` orders them.
        """
        lengths = self.lengths[examples].flatten()
        owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths).to(numbers.device)
        return numbers.new_zeros(len(lengths)).index_add(0, owner, numbers).view(-1, 2)


class RankedAndImitated(Compared):
    """Pairs whose sides are ranked, and whose better side is imitated.

    Args:
        comparisons: the pairs.
        imitation_coef: weight λ of the imitation.
    """

    def __init__(self, comparisons: Sequence[Comparison], imitation_coef: float) -> None:
        super().__init__(comparisons)
        self.imitation_coef = imitation_coef

    def total(self, ranked: Tensor, ranking: Tensor, imitation: Tensor) -> Loss:
        """The loss, ranking + λ imitation, with its parts as metrics.

        Args:
            ranked: (M, 2) numbers by which the sides are ranked.
            ranking: loss of the ranking.
            imitation: mean of -log p of the better side.
        """
        metrics = {
            "pair_accuracy": ranked_right(ranked.detach()),
            "ranking_loss": float(ranking.detach()),
            "imitation_loss": float(imitation.detach()),
        }
        return Loss(ranking + self.imitation_coef * imitation, metrics)


def ranked_right(sums: Tensor) -> float:
    """Share of the pairs (M, 2) whose better side has the higher sum; an equal one counts half.

    >>> ranked_right(torch.tensor([[2.0, 1.0], [0.0, 1.0], [1.0, 1.0], [3.0, 1.0]]))
    0.625
    """
    higher, equal = sums[:, 0] > sums[:, 1], sums[:, 0] == sums[:, 1]
    return float((higher + 0.5 * equal).mean())


def with_steps(training: Training, config: OptimiserConfig | None) -> Training:
    """The training with the optimiser steps of `[preferences.training]`; None: as it is."""
    return training if config is None else replace(training, config=config)


def needed(training: Training, method: str) -> Sequence[Comparison]:
    """The pairs of a training.

    Raises:
        UserError: there are none.
    """
    if not training.comparisons:
        raise UserError(f"{method}: there are no pairs to learn from. Make them with `reflect-rl pairs`.")
    return training.comparisons


def measure(trainer: Trainer, score: Score, *, mean: bool = False) -> dict[str, float | int | list[float]]:
    """Measure the pairs of held-out starts, for the metrics and for the file `card.json` beside them.

    Args:
        trainer: at its end.
        score: of the turns; the side with the higher sum is the predicted one.
        mean: compare means over the turns of a side in place of sums.
    """
    held_out = trainer.training.held_out
    card: dict[str, float | int | list[float]] = {
        "pairs": len(trainer.training.comparisons),
        "held_out_pairs": len(held_out),
    }
    if held_out:
        pairs = Compared(held_out)
        every = torch.arange(len(held_out))
        sums = pairs.sums(every, score(pairs.views, pairs.actions).float().cpu())
        sums = sums / pairs.lengths if mean else sums
        accuracy = ranked_right(sums)
        card["pair_accuracy"] = accuracy
        card["interval"] = list(wilson_interval(round(accuracy * len(held_out)), len(held_out)))
        # A flipped answer is no mistake of the model, so the truth is counted by itself.
        if all(one.agrees is not None for one in held_out):
            right = sums if all(one.agrees for one in held_out) else _turned(sums, held_out)
            card["true_pair_accuracy"] = ranked_right(right)
    if trainer.engine.main:
        write_json(trainer.training.folder / "card.json", card)
    row = {f"held_out/{name}": value for name in ACCURACIES if isinstance(value := card.get(name), float)}
    if row:
        trainer.log.append({"step": trainer.done, **row}, "step")
    return card


ACCURACIES = ("pair_accuracy", "true_pair_accuracy")
"""Numbers of the card that are metrics, too."""


def _turned(sums: Tensor, held_out: Sequence[Comparison]) -> Tensor:
    agrees = torch.tensor([bool(one.agrees) for one in held_out])[:, None]
    return torch.where(agrees, sums, sums.flip(1))
