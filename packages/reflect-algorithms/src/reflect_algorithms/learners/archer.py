"""ArCHer (Zhou et al. 2024, "ArCHer: Training language model agents via hierarchical multi-turn RL").

A critic learns off-policy, from all turns of all rounds, what actions are worth; the policy learns from the critic's
advantages. The paper has a second level, the tokens of an utterance. Here an utterance is one of the listed actions, so
that level is the one choice π(a|s). Two estimates Q_1, Q_2 have slow copies Q̄_1, Q̄_2:

    loss of the critic = mean Σ_k (Q_k(s,a) - r - γ Σ_b π(b|s') Q̄_k(s',b))²,     Q̄ ← (1 - τ) Q̄ + τ Q after each step
    loss of the policy = -mean_s [Σ_a π(a|s) A(s,a) log π(a|s) + c H(π(·|s))],    A(s,a) = min_k Q_k(s,a) - V(s)

with V(s) = Σ_a π(a|s) min_k Q_k(s,a), and the weights π A held constant; s are states of the replay.

The paper's own text could not be read here, so no equation is numbered. The losses, the two estimates, the target and
its rate were checked against the authors' code (YifeiZhou02/ArCHer, archer/algorithms/archer/trainer.py).

Differs from the paper: (1) their V is learned, here it is the sum over the listed actions; (2) they draw an action of
the present policy in a replayed state, here the sum over the actions is that draw's expectation; (3) the critic is a
small network on the hidden states of the frozen starting model, theirs trains a language model of its own; (4) the
replay holds all turns; (5) there is an entropy bonus H, which they lack (c = 0 leaves it out; docs/results/log.md); (6)
the last turn of an episode that ran out of turns has no known next state and is left out.
Not built: the policy gradient of the tokens of a reflection; `reflect_algorithms.both` has another one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from reflect_algorithms.rounds import played_round, write_rounds
from reflect_algorithms.settings import ArCHerConfig, offline_config
from reflect_algorithms.training import Trainer, Training, by_action, frozen_scores
from reflect_algorithms.transitions import Transitions, transitions_of
from reflect_rl.algorithms import Loss, Outputs
from reflect_rl.errors import UserError
from reflect_rl.launch import process_rank
from reflect_rl.models.load import forked_rng
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.store import write_bytes
from reflect_rl.types import Episode, View, seed_for, stream

if TYPE_CHECKING:
    import numpy as np

    from reflect_rl.runs.config import RunConfig

WIDTH = 128
"""Units of the hidden layer of each estimate."""


class Critic(nn.Module):
    """Two estimates of Q by the number under which an action is listed, and their slow copies.

    Args:
        hidden: (N, H) hidden states, by whose mean and deviation all others are scaled.
        actions: K, how many numbers there are.
        seed: of the weights.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, hidden: Tensor, actions: int, seed: int) -> None:
        super().__init__()
        self.register_buffer("mean", hidden.mean(0))
        self.register_buffer("std", hidden.std(0, correction=0).clamp(min=1e-6))
        with forked_rng(seed):
            self.estimates = nn.ModuleList(
                nn.Sequential(nn.Linear(hidden.shape[1], WIDTH), nn.Tanh(), nn.Linear(WIDTH, actions)) for _ in range(2)
            )
        self.targets = copy.deepcopy(self.estimates).requires_grad_(False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Q_1 and Q_2, (2, N, K)."""
        return self._of(self.estimates, hidden)

    def slow(self, hidden: Tensor) -> Tensor:
        """Q̄_1 and Q̄_2, (2, N, K)."""
        return self._of(self.targets, hidden)

    def _of(self, networks: nn.ModuleList, hidden: Tensor) -> Tensor:
        x = (hidden - self.mean) / self.std
        return torch.stack([network(x) for network in networks])

    @torch.no_grad()
    def follow(self, rate: float) -> None:
        """Q̄ ← (1 - τ) Q̄ + τ Q, with the rate τ."""
        for slow, fast in zip(self.targets.parameters(), self.estimates.parameters(), strict=True):
            slow.lerp_(fast, rate)


def bootstrapped(rewards: Tensor, going_on: Tensor, policy: Tensor, following: Tensor, gamma: float) -> Tensor:
    """R + γ Σ_b π(b|s') Q̄_k(s',b), the next value left out where the game ended; (2, N).

    Args:
        rewards: (N,).
        going_on: (N,) True = there is a next state.
        policy: (N, K) π of the next states, 0 where there is no action.
        following: (2, N, K) Q̄ of the next states.
        gamma: γ.
    """
    return rewards + gamma * going_on * (policy * following).sum(-1)


def fit_critic(
    critic: Critic, turns: Transitions, hidden: Tensor, policy: Tensor, config: ArCHerConfig, rng: np.random.Generator
) -> None:
    """Temporal-difference steps on turns drawn from all that were played.

    Args:
        critic: changed in place.
        turns: N turns.
        hidden: (N, H) their hidden states.
        policy: (N, K) π, by listed number.
        config: number of steps, γ, τ and the learning rate.
        rng: of the draws.
    """
    rows, after = (turns.numbers >= 0).nonzero()[:, 0], turns.following.clamp(min=0)
    optimizer = torch.optim.Adam(critic.estimates.parameters(), lr=config.critic_learning_rate)
    for _ in range(config.critic_steps):
        batch = rows[torch.from_numpy(rng.integers(len(rows), size=BATCH))]
        upcoming = after[batch]
        with torch.no_grad():
            going_on = turns.following[batch] >= 0
            slow = critic.slow(hidden[upcoming])
            targets = bootstrapped(turns.rewards[batch], going_on, policy[upcoming], slow, config.gamma)
        played = critic(hidden[batch]).gather(2, turns.numbers[batch].expand(2, -1)[..., None])[..., 0]
        loss = (played - targets).square().mean(1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        critic.follow(config.target_rate)


BATCH = 64
"""Turns of one step of the critic."""


def by_number(table: Tensor, views: Sequence[View], numbers: int) -> Tensor:
    """Reorder probabilities (N, A) by action to the numbers under which actions are listed, (N, K); 0 for no action."""
    # A column of zeros at the end, for numbers that a state does not list.
    padded = nn.functional.pad(table, (0, 1))
    none = table.shape[1]
    places = [[*view.order, *[none] * (numbers - len(view.order))] for view in views]
    return padded.gather(1, torch.tensor(places))


class AdvantageGradient:
    """The loss of the policy.

    Args:
        views: N states of the replay.
        action_values: (N, A) min_k Q_k; nobody reads what stands where there is no action.
        entropy_coef: c.
    """

    weights: Sequence[float] | None = None

    def __init__(self, views: Sequence[View], action_values: Tensor, entropy_coef: float) -> None:
        self.views, self.action_values, self.entropy_coef = views, action_values, entropy_coef
        self.examples: Sequence[Sequence[int]] = [(row,) for row in range(len(views))]

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """-mean_s [Σ_a π(a|s) A(s,a) log π(a|s) + c H(π(·|s))]."""
        log_probs = outputs.log_probs
        values = self.action_values[examples][:, : log_probs.shape[1]].to(log_probs.device)
        policy = log_probs.detach().exp()
        state_values = (policy * values).sum(-1, keepdim=True)
        # A missing action has the log-probability -inf, and 0 · inf is no number.
        finite = log_probs.masked_fill(log_probs.isneginf(), 0.0)
        loss = -(policy * (values - state_values) * finite).sum(-1).mean()
        entropy = -(log_probs.exp() * finite).sum(-1).mean()
        metrics = {"state_value": float(state_values.mean()), "entropy": float(entropy.detach())}
        return Loss(loss - self.entropy_coef * entropy, metrics)


class ArCHer:
    """Off-policy values of turns, and a policy gradient from them.

    Args:
        config: rounds and critic.
    """

    def __init__(self, config: ArCHerConfig | None = None) -> None:
        self.config = config or ArCHerConfig()

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.archer]`."""
        return cls(offline_config(run).archer)

    def train(self, training: Training) -> None:
        """Play, fit the critic and improve the policy, round by round.

        Raises:
            UserError: all visited states are starts of held-out tasks.
        """
        trainer, start = Trainer(training, training.config.steps), training.start()
        rounds: list[list[Episode]] = []
        critic: Critic | None = None
        for number in range(self.config.rounds):
            player = LanguageModelPolicy(training.model, training.labels, rule=training.rule)
            rounds.append(played_round(training, number, self.config.episodes, player))
            turns = transitions_of([episode for part in rounds for episode in part])
            hidden = frozen_scores(start, training.labels, turns.views, training.rule).hidden
            critic = self._critic(training, number, turns, hidden, critic)
            kept = [k for k, view in enumerate(turns.views) if view.observation.state not in training.excluded]
            if not kept:
                raise UserError("archer: all visited states are starts of held-out tasks. Play more starts.")
            views = [turns.views[k] for k in kept]
            with torch.no_grad():
                values = by_action(critic(hidden[kept]).amin(0), views)
            until = training.config.steps * (number + 1) // self.config.rounds
            trainer.fit(AdvantageGradient(views, values, self.config.entropy_coef), until)
        write_rounds(training, rounds)
        trainer.close()

    def _critic(
        self, training: Training, number: int, turns: Transitions, hidden: Tensor, critic: Critic | None
    ) -> Critic:
        """The critic of a round; one that an interrupted training has fitted is read again."""
        actions = training.spec.max_actions
        critic = critic or Critic(hidden, actions, seed_for(training.seed, "critic"))
        path: Path = training.folder / f"critic-{number}.safetensors"
        if path.exists():
            critic.load_state_dict(load_file(path))
            return critic
        scored = frozen_scores(training.model, training.labels, turns.views, training.rule)
        policy = by_number(scored.log_probs.exp(), turns.views, actions)
        fit_critic(critic, turns, hidden, policy, self.config, stream(training.seed, "critic", number))
        # All processes of a launch have fitted the same; one writes.
        if process_rank() == 0:
            write_bytes(path, save(critic.state_dict()))
        return critic
