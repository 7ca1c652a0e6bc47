"""Online RL of the policy of a `Training`, on the game's rewards or on learned ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reflect_algorithms.training import Training
from reflect_rl import checks
from reflect_rl.models.load import LanguageModel
from reflect_rl.rollout import NoReflector
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.online import OnlineTrainer, Rewards
from reflect_rl.types import NO_ACTION, Episode, Turn


def acted(episodes: Iterable[Episode]) -> list[Turn]:
    """The turns with an action, which are those that a learned reward pays."""
    return [turn for episode in episodes for turn in episode.turns if turn.decision.index != NO_ACTION]


def with_rewards(episodes: Sequence[Episode], rewards: Iterable[float]) -> list[Episode]:
    """The episodes with one reward for each turn that `acted` gives; a turn without an action earns nothing."""
    rest = iter(rewards)
    return [
        replace(
            episode,
            turns=tuple(
                replace(turn, reward=0.0 if turn.decision.index == NO_ACTION else next(rest)) for turn in episode.turns
            ),
        )
        for episode in episodes
    ]


def train_online(
    training: Training,
    config: RLFTConfig,
    *,
    modes: tuple[str, ...] = (),
    rewards: Rewards | None = None,
    reference: LanguageModel | None = None,
) -> None:
    """Train the policy of a training online, in place.

    Args:
        training: the model, and where it plays.
        config: settings of online RL; the result is the last policy, as the best is chosen by the true reward.
        modes: that are trained and validated (empty: those of the environment).
        rewards: what is learned from (None: the game's rewards).
        reference: the frozen start, where it is loaded already.

    Raises:
        TrainingError: the loss or the gradient is not finite or too large.
        UserError: states show how many turns are left, and `max_episode_steps` is another number of them.
    """
    checks.shown_horizon(training.spec, max_episode_steps=config.max_episode_steps)
    trainer = OnlineTrainer(
        training.model,
        training.labels,
        NoReflector(),
        training.spec,
        # No solver is asked how far the goal is: a learned reward or game has no place for the answer.
        config.model_copy(update={"keep": "last", "progress": 0.0}),
        training.folder,
        training.seed,
        reference=(reference or training.start()) if config.algorithm.needs_reference else None,
        rule=training.rule,
        shuffle_labels=training.shuffle_labels,
        excluded=training.excluded,
        modes=modes,
        limits=training.limits,
        metrics=training.metrics,
        rewards=rewards,
    )
    trainer.train(training.progress)
    training.model.model.eval()
