"""A language model as policy: one forward pass, one softmax over the admissible actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from reflect_rl.config import Rule
from reflect_rl.models.kept import Kept
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import LISTED, Scores, check_context, score
from reflect_rl.players.decoding import drawn, temperature_of
from reflect_rl.prompts import action_text_prompt, lines_prompt, parts_of, policy_prompt
from reflect_rl.types import Decision, Decoding, View


def tokenize(
    model: LanguageModel, labels: Labels, view: View, rule: Rule = "choice_token"
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Prompt ids, and of each admissible action, in the order of `observation.actions`, what `score` reads.

    That is the token of its label, the place in the prompt where its line ends, or the tokens of its text.
    """
    actions = view.observation.actions
    # Labels and lines name places of the list; scores are in the order of the environment's actions.
    number = {index: k for k, index in enumerate(view.order)}
    if rule == "line_end":
        ids, ends = model.encode_lines(*parts_of(lines_prompt(view)))
        return tuple(ids), tuple((ends[number[index]],) for index in range(len(actions)))
    if rule != "choice_token":
        ids, answers = model.encode_answers(action_text_prompt(view), actions)
        # Each ends: `drawer 1` would otherwise be at least as likely as `drawer 12`, which goes on.
        return tuple(ids), tuple((*answer, model.end_id) for answer in answers)
    prompt = tuple(model.encode_prompt(policy_prompt(view, labels.texts)))
    return prompt, tuple((labels.ids[number[index]],) for index in range(len(actions)))


def score_views(
    model: LanguageModel,
    labels: Labels,
    views: Sequence[View],
    rule: Rule = "choice_token",
    temperature: float = 1.0,
    kept: Kept | None = None,
) -> Scores:
    """Log-probabilities of views: the one way from a view to log π(a|s), for acting and for learning.

    Args:
        model: the policy's language model.
        labels: of its tokenizer, as many as a view can list actions.
        views: N states as the policy sees them.
        rule: how an action is scored.
        temperature: see `score`.
        kept: see `score`.

    Returns:
        scores of N rows; actions are in the order of `observation.actions`, whatever their numbers in the prompt.

    Raises:
        ModelError: a prompt is longer than the model's context, or has no tokens.
    """
    pairs = [tokenize(model, labels, view, rule) for view in views]
    # Here and not in `tokenize`: a policy that shortens its views must be able to measure one that is too long.
    for view, (prompt, _) in zip(views, pairs, strict=True):
        count = len(view.order) if rule in LISTED else 0
        check_context(model, len(prompt), view.observation.text, reflection=view.reflection or "", actions=count)
    prompts, actions = [prompt for prompt, _ in pairs], [actions for _, actions in pairs]
    return score(model, prompts, actions, rule, temperature=temperature, kept=kept)


class LanguageModelPolicy:
    """Samples from (or takes the mode of) the model's distribution over the admissible actions.

    Between two updates the model is a fixed function of its prompt, so the log-probabilities are memoised by view;
    whoever changes the weights calls `forget()`.
    """

    sees_oracle = False

    def __init__(
        self,
        model: LanguageModel,
        labels: Labels,
        decoding: Decoding = "sampled",
        rule: Rule = "choice_token",
        name: str = "language_model",
        cache_size: int = 100_000,
        temperature: float = 1.0,
    ) -> None:
        self.model, self.labels, self.decoding, self.rule, self.name = model, labels, decoding, rule, name
        # Greedy play has the same distribution as sampled play, and takes its mode.
        self.temperature = temperature * (temperature_of(decoding) or 1.0)
        self._cache: dict[View, tuple[float, ...]] = {}
        self._cache_size = cache_size
        self._kept = Kept()

    def forget(self) -> None:
        """Drop memoised log-probabilities and what has been read, after a change of the weights."""
        self._cache.clear()
        self._kept.clear()

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """Choose an action for each view, with the behaviour log-probabilities of all admissible actions."""
        rows = self._log_probs(views)
        return [Decision(self._choose(row, rng), self.name, row) for row, rng in zip(rows, rngs, strict=True)]

    def _choose(self, log_probs: tuple[float, ...], rng: np.random.Generator) -> int:
        if self.decoding == "greedy":
            return int(np.argmax(log_probs))
        return drawn(log_probs, rng)

    def _log_probs(self, views: Sequence[View]) -> list[tuple[float, ...]]:
        missing = [view for view in dict.fromkeys(views) if view not in self._cache]
        fresh: dict[View, tuple[float, ...]] = {}
        if missing:
            # Rollouts happen in the midst of training: dropout must be off here and on again after.
            was_training = self.model.model.training
            self.model.model.eval()
            with torch.no_grad():
                scores = score_views(self.model, self.labels, missing, self.rule, self.temperature, self._kept)
            self.model.model.train(was_training)
            fresh = {
                # The table is padded to the view with the most actions.
                view: tuple(row[: len(view.observation.actions)])
                for view, row in zip(missing, scores.log_probs.tolist(), strict=True)
            }
        # Read before the cache may be emptied two lines below.
        rows = [fresh.get(view) or self._cache[view] for view in views]
        if len(self._cache) + len(fresh) > self._cache_size:
            self._cache.clear()
        self._cache.update(fresh)
        return rows
