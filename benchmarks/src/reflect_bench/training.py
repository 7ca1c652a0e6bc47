"""Online training: update by update, ours and then the reference style on the same episodes.

Ours begins with an empty memory of reflections, as a run does. The reference style plays and learns from a random
sample of the same turns until its time is used up; its seconds are scaled by the number of turns. It may leave a batch
of episodes before the batch has shrunk to the last one, which flatters it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
from torch import nn

from reflect_bench.clock import ArithmeticMeter, ProductCounter, now, peak_memory_mb
from reflect_bench.options import Effort
from reflect_bench.ours import Ours
from reflect_bench.players import Cast
from reflect_bench.reference import Played, ReferenceLearner, ReferenceRollout
from reflect_rl.models.load import LanguageModel
from reflect_rl.prompts import policy_prompt, reflection_prompt
from reflect_rl.types import Episode, stream

Report = Callable[[str], None]


@dataclass
class Row:
    """Measurement of one update. The seconds of the reference style are scaled to all turns."""

    turns: int
    episodes: int
    unique_prompts: int
    """Different prompts among the turns."""
    rollout_seconds: float
    update_seconds: float
    arithmetic_seconds: float
    """Seconds of our rollout and update that forward and backward passes take."""
    operations: int
    """Floating-point operations in the linear layers, of our update."""
    reference_rollout_seconds: float = 0.0
    reference_update_seconds: float = 0.0
    reference_rollout_turns: int = 0
    """Turns that the reference style played."""
    reference_update_turns: int = 0
    """Turns whose gradient the reference style computed (each counts once per pass over the batch)."""
    disagreement: float = 0.0
    """Largest difference between the log-probabilities that ours recorded and those of the reference style."""

    @property
    def seconds(self) -> float:
        """Ours."""
        return self.rollout_seconds + self.update_seconds

    @property
    def reference_seconds(self) -> float:
        """The reference style's."""
        return self.reference_rollout_seconds + self.reference_update_seconds


class Reference:
    """The reference style on the episodes of ours.

    Args:
        ours: whose episodes and settings to use.
        policy: a model of its own, with the weights that the first episodes were played with.
        until_end: see `ReferenceRollout`.
    """

    def __init__(self, ours: Ours, policy: LanguageModel, *, until_end: bool = False) -> None:
        cast = ours.cast
        self.ours, self.policy = ours, policy
        self.rollout = ReferenceRollout(policy, cast.reflector, cast.labels, cast.spec, until_end=until_end)
        self.learner = ReferenceLearner(
            policy, cast.labels, ours.learner.algorithm, ours.config.learning_rate, ours.config.max_grad_norm
        )

    def follow(self) -> None:
        """Take over the weights of ours."""
        self.policy.model.load_state_dict(self.ours.cast.policy.model.state_dict())

    def roll_out(self, row: Row, episodes: Sequence[Episode], update: int, budget_seconds: float) -> None:
        """Play a sample of the episodes and note the time for all."""
        order = stream(self.ours.seed, "sample", update).permutation(len(episodes))
        played = self.rollout.play([episodes[i] for i in order], budget_seconds)
        row.reference_rollout_turns = len(played.turns)
        row.reference_rollout_seconds = played.seconds * row.turns / len(played.turns)
        row.disagreement = disagreement(played)

    def learn(self, row: Row, episodes: Sequence[Episode], update: int, budget_seconds: float) -> None:
        """Learn from a sample of the turns and note the time for all."""
        device = self.ours.device
        started = now(device)
        views, batch, plan = self.ours.plan(episodes, update)
        overhead, passes, stepping, steps = now(device) - started, 0.0, 0.0, 0
        for turns in plan:
            for turn in turns:
                if row.reference_update_turns and passes > budget_seconds:
                    break
                before = now(device)
                one = batch.select(torch.tensor([turn], device=device))
                self.learner.add(views[turn], one, 1 / len(turns))
                passes += now(device) - before
                row.reference_update_turns += 1
            before = now(device)
            self.learner.step()
            stepping += now(device) - before
            steps += 1
            if passes > budget_seconds:
                break
        share = sum(map(len, plan)) / row.reference_update_turns
        row.reference_update_seconds = overhead + passes * share + stepping * len(plan) / steps


def disagreement(played: Played) -> float:
    """Largest difference of a log-probability from the recorded one."""
    recorded = [turn.decision.log_probs or () for turn in played.turns]
    pairs = zip(recorded, played.log_probs, strict=True)
    return max(abs(a - b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True))


def measure_training(
    cast: Cast, copy_of_policy: Callable[[], LanguageModel], effort: Effort, report: Report, *, until_end: bool = False
) -> dict[str, Any]:
    """Figures of online training.

    Args:
        cast: the parts.
        copy_of_policy: makes the reference style's model, with the weights that ours begins with.
        effort: how much to measure; a third of the reference style's time is for its updates.
        report: called with what is being measured.
        until_end: see `ReferenceRollout`.
    """
    ours = Ours(cast, effort)
    ours.warm_up()
    reference: Reference | None = None
    rows: list[Row] = []
    reflections: dict[str, str] = {}
    memory, budget = 0.0, effort.reference_seconds / effort.updates
    for update in range(effort.updates):
        report(f"update {update + 1} of {effort.updates}, ours")
        if reference is not None:
            reference.follow()
        row, episodes = measure_ours(ours, update)
        if reference is None:  # nothing of the reference style is in memory before
            memory = peak_memory_mb(ours.device)
            reference = Reference(ours, copy_of_policy(), until_end=until_end)
        report(f"update {update + 1} of {effort.updates}, reference style")
        reference.roll_out(row, episodes, update, budget * 2 / 3)
        reference.learn(row, episodes, update, budget / 3)
        rows.append(row)
        reflections |= {
            reflection_prompt(turn.view): turn.reflection or "" for episode in episodes for turn in episode.turns
        }
    return _figures(rows) | {
        "memo_hit_rate": ours.reflector.hit_rate,
        "mean_reflection_tokens": sum(len(cast.reflector.encode(t)) for t in reflections.values()) / len(reflections),
        "peak_memory_mb": memory,
    }


def measure_ours(ours: Ours, update: int) -> tuple[Row, list[Episode]]:
    """Play and learn once; the reference style's part of the row is still empty."""
    counter = ProductCounter(ours.cast.policy.model)
    with ArithmeticMeter(_networks(ours.cast), ours.device) as meter:
        started = now(ours.device)
        episodes = ours.roll_out(update)
        played = now(ours.device)
        with counter:
            ours.learn(episodes, update)
        ended = now(ours.device)
    prompts = [policy_prompt(turn.view, ours.cast.labels.texts) for episode in episodes for turn in episode.turns]
    row = Row(
        turns=len(prompts),
        episodes=len(episodes),
        unique_prompts=len(set(prompts)),
        rollout_seconds=played - started,
        update_seconds=ended - played,
        arithmetic_seconds=meter.seconds,
        operations=counter.operations,
    )
    return row, episodes


def _networks(cast: Cast) -> list[nn.Module]:
    """The transformers and the projections onto the vocabulary: where the arithmetic of forward passes is."""
    modules: list[nn.Module] = []
    for part in (cast.policy, cast.reflector):
        outer: Any = part.model
        base = outer.get_base_model() if hasattr(outer, "get_base_model") else outer
        modules += [getattr(base, base.base_model_prefix), outer.get_output_embeddings()]
    return modules


def _figures(rows: Sequence[Row]) -> dict[str, Any]:
    turns = sum(row.turns for row in rows)
    seconds = sum(row.seconds for row in rows)
    reference_seconds = sum(row.reference_seconds for row in rows)
    rollouts = sum(row.rollout_seconds for row in rows)
    reference_rollouts = sum(row.reference_rollout_seconds for row in rows)
    return {
        "whole_rlft_ratio": reference_seconds / seconds,
        "rollout_ratio": reference_rollouts / rollouts,
        "update_ratio": median(row.reference_update_seconds / row.update_seconds for row in rows),
        "update_gflops": median(row.operations / row.update_seconds for row in rows) / 1e9,
        "model_share": sum(row.arithmetic_seconds for row in rows) / seconds,
        "turns_per_second": {"ours": turns / seconds, "reference": turns / reference_seconds},
        "rollout_turns_per_second": {"ours": turns / rollouts, "reference": turns / reference_rollouts},
        "episodes_per_hour": {
            "ours": sum(row.episodes for row in rows) / seconds * 3600,
            "reference": sum(row.episodes for row in rows) / reference_seconds * 3600,
        },
        "turns": turns,
        "reference_turns_measured": {
            "rollout": sum(row.reference_rollout_turns for row in rows),
            "update": sum(row.reference_update_turns for row in rows),
        },
        "unique_prompt_share": sum(row.unique_prompts for row in rows) / turns,
        "disagreement": max(row.disagreement for row in rows),
        "updates": [asdict(row) for row in rows],
    }
