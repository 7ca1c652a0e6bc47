"""Curricula: which tasks the next update trains on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from reflect_rl.config import CurriculumConfig


def modes_of(stage: str) -> tuple[str, ...]:
    """Modes of a stage as settings name it, which may join several by plus signs.

    >>> modes_of("pickup"), modes_of("pickup+full")
    (('pickup',), ('pickup', 'full'))
    """
    return tuple(stage.split("+"))


class UniformConfig(CurriculumConfig):
    """No curriculum."""

    name: Literal["uniform"] = "uniform"
    """Uniform."""
    modes: tuple[str, ...] = ()
    """Modes to draw from (empty: the hardest mode of the environment only)."""

    @property
    def named_modes(self) -> tuple[str, ...]:
        """Modes that the settings name."""
        return self.modes


class Uniform:
    """The same modes at any progress."""

    Config = UniformConfig

    def __init__(self, config: UniformConfig, modes: tuple[str, ...]) -> None:
        # An environment lists its modes from easy to hard.
        self.modes = config.modes or modes[-1:]

    def stage(self, progress: float) -> tuple[str, ...]:
        """Modes to train at this share (0 to 1) of the training budget."""
        return self.modes


class StagesConfig(CurriculumConfig):
    """Modes one after the other."""

    name: Literal["stages"] = "stages"
    """Stages."""
    modes: tuple[str, ...] = ()
    """Modes in training order (empty: all modes of the environment, easiest first); `a+b` trains both in one stage."""
    shares: tuple[float, ...] = Field(())
    """Share of the training budget of each mode (empty: equal shares)."""

    @property
    def named_modes(self) -> tuple[str, ...]:
        """Modes that the settings name."""
        return self.modes

    @model_validator(mode="after")
    def _shares_fit(self) -> StagesConfig:
        if self.shares and self.modes and len(self.shares) != len(self.modes):
            raise ValueError(f"curriculum.shares has {len(self.shares)} numbers for {len(self.modes)} modes")
        if any(share <= 0 for share in self.shares):
            raise ValueError("curriculum.shares must be positive")
        return self


class Stages:
    """Walks through the stages by the share of the budget that is used up."""

    Config = StagesConfig

    def __init__(self, config: StagesConfig, modes: tuple[str, ...]) -> None:
        self.modes = config.modes or modes
        self.shares = config.shares or (1.0,) * len(self.modes)
        if len(self.shares) != len(self.modes):
            raise ValueError(f"curriculum.shares has {len(self.shares)} numbers for the modes {', '.join(self.modes)}")

    def stage(self, progress: float) -> tuple[str, ...]:
        """Modes to train at this share (0 to 1) of the training budget."""
        passed, total = 0.0, sum(self.shares)
        for mode, share in zip(self.modes, self.shares, strict=True):
            passed += share / total
            # 0.1 + 0.2 is a little more than 0.3, and rounding must not hold a stage back.
            if progress < passed - 1e-9:
                return modes_of(mode)
        # The budget is used up, or rounding has eaten the rest: the last stage stays.
        return modes_of(self.modes[-1])
