"""The optimiser step that supervised and online training share.

A batch goes forwards and backwards in micro-batches of rows of similar length, each within a budget of tokens, so
memory holds the activations of one micro-batch however large the batch is. The micro-batches are dealt out to the
processes of a launch and their gradients added up. Then the gradient is clipped, and a step whose loss or gradient is
not finite, or too large, is refused before it changes a weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from reflect_rl.errors import TrainingError
from reflect_rl.models.load import forked_rng
from reflect_rl.models.prefixes import prefix_batches
from reflect_rl.models.score import micro_batches
from reflect_rl.training.distributed import Engine
from reflect_rl.types import seed_for

FINAL_SHARE = 0.1
"""Share of the peak learning rate at which a cosine ends."""


Beginnings = tuple[Sequence[tuple[int, ...]], Sequence[int]]
"""Tokens that rows begin with, and how many of its own each must share with another to be read with it."""


class ExplosionError(TrainingError):
    """A step was refused: its loss or gradient norm is not finite, or the norm is above the limit."""

    def __init__(self, loss: float, norm: float) -> None:
        self.loss, self.norm = loss, norm
        super().__init__(f"the loss is {loss}, the gradient norm {norm}")


@dataclass(frozen=True)
class PartialLoss:
    """Loss of one micro-batch."""

    total: Tensor
    """Share in the loss of the whole batch: the shares of all micro-batches of all processes add up to it."""
    weight: int
    """Weight of the metrics in their mean over the batch, for example the number of targets."""
    metrics: dict[str, float]
    """Quantities to log."""


class OptimiserStep:
    """Gradient and step of one batch after another.

    Args:
        engine: the processes that train together.
        network: the module whose passes are trained.
        optimizer: the optimiser of its parameters.
        fits: refuses a row of so many tokens that the memory does not hold.
        max_grad_norm: gradient norm above which gradients are scaled down.
        stop_grad_norm: gradient norm above which the step is refused; 0 refuses only what is not finite.
    """

    def __init__(
        self,
        engine: Engine,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        fits: Callable[[int], None],
        max_grad_norm: float,
        stop_grad_norm: float,
    ) -> None:
        self.engine, self.optimizer, self.fits = engine, optimizer, fits
        self.max_grad_norm, self.stop_grad_norm = max_grad_norm, stop_grad_norm or math.inf
        self.network, self._stepper = engine.prepare(network, optimizer)
        self.tokens = 0
        """Tokens trained on so far by all processes, without padding; a token counts once for each pass."""

    def accumulate(
        self,
        lengths: Sequence[int],
        max_tokens: int,
        loss: Callable[[list[int]], PartialLoss],
        beginnings: Beginnings | None = None,
    ) -> dict[str, float]:
        """Add up the gradient of a batch; the weighted means of its metrics over all micro-batches and processes.

        Args:
            lengths: tokens of each row of the batch.
            max_tokens: upper bound on the padded tokens of one micro-batch.
            loss: forward pass over the rows with these indices.
            beginnings: of the rows (unset: each row is read by itself).
        """
        self.fits(max(lengths))
        self.optimizer.zero_grad(set_to_none=True)
        self.tokens += sum(lengths)
        groups = self._own_groups(lengths, max_tokens, beginnings)
        rows: list[tuple[int, dict[str, float]]] = []
        for number, (group, counts) in enumerate(groups, 1):
            # Processes exchange gradients once, in the last pass. Sharded, every pass must exchange them: a whole
            # gradient kept until the end would need the memory that sharding saves.
            exchanged = number == len(groups) or self.engine.sharded
            with nullcontext() if exchanged else self.engine.local_only(self.network):
                part = loss(group)
                self.engine.backward(part.total * float(counts))
            rows.append((part.weight * counts, part.metrics))
        return weighted_means(self.engine.all_gather(rows))

    def clip(self, parameters: Iterable[Tensor], loss: float) -> float:
        """Scale the gradient down to `max_grad_norm`; its norm before.

        Raises:
            ExplosionError: the loss or the norm is not finite, or the norm is above `stop_grad_norm`.
        """
        norm = self.engine.clip(parameters, self.max_grad_norm)
        if math.isfinite(loss) and math.isfinite(norm) and norm <= self.stop_grad_norm:
            return norm
        raise ExplosionError(loss, norm)

    def apply(self) -> None:
        """Change the weights."""
        self._stepper.step()

    def _own_groups(
        self,
        lengths: Sequence[int],
        max_tokens: int,
        beginnings: Beginnings | None,
    ) -> list[tuple[list[int], bool]]:
        """Micro-batches of this process, and whether they count."""
        # A batch that would fit into one pass is cut as well, so that each process has work.
        most = min(max_tokens, math.ceil(max(lengths) * len(lengths) / self.engine.count))
        if beginnings is None:
            groups = [(group, len(group) * max(lengths[i] for i in group)) for group in micro_batches(lengths, most)]
        else:
            groups = prefix_batches(beginnings[0], lengths, beginnings[1], most)
        counted = [(group, True) for group, _ in groups]
        if self.engine.sharded:
            # All processes gather a layer's weights at the same time, so each makes as many passes, of similar sizes.
            counted += [(groups[0][0], False)] * (-len(groups) % self.engine.count)
            return list(self.engine.share(counted))
        own = dealt([tokens for _, tokens in groups], self.engine.count)[self.engine.rank]
        # Gradients are exchanged in the last pass, so each process makes one.
        return [counted[i] for i in own] or [(groups[0][0], False)]


def dealt(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Micro-batches of each process, by their numbers: the largest first, each to the process that has least so far.

    Args:
        sizes: tokens of each micro-batch.
        count: of processes.

    >>> dealt([300, 500, 400, 250], 2)
    [[1, 3], [0, 2]]
    """
    shares: list[list[int]] = [[] for _ in range(count)]
    for number in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        min(shares, key=lambda share: sum(sizes[i] for i in share)).append(number)
    return [sorted(share) for share in shares]


def weighted_means(rows: Sequence[tuple[int, dict[str, float]]]) -> dict[str, float]:
    """Mean of each metric over the rows that report it, by weight."""
    # Passes made only to keep the processes in step have the weight 0.
    names = dict.fromkeys(name for weight, row in rows if weight for name in row)
    means = {}
    for name in names:
        own = [(weight, row[name]) for weight, row in rows if weight and name in row]
        means[name] = sum(weight * value for weight, value in own) / sum(weight for weight, _ in own)
    return means


def cosine_factor(step: int, warmup: int, total: int) -> float:
    """Learning rate of a step (from 0) as a share of its peak: a linear warm-up, then half a cosine down to a tenth.

    >>> [round(cosine_factor(step, 2, 6), 3) for step in range(7)]
    [0.0, 0.5, 1.0, 0.868, 0.55, 0.232, 0.1]
    """
    if step < warmup:
        return step / warmup
    progress = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1.0 + math.cos(math.pi * progress)) * (1 - FINAL_SHARE) + FINAL_SHARE


def linear_factor(share: float) -> float:
    """Learning rate after a share of the training, as a share of the first one: a line from 1 to a tenth.

    >>> [round(linear_factor(share), 3) for share in (0.0, 1.0)]
    [1.0, 0.1]
    """
    return 1 - share * (1 - FINAL_SHARE)


def side_by_side(count: int, size: int, rng: np.random.Generator) -> list[int]:
    """The numbers below `count` in a random order, in groups of at most `size` that follow one another.

    >>> side_by_side(6, 3, np.random.default_rng(0))
    [5, 0, 1, 2, 3, 4]
    """
    if size == 1:
        return list(map(int, rng.permutation(count)))
    # The cuts move, so that a number does not meet the same neighbours every time.
    cuts = sorted({0, *range(int(rng.integers(size)), count, size), count})
    groups = [range(start, end) for start, end in itertools.pairwise(cuts)]
    return [number for place in rng.permutation(len(groups)) for number in groups[place]]


@contextmanager
def dropout_stream(device: torch.device, root: int, step: int, rank: int) -> Iterator[None]:
    """Torch draws from the stream (root, "dropout", step, rank) inside; outside, its generators are as before.

    A resumed training so drops what an uninterrupted one does, and no generator's state has to be saved.

    Args:
        device: where the model is.
        root: seed of the training.
        step: number of the step, from 0.
        rank: number of the process.
    """
    with forked_rng(seed_for(root, "dropout", step, rank) % 2**32, device):
        yield
