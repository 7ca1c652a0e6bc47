"""The section `[offline]` of a run's settings; it is read without torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from reflect_rl.config import Frozen, Section, section
from reflect_rl.envs.base import HasSolver
from reflect_rl.training.config import OptimiserConfig

if TYPE_CHECKING:  # its module looks this section up
    from reflect_rl.runs.config import RunConfig

Quality = Literal["random", "mixed", "expert"]


class LogConfig(Frozen):
    """The log of episodes that offline methods learn from."""

    quality: Quality = "mixed"
    """Players of the log: `random` = uniformly random ones; `expert` = the solver, which plays a random action with the
    probability `noise`; `mixed` = both, half of the episodes each."""
    noise: float = Field(0.1, gt=0, le=1)
    """Probability with which the expert plays a uniformly random action."""
    episodes_per_start: int = Field(8, ge=1)
    """Episodes of each demonstration start and mode."""
    episodes: Path | None = None
    """Recorded episodes in place of such a log, with one value of `data.demonstration_starts`: a JSONL file, as
    `reflect-rl play --record` writes."""


class LearnerSteps(OptimiserConfig):
    """Optimiser steps of one learner."""

    steps: int = Field(600, ge=1)
    """Optimiser steps."""
    batch_size: int = Field(64, ge=1)
    """Examples per step: turns, or what a method compares."""
    learning_rate: float = Field(1e-3, gt=0, le=1)
    """Peak learning rate (for a pretrained model with LoRA: 2e-4)."""


class RvSConfig(Frozen):
    """RvS: what the policy is conditioned on, and what it is asked for."""

    condition: Literal["success", "return"] = "success"
    """Outcome that stands in the prompt: the verdict of the episode, or the level of its average reward to come."""
    asked_level: int = Field(9, ge=0, le=9)
    """Level that is asked for at test time under condition = "return"; 9 is the highest of the log."""


class ALoLConfig(Frozen):
    """A-LoL: the variant."""

    variant: Literal["turn", "sequence", "per_turn", "reference_free", "kl"] = "turn"
    """An action is a turn, or the whole episode (`sequence`; `per_turn` weights each of its turns by itself);
    `reference_free` has no importance weight, `kl` a penalty in its place."""
    reference: Literal["model", "behaviour"] = "model"
    """Denominator of the importance weight: the frozen model that has cloned the log (the paper), or the probabilities
    under which the log was played."""
    clip_ratio: float = Field(0.2, gt=0, lt=1)
    """Half-width of the interval around one to which the importance weight is clipped."""
    kl_coef: float = Field(0.1, ge=0)
    """Weight β of the penalty, used by the variant `kl`."""
    priority_sampling: bool = True
    """Draw examples in proportion to their advantage; false = all alike."""


class DAggerConfig(Frozen):
    """DAgger: rounds of play, labels and training."""

    rounds: int = Field(4, ge=1, le=100)
    """Rounds; the solver plays the first one, the policy the others. The optimiser steps are divided among them."""
    episodes: int = Field(100, ge=1)
    """Episodes of each round."""


class RCRLConfig(Frozen):
    """Return-conditioned RL: rounds of play and imitation; what is asked for is that of `[offline.rvs]`."""

    rounds: int = Field(10, ge=1, le=100)
    """Rounds of play; the optimiser steps are divided among them."""
    episodes: int = Field(100, ge=1)
    """Episodes of each round."""


class LINVITConfig(Frozen):
    """LINVIT: Q-learning with a language model's prior."""

    rounds: int = Field(6, ge=1, le=100)
    """Rounds of play, after each of which Q is fitted again."""
    episodes: int = Field(100, ge=1)
    """Episodes of each round."""
    kl_coef: float = Field(0.1, gt=0)
    """Weight λ of the divergence from the prior, in rewards: small values trust Q, large ones the prior."""
    gamma: float = Field(0.95, gt=0, le=1)
    """Discount γ."""
    iterations: int = Field(40, ge=1)
    """Temporal-difference steps of each fit."""
    prior: Literal["model", "uniform"] = "model"
    """Prior: the language model, or none (plain soft Q-learning)."""


class MOReLConfig(Frozen):
    """MOReL: the world model, in which online RL with the settings of `[rlft]` plays."""

    members: int = Field(4, ge=2)
    """World models of the ensemble; each has the optimiser steps of `[offline.training]`."""
    threshold: float = Field(0.0, ge=0, lt=1)
    """Largest share of the pairs of members that disagree about an action whose outcome counts as known."""
    penalty: float = Field(1.0, ge=0, le=1)
    """Price κ of an unknown action, which ends the game."""


class GAILConfig(Frozen):
    """GAIL: the discriminator, whose batches and learning rate are those of `training`; the policy has `[rlft]`."""

    discriminator_steps: int = Field(8, ge=1)
    """Optimiser steps of the discriminator in each update of the policy."""
    reward: Literal["logit", "paper"] = "logit"
    """Reward of an act that the policy, and no demonstrator, did with the probability D: log(1 - D) - log D, or the
    paper's -log D, which is never negative and so pays for not ending the game."""


class CriticConfig(Frozen):
    """ArCHer's off-policy critic of turns."""

    gamma: float = Field(0.95, gt=0, le=1)
    """Discount γ."""
    critic_steps: int = Field(300, ge=1)
    """Optimiser steps of the critic each time that new turns were played, on these and earlier ones."""
    critic_learning_rate: float = Field(3e-3, gt=0, le=1)
    """Learning rate of the critic."""
    target_rate: float = Field(0.1, gt=0, le=1)
    """Share τ of the critic's weights that its target takes over in each of its steps."""


class ArCHerConfig(CriticConfig):
    """ArCHer: rounds of play, and the critic of turns."""

    rounds: int = Field(10, ge=1, le=100)
    """Rounds of play, after each of which critic and policy learn. The optimiser steps are divided among them."""
    episodes: int = Field(40, ge=1)
    """Episodes of each round."""
    entropy_coef: float = Field(0.1, ge=0)
    """Weight of the entropy bonus, in rewards a nat; the paper has none."""


class OfflineConfig(Section):
    """Learning from a log of episodes, and from a solver's answers (package `reflect-algorithms`)."""

    followed_by = ("log", "learn", "evaluation")

    log: LogConfig = Field(default_factory=LogConfig)
    """The log."""
    training: LearnerSteps = Field(default_factory=LearnerSteps)
    """Optimiser steps of each method."""
    rvs: RvSConfig = Field(default_factory=RvSConfig)
    """RvS."""
    a_lol: ALoLConfig = Field(default_factory=ALoLConfig)
    """A-LoL."""
    dagger: DAggerConfig = Field(default_factory=DAggerConfig)
    """DAgger."""
    rcrl: RCRLConfig = Field(default_factory=RCRLConfig)
    """Return-conditioned RL."""
    linvit: LINVITConfig = Field(default_factory=LINVITConfig)
    """LINVIT."""
    morel: MOReLConfig = Field(default_factory=MOReLConfig)
    """MOReL."""
    gail: GAILConfig = Field(default_factory=GAILConfig)
    """GAIL."""
    archer: ArCHerConfig = Field(default_factory=ArCHerConfig)
    """ArCHer."""

    def mistakes(self, run: RunConfig) -> Iterator[str]:
        """Mistakes about the log."""
        log = self.log
        if log.episodes is not None and not log.episodes.is_file():
            yield f"offline.log.episodes: there is no file {log.episodes}. `reflect-rl play --record` writes one."
        starts = run.data.demonstration_starts
        if log.episodes is not None and len(starts) > 1:
            yield (
                f"data.demonstration_starts: {', '.join(map(str, starts))} would all learn from the one recorded log "
                "of offline.log.episodes, and stand in the tables as different. Name one number."
            )
        if log.episodes is None and log.quality != "random" and run.env.capability(HasSolver) is None:
            yield (
                f"offline.log.quality: {log.quality!r} needs a solver, which {run.environment.name} does not have. Set "
                "it to 'random', or offline.log.episodes to a file of recorded episodes."
            )


def offline_config(run: RunConfig) -> OfflineConfig:
    """The settings of `[offline]`."""
    return section(run, "offline", OfflineConfig)
