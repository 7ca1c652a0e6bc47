"""The reflection player of outcome-conditioned policies, which writes the outcome that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from reflect_algorithms.settings import RvSConfig, offline_config
from reflect_rl.types import View

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig
    from reflect_rl.types import Decoding

LEVELS = 10
"""Number of levels of a return."""


def asked(outcome: str) -> str:
    """The text that stands in the place of a reflection."""
    return f"Asked: {outcome}."


def verdict(won: bool) -> str:
    """The outcome of an episode."""
    return "win" if won else "loss"


def level(number: int) -> str:
    """A level of returns, from 0 to `LEVELS` - 1."""
    return f"level {number}"


class AskedOutcome:
    """Writes the same text into every view: the outcome that the policy is to bring about.

    Args:
        text: the outcome, as `asked` writes it.
    """

    name = "asked_outcome"
    sees_oracle = False

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def of(cls, config: RvSConfig) -> Self:
        """The player that asks for what the settings say."""
        return cls(asked(verdict(True) if config.condition == "success" else level(config.asked_level)))

    @classmethod
    def for_run(cls, run: RunConfig, method: str, decoding: Decoding) -> Self:
        """The player that asks for what the run's settings say."""
        return cls.of(offline_config(run).rvs)

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """Write the outcome for each view."""
        return [self.text] * len(views)
