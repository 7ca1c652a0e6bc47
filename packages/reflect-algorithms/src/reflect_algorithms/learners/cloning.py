"""Behaviour cloning: the policy imitates the actions of a log, all of them or those of won episodes alone.

    loss = -mean_t log π(a_t|s_t)

Sources: Pomerleau 1989 ("ALVINN"); with the filter, "%BC" of Chen et al. 2021 ("Decision Transformer", section 5.1),
which keeps the episodes of the highest returns.

Differs from the paper: the filter keeps won episodes instead of a share of the returns, because a game here says
whether it was won.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from torch import Tensor

from reflect_algorithms.log import Turns, turns_of
from reflect_algorithms.training import Training, chosen, fit
from reflect_rl.algorithms import Loss, Outputs
from reflect_rl.errors import UserError
from reflect_rl.types import View

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig


class Imitation:
    """The mean of -log π(a|s) over turns.

    Args:
        views: N states.
        actions: (N,) the action of each.
    """

    weights: Sequence[float] | None = None

    def __init__(self, views: Sequence[View], actions: Tensor) -> None:
        self.views, self.actions = views, actions
        self.examples: Sequence[Sequence[int]] = [(row,) for row in range(len(views))]

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """-mean log π(a_t|s_t)."""
        own = chosen(outputs.log_probs, self.actions[examples])
        return Loss(-own.mean(), {"action_probability": float(own.detach().exp().mean())})


class Cloning:
    """Behaviour cloning of all turns of the log."""

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner; it has no settings of its own."""
        return cls()

    def train(self, training: Training) -> None:
        """Train on all turns."""
        turns = turns_of(training.episodes, training.excluded)
        fit(training, Imitation(turns.views, turns.actions))


class FilteredCloning(Cloning):
    """Behaviour cloning of the won episodes of the log."""

    def train(self, training: Training) -> None:
        """Train on the turns of won episodes.

        Raises:
            UserError: no episode was won.
        """
        fit(training, won_turns(turns_of(training.episodes, training.excluded), len(training.episodes)))


def won_turns(turns: Turns, episodes: int) -> Imitation:
    """The objective of imitating won episodes.

    Args:
        turns: of the log.
        episodes: number of its episodes, for the message.

    Raises:
        UserError: no episode was won.
    """
    rows = turns.won.nonzero()[:, 0]
    if not len(rows):
        raise UserError(
            f"filtered behaviour cloning: none of the {episodes} episodes of the log is won, so there is nothing to "
            "imitate. Log more of them (offline.log.episodes_per_start), or better players (offline.log.quality)."
        )
    return Imitation([turns.views[row] for row in rows.tolist()], turns.actions[rows])
