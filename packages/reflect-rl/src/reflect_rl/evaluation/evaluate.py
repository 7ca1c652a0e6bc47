"""Evaluation: the same loop as training, on held-out tasks, sampled and greedy, at several horizons.

An episode is played once, to the longest horizon; no observation shows how many turns are left, so what would have
happened at a shorter horizon is its beginning, exactly.

No episode is ever left out, whatever `limits.failed_episodes` says: the rate of those that are left would be another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from reflect_rl.config import Frozen
from reflect_rl.envs.base import EnvSpec
from reflect_rl.evaluation.measures import cut, strata, summary
from reflect_rl.players.base import Policy, Reflector
from reflect_rl.rollout import Request, play
from reflect_rl.seeding import seed_for
from reflect_rl.statistics import wilson_interval
from reflect_rl.types import Episode
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits

__all__ = ["EvaluationConfig", "evaluate", "result_row"]


class EvaluationConfig(Frozen):
    """Evaluation of every method."""

    modes: tuple[str, ...] = ()
    """Modes to evaluate (empty: those of the environment's configuration)."""
    split: Literal["train", "validation", "test"] = "test"
    """Tasks to evaluate on; choose hyperparameters on `validation`."""
    horizons: tuple[int, ...] = ()
    """Horizons in turns (empty: those of the environment, or its longest episode)."""
    decodings: tuple[Literal["sampled", "greedy"], ...] = Field(("sampled", "greedy"), min_length=1)
    """Actions sampled at temperature 1 (as in the paper), or the most likely one."""
    repetitions: int = Field(3, ge=1)
    """Sampled episodes per task (greedy play is deterministic: one)."""
    num_envs: int = Field(64, ge=1)
    """Games played at once."""


def evaluate(  # noqa: PLR0913 (each part of a game is a part of the call)
    spec: EnvSpec,
    config: EvaluationConfig,
    mode: str,
    decoding: str,
    reflector: Reflector,
    policy: Policy,
    *,
    shuffle_labels: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_episode: Callable[[Episode], None] | None = None,
) -> tuple[list[Episode], float]:
    """The episodes of one mode and decoding, and the turns played per second.

    Every method plays the same tasks with the same seeds, so methods can be compared in pairs.

    Raises:
        FaultyEnvironmentError: an episode failed; it cannot be left out here.
        FaultyPlayerError: a player hung, or answered what cannot be played.
    """
    tasks = spec.tasks(mode, config.split)
    copies = config.repetitions if decoding == "sampled" else 1
    requests = [Request(task, seed_for(0, "evaluation", task.key, copy)) for task in tasks for copy in range(copies)]
    started = time.perf_counter()
    episodes = play(
        spec,
        requests,
        reflector,
        policy,
        num_envs=config.num_envs,
        max_episode_steps=max(config.horizons or spec.horizons),
        shuffle_labels=shuffle_labels,
        limits=limits.model_copy(update={"failed_episodes": 0}),
        on_episode=on_episode,
    )
    turns = sum(len(episode.turns) for episode in episodes)
    return episodes, turns / max(time.perf_counter() - started, 1e-9)


def result_row(
    episodes: Sequence[Episode], horizon: int, turns_per_second: float, spec: EnvSpec | None = None
) -> dict[str, Any]:
    """Success rate with its Wilson interval, mean return and mean length at one horizon.

    Args:
        episodes: at least one, played to this horizon or a longer one.
        horizon: turns after which an episode counts as lost.
        turns_per_second: speed of play.
        spec: the environment that was played; what it measures, and success by kind of task, is added.
    """
    successes = sum(episode.success_within(horizon) for episode in episodes)
    returns = [sum(turn.reward for turn in episode.turns[:horizon]) for episode in episodes]
    row = {
        "horizon": horizon,
        "episodes": len(episodes),
        "successes": successes,
        "success_rate": successes / len(episodes),
        "ci95": list(wilson_interval(successes, len(episodes))),
        "mean_return": sum(returns) / len(episodes),
        "mean_turns": sum(min(len(episode.turns), horizon) for episode in episodes) / len(episodes),
        "turns_per_second": round(turns_per_second, 1),
    }
    return row if spec is None else row | _own(spec, [cut(e, horizon) for e in episodes], row)


def _own(spec: EnvSpec, episodes: Sequence[Episode], row: Mapping[str, Any]) -> dict[str, Any]:
    """What this environment adds to a row; nothing where it measures nothing.

    `seconds_per_episode` is wall time over episodes: many are played at once, so one alone takes longer.
    """
    measured, kinds = summary(spec, episodes), strata(spec, episodes)
    if measured and row["turns_per_second"]:
        measured["seconds_per_episode"] = row["mean_turns"] / row["turns_per_second"]
    return ({"measures": measured} if measured else {}) | ({"strata": kinds} if kinds else {})
