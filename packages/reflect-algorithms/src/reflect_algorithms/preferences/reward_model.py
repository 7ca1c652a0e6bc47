"""Reward model: a head on the supervised policy that scores an action in its state, learned from pairs.

    loss = -mean log σ(R(better) - R(worse)) - λ · mean log π(a|s) over the better side,   R = Σ_t r(s_t, a_t)

Sources: the ranking loss is that of Stiennon et al. 2020 ("Learning to summarize with human feedback", section 3.4);
the imitation loss on the better side is that of Askell et al. 2021 ("A general language assistant as a laboratory for
alignment"), who train preference models after or with language modelling. Neither text could be read here, so no
equation is numbered.

Differs from the papers: (1) an answer is an episode whose score is the sum over its turns, or one action; (2) the head
reads the end of the prompt and has one output for each listed action, so that one pass scores all of them; (3) pairs of
actions fix r(s, ·) up to a constant of each state, so the best action of a state is then set to 0 (r becomes a regret,
under which a longer way never pays); (4) scores are divided by their standard deviation over the sides that were
learned from, and not centred, since a constant a turn would say what a longer episode is worth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from reflect_algorithms.heads import ActionHead, frozen_head_scores
from reflect_algorithms.preferences.objective import Compared, RankedAndImitated, measure, needed
from reflect_algorithms.preferences.settings import RewardConfig
from reflect_algorithms.training import Trainer, Training, chosen
from reflect_rl.algorithms import Loss, Outputs
from reflect_rl.errors import RunFolderError
from reflect_rl.store import read_json, write_json
from reflect_rl.types import View

if TYPE_CHECKING:
    from reflect_rl.config import Rule
    from reflect_rl.models.labels import Labels
    from reflect_rl.models.load import LanguageModel


class Ranking(RankedAndImitated):
    """The objective of the reward model."""

    def loss(self, examples: Tensor, outputs: Outputs) -> Loss:
        """The loss above.

        Raises:
            ValueError: the outputs have no scores of actions.
        """
        if outputs.action_values is None:
            raise ValueError("the reward model needs a head that scores actions")
        rows = self.rows(examples)
        actions = self.actions[rows]
        totals = self.sums(examples, chosen(outputs.action_values, actions))
        ranking = -nn.functional.logsigmoid(totals[:, 0] - totals[:, 1]).mean()
        better = self.sums(examples, chosen(outputs.log_probs, actions))[:, 0]
        # By the mean length over all pairs: by that of a batch, the gradient would depend on how the batch is cut.
        imitation = -better.mean() / float(self.lengths[:, 0].float().mean())
        return self.total(totals, ranking, imitation)


@dataclass(frozen=True)
class RewardModel:
    """A frozen reward model."""

    model: LanguageModel
    labels: Labels
    head: ActionHead
    rule: Rule = "choice_token"
    regret: bool = False
    """True = the best action of a state has the reward 0."""
    scale: float = 1.0
    """Standard deviation of the scores that it has learned from."""

    def table(self, views: Sequence[View]) -> Tensor:
        """Rewards (N, A) of all actions of N states, on the CPU; what stands where there is no action means nothing."""
        table = frozen_head_scores(self.model, self.labels, self.head, views, self.rule)
        if self.regret:
            listed = torch.tensor([len(view.observation.actions) for view in views])[:, None]
            there = torch.arange(table.shape[1])[None] < listed
            table = table - table.masked_fill(~there, -torch.inf).amax(1, keepdim=True)
        return table / self.scale

    def rewards(self, views: Sequence[View], actions: Tensor) -> Tensor:
        """(N,) reward of each action (N,) in its state."""
        return chosen(self.table(views), actions)

    def hash(self) -> str:
        """SHA-256 over all that its rewards follow from."""
        facts = (self.model.hash(), self.labels.texts, self.rule, self.regret, self.scale)
        weights = [weight.tolist() for weight in self.head.state_dict().values()]
        return hashlib.sha256(repr([facts, weights]).encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write head and facts beside the model, which is saved by itself."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: t.detach().cpu().contiguous() for name, t in self.head.state_dict().items()}, folder / HEAD)
        write_json(folder / FACTS, {"regret": self.regret, "scale": self.scale})

    @classmethod
    def load(cls, folder: Path, model: LanguageModel, labels: Labels, rule: Rule) -> RewardModel:
        """Read the reward model of a folder.

        Args:
            folder: with head and facts.
            model: the model under the head.
            labels: of its actions.
            rule: by which it reads prompts.

        Raises:
            RunFolderError: a file is missing or damaged.
        """
        remedy = "Run `reflect-rl reward` again."
        facts = read_json(folder / FACTS, remedy)
        try:
            tensors = load_file(folder / HEAD)
            head = ActionHead(tensors["layer.weight"].shape[1], tensors["layer.weight"].shape[0])
            head.load_state_dict(tensors)
        except Exception as error:
            raise RunFolderError(f"{folder / HEAD} cannot be read ({error}). {remedy}") from None
        return cls(model, labels, head.to(model.device), rule, bool(facts["regret"]), float(facts["scale"]))


HEAD, FACTS = "head.safetensors", "reward.json"


def train_reward(training: Training, config: RewardConfig) -> RewardModel:
    """Train a reward model in place of the policy that goes in.

    Args:
        training: its pairs are learned from; those that are held out are measured, into metrics and `card.json`.
        config: weight of the imitation loss.

    Raises:
        TrainingError: the loss or the gradient is not finite or too large.
        UserError: there are no pairs.
    """
    comparisons = needed(training, "reward")
    head = ActionHead.on(training.model, training.labels)
    trainer = Trainer(training, head)
    trainer.fit(Ranking(comparisons, config.imitation_coef))
    regret = all(one.of_actions for one in comparisons)
    raw = RewardModel(training.model, training.labels, head, training.rule, regret)
    pairs = Compared(comparisons)
    scores = pairs.sums(torch.arange(len(comparisons)), raw.rewards(pairs.views, pairs.actions))
    # A head that ranks nothing has no deviation; its rewards stay what they are.
    scale = float(scores.std(correction=0)) or 1.0
    made = RewardModel(training.model, training.labels, head, training.rule, regret, scale)
    measure(trainer, made.rewards)
    trainer.close()
    return made
