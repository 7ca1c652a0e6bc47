"""RLHF: online RL on a learned reward, held near the supervised policy; the game's own reward is only logged.

    r_t = r_ψ(s_t, a_t) - η (log π(a_t|s_t) - log π_SFT(a_t|s_t))

Sources: Stiennon et al. 2020, section 3.4, and Zheng et al. 2023 ("Secrets of RLHF in large language models, part I:
PPO"), whose total reward has the KL term at every token; here a turn takes a token's place. `PPOMax` adds from Zheng et
al., section 5.3.1, rewards that are normalised and clipped, a critic, and updates that train the critic alone at first.
Both were checked against descriptions of the papers (section 5.3.1 also against the change of TRL that cites it); the
papers' own texts could not be read here, so no equation is numbered.

Differs from the papers: (1) every turn has a learned reward, where they score the finished answer; where pairs compare
two actions of a state, a turn stands for an answer, so that later turns count nothing for it (γ = 0); (2) of PPO-max,
the critic is a head on the policy and does not begin as the reward model; its loss and the advantages are not clipped,
and there is no mix of supervised examples; (3) rewards are divided by the deviation of the update's own learned returns
and not centred, since a constant a turn would say what a longer episode is worth; (4) the algorithm is that of
`[rlft]`, which is PPO unless it says otherwise; (5) the result is the last policy, because choosing the best one would
take the true reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from reflect_algorithms.online import acted, train_online, with_rewards
from reflect_algorithms.preferences.reward_model import RewardModel
from reflect_algorithms.preferences.settings import RLHFConfig, preferences_config, whole_episodes
from reflect_algorithms.training import Reward, Training, chosen, frozen_scores
from reflect_rl.algorithms import BaselineConfig, std
from reflect_rl.algorithms.ppo import PPOConfig
from reflect_rl.batch import chosen_log_prob
from reflect_rl.config import AlgorithmConfig, Rule
from reflect_rl.errors import ConfigError, UserError
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.training.config import RLFTConfig
from reflect_rl.types import Episode

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig


@dataclass(frozen=True)
class LearnedReward:
    """Worth of an episode to the learner, in place of the game's reward."""

    reward: Reward
    reference: LanguageModel
    """The frozen supervised policy."""
    labels: Labels
    rule: Rule
    kl_coef: float
    """η."""
    clip: float | None = None
    """Bound of a turn's reward after division by the deviation of the learned returns; None = neither is done."""
    temperature: float = 1.0
    """Temperature at which the episodes are played."""

    def relabelled(self, episodes: Sequence[Episode]) -> tuple[list[Episode], dict[str, float]]:
        """Episodes with learned rewards, and what to log about them.

        Args:
            episodes: of one update, with the game's rewards; a turn without an action earns nothing.
        """
        turns = acted(episodes)
        if not turns:
            return list(episodes), {}
        views = [turn.plain_view for turn in turns]
        actions = torch.tensor([turn.decision.index for turn in turns])
        learned = self.reward.rewards(views, actions)
        # Anew in each update and never kept: a resumed training computes the same batches.
        # At the temperature of play, or a policy that has learned nothing would pay for another one.
        scored = frozen_scores(self.reference, self.labels, views, self.rule, temperature=self.temperature)
        reference = chosen(scored.log_probs, actions)
        log_ratio = torch.tensor([chosen_log_prob(turn) for turn in turns]) - reference
        owner = torch.tensor([k for k, episode in enumerate(episodes) for _ in acted([episode])])
        returns, divergence = (torch.zeros(len(episodes)).index_add(0, owner, part) for part in (learned, log_ratio))
        paid = learned if self.clip is None else clipped(learned, returns, self.clip)
        told = with_rewards(episodes, (paid - self.kl_coef * log_ratio).tolist())
        # Every episode as won: an algorithm that keeps wins would learn from the game's verdict.
        told = [replace(episode, success=True) for episode in told]
        return told, {
            "reward/true_return": sum(episode.total_reward for episode in episodes) / len(episodes),
            "reward/learned_return": float(returns.mean()),
            "reward/kl": float(divergence.mean()),
            "reward/clipped_share": float((paid.abs() >= self.clip).float().mean()) if self.clip else 0.0,
        }


def clipped(rewards: Tensor, returns: Tensor, bound: float) -> Tensor:
    """Rewards (N,), divided by the standard deviation of the returns (1 where they are equal), cut to [-bound, bound].

    >>> clipped(torch.tensor([1.0, -6.0]), torch.tensor([1.0, 5.0]), 2.0)
    tensor([ 0.5000, -2.0000])
    """
    return (rewards / std(returns.tolist())).clamp(-bound, bound)


def judging_turns(algorithm: AlgorithmConfig) -> AlgorithmConfig:
    """The algorithm with a baseline under which later turns can count nothing.

    Raises:
        ConfigError: it compares whole episodes.
    """
    mistake = whole_episodes(algorithm)
    if mistake is not None:
        raise ConfigError(mistake)
    if not isinstance(algorithm, BaselineConfig) or not algorithm.credits_episodes:
        return algorithm
    # The mean of the other episodes of a start compares whole episodes, the mean at the same turn does not.
    return algorithm.model_copy(update={"baseline": "batch"})


class RLHF:
    """Online RL on the learned reward.

    Args:
        config: price of the divergence.
        rlft: settings of online RL (None: the defaults, with PPO).
        reward: the reward model (None: the one of the training's folder).
        modes: that are trained and validated (empty: those of the environment).
    """

    clips = False

    def __init__(
        self,
        config: RLHFConfig | None = None,
        rlft: RLFTConfig | None = None,
        reward: Reward | None = None,
        modes: tuple[str, ...] = (),
    ) -> None:
        self.config = config or RLHFConfig()
        self.rlft = rlft or RLFTConfig(algorithm=PPOConfig())
        self.reward, self.modes = reward, modes

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[preferences.rlhf]` and `[rlft]`."""
        return cls(preferences_config(run).rlhf, run.rlft, modes=run.evaluated_modes)

    def settings(self, *, of_actions: bool) -> RLFTConfig:
        """Settings of online RL, with the discount of the learned rewards.

        Args:
            of_actions: the reward was learned from pairs of actions, which say nothing of later turns.

        Raises:
            ConfigError: later turns are to count nothing, and the algorithm compares whole episodes.
        """
        algorithm, gamma = self.algorithm(), self.config.gamma
        if gamma is None and of_actions:
            gamma = 0.0
        # Wins are the game's verdict, which is not learned from.
        rlft = self.rlft.model_copy(update={"replay_capacity": 0, "algorithm": algorithm})
        if gamma is None or "gamma" not in type(algorithm).model_fields:
            return rlft
        algorithm = judging_turns(algorithm) if gamma == 0 else algorithm
        return rlft.model_copy(update={"algorithm": algorithm.model_copy(update={"gamma": gamma})})

    def algorithm(self) -> AlgorithmConfig:
        """The algorithm of online RL."""
        return self.rlft.algorithm

    def train(self, training: Training) -> None:
        """Train on the learned reward.

        Raises:
            RunFolderError: the reward model is missing or damaged.
            ConfigError: the reward was learned from pairs of actions, and the algorithm compares whole episodes.
            TrainingError: the loss or the gradient is not finite or too large.
            UserError: there is no reward model.
        """
        reward = self._reward_model(training)
        # By what the reward was learned from, and not by the settings: pairs of a file are of either kind.
        of_actions = (isinstance(reward, RewardModel) and reward.regret) or (
            bool(training.comparisons) and all(one.of_actions for one in training.comparisons)
        )
        settings = self.settings(of_actions=of_actions)
        reference = training.start()
        learned = LearnedReward(
            reward,
            reference,
            training.labels,
            training.rule,
            self.config.kl_coef,
            self.config.reward_clip if self.clips else None,
            settings.temperature,
        )
        train_online(training, settings, modes=self.modes, rewards=learned.relabelled, reference=reference)

    def _reward_model(self, training: Training) -> Reward:
        if self.reward is not None:
            return self.reward
        if training.reward is None:
            raise UserError("rlhf: there is no reward model. Train one with `reflect-rl reward`.")
        return training.reward()


class PPOMax(RLHF):
    """RLHF with what PPO-max adds."""

    clips = True

    def settings(self, *, of_actions: bool) -> RLFTConfig:
        """Settings of online RL: the critic is trained alone at first."""
        rlft = super().settings(of_actions=of_actions)
        return rlft.model_copy(update={"critic_warmup_updates": self.config.critic_warmup_updates})

    def algorithm(self) -> AlgorithmConfig:
        """PPO with a critic."""
        shared = self.rlft.algorithm.model_dump(exclude={"name", "baseline"})
        return PPOConfig(baseline="value", **{k: value for k, value in shared.items() if k in PPOConfig.model_fields})
