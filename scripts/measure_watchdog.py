"""Cost of the watchdog: a watch by itself, and the share of it in a turn of the two games.

    python scripts/measure_watchdog.py

Turns are played by the random player in 64 num_envs, with and without limits, alternating; the median of the rounds is
printed. A language model makes a turn take a thousand times as long.
"""

from __future__ import annotations

import statistics
import time
import timeit

from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import spec_of
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, play
from reflect_rl.watchdog import Limits, on_duty, watch

REPEATS = 100_000
ROUNDS = 9
OFF = Limits(environment_seconds=0, player_seconds=0)


def _watch_microseconds() -> float:
    def step() -> None:
        with watch("dangerous_taxi-v1, task full/137 (seed 123456789), turn 12, action 'go north'", 60):
            pass

    with on_duty(60):
        return min(timeit.repeat(step, number=REPEATS, repeat=3)) / REPEATS * 1e6


def _duty_microseconds() -> float:
    def duty() -> None:
        with on_duty(60):
            pass

    return min(timeit.repeat(duty, number=500, repeat=3)) / 500 * 1e6


def _turn_microseconds(name: str, limits: Limits) -> float:
    spec = spec_of(EnvironmentConfig(name=name))
    tasks = [task for mode in spec.all_modes for task in spec.tasks(mode, "train")]
    requests = [Request(tasks[k % len(tasks)], k) for k in range(1000)]
    started = time.perf_counter()
    episodes = play(spec, requests, NoReflector(), RandomPolicy(), limits=limits)
    return (time.perf_counter() - started) / sum(len(episode.turns) for episode in episodes) * 1e6


def main() -> None:
    """Print the figures, in microseconds."""
    print(f"a watch on duty {_watch_microseconds():.2f} µs, setting up and ending a duty {_duty_microseconds():.0f} µs")
    for name in ("corridor", "dangerous_taxi"):
        pairs = [(_turn_microseconds(name, OFF), _turn_microseconds(name, Limits())) for _ in range(ROUNDS)]
        off, on = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{name}: a turn {off:.1f} µs without limits, {on:.1f} µs with ({on - off:+.1f} µs)")


if __name__ == "__main__":
    main()
