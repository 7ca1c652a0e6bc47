"""What an environment measures of its episodes besides success, and success by strata of its tasks.

An environment opts in by offering one or both of these, next to `tasks`:

- `measures(config, episode) -> dict[str, float]`: costs of one episode; their means stand in the result rows;
- `strata(config, task) -> dict[str, str]`: what kind of task it is; counts of each kind stand in the result rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from reflect_rl import registry
from reflect_rl.config import EnvironmentConfig
from reflect_rl.statistics import wilson_interval
from reflect_rl.types import Episode, Task

__all__ = ["by_strata", "cut", "strata", "summary"]


def cut(episode: Episode, horizon: int) -> Episode:
    """The beginning of an episode, as it would have been at a shorter horizon."""
    if len(episode.turns) <= horizon:
        return episode
    return replace(episode, turns=episode.turns[:horizon], success=False, terminated=False, truncated=True)


def summary(environment: EnvironmentConfig, episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over episodes of what the environment measures; empty where it measures nothing.

    Args:
        environment: that was played.
        episodes: at least one, cut to the horizon.
    """
    measures = getattr(registry.find("environments", environment.name), "measures", None)
    if measures is None:
        return {}
    rows = [measures(environment, episode) for episode in episodes]
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def strata(environment: EnvironmentConfig, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """Success in each stratum of an environment's tasks; empty where it has none.

    Args:
        environment: that was played.
        episodes: cut to the horizon.
    """
    return by_strata(environment, [(episode.task, episode.success) for episode in episodes])


def by_strata(environment: EnvironmentConfig, outcomes: Iterable[tuple[Task, bool]]) -> list[dict[str, Any]]:
    """`episodes`, `successes`, `success_rate` and `ci95` (Wilson) of each combination of properties that occurs.

    Args:
        environment: that the tasks are of.
        outcomes: task and success of each episode, or of whatever else answers.
    """
    kinds = getattr(registry.find("environments", environment.name), "strata", None)
    if kinds is None:
        return []
    counts: dict[tuple[tuple[str, str], ...], list[bool]] = {}
    for task, success in outcomes:
        counts.setdefault(tuple(kinds(environment, task).items()), []).append(success)
    return [
        {
            **dict(kind),
            "episodes": len(won),
            "successes": sum(won),
            "success_rate": sum(won) / len(won),
            "ci95": list(wilson_interval(sum(won), len(won))),
        }
        for kind, won in sorted(counts.items())
    ]
