"""DAgger (Ross, Gordon and Bagnell 2011, "A reduction of imitation learning ... to no-regret online learning").

In each round a mixture of expert and policy plays, the solver labels every state that is visited, and the policy is
trained on the labels of all rounds so far (algorithm 3.1 there, with β_1 = 1 and β_i = 0 after):

    D ← D ∪ {(s, π*(s)) : s visited in this round},   loss = -mean over D of log π(π*(s)|s)

The paper is cited from memory; its text could not be read here.

Differs from the paper: (1) the policy goes on from its weights in place of being trained anew in each round; (2) the
last policy is the result, not the best one on validation; (3) the policy draws its actions, as rollouts elsewhere do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import torch

from reflect_algorithms.learners.cloning import Imitation
from reflect_algorithms.rounds import played_round
from reflect_algorithms.settings import DAggerConfig, offline_config
from reflect_algorithms.training import Trainer, Training
from reflect_rl.envs.base import HasSolver
from reflect_rl.errors import UserError
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import Policy
from reflect_rl.types import Decision, Episode, View

if TYPE_CHECKING:
    import numpy as np

    from reflect_rl.runs.config import RunConfig


class Labelled:
    """A player whose decisions carry the solver's action as their target; the player itself does not see it.

    Args:
        player: who plays.
    """

    sees_oracle = True

    def __init__(self, player: Policy) -> None:
        self.player, self.name = player, player.name

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The player's decisions, with the solver's label; a state that no expert knows has none."""
        shown = views
        if not self.player.sees_oracle:
            shown = [replace(view, oracle=None, lesson=None) for view in views]
        decisions = self.player.decide(shown, rngs)
        labels = [None if view.oracle is None else view.oracle.best for view in views]
        return [replace(said, target=label) for said, label in zip(decisions, labels, strict=True)]


class DAgger:
    """Imitation of a solver on the states that the policy itself visits.

    Args:
        config: rounds and episodes.
    """

    def __init__(self, config: DAggerConfig | None = None) -> None:
        self.config = config or DAggerConfig()

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.dagger]`."""
        return cls(offline_config(run).dagger)

    def train(self, training: Training) -> None:
        """Play, label and train, round by round.

        Raises:
            UserError: the environment has no solver, or no state has a label.
        """
        training.spec.needed(HasSolver, "DAgger")
        trainer = Trainer(training)
        views: list[View] = []
        labels: list[int] = []
        for number in range(self.config.rounds):
            # The first round is the expert's: a policy that has learned nothing visits only beginnings.
            player: Policy = OraclePolicy()
            if number:
                player = LanguageModelPolicy(training.model, training.labels, rule=training.rule)
            episodes = played_round(training, number, self.config.episodes, Labelled(player))
            for view, label in labelled_states(episodes, training.excluded):
                views.append(view)
                labels.append(label)
            if not views:
                raise UserError("dagger: the solver knew no action in any state that was visited.")
            until = training.config.steps * (number + 1) // self.config.rounds
            trainer.fit(Imitation(views, torch.tensor(labels)), until)
        trainer.close()


def labelled_states(episodes: Sequence[Episode], excluded: frozenset[str]) -> list[tuple[View, int]]:
    """Each visited state with its label; states without a label, and excluded ones, are left out."""
    return [
        (turn.plain_view, turn.decision.target)
        for episode in episodes
        for turn in episode.turns
        if turn.decision.target is not None and turn.observation.state not in excluded
    ]
