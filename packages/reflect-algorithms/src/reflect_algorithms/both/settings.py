"""The section `[rlft.reflector]` of a run's settings; it is read without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from reflect_algorithms.settings import CriticConfig
from reflect_rl.config import Section, section
from reflect_rl.training.config import RLFTConfig

if TYPE_CHECKING:  # its module looks this section up
    from reflect_rl.runs.config import RunConfig

STAGE = "rlft_both"
"""Name of the stage that trains both players."""


SUITED = ("reinforce", "ppo")
"""Algorithms whose loss weights log π(a_t|s_t) by the advantage, so that another critic's may take its place."""


class TurnCriticConfig(CriticConfig):
    """ArCHer's off-policy critic of turns, used with `critic = "archer"`."""

    turns: int = Field(512, ge=1)
    """Turns, drawn from all so far, that the critic learns from in each update; at each, a next reflection is drawn."""


class ReflectorTrainingConfig(Section):
    """Online training of the reflection player (method `reflect_rl_both`, package `reflect-algorithms`)."""

    followed_by = (STAGE, "evaluation")

    learning_rate: float = Field(1e-4, gt=0, le=1)
    """Learning rate at the start; it falls on a line to a tenth, like the policy's."""
    kl_coef: float = Field(0.1, ge=0)
    """Weight of the divergence from the reflection player as supervised training left it, per token."""
    minibatch_texts: int = Field(128, ge=1)
    """Different reflections of an optimiser step."""
    max_grad_norm: float = Field(0.5, gt=0)
    """Gradient norm above which gradients are scaled down."""
    stop_grad_norm: float = Field(1e4, ge=0)
    """Gradient norm above which training stops, as it has exploded; 0 = at none that is finite."""
    critic: Literal["algorithm", "archer"] = "algorithm"
    """Source of the turns' advantages, for both players: the policy's algorithm, or ArCHer's off-policy critic."""
    archer: TurnCriticConfig = Field(default_factory=TurnCriticConfig)
    """ArCHer's critic."""

    def mistakes(self, run: RunConfig) -> Iterator[str]:
        """Mistakes of runs that train both players."""
        if not any(run.method(name).stage == STAGE for name in run.methods):
            return
        if run.reflector.kind != "own":
            yield (
                f"reflector.kind: reflect_rl_both trains the run's own reflection player, and {run.reflector.kind!r} "
                "is another one. Set reflector.kind = 'own', or leave the method out."
            )
        if self.critic == "archer":
            yield from unsuited(run.rlft)


def unsuited(config: RLFTConfig) -> Iterator[str]:
    """Settings of online RL that do not go with ArCHer's critic, a sentence for each."""
    if config.algorithm.name not in SUITED:
        yield (
            f"rlft.algorithm.name: {config.algorithm.name!r} does not weight actions by an advantage that "
            "rlft.reflector.critic = 'archer' could give. Set it to 'reinforce', as in the paper, or to 'ppo'."
        )
    if config.replay_capacity:
        yield (
            f"rlft.replay_capacity: {config.replay_capacity} won episodes would be replayed with advantages that are "
            "not those of rlft.reflector.critic = 'archer'. Set it to 0; the critic replays all turns by itself."
        )


def reflector_training(run: RunConfig) -> ReflectorTrainingConfig:
    """The settings of `[rlft.reflector]`."""
    return section(run, "rlft.reflector", ReflectorTrainingConfig)
