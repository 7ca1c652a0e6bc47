"""The section `[preferences]` of a run's settings; it is read without torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from reflect_algorithms.settings import LearnerSteps
from reflect_rl.config import AlgorithmConfig, Frozen, Section, section
from reflect_rl.envs.base import HasSolver
from reflect_rl.store import read_jsonl

if TYPE_CHECKING:  # its module looks this section up
    from reflect_rl.runs.config import RunConfig

Compared = Literal["episodes", "actions"]


class PairsConfig(Frozen):
    """The pairs that methods learn from."""

    file: Path | None = None
    """Preferences of people or of a judge, a file as `reflect-rl prefer` writes it; unset = the reward chooses between
    episodes that the supervised policy plays."""
    compare: Compared = "episodes"
    """Sides of a pair where the reward chooses: two episodes from one start, or two actions in one state. Pairs of a
    file say themselves which they are."""
    count: int = Field(400, ge=2)
    """Pairs; of a file, the least number that it must hold, those on which people disagree included."""
    noise: float = Field(0.0, ge=0, le=0.5)
    """Probability with which a choice by the reward is turned round."""
    held_out: float = Field(0.2, gt=0, lt=1)
    """Share of the starts whose pairs are not learned from; the accuracy is measured on them."""
    contradictions: Literal["keep", "drop"] = "drop"
    """Pairs that two people answered differently: keep both answers, or drop them all. Either way they are counted."""


class RewardConfig(Frozen):
    """The reward model."""

    imitation_coef: float = Field(0.1, ge=0)
    """Weight of imitating the better side (Askell et al. 2021), 0 = the ranking loss alone."""


class DPOConfig(Frozen):
    """Direct preference optimisation."""

    beta: float = Field(0.1, gt=0)
    """β: the larger, the nearer the policy stays to the supervised one."""


class RRHFConfig(Frozen):
    """Rank responses to align with human feedback."""

    imitation_coef: float = Field(1.0, ge=0)
    """Weight of imitating the better side; the paper adds both losses as they are."""


class RLHFConfig(Frozen):
    """Online RL on the learned reward; everything else about it is in `[rlft]`."""

    kl_coef: float = Field(0.05, ge=0)
    """η: price of a nat of log(π/π_SFT) at an action, in units of the learned reward."""
    gamma: float | None = Field(None, ge=0, le=1)
    """Discount of the learned rewards (unset: 0 where the pairs compare actions, which say nothing of later turns, and
    that of `rlft.algorithm` where they compare episodes). With 0 the baseline `leave_one_out`, which compares whole
    episodes, gives way to `batch`."""
    reward_clip: float = Field(2.0, gt=0)
    """Bound of a turn's learned reward, in standard deviations of the episodes' learned returns; `ppo_max` alone."""
    critic_warmup_updates: int = Field(5, ge=0)
    """First updates that train the critic alone; `ppo_max` alone."""


class PreferencesConfig(Section):
    """Learning from preferences (package `reflect-algorithms`)."""

    followed_by = ("pairs", "reward", "learn", "evaluation")

    pairs: PairsConfig = Field(default_factory=PairsConfig)
    """The pairs."""
    training: LearnerSteps = Field(default_factory=lambda: LearnerSteps(steps=300, batch_size=32))
    """Optimiser steps of the reward model, of DPO and of RRHF; an example is a pair."""
    reward: RewardConfig = Field(default_factory=RewardConfig)
    """Reward model."""
    dpo: DPOConfig = Field(default_factory=DPOConfig)
    """DPO."""
    rrhf: RRHFConfig = Field(default_factory=RRHFConfig)
    """RRHF."""
    rlhf: RLHFConfig = Field(default_factory=RLHFConfig)
    """RLHF by PPO and PPO-max."""

    def mistakes(self, run: RunConfig) -> Iterator[str]:
        """Mistakes about the pairs."""
        if importlib.util.find_spec("reflect_report") is None:
            yield "preferences: pairs are read with reflect-report. pip install 'reflect-algorithms[preferences]'."
        pairs = self.pairs
        if pairs.file is not None and not pairs.file.is_file():
            yield f"preferences.pairs.file: there is no file {pairs.file}. `reflect-rl prefer` writes one."
        if pairs.file is None and pairs.compare == "actions" and run.env.capability(HasSolver) is None:
            yield (
                f"preferences.pairs.compare: 'actions' needs a solver to value them, which {run.environment.name} does "
                "not have. Set it to 'episodes', or preferences.pairs.file to answers of people."
            )
        if "rlhf" not in run.methods or (mistake := whole_episodes(run.rlft.algorithm)) is None:
            return
        gamma, missing = self.rlhf.gamma, pairs.file is not None and not pairs.file.is_file()
        if gamma == 0 or (gamma is None and not missing and _of_actions(pairs)):
            yield mistake


def _of_actions(pairs: PairsConfig) -> bool:
    """Tell whether all pairs compare two actions of a state; those of a file say it themselves."""
    if pairs.file is None:
        return pairs.compare == "actions"
    rows = read_jsonl(pairs.file, "Collect preferences with `reflect-rl prefer`.", appended=True)
    return bool(rows) and all(row.get("situation") for row in rows)


def whole_episodes(algorithm: AlgorithmConfig) -> str | None:
    """The mistake of an algorithm that credits a turn with its whole episode, where later turns are to count nothing.

    One with a baseline makes none, as another baseline can take its place.
    """
    if not algorithm.credits_episodes or "baseline" in type(algorithm).model_fields:
        return None
    return (
        f"rlft.algorithm.name: {algorithm.name!r} compares whole episodes, and where pairs compare actions later turns "
        "count nothing. Set it to 'ppo', or preferences.rlhf.gamma above 0."
    )


def preferences_config(run: RunConfig) -> PreferencesConfig:
    """The settings of `[preferences]`."""
    return section(run, "preferences", PreferencesConfig)
