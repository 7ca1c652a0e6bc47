"""GAIL (Ho and Ermon 2016, "Generative adversarial imitation learning"): a reward learned from demonstrations alone.

A discriminator D(s, a) is the probability that the policy, and not the demonstrator, chose a in s. GAIL looks for the
saddle point of (16), minimal in π and maximal in D (equation numbers of the first version on arXiv, whose text was at
hand):

    E_π[log D(s,a)] + E_πE[log(1 - D(s,a))] - λ H(π)                                        (16)

In each update the policy plays; D takes steps that raise (17), which is (16) without the entropy; then the policy
takes a step of (18), a policy gradient with the cost log D. With D = σ(f):

    loss of D = mean over π of -log σ(f) + mean over π_E of -log(1 - σ(f))
    r(s,a) = -log D (`reward = "paper"`)   or   log(1 - D) - log D = -f (`reward = "logit"`)

f is a linear head with one output for each listed action, on a copy of the language model that is trained with it. λ is
`rlft.algorithm.entropy_coef`, and `return_entropy_coef` for the entropy of the states that follow (appendix A.2 there).

Differs from the paper: (1) the reward is -f unless asked otherwise: -log D is never negative, so in games that end with
a win it pays for not winning (docs/results/log.md); (2) the policy's step is that of `[rlft]`, PPO by default, in place
of TRPO; (3) D takes several steps in each update; (4) in a run the policy begins as the clone of its log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

import torch
from torch import Tensor, nn

from reflect_algorithms.heads import ActionHead, frozen_head_scores, head_scores
from reflect_algorithms.online import acted, train_online, with_rewards
from reflect_algorithms.settings import GAILConfig, offline_config
from reflect_algorithms.training import Training, chosen
from reflect_rl.agent import trainable_copy
from reflect_rl.algorithms.ppo import PPOConfig
from reflect_rl.config import AlgorithmConfig, Rule
from reflect_rl.errors import ConfigError, TrainingError, UserError
from reflect_rl.models.network import Network
from reflect_rl.models.score import check_fits, token_budget
from reflect_rl.players.language_model import tokenize
from reflect_rl.training.checkpoint import restore_weights, trained_weights
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.distributed import Engine
from reflect_rl.training.learner import no_dropout
from reflect_rl.training.loop import ExplosionError, OptimiserStep, PartialLoss
from reflect_rl.types import Episode, View, stream

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

READS: Rule = "choice_token"
"""Rule by which the discriminator reads: its prompts list the actions, whatever rule the policy has."""

Act = tuple[View, int]
"""A state, and the action that was chosen in it."""


def acts_of(episodes: Sequence[Episode], excluded: frozenset[str]) -> list[Act]:
    """States and actions of episodes; those of excluded states are left out."""
    return [
        (turn.plain_view, turn.decision.index) for turn in acted(episodes) if turn.observation.state not in excluded
    ]


def discrimination(scores: Tensor, by_policy: Tensor) -> Tensor:
    """-log D of the policy's acts and -log(1 - D) of the others, (N,); see (17).

    Args:
        scores: (N,) f, of which D = σ(f).
        by_policy: (N,) True = the policy's.
    """
    return nn.functional.softplus(torch.where(by_policy, -scores, scores))


def reward_of(scores: Tensor, kind: Literal["logit", "paper"]) -> Tensor:
    """Rewards (N,) of acts whose f is given.

    >>> reward_of(torch.tensor([0.0, -2.0]), "paper"), reward_of(torch.tensor([0.0, -2.0]), "logit")
    (tensor([0.6931, 2.1269]), tensor([0., 2.]))
    """
    return nn.functional.softplus(-scores) if kind == "paper" else 0.0 - scores


class Discriminator:
    """Rewards for the online trainer: learns to tell the policy's acts from demonstrated ones, then pays `reward_of`.

    Args:
        training: the demonstrations and the model to copy.
        own: steps and reward.

    Raises:
        ConfigError: weights are sharded.
        UserError: there is no demonstration.
    """

    def __init__(self, training: Training, own: GAILConfig) -> None:
        self.demonstrated = acts_of(training.episodes, training.excluded)
        if not self.demonstrated:
            raise UserError("gail: there is no demonstration to imitate. Raise offline.log.episodes_per_start.")
        self.labels, self.config, self.own = training.labels, training.config, own
        self.excluded, self.seed = training.excluded, training.seed
        self.model = trainable_copy(training.model)
        self.head = ActionHead.on(self.model, self.labels)
        self.engine = Engine(self.model.device)
        if self.engine.sharded:
            raise ConfigError("gail does not run with sharded weights. Launch it with DDP.")
        network = Network(self.model, self.head)
        self.weights = [weight for weight in network.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.weights, lr=self.config.learning_rate, weight_decay=self.config.weight_decay, fused=True
        )
        limits = {"max_grad_norm": self.config.max_grad_norm, "stop_grad_norm": self.config.stop_grad_norm}
        self.step = OptimiserStep(self.engine, network, self.optimizer, fits=partial(check_fits, self.model), **limits)
        self.updates = 0
        """Updates so far; each has random numbers of its own."""

    def __call__(self, episodes: Sequence[Episode]) -> tuple[list[Episode], dict[str, float]]:
        """Learn from the episodes of an update, then say what they are worth; their rewards and verdicts are not read.

        Raises:
            TrainingError: the loss or the gradient is not finite or too large.
        """
        turns = acted(episodes)
        if not turns:
            return list(episodes), {}
        metrics = self._learn(acts_of(episodes, self.excluded))
        views = [turn.plain_view for turn in turns]
        scores = frozen_head_scores(self.model, self.labels, self.head, views, READS)
        actions = torch.tensor([turn.decision.index for turn in turns])
        rewards = reward_of(chosen(scores, actions), self.own.reward)
        # The verdict is the game's, so an algorithm that reads it must see the same of every episode.
        told = [replace(episode, success=True) for episode in with_rewards(episodes, rewards.tolist())]
        return told, metrics | {"reward/learned_return": float(rewards.sum()) / len(episodes)}

    def _learn(self, played: Sequence[Act]) -> dict[str, float]:
        """Optimiser steps on equally many acts of the policy and of the demonstrations; the means of their metrics."""
        rng, half = stream(self.seed, "discriminator", self.updates), max(1, self.config.batch_size // 2)
        self.updates += 1
        if not played:
            return {}
        rows = []
        # Again in each update, because scoring has put all layers into eval mode.
        no_dropout(self.model.model)
        for _ in range(self.own.discriminator_steps):
            batch = [part[int(k)] for part in (played, self.demonstrated) for k in rng.choice(len(part), half)]
            rows.append(self._one_step(batch, half))
        return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}

    def _one_step(self, batch: Sequence[Act], half: int) -> dict[str, float]:
        def loss(part: list[int]) -> PartialLoss:
            views, actions = [batch[k][0] for k in part], torch.tensor([batch[k][1] for k in part])
            scores = chosen(head_scores(self.model, self.labels, views, READS, self.step.network), actions)
            by_policy = torch.tensor([k < half for k in part], device=scores.device)
            each = discrimination(scores, by_policy)
            right = (scores > 0) == by_policy
            metrics = {"loss": 2 * float(each.detach().mean()), "accuracy": float(right.float().mean())}
            return PartialLoss(each.sum() / half, len(part), {f"discriminator/{k}": v for k, v in metrics.items()})

        lengths = [len(tokenize(self.model, self.labels, view, READS)[0]) for view, _ in batch]
        metrics = self.step.accumulate(lengths, token_budget(self.model), loss)
        try:
            self.step.clip(self.weights, metrics["discriminator/loss"])
        except ExplosionError as error:
            raise TrainingError(f"gail, the discriminator: {error}. Lower offline.training.learning_rate.") from None
        self.step.apply()
        return metrics

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Weights, the optimiser's state, and the number of updates."""
        return {
            "discriminator": trained_weights(self.model.model),
            "discriminator_head": self.head.state_dict(),
            "discriminator_optimizer": self.engine.optimizer_state(self.optimizer),
            "discriminator_updates": {"updates": torch.tensor([self.updates])},
        }

    def restore(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on from a checkpoint."""
        restore_weights(self.model.model, tensors["discriminator"])
        self.head.load_state_dict(tensors["discriminator_head"])
        self.engine.restore_optimizer(self.optimizer, tensors["discriminator_optimizer"])
        self.updates = int(tensors["discriminator_updates"]["updates"][0])


class GAIL:
    """Imitation by online RL on a reward that is learned at the same time.

    Args:
        config: the discriminator.
        rlft: settings of online RL (None: the defaults, with PPO and a critic, since each turn has a reward).
        modes: that are trained and validated (empty: those of the environment).
    """

    def __init__(
        self, config: GAILConfig | None = None, rlft: RLFTConfig | None = None, modes: tuple[str, ...] = ()
    ) -> None:
        self.config, self.modes = config or GAILConfig(), modes
        self.rlft = rlft or RLFTConfig(algorithm=PPOConfig(baseline="value", gamma=0.95))

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.gail]` and `[rlft]`."""
        return cls(offline_config(run).gail, run.rlft, run.evaluated_modes)

    def algorithm(self) -> AlgorithmConfig:
        """The algorithm of online RL."""
        return self.rlft.algorithm

    def train(self, training: Training) -> None:
        """Train online, on the discriminator's rewards.

        Raises:
            ConfigError: weights are sharded.
            TrainingError: a loss or gradient is not finite or too large.
            UserError: the log has no turn to imitate.
        """
        # Replay keeps won episodes, and so knows more than the demonstrations.
        config = self.rlft.model_copy(update={"replay_capacity": 0})
        train_online(training, config, modes=self.modes, rewards=Discriminator(training, self.config))
