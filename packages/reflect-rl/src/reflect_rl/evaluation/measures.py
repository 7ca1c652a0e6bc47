"""Measures of episodes besides success, and success by strata of the tasks.

An environment opts in by one or both of these capabilities:

- `HasMeasures`: costs of one episode; their means stand in the result rows;
- `HasStrata`: the kind of a task; counts of each kind stand in the result rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reflect_rl.envs.base import EnvSpec, HasMeasures, HasStrata
from reflect_rl.evaluation.result import Stratum
from reflect_rl.types import Episode, Task

__all__ = ["by_strata", "cut", "strata", "summary"]


def cut(episode: Episode, horizon: int) -> Episode:
    """The beginning of an episode, as it would have been at a shorter horizon."""
    if len(episode.turns) <= horizon:
        return episode
    # The end that was played lies beyond the horizon: at this one the episode was neither won nor over.
    return replace(episode, turns=episode.turns[:horizon], success=False, terminated=False, truncated=True)


def summary(spec: EnvSpec, episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over episodes of what the environment measures; empty where it measures nothing.

    Args:
        spec: the environment that was played.
        episodes: at least one, cut to the horizon.
    """
    game = spec.capability(HasMeasures)
    if game is None:
        return {}
    # Every episode of an environment has the same measures, so the first one names them.
    rows = [game.measures(episode) for episode in episodes]
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def strata(spec: EnvSpec, episodes: Sequence[Episode]) -> tuple[Stratum, ...]:
    """Success in each stratum of an environment's tasks; empty where it has none.

    Args:
        spec: the environment that was played.
        episodes: cut to the horizon.
    """
    return by_strata(spec, [(episode.task, episode.success) for episode in episodes])


def by_strata(spec: EnvSpec, outcomes: Iterable[tuple[Task, bool]]) -> tuple[Stratum, ...]:
    """Success for each combination of properties that occurs, sorted by the properties.

    Args:
        spec: the environment that the tasks are of.
        outcomes: task and success of each episode, or of whatever else answers.
    """
    game = spec.capability(HasStrata)
    if game is None:
        return ()
    won: dict[tuple[tuple[str, str], ...], list[bool]] = {}
    for task, success in outcomes:
        # A mapping cannot be a key; its items can, and keep the order in which the environment names them.
        won.setdefault(tuple(game.strata(task).items()), []).append(success)
    return tuple(Stratum.of(dict(kind), wins) for kind, wins in sorted(won.items()))
