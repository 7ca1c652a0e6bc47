"""LINVIT (Zhang et al. 2024, "How can LLM guide RL? A value-based approach"): Q-learning with a model's prior.

A language model that knows a little of the game is the prior π_LM. The policy maximises the return less λ times its
divergence from the prior. The best such policy and its value have a closed form over the listed actions:

    V(s) = max_π Σ_a π(a|s) Q(s,a) - λ KL(π ‖ π_LM) = λ log Σ_a π_LM(a|s) exp(Q(s,a)/λ)
    π(a|s) ∝ π_LM(a|s) exp(Q(s,a)/λ)                      Q(s,a) = E[r + γ V(s')]

In each round π plays, and Q is fitted again to all turns so far by repeated temporal-difference targets r + γ V(s').
At the end the language model learns π on the visited states, so that the saved policy is a language model again:

    loss = -mean_s Σ_a π(a|s) log π_θ(a|s)

With `prior = "uniform"` this is plain soft Q-learning. The maximum above is a known identity (Gibbs' variational
principle); the paper was read in its abstract only, so no equation is numbered.

Differs from the paper: (1) Q is linear in the hidden states of the frozen model and fitted in closed form (fitted
Q-iteration), without the paper's bounds of optimism; (2) exploration is π's own; (3) targets stay within the returns
that were seen, so that the iteration cannot run away; (4) the last turn of an episode that ran out of turns has no next
state and is left out; (5) no subgoals (SLINVIT).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor

from reflect_algorithms.rounds import played_round, write_rounds
from reflect_algorithms.settings import LINVITConfig, offline_config
from reflect_algorithms.training import Frozen, Training, fit, frozen_scores
from reflect_algorithms.transitions import Transitions, transitions_of
from reflect_rl.algorithms import Loss, Outputs, finite
from reflect_rl.batch import by_action
from reflect_rl.errors import UserError
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.players.decoding import drawn
from reflect_rl.types import Decision, Episode, View

if TYPE_CHECKING:
    from reflect_rl.config import Rule
    from reflect_rl.runs.config import RunConfig

RIDGE = 1e-2
"""Weight of the squared norm of Q's coefficients, by row."""


def soft_values(prior: Tensor, action_values: Tensor, coefficient: float) -> Tensor:
    """V = λ log Σ_a π_LM(a|s) exp(Q(s,a)/λ), (N,).

    Args:
        prior: (N, A) log π_LM, -inf where there is no action.
        action_values: (N, A) Q.
        coefficient: λ, above 0.
    """
    return coefficient * torch.logsumexp(prior + action_values / coefficient, -1)


def soft_policy(prior: Tensor, action_values: Tensor, coefficient: float) -> Tensor:
    """Log-probabilities of π ∝ π_LM exp(Q/λ), (N, A); see `soft_values`."""
    return torch.log_softmax(prior + action_values / coefficient, -1)


class LinearQ:
    """Q(s, a) = w_a · x(s) + b_a, by the number under which an action is listed; 0 for numbers that were never played.

    Args:
        hidden: (N, H) x of the turns.
        numbers: (N,) number of the action of each, -1 = none.
        actions: how many numbers there are.
    """

    def __init__(self, hidden: Tensor, numbers: Tensor, actions: int) -> None:
        x = hidden.double()
        self.mean, self.std = x.mean(0), x.std(0, correction=0).clamp(min=1e-6)
        self.x, self.rows = self._features(hidden), [(numbers == k).nonzero()[:, 0] for k in range(actions)]
        self.weights = torch.zeros(actions, self.x.shape[1], dtype=torch.float64)
        eye = RIDGE * torch.eye(self.x.shape[1], dtype=torch.float64)
        # The offset, the last feature, is free: few turns must not pull an action's value to zero.
        eye[-1, -1] = 0.0
        # Factors of each action's normal equations, which stay the same from one iteration to the next.
        self.factors = [
            torch.linalg.pinv(self.x[rows].T @ self.x[rows] / len(rows) + eye, hermitian=True) if len(rows) else eye
            for rows in self.rows
        ]

    def _features(self, hidden: Tensor) -> Tensor:
        x = (hidden.double() - self.mean) / self.std
        return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)

    def fit(self, targets: Tensor) -> None:
        """Fit each action to the targets (N,) of its turns, by ridge regression."""
        for number, rows in enumerate(self.rows):
            if len(rows):
                moment = self.x[rows].T @ targets[rows].double() / len(rows)
                self.weights[number] = self.factors[number] @ moment

    def own(self) -> Tensor:
        """(N, actions) Q of the turns that it was made of, by number."""
        return (self.x @ self.weights.T).float()

    def __call__(self, hidden: Tensor) -> Tensor:
        """(M, actions) Q of other states (M, H), by number."""
        return (self._features(hidden) @ self.weights.T).float()


def fitted_q(config: LINVITConfig, turns: Transitions, frozen: Frozen, actions: int) -> LinearQ:
    """Q after repeated temporal-difference targets r + γ V(s').

    Args:
        config: γ, λ, the prior and the number of iterations.
        turns: what was played.
        frozen: scores of the prior on their views.
        actions: the most actions that a state can list.
    """
    values = LinearQ(frozen.hidden, turns.numbers, actions)
    prior = prior_of(config, frozen.log_probs)
    going_on = turns.following >= 0
    for _ in range(config.iterations):
        table = by_action(values.own(), turns.views)
        after = soft_values(prior, table, config.kl_coef)[turns.following.clamp(min=0)]
        targets = turns.rewards + config.gamma * torch.where(going_on, after, 0.0)
        values.fit(targets.clamp(turns.lowest, turns.highest))
    return values


def prior_of(config: LINVITConfig, log_probs: Tensor) -> Tensor:
    """(N, A) log π_LM, or the uniform distribution over the same actions."""
    if config.prior == "model":
        return log_probs
    return torch.log_softmax(torch.zeros_like(log_probs).masked_fill(log_probs.isneginf(), -math.inf), -1)


class SoftPolicy:
    """Plays π ∝ π_LM exp(Q/λ).

    Args:
        config: λ and the prior.
        prior: the frozen model.
        labels: of its actions.
        rule: by which it is scored.
        values: Q; None = 0, so the prior plays.
    """

    name = "linvit"
    sees_oracle = False

    def __init__(
        self, config: LINVITConfig, prior: LanguageModel, labels: Labels, rule: Rule, values: LinearQ | None
    ) -> None:
        self.config, self.prior, self.labels, self.rule, self.values = config, prior, labels, rule, values
        self._known: dict[View, tuple[float, ...]] = {}

    def log_probs(self, views: Sequence[View]) -> Tensor:
        """(N, A) log π, -inf where there is no action."""
        frozen = frozen_scores(self.prior, self.labels, views, self.rule)
        prior = prior_of(self.config, frozen.log_probs)
        if self.values is None:
            return prior
        return soft_policy(prior, by_action(self.values(frozen.hidden), views), self.config.kl_coef)

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """Draw an action for each view; the decision carries the probabilities of all actions."""
        missing = [view for view in dict.fromkeys(views) if view not in self._known]
        if missing:
            for view, row in zip(missing, self.log_probs(missing).tolist(), strict=True):
                self._known[view] = tuple(row[: len(view.observation.actions)])
        rows = [self._known[view] for view in views]
        return [Decision(drawn(row, rng), self.name, row) for row, rng in zip(rows, rngs, strict=True)]


class Distillation:
    """The cross-entropy to a given policy.

    Args:
        views: N states.
        targets: (N, A) its probabilities, 0 where there is no action.
    """

    weights: Sequence[float] | None = None

    def __init__(self, views: Sequence[View], targets: Tensor) -> None:
        self.views, self.targets = views, targets
        self.examples: Sequence[Sequence[int]] = [(row,) for row in range(len(views))]

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """-mean Σ_a π(a|s) log π_θ(a|s)."""
        log_probs = outputs.log_probs
        targets = self.targets[examples][:, : log_probs.shape[1]].to(log_probs.device)
        crossed = -(targets * finite(log_probs)).sum(-1)
        surprise = -(targets * targets.clamp(min=1e-12).log()).sum(-1)
        return Loss(crossed.mean(), {"kl_from_target": float((crossed - surprise).detach().mean())})


class LINVIT:
    """Value learning that a language model's prior guides.

    Args:
        config: rounds, λ, γ and the prior.
    """

    def __init__(self, config: LINVITConfig | None = None) -> None:
        self.config = config or LINVITConfig()

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.linvit]`."""
        return cls(offline_config(run).linvit)

    def train(self, training: Training) -> None:
        """Play and fit Q, round by round; then let the model learn the policy that it makes.

        Raises:
            UserError: only starts of held-out tasks were visited, of which nothing is learned.
        """
        config, prior = self.config, training.start()
        training.folder.mkdir(parents=True, exist_ok=True)
        player = SoftPolicy(config, prior, training.labels, training.rule, None)
        rounds: list[list[Episode]] = []
        for number in range(config.rounds):
            rounds.append(played_round(training, number, config.episodes, player))
            turns = transitions_of([episode for part in rounds for episode in part])
            frozen = frozen_scores(prior, training.labels, turns.views, training.rule)
            values = fitted_q(config, turns, frozen, training.spec.max_actions)
            player = SoftPolicy(config, prior, training.labels, training.rule, values)
        write_rounds(training, rounds)
        views = [view for view in dict.fromkeys(turns.views) if view.observation.state not in training.excluded]
        if not views:
            raise UserError("linvit: all visited states are starts of held-out tasks. Play more starts.")
        fit(training, Distillation(views, player.log_probs(views).exp()))
