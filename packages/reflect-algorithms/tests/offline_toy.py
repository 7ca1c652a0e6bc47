"""Logs of small corridors whose goal is the right end, a tiny player, and what it wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import toy
from reflect_algorithms.log import play_log
from reflect_algorithms.settings import LogConfig, Quality
from reflect_rl.agent import Agent
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.rollout import Request, play
from reflect_rl.types import Episode, Progress, Task


class StoppedError(Exception):
    """The kill of a test."""


def stops_at(step: int) -> Progress:
    """Progress that ends a training when this many steps are done."""

    def progress(done: int, total: int, note: str) -> None:
        if done == step:
            raise StoppedError

    return progress


class RightEnd(Corridor):
    """Corridors whose goal is the right end, so that one good habit wins every game."""

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """Those of the corridor's tasks."""
        return tuple(task for task in super().tasks(mode, split) if task.data["goal"])


RIGHT = EnvSpec(RightEnd, toy.SMALL)
TASKS = [task for mode in ("near", "far") for task in RIGHT.tasks(mode, "train")]


def agent() -> Agent:
    """A tiny random player."""
    return Agent(*toy.tiny_player(hidden_size=32))


def log(quality: Quality, episodes: int) -> list[Episode]:
    """So many episodes of each task."""
    return play_log(LogConfig(quality=quality, episodes_per_start=episodes, noise=0.2), toy.SPEC, TASKS, 0)


def success_of(player: Agent) -> float:
    """Share of the tasks that a player wins, twelve episodes of each, sampled."""
    requests = [Request(task, seed) for task in TASKS for seed in range(12)]
    episodes = play(toy.SPEC, requests, player.reflector, player.policy("sampled"))
    return sum(episode.success for episode in episodes) / len(episodes)


def shuffled(log: Sequence[Episode]) -> list[Episode]:
    """The log with rewards and verdicts that belong to other turns and episodes."""
    rng = np.random.default_rng(0)
    rewards = iter(rng.permutation([turn.reward for episode in log for turn in episode.turns]).tolist())
    verdicts = rng.permutation([episode.success for episode in log]).tolist()
    return [
        replace(
            episode,
            turns=tuple(replace(turn, reward=next(rewards)) for turn in episode.turns),
            success=verdict,
        )
        for episode, verdict in zip(log, verdicts, strict=True)
    ]
