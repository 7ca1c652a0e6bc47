"""Settings of supervised training and of online RL fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from reflect_rl.config import AlgorithmConfig, CurriculumConfig, Frozen, default_part

if TYPE_CHECKING:  # only where it is asked for a game
    from reflect_rl.envs.base import EnvSpec

TrackerName = Literal["tensorboard", "wandb", "trackio"]
"""Name of a tracker, of the package that it needs, and of the extra that installs that."""


class OptimiserConfig(Frozen):
    """Optimiser steps of one training."""

    steps: int = Field(1000, ge=1)
    """Optimiser steps."""
    batch_size: int = Field(32, ge=1)
    """Rows per step."""
    learning_rate: float = Field(3e-3, gt=0, le=1)
    """Peak learning rate (for a pretrained model with LoRA: 2e-4, as in the paper)."""
    warmup_steps: int = Field(50, ge=0)
    """Steps of linear warm-up; a cosine to a tenth of the peak follows."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradient norm above which gradients are scaled down."""
    stop_grad_norm: float = Field(1e4, ge=0)
    """Gradient norm above which training stops, 0 = at none that is finite."""
    save_steps: int = Field(100, ge=1)
    """Steps between two checkpoints; an interrupted training goes on from the last one."""


class SFTConfig(OptimiserConfig):
    """Supervised training of one model."""

    balance: float = Field(0, ge=0, le=1)
    """Preference for rows with rare completions: a row is drawn with the weight n^-balance, n = rows with its
    completion; 0 = every row once per pass. For policies whose labels are mostly the same few numbers."""
    dropout: float = Field(0, ge=0, lt=1)
    """Dropout of embeddings, attention and residual branches while this model learns (0: as the model has it). Adapters
    drop as much, in place of model.lora.dropout; without adapters it is for the `gpt2` shape. Too much of it keeps a
    small model from learning (docs/results/log.md)."""

    rows_together: int = Field(1, ge=1)
    """Rows that begin alike and are drawn side by side, so that what they share is read once. For raw
    states, which grow from turn to turn; the rows of a batch are then less different (1 = every row by itself)."""

    @model_validator(mode="after")
    def _one_way_to_draw(self) -> Self:
        if self.balance and self.rows_together > 1:
            raise ValueError(
                f"balance = {self.balance} draws each row by itself, and rows_together = {self.rows_together} draws "
                "neighbours. Set one of them to its default."
            )
        return self


class ReflectorSFTConfig(SFTConfig):
    """Supervised training of the reflection player."""

    attempts: int = Field(1, ge=1, le=20)
    """Trainings at most, each with another order of the rows. With more than one, the pair of players plays the
    validation tasks greedily after each, and the best player is kept."""
    retrain_below: float = Field(0.975, gt=0, le=1)
    """Share of the validation games won, in the mode that went worst, below which another attempt is made."""


class RLFTConfig(Frozen):
    """Online RL fine-tuning."""

    total_turns: int = Field(15_000, ge=1)
    """Training budget in environment turns."""
    starts_per_update: int = Field(16, ge=1)
    """Different training tasks per update."""
    episodes_per_start: int = Field(4, ge=1)
    """Episodes of each of them (at least 2 for the leave-one-out baseline to compare equal starts)."""
    temperature: float = Field(1.0, gt=0)
    """Temperature at which the policy plays and learns: above 1, a policy that is sure of itself explores, and its
    gradient is that of what it explored with. Validation and results are at 1."""
    learning_rate: float = Field(3e-4, gt=0, le=1)
    """Learning rate of the policy (for a pretrained model with LoRA: 2e-4, as in the paper)."""
    minibatch_turns: int = Field(128, ge=1)
    """Turns of an optimiser step, roughly; turns of equal prompts are always in the same one."""
    turns_together: int = Field(1, ge=1)
    """Turns that begin alike and are put into one minibatch, so that what they share is read once. For raw
    states, which grow from turn to turn; a minibatch then has turns of fewer episodes (1 = every turn by itself)."""
    micro_batch_tokens: int | None = Field(None, ge=1)
    """Upper bound on the padded tokens of one forward and backward pass (unset: what is fast on the device)."""
    max_grad_norm: float = Field(0.5, gt=0)
    """Gradient norm above which gradients are scaled down (Reflect-RL: 0.3)."""
    target_kl: float | None = Field(None, gt=0)
    """An update ends early at a minibatch whose KL divergence to the policy that played exceeds this (unset: never)."""
    stop_grad_norm: float = Field(1e4, ge=0)
    """Gradient norm above which training stops, as it has exploded; 0 = at none that is finite."""
    value_head: Literal["linear", "mlp"] = "linear"
    """The critic's head, with the `value` baseline."""
    value_learning_rate: float = Field(1e-2, gt=0, le=1)
    """Learning rate of the critic's head."""
    critic_warmup_updates: int = Field(0, ge=0)
    """First updates that train the critic alone (PPO-max, Zheng et al. 2023); nothing without a critic, as with ppo and
    rlft.algorithm.baseline = "leave_one_out"."""
    replay_capacity: int = Field(0, ge=0)
    """Successful episodes kept for replay, 0 = off (Reflect-RL: 50)."""
    replay_per_update: int = Field(8, ge=0)
    """Replayed episodes per update."""
    num_envs: int = Field(64, ge=1)
    """Games played at once."""
    progress: float = Field(0.0, ge=0, le=1)
    """Reward, in training only, for each turn by which an action shortens the solver's solution, less where it makes it
    longer; 0 = only the game's own rewards. With a discount below 1 it tells single actions apart."""
    max_episode_steps: int | None = Field(None, ge=1)
    """Turns until truncation while training (unset: the environment's)."""
    validate_every: int = Field(5, ge=0)
    """Updates between two measurements on the validation tasks, 0 = never."""
    keep: Literal["last", "best"] = "last"
    """Choice of the result: the last policy, or the best on the validation tasks (mean over the modes)."""
    checkpoint_every: int = Field(5, ge=1)
    """Updates between two checkpoints; an interrupted training goes on from the last one."""
    algorithm: AlgorithmConfig = Field(default_factory=lambda: default_part(AlgorithmConfig))
    """The RL algorithm."""
    curriculum: CurriculumConfig = Field(default_factory=lambda: default_part(CurriculumConfig))
    """The order in which tasks are trained."""

    @model_validator(mode="after")
    def _best_is_measured(self) -> Self:
        if self.keep == "best" and not self.validate_every:
            raise ValueError(
                "keep = 'best' needs measurements on the validation tasks. Set validate_every to 1 or more, or keep = "
                "'last'."
            )
        return self

    def unmeasured(self, spec: EnvSpec, modes: Sequence[str]) -> str:
        """The sentence that tells why no policy can be the best one; empty where the modes have validation tasks."""
        if self.keep == "last" or any(spec.tasks(mode, "validation") for mode in modes):
            return ""
        return (
            f"keep: 'best' is chosen on validation tasks, and {spec.name} has none of the modes {', '.join(modes)}. "
            "Set keep = 'last', or give the game validation tasks."
        )
