"""ArCHer (Zhou et al. 2024, "ArCHer: Training language model agents via hierarchical multi-turn RL").

A critic with two estimates Q_1, Q_2 learns off-policy, from all turns of all rounds, what actions are worth
(`reflect_algorithms.turn_critic`); the policy learns from the critic's advantages. The paper has a second level, the
tokens of an utterance. Here an utterance is one of the listed actions, so that level is the one choice π(a|s):

    loss of the policy = -mean_s [Σ_a π(a|s) A(s,a) log π(a|s) + c H(π(·|s))],    A(s,a) = min_k Q_k(s,a) - V(s)

with V(s) = Σ_a π(a|s) min_k Q_k(s,a), and the weights π A held constant; s are states of the replay.

The paper's own text could not be read here, so no equation is numbered. The losses, the two estimates, the target and
its rate were checked against the authors' code (YifeiZhou02/ArCHer, archer/algorithms/archer/trainer.py).

Differs from the paper: (1) their V is learned, here it is the sum over the listed actions; (2) they draw an action of
the present policy in a replayed state, here the sum over the actions is that draw's expectation; (3) the critic is a
small network on the hidden states of the frozen starting model, theirs trains a language model of its own; (4) the
replay holds all turns; (5) there is an entropy bonus H, which they lack (c = 0 leaves it out; docs/results/log.md); (6)
the last turn of an episode that ran out of turns has no known next state and is left out.
Where a reflection is spoken, too, `reflect_algorithms.both.archer` has the policy gradient of its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from safetensors.torch import load_file, save
from torch import Tensor

from reflect_algorithms.rounds import played_round, write_rounds
from reflect_algorithms.settings import ArCHerConfig, offline_config
from reflect_algorithms.training import Trainer, Training, frozen_scores
from reflect_algorithms.transitions import Transitions, transitions_of
from reflect_algorithms.turn_critic import Critic, Experience, by_number, fit_critic
from reflect_rl.algorithms import Loss, Outputs, finite
from reflect_rl.batch import by_action
from reflect_rl.errors import UserError
from reflect_rl.launch import process_rank
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.store import write_bytes
from reflect_rl.types import Episode, View, seed_for, stream

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig


class AdvantageGradient:
    """The loss of the policy.

    Args:
        views: N states of the replay.
        action_values: (N, A) min_k Q_k; nobody reads what stands where there is no action.
        entropy_coef: c.
    """

    weights: Sequence[float] | None = None

    def __init__(self, views: Sequence[View], action_values: Tensor, entropy_coef: float) -> None:
        self.views, self.action_values, self.entropy_coef = views, action_values, entropy_coef
        self.examples: Sequence[Sequence[int]] = [(row,) for row in range(len(views))]

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """-mean_s [Σ_a π(a|s) A(s,a) log π(a|s) + c H(π(·|s))]."""
        log_probs = outputs.log_probs
        values = self.action_values[examples][:, : log_probs.shape[1]].to(log_probs.device)
        policy = log_probs.detach().exp()
        state_values = (policy * values).sum(-1, keepdim=True)
        known = finite(log_probs)
        loss = -(policy * (values - state_values) * known).sum(-1).mean()
        # Not by `algorithms.entropy`, in which gradients would add up in another order and round otherwise.
        entropy = -(log_probs.exp() * known).sum(-1).mean()
        metrics = {"state_value": float(state_values.mean()), "entropy": float(entropy.detach())}
        return Loss(loss - self.entropy_coef * entropy, metrics)


class ArCHer:
    """Off-policy values of turns, and a policy gradient from them.

    Args:
        config: rounds and critic.
    """

    def __init__(self, config: ArCHerConfig | None = None) -> None:
        self.config = config or ArCHerConfig()

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.archer]`."""
        return cls(offline_config(run).archer)

    def train(self, training: Training) -> None:
        """Play, fit the critic and improve the policy, round by round.

        Raises:
            UserError: all visited states are starts of held-out tasks.
        """
        trainer, start = Trainer(training), training.start()
        rounds: list[list[Episode]] = []
        critic: Critic | None = None
        for number in range(self.config.rounds):
            player = LanguageModelPolicy(training.model, training.labels, rule=training.rule)
            rounds.append(played_round(training, number, self.config.episodes, player))
            turns = transitions_of([episode for part in rounds for episode in part])
            hidden = frozen_scores(start, training.labels, turns.views, training.rule).hidden
            critic = self._critic(training, number, turns, hidden, critic)
            kept = [k for k, view in enumerate(turns.views) if view.observation.state not in training.excluded]
            if not kept:
                raise UserError("archer: all visited states are starts of held-out tasks. Play more starts.")
            views = [turns.views[k] for k in kept]
            values = by_action(critic.least(hidden[kept]), views)
            until = training.config.steps * (number + 1) // self.config.rounds
            trainer.fit(AdvantageGradient(views, values, self.config.entropy_coef), until)
        write_rounds(training, rounds)
        trainer.close()

    def _critic(
        self, training: Training, number: int, turns: Transitions, hidden: Tensor, critic: Critic | None
    ) -> Critic:
        """The critic of a round; one that an interrupted training has fitted is read again."""
        actions = training.spec.max_actions
        critic = critic or Critic(hidden, actions, seed_for(training.seed, "critic"))
        path: Path = training.folder / f"critic-{number}.safetensors"
        if path.exists():
            critic.load_state_dict(load_file(path))
            return critic
        scored = frozen_scores(training.model, training.labels, turns.views, training.rule)
        policy = by_number(scored.log_probs.exp(), turns.views, actions)
        rows = (turns.numbers >= 0).nonzero()[:, 0]
        after = turns.following[rows]
        # A game that ended has no next turn; the first one stands there, and nobody reads it.
        upcoming = after.clamp(min=0)
        experience = Experience(
            hidden[rows], turns.numbers[rows], turns.rewards[rows], after >= 0, hidden[upcoming], policy[upcoming]
        )
        fit_critic(critic, experience, self.config, stream(training.seed, "critic", number))
        # All processes of a launch have fitted the same; one writes.
        if process_rank() == 0:
            write_bytes(path, save(critic.state_dict()))
        return critic
