"""ArCHer for a policy that speaks before it acts (Zhou et al. 2024, as in `reflect_algorithms.learners.archer`).

The paper has two levels: a critic of turns, learned off-policy, and a policy gradient of the tokens of what is said,
weighted by the critic's advantage of the whole turn. Here an utterance is (y, a): a reflection y, and the action a that
is listed in the policy's prompt behind it. In each update, with Q the critic (`reflect_algorithms.turn_critic`), R the
reflection player and π the policy, each as it is before the update:

    targets of Q(s,(y,a)):  r + γ Σ_b π(b|s',y') Q̄(s',(y',b)),   y' ~ R(·|s')
    A_t = min_k Q_k(s_t,(y_t,a_t)) - Σ_b π(b|s_t,y°) min_k Q_k(s_t,(y°,b)),   y° ~ R(·|s_t)

A_t takes the place of the on-policy advantage, and all else stays: -A_t log R(y_j | s_t, y_<j) for each token of the
reflection (`reflector`), and -A_t log π(a_t|s_t,y_t), or its clipped form, for the action (`[rlft.algorithm]`). y° is
drawn apart from y_t, so the second term is a baseline: it moves the mean of no gradient.

The turns of the critic are drawn from all that were played so far. Their next texts y' are drawn anew, so that old
turns teach what the present players are worth.

Differs from the paper: (1) their V is learned, here it is one further draw of the text and the sum over the actions;
(2) the gradient is that of the last games' turns, they draw a new utterance in replayed states; (3) the critic is a
small network on hidden states of the frozen starting policy, theirs trains a language model; (4) the tokens have the
divergence from supervised training as a penalty; (5) of an utterance, the action is chosen from a list: what acts is
never free text; (6) the last turn of an episode that ran out of turns teaches the critic nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from reflect_algorithms.both.reflector import OnlineReflector
from reflect_algorithms.both.settings import TurnCriticConfig, unsuited
from reflect_algorithms.training import frozen_scores
from reflect_algorithms.transitions import Transitions, transitions_of
from reflect_algorithms.turn_critic import Critic, Experience, by_number, fit_critic
from reflect_rl.algorithms import Advantages, Algorithm, Batch, Loss, Outputs, Trajectory
from reflect_rl.errors import ConfigError
from reflect_rl.models.load import LanguageModel
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.types import Episode, View, episode_from_json, seed_for, stream, to_json


class Spoken(NamedTuple):
    """N states in which the present players were asked for an utterance."""

    hidden: Tensor
    """(N, H) hidden states at the end of a prompt with a text drawn anew."""
    policy: Tensor
    """(N, K) π behind it, by listed number."""


class TurnCritic:
    """Advantages for the online trainer. It is called with the episodes of an update, whose rewards stay as they are.

    Args:
        trainer: whose players are valued; its rewards are what the critic learns from.
        start: the policy as it was at the start, frozen.
        writer: the reflection player.
        config: steps and discount.
    """

    def __init__(
        self, trainer: OnlineTrainer, start: LanguageModel, writer: OnlineReflector, config: TurnCriticConfig
    ) -> None:
        self.trainer, self.start, self.writer, self.config = trainer, start, writer, config
        self.labels, self.rule = trainer.learner.labels, trainer.learner.rule
        self.rewards = trainer.rewards
        self.episodes: list[Episode] = []
        """All that were played so far."""
        self.critic: Critic | None = None
        self.advantages: list[list[float]] = []
        """A_t of the turns of the last update's episodes."""

    def __call__(self, episodes: Sequence[Episode]) -> tuple[list[Episode], dict[str, float]]:
        """Learn from all episodes so far, and value the turns of these."""
        told, metrics = self.rewards(episodes)
        # The trainer asks for the rewards of replayed episodes, too, and there are none.
        if not told:
            return told, metrics
        self.episodes += told
        turns = transitions_of(self.episodes)
        rng = stream(self.trainer.seed, "critic", self.trainer.update)
        loss = self._fit(turns, rng)
        own = [turn for episode in told for turn in episode.turns]
        views = turns.views[len(turns.views) - len(own) :]
        numbers = torch.tensor([turn.order.index(turn.decision.index) for turn in own])
        advantages, values = self._valued(views, numbers)
        rest = iter(advantages.tolist())
        self.advantages = [[next(rest) for _ in episode.turns] for episode in told]
        return told, metrics | {
            "critic/loss": loss,
            "critic/value": float(values.mean()),
            "critic/advantage_std": float(advantages.std(correction=0)),
        }

    def _fit(self, turns: Transitions, rng: np.random.Generator) -> float:
        """Teach the critic turns of the replay; its mean loss."""
        # A turn at which the game ran out of turns has no number, because nobody knows what would have followed.
        known = (turns.numbers >= 0).nonzero()[:, 0]
        rows = known[torch.from_numpy(rng.permutation(len(known))[: self.config.turns])]
        hidden = self._hidden([turns.views[row] for row in rows.tolist()])
        after = turns.following[rows]
        # Where the game ended the first turn stands in, and nobody reads it.
        upcoming = self._spoken([turns.views[row] for row in after.clamp(min=0).tolist()])
        if self.critic is None:
            self.critic = Critic(hidden, self.trainer.spec.max_actions, seed_for(self.trainer.seed, "critic"))
        experience = Experience(hidden, turns.numbers[rows], turns.rewards[rows], after >= 0, *upcoming)
        return fit_critic(self.critic, experience, self.config, rng)

    def _valued(self, views: Sequence[View], numbers: Tensor) -> tuple[Tensor, Tensor]:
        """A_t (N,) of turns, and the values (N,) that they are compared with; `numbers` (N,) are of the actions."""
        assert self.critic is not None  # noqa: S101 (it is made when it first learns)
        worth = self.critic.least(self._hidden(views)).gather(1, numbers[:, None])[:, 0]
        other = self._spoken(views)
        values = (other.policy * self.critic.least(other.hidden)).sum(-1)
        return worth - values, values

    def _spoken(self, views: Sequence[View]) -> Spoken:
        """The present players' utterances in the states of these views."""
        texts = self.writer.draw(views)
        own = [replace(view, reflection=text) for view, text in zip(views, texts, strict=True)]
        scored = frozen_scores(
            self.trainer.model, self.labels, own, self.rule, temperature=self.trainer.config.temperature
        )
        return Spoken(self._hidden(own), by_number(scored.log_probs.exp(), own, self.trainer.spec.max_actions))

    def _hidden(self, views: Sequence[View]) -> Tensor:
        return frozen_scores(self.start, self.labels, views, self.rule).hidden

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Weights, and the episodes so far as the bytes of their JSON text."""
        if self.critic is None:
            return {}
        text = json.dumps([to_json(episode) for episode in self.episodes]).encode()
        # In the checkpoint and not in a file of their own, which a kill could leave ahead of it.
        episodes = torch.from_numpy(np.frombuffer(text, np.uint8).copy())
        return {"turn_critic": self.critic.state_dict(), "turn_critic_replay": {"episodes": episodes}}

    def restore(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on from a checkpoint."""
        weights = dict(tensors["turn_critic"])
        self.critic = Critic(weights["mean"][None], self.trainer.spec.max_actions, 0)
        self.critic.load_state_dict(weights)
        text = tensors["turn_critic_replay"]["episodes"].numpy().tobytes()
        self.episodes = [episode_from_json(row) for row in json.loads(text)]


class Advised:
    """An algorithm with the advantages of a critic of turns in place of its own; its loss stays.

    Args:
        algorithm: the loss.
        turns: the critic, which has valued the episodes of an update before the algorithm is asked.
    """

    def __init__(self, algorithm: Algorithm, turns: TurnCritic) -> None:
        self.algorithm, self.turns = algorithm, turns
        self.epochs, self.critic = algorithm.epochs, algorithm.critic

    def advantages(self, trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]] | None) -> Advantages:
        """A_t of all turns, in rewards."""
        return replace(self.algorithm.advantages(trajectories, values), values=self.turns.advantages)

    def loss(self, batch: Batch, outputs: Outputs) -> Loss:
        """The algorithm's."""
        return self.algorithm.loss(batch, outputs)


def value_turns(
    trainer: OnlineTrainer, start: LanguageModel, writer: OnlineReflector, config: TurnCriticConfig
) -> TurnCritic:
    """Let ArCHer's critic value the turns of an online training that has not begun.

    Args:
        trainer: changed in place.
        start: the policy as it was at the start, frozen.
        writer: the trainer's reflection player.
        config: the critic.

    Raises:
        ConfigError: the trainer's algorithm or its replay does not go with the critic.
    """
    for mistake in unsuited(trainer.config):
        raise ConfigError(mistake)
    critic = TurnCritic(trainer, start, writer, config)
    trainer.rewards = critic
    # Checkpoints keep it with the players.
    trainer.beside.append(critic)
    trainer.learner.algorithm = Advised(trainer.learner.algorithm, critic)
    return critic
