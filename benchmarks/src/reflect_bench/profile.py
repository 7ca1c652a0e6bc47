"""Profile of our time: the operations of one rollout and of one update, largest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile as record

from reflect_bench.options import BenchOptions, Shape, effort_of
from reflect_bench.ours import Ours
from reflect_bench.players import cast

TURNS = 3
"""Turns of the rollout that is recorded; more say the same, and the records of a minute take minutes to sort."""
ROWS = 25


def profile(options: BenchOptions, shape: Shape) -> str:
    """Two tables of torch.profiler, by the time of an operation without those that it calls."""
    effort = effort_of(options, shape)
    players = cast(options, shape, torch.device(options.device))
    brief, ours = Ours(players, replace(effort, max_episode_steps=TURNS)), Ours(players, effort)
    ours.warm_up()
    rollout = _recorded(ours.device, lambda: brief.roll_out(0))
    episodes = ours.roll_out(0)
    update = _recorded(ours.device, lambda: ours.learn(episodes, 0))
    return f"rollout\n{rollout}\nupdate\n{update}\n"


def _recorded(device: torch.device, work: Callable[[], Any]) -> str:
    gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if gpu else [ProfilerActivity.CPU]
    with record(activities=activities) as recorder:
        work()
    order = "self_cuda_time_total" if gpu else "self_cpu_time_total"
    return recorder.key_averages().table(sort_by=order, row_limit=ROWS)
