"""Training in the style of the public reference code (Reflect-RL, ACL 2024), written for the comparison.

What it does as the public code does:

- rollout: `BATCH_EPISODES` episodes begin together and are played until the last one ends; none is replaced, so that
  the batch shrinks. Each turn `generate` writes a reflection of `REFLECTION_TOKENS` tokens for every open episode,
  whether the same prompt was answered before or not, and `generate` writes one token over the full vocabulary, which
  names the action. Batches are padded on the left.
- update: one forward and backward pass per turn (each decision is one generated token), batch size 1, logits of the
  full vocabulary at every position.

What is kinder to it: reflections are greedy instead of sampled, and the public code's loop over all positions of the
prompt, which takes a softmax over the vocabulary at each, is left out. What is harder on it: the public code lets a
reflection end when every row of the batch has written its end token (`until_end`), and with LoRA it may shrink the
vocabulary to the action names. The loss, the minibatches and the number of optimiser steps are ours, so that both sides
learn the same from the same episodes.

Episodes are replays: after the time of an action was spent, the recorded one is played.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig

from reflect_rl.algorithms import Algorithm, Batch, Outputs
from reflect_rl.envs.base import EnvSpec
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.players.language_model import tokenize
from reflect_rl.prompts import policy_prompt, reflection_prompt
from reflect_rl.types import Episode, Turn, View, stream

BATCH_EPISODES = 4
"""Episodes played together (`per_device_eval_batch_size` of the public code)."""
REFLECTION_TOKENS = 100


class _Replay:
    """An environment that is led through a recorded episode."""

    def __init__(self, spec: EnvSpec, episode: Episode) -> None:
        self.environment, self.episode, self.place = spec.make(), episode, 0
        self.observation = self.environment.reset(episode.task, stream(episode.seed, "environment"))

    @property
    def turn(self) -> Turn:
        turn = self.episode.turns[self.place]
        if self.observation != turn.observation:
            raise RuntimeError(f"the replay of {self.episode.task.key} left the recorded episode at turn {self.place}")
        return turn

    @property
    def over(self) -> bool:
        return self.place == len(self.episode.turns)

    def step(self) -> None:
        self.observation = self.environment.step(self.turn.decision.index).observation
        self.place += 1


@dataclass
class Played:
    """Turns that were played, and the time they took."""

    seconds: float = 0.0
    turns: list[Turn] = field(default_factory=list)
    log_probs: list[tuple[float, ...]] = field(default_factory=list)
    """Values of log π for the admissible actions of each turn, renormalised over them, in the order of
    `observation.actions`."""


class ReferenceRollout:
    """Plays recorded episodes.

    Args:
        policy: the policy's language model.
        reflector: the reflection player's language model.
        labels: names of the listed actions.
        spec: the game.
        until_end: let a reflection end when every row has written its end token.
    """

    def __init__(
        self,
        policy: LanguageModel,
        reflector: LanguageModel,
        labels: Labels,
        spec: EnvSpec,
        *,
        until_end: bool = False,
    ) -> None:
        self.policy, self.reflector, self.labels, self.spec = policy, reflector, labels, spec
        self.least = 0 if until_end else REFLECTION_TOKENS

    def play(self, episodes: Sequence[Episode], budget_seconds: float = float("inf")) -> Played:
        """Play the episodes batch by batch, at least one round, and stop after the round that used up the budget."""
        played, started = Played(), time.perf_counter()
        for first in range(0, len(episodes), BATCH_EPISODES):
            batch = episodes[first : first + BATCH_EPISODES]
            replays = [_Replay(self.spec, episode) for episode in batch]
            while replays := [replay for replay in replays if not replay.over]:
                self._round(replays, played)
                played.seconds = time.perf_counter() - started
                if played.seconds > budget_seconds:
                    return played
        return played

    def _round(self, replays: Sequence[_Replay], played: Played) -> None:
        views = [replay.turn.view for replay in replays]
        self._reflect(views)
        played.log_probs += self._act(views)
        played.turns += [replay.turn for replay in replays]
        for replay in replays:
            replay.step()

    def _reflect(self, views: Sequence[View]) -> list[str]:
        output, width = _generate(
            self.reflector, [reflection_prompt(view) for view in views], REFLECTION_TOKENS, self.least
        )
        return [self.reflector.decode(row) for row in output.sequences[:, width:].tolist()]

    def _act(self, views: Sequence[View]) -> list[tuple[float, ...]]:
        output, width = _generate(self.policy, [policy_prompt(view, self.labels.texts) for view in views], 1, 0)
        everything = torch.log_softmax(output.scores[0].float(), dim=-1)
        for row in output.sequences[:, width:].tolist():
            self.policy.decode(row)  # the public code's action is this text
        return [self._admissible(row, view) for row, view in zip(everything, views, strict=True)]

    def _admissible(self, log_probs: Tensor, view: View) -> tuple[float, ...]:
        tokens = [self.labels.ids[view.order.index(index)] for index in range(len(view.observation.actions))]
        return tuple(torch.log_softmax(log_probs[tokens], dim=-1).tolist())


@torch.no_grad()
def _generate(model: LanguageModel, prompts: Sequence[str], most: int, least: int) -> tuple[Any, int]:
    """Output of `generate` for a left-padded batch, and the width of the prompts in it."""
    ids = [model.encode_prompt(prompt) for prompt in prompts]
    width = max(map(len, ids))
    padded = torch.tensor([[model.pad_id] * (width - len(row)) + row for row in ids], device=model.device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids], device=model.device)
    settings = GenerationConfig(
        do_sample=False,
        num_beams=1,
        max_new_tokens=most,
        min_new_tokens=least,
        eos_token_id=model.end_id,
        pad_token_id=model.pad_id,
        return_dict_in_generate=True,
        output_scores=most == 1,
    )
    network: Any = model.model
    with torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed):
        return network.generate(input_ids=padded, attention_mask=mask, generation_config=settings), width


class ReferenceLearner:
    """Learner with one forward and backward pass per turn; `step` after those of a minibatch.

    Args:
        model: the policy, trained in place.
        labels: names of the listed actions.
        algorithm: ours.
        learning_rate: of AdamW.
        max_grad_norm: gradient norm above which gradients are scaled down.
    """

    def __init__(
        self, model: LanguageModel, labels: Labels, algorithm: Algorithm, learning_rate: float, max_grad_norm: float
    ) -> None:
        self.model, self.labels, self.algorithm, self.max_grad_norm = model, labels, algorithm, max_grad_norm
        model.model.eval()
        self.parameters = [weight for weight in model.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, learning_rate, weight_decay=0.0)

    def add(self, view: View, row: Batch, weight: float) -> None:
        """Add the gradient of one turn.

        Args:
            view: what the policy saw.
            row: the batch of this one turn.
            weight: of the turn in its minibatch's loss: 1 / number of turns for a mean.
        """
        loss = self.algorithm.loss(row, Outputs(self._log_probs(view)[None]))
        (loss.value * weight).backward()

    def _log_probs(self, view: View) -> Tensor:
        """(A,) log π of the admissible actions."""
        prompt, actions = tokenize(self.model, self.labels, view)
        ids = torch.tensor([prompt], device=self.model.device)
        network: Any = self.model.model
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.model.mixed):
            logits = network(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
        tokens = torch.tensor([action[0] for action in actions], device=ids.device)
        return torch.log_softmax(logits.float()[0, -1, tokens], dim=-1)

    def step(self) -> None:
        """Take an optimiser step with the gradients added so far."""
        nn.utils.clip_grad_norm_(self.parameters, self.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
