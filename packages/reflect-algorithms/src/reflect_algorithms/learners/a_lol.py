"""A-LoL, Advantage-Leftover Lunch RL (Baheti et al. 2023, "Leftover Lunch: advantage-based offline RL").

A frozen reference π_ref has cloned the log, and gives a value V of each state. Examples whose return R is above V are
kept, the others dropped. They are drawn in proportion to their advantage A, and weighted by a clipped ratio of
probabilities; no gradient flows through the weights:

    A = R - V,   loss = -mean over {A > 0} of  A · clip(π_θ/π_ref, 1-ε, 1+ε) · log π_θ

The mean is over examples that are drawn with the weight A (priority sampling). Variants, and what one action is:

| variant | example | A | weight of log π_θ |
|---|---|---|---|
| `turn` | a turn | G_t - V(s_t) | A · clip(ratio of the turn) |
| `sequence` (the paper's A-LoL) | an episode | G_0 - V(s_0) | A · clip(product of the ratios of its turns) |
| `per_turn` (A-LoL seq.) | an episode | G_0 - V(s_0) | A · clip(ratio of each turn) |
| `reference_free` (A-LoL ref. free) | a turn | G_t - V(s_t) | A |
| `kl` (A-LoL KL) | a turn | G_t - V(s_t) | A - β log(π_θ/π_ref) |

Filter, sampling weights and clip were checked against the authors' code (abaheti95/LoL-RL), the rest against abstract
and figures; the paper's own text could not be read here, so no equation is numbered.

Differs from the paper: (1) an action is a turn of a game, not a written answer, and a sequence is an episode; (2) V is
fitted in closed form (ridge regression on the hidden states of π_ref) to the returns of the log, while the paper trains
a head on rewards of what π_ref generates; (3) advantages are divided by their standard deviation; (4) the ratio may
compare with the probabilities under which the log was played, where it has them (`reference = "behaviour"`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from reflect_algorithms.log import Turns, turns_of
from reflect_algorithms.settings import ALoLConfig, offline_config
from reflect_algorithms.training import Training, chosen, fit, frozen_scores
from reflect_rl.algorithms import Loss, Outputs
from reflect_rl.errors import UserError
from reflect_rl.types import View

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

EPISODES = ("sequence", "per_turn")
"""Variants whose examples are episodes."""

RIDGE = 1e-3
"""Weight of the squared norm of V's coefficients, by row."""


class Leftovers:
    """The objective of A-LoL on the examples with a positive advantage.

    Args:
        config: the variant.
        views: N states.
        actions: (N,) the action of each.
        reference: (N,) log-probability of the action under π_ref.
        examples: rows of each example.
        advantages: (M,) advantage of each example, all positive.
    """

    def __init__(
        self,
        config: ALoLConfig,
        views: Sequence[View],
        actions: Tensor,
        reference: Tensor,
        examples: Sequence[Sequence[int]],
        advantages: Tensor,
    ) -> None:
        self.config, self.views, self.actions, self.reference = config, views, actions, reference
        self.examples, self.advantages = examples, advantages
        self.weights: Sequence[float] | None = advantages.tolist() if config.priority_sampling else None

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """The loss of the variant, its mean over the examples."""
        device = outputs.log_probs.device
        rows = torch.tensor([row for number in examples.tolist() for row in self.examples[number]])
        lengths = torch.tensor([len(self.examples[number]) for number in examples.tolist()])
        # Number of its example within this batch, for each row.
        owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths).to(device)
        log_probs = chosen(outputs.log_probs, self.actions[rows])
        log_ratio = (log_probs - self.reference[rows].to(device)).detach()
        ratio, clipped = self._ratio(log_ratio, owner, len(lengths))
        advantage = self.advantages[examples].to(device)[owner]
        weight = advantage * ratio - (self.config.kl_coef * log_ratio if self.config.variant == "kl" else 0.0)
        value = -(weight * log_probs).sum() / len(lengths)
        return Loss(
            value,
            {
                "importance_weight": float(ratio.mean()),
                "clip_fraction": float(clipped.float().mean()),
                "kl_to_reference": float((log_ratio.expm1() - log_ratio).mean()),
            },
        )

    def _ratio(self, log_ratio: Tensor, owner: Tensor, examples: int) -> tuple[Tensor, Tensor]:
        """The importance weight of each row, a constant, and whether clipping has changed it."""
        if self.config.variant in ("reference_free", "kl"):
            return torch.ones_like(log_ratio), torch.zeros_like(log_ratio, dtype=torch.bool)
        if self.config.variant == "sequence":
            totals = torch.zeros(examples, device=log_ratio.device).index_add(0, owner, log_ratio)
            log_ratio = totals[owner]
        ratio = log_ratio.exp()
        weight = ratio.clamp(1 - self.config.clip_ratio, 1 + self.config.clip_ratio)
        return weight, weight != ratio


class ALoL:
    """Advantage-filtered, importance-weighted learning from a log.

    Args:
        config: the variant.
    """

    def __init__(self, config: ALoLConfig | None = None) -> None:
        self.config = config or ALoLConfig()

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.a_lol]`."""
        return cls(offline_config(run).a_lol)

    def train(self, training: Training) -> None:
        """Train on what the reference would not have expected.

        Raises:
            UserError: the log has no behaviour probabilities, and they are asked for; or nothing is better than V.
        """
        turns = turns_of(training.episodes, training.excluded)
        frozen = frozen_scores(training.start(), training.labels, turns.views, training.rule)
        values = ridge(frozen.hidden, turns.returns)
        if self.config.reference == "behaviour":
            reference = behaviour_of(turns)
        else:
            reference = chosen(frozen.log_probs, turns.actions)
        fit(training, leftovers(self.config, turns, values, reference))


def leftovers(config: ALoLConfig, turns: Turns, values: Tensor, reference: Tensor) -> Leftovers:
    """The objective on the examples whose advantage is positive.

    Args:
        config: the variant.
        turns: N turns of the log.
        values: (N,) V(s_t).
        reference: (N,) log-probability of each action under π_ref.

    Raises:
        UserError: no advantage is positive.
    """
    gains = turns.returns - values
    examples: list[Sequence[int]] = [(row,) for row in range(len(turns))]
    if config.variant in EPISODES:
        numbers = turns.episodes.tolist()
        examples = [[row for row, own in enumerate(numbers) if own == number] for number in dict.fromkeys(numbers)]
        # V at the start: an episode is one action.
        gains = gains[torch.tensor([rows[0] for rows in examples])]
    kept = [number for number, gain in enumerate(gains.tolist()) if gain > 0]
    scale = float(gains.std(correction=0))
    if not kept or scale == 0:
        raise UserError(
            f"a_lol: nothing of the log is better than the value of its state, so nothing of its {len(turns)} turns is "
            "left over. Log players whose episodes differ in return (offline.log.quality = 'mixed')."
        )
    rest = gains[torch.tensor(kept)] / scale
    return Leftovers(config, turns.views, turns.actions, reference, [examples[k] for k in kept], rest)


def ridge(hidden: Tensor, returns: Tensor) -> Tensor:
    """V of each state, (N,): the linear function of its hidden state (N, H) that is nearest to the returns (N,).

    argmin_w mean (w·x + b - G)² + λ ‖w‖², with x standardised.
    """
    # In double precision: hidden states of equal prompts with different returns make nearly singular sums.
    x, y = hidden.double(), returns.double()
    x = (x - x.mean(0)) / x.std(0, correction=0).clamp(min=1e-6)
    middle = y.mean()
    gram = x.T @ x / len(x) + RIDGE * torch.eye(x.shape[1], dtype=x.dtype)
    coefficients = torch.linalg.solve(gram, x.T @ (y - middle) / len(x))
    return (x @ coefficients + middle).float()


def behaviour_of(turns: Turns) -> Tensor:
    """(N,) log-probabilities under which the log was played.

    Raises:
        UserError: some turns have none; the message names who played, and what to do.
    """
    missing = int(turns.behaviour_log_probs.isnan().sum())
    if missing:
        raise UserError(
            f"offline.a_lol.reference: 'behaviour' needs the probability of every action, and {missing} of "
            f"{len(turns)} turns have none (players: {', '.join(turns.players)}). Set it to 'model', or "
            "record a player that notes its probabilities."
        )
    return turns.behaviour_log_probs
