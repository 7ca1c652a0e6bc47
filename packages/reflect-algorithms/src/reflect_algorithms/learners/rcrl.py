"""Return-conditioned RL (Havrilla et al. 2024, "Teaching large language models to reason with reinforcement learning").

In each round the policy plays and is asked for the best outcome. Every turn of all rounds so far is then labelled with
the outcome ω that followed it, and the policy imitates all of them, each given its own label, as in RvS:

    D ← D ∪ {(s_t, a_t, ω_t)},   loss = -mean over D of log π(a_t | s_t, ω_t)

In the first round the policy that goes in plays, which has not learned to read an outcome. Outcomes are those of
`[offline.rvs]`: the verdict of the episode, or the level of the average reward to come.

The paper was read in summaries only, so no equation is numbered. Asking the policy for the outcome and labelling what
it did instead is due to Schmidhuber 2019 ("Reinforcement learning upside down"), which is cited from memory.

Differs from the paper: (1) rounds of play follow each other, and levels are drawn anew over all rounds; (2) an
action of a list takes the place of a written step of reasoning, and the label is its episode's verdict or return, not
an estimate by further samples; (3) the policy goes on from its weights in place of being trained anew in each round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from reflect_algorithms.learners.rvs import RvS
from reflect_algorithms.log import turns_of
from reflect_algorithms.rounds import played_round, write_rounds
from reflect_algorithms.settings import RCRLConfig, RvSConfig, offline_config
from reflect_algorithms.training import Trainer, Training
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.rollout import NoReflector
from reflect_rl.types import Episode

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig


class RCRL:
    """Rounds of play, each followed by imitation that is conditioned on the outcome.

    Args:
        config: rounds and episodes.
        rvs: what is conditioned on, and what is asked for.
    """

    def __init__(self, config: RCRLConfig | None = None, rvs: RvSConfig | None = None) -> None:
        self.config, self.imitation = config or RCRLConfig(), RvS(rvs)
        self.reflector = self.imitation.reflector
        """Asks for the outcome, from the second round on and at test time."""

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.rcrl]` and `[offline.rvs]`."""
        settings = offline_config(run)
        return cls(settings.rcrl, settings.rvs)

    def train(self, training: Training) -> None:
        """Play, label and train, round by round.

        Raises:
            UserError: no episode was won so far, so a win cannot be asked for.
        """
        trainer = Trainer(training)
        rounds: list[list[Episode]] = []
        for number in range(self.config.rounds):
            player = LanguageModelPolicy(training.model, training.labels, rule=training.rule)
            # Nobody has taught the first policy to read what it is asked for.
            asks = self.reflector if number else NoReflector()
            rounds.append(played_round(training, number, self.config.episodes, player, asks))
            turns = turns_of([episode for part in rounds for episode in part], training.excluded)
            until = training.config.steps * (number + 1) // self.config.rounds
            trainer.fit(self.imitation.objective(turns, training.spec.max_episode_steps, plays_on=True), until)
        write_rounds(training, rounds)
        trainer.close()
