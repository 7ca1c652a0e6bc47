"""RvS (Emmons et al. 2021, "RvS: What is essential for offline RL via supervised learning?").

The policy imitates every action of the log, given the outcome ω that followed it. At test time the prompt asks for the
best outcome:

    loss = -mean_t log π(a_t | s_t, ω_t)

ω_t is the episode's verdict (`condition = "success"`, the goal-conditioned RvS-G for games whose goal is to win), or
the average reward to come, G_t / (H - t) with t turns played and H the longest episode (`condition = "return"`,
RvS-R). The outcome stands in the prompt where a reflection would stand.

The average reward to come was checked against the authors' code (scottemmons/rvs), whose H is the longest episode of
the data. The paper's own text could not be read here, so no equation is numbered.

Differs from the paper: (1) a language model reads the outcome as text, so returns are cut into ten levels of equally
many turns, and a level is asked for; (2) the goal of RvS-G is a state that the episode reached later, here it is the
verdict of the game; (3) H is the environment's longest episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from reflect_algorithms.learners.cloning import Imitation
from reflect_algorithms.log import Turns, turns_of
from reflect_algorithms.players import LEVELS, AskedOutcome, asked, level, verdict
from reflect_algorithms.settings import RvSConfig, offline_config
from reflect_algorithms.training import Training, fit
from reflect_rl.errors import UserError

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig


class RvS:
    """Imitation that is conditioned on the outcome.

    Args:
        config: what is conditioned on, and what is asked for.
    """

    def __init__(self, config: RvSConfig | None = None) -> None:
        self.config = config or RvSConfig()
        self.reflector = AskedOutcome.of(self.config)
        """Asks for the outcome at test time."""

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.rvs]`."""
        return cls(offline_config(run).rvs)

    def train(self, training: Training) -> None:
        """Train on all turns, each with its outcome.

        Raises:
            UserError: no episode was won, so a win cannot be asked for; or no turn has the level that is asked for.
        """
        turns = turns_of(training.episodes, training.excluded)
        fit(training, self.objective(turns, training.spec.max_episode_steps))

    def objective(self, turns: Turns, horizon: int, *, plays_on: bool = False) -> Imitation:
        """Imitation of all turns, each given its outcome.

        Args:
            turns: what was played.
            horizon: turns of the longest episode, H.
            plays_on: further rounds may reach the level that is asked for.

        Raises:
            UserError: no episode was won, so a win cannot be asked for; or no turn has the level that is asked for.
        """
        if self.config.condition == "success":
            outcomes = verdicts(turns)
        else:
            values = average_to_come(turns, horizon)
            outcomes = (
                [level(n) for n in levels(values)] if plays_on else levels_beside(self.config.asked_level, values)
            )
        views = [replace(view, reflection=asked(text)) for view, text in zip(turns.views, outcomes, strict=True)]
        return Imitation(views, turns.actions)


def verdicts(turns: Turns) -> list[str]:
    """The verdict of each turn's episode.

    Raises:
        UserError: no episode was won.
    """
    if not turns.won.any():
        raise UserError(
            "no episode of the log is won, or of the rounds so far, so the policy would be asked for what it has "
            "never seen. Set offline.rvs.condition to 'return', or let better players play (offline.log.quality)."
        )
    return [verdict(won) for won in turns.won.tolist()]


def levels_beside(asked_level: int, values: Tensor) -> list[str]:
    """The level of each value, where some have the one that is asked for.

    Raises:
        UserError: none has it.
    """
    found = levels(values)
    if asked_level not in found:
        there = ", ".join(map(str, sorted(set(found))))
        raise UserError(
            f"offline.rvs.asked_level: no turn of the log has the level {asked_level}, so the policy would be asked "
            f"for what it has never seen. Set it to one of {there}."
        )
    return [level(number) for number in found]


def average_to_come(turns: Turns, horizon: int) -> Tensor:
    """G_t / (H - t) of each turn, (N,).

    Args:
        turns: of the log.
        horizon: turns of the longest episode, H.
    """
    # A recorded episode may be longer than the environment's limit is now.
    return turns.returns / (horizon - turns.elapsed).clamp(min=1)


def levels(values: Tensor) -> Sequence[int]:
    """The level of each value, from 0 to `LEVELS` - 1: quantiles of all values; equal values have equal levels.

    >>> levels(torch.arange(20.0))[::4], levels(torch.tensor([1.0, 1.0]))
    ([0, 2, 4, 6, 8], [9, 9])
    """
    # Share of the values that are not above: the best one always has the highest level.
    ranks = torch.searchsorted(values.sort().values, values, right=True) / len(values)
    found: list[int] = (ranks * LEVELS).ceil().clamp(1, LEVELS).long().sub(1).tolist()
    return found
