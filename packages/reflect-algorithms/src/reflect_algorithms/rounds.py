"""Rounds of play of learners that visit states themselves; what was played once is not played again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from reflect_algorithms.training import Training
from reflect_rl.agent import chosen_tasks
from reflect_rl.data.recorded import read_episodes
from reflect_rl.launch import process_rank
from reflect_rl.rollout import NoReflector, Policy, Reflector, Request, failure_row, play
from reflect_rl.store import append_jsonl, write_jsonl
from reflect_rl.training.online import FAILED
from reflect_rl.types import Episode, seed_for, stream, to_json


def played_round(
    training: Training, number: int, count: int, player: Policy, reflector: Reflector | None = None
) -> list[Episode]:
    """The episodes of a round; those that an interrupted training has played are read again.

    Episodes that failed and are left out, as `limits.failed_episodes` allows, are written to `failed_episodes.jsonl`.

    Args:
        training: whose tasks, folder and seed.
        number: of the round, from 0.
        count: episodes.
        player: who plays; equal players play equal rounds.
        reflector: what the player reads beside each state (None: nothing).
    """
    path = training.folder / f"round-{number}.jsonl"
    if path.exists():
        return read_episodes(path)
    order = chosen_tasks(len(training.tasks), count, stream(training.seed, "round", number))
    requests = [
        Request(training.tasks[place], seed_for(training.seed, "round", number, place, copy)) for place, copy in order
    ]
    failed: list[dict[str, Any]] = []
    episodes = play(
        training.spec,
        requests,
        reflector or NoReflector(),
        player,
        shuffle_labels=training.shuffle_labels,
        limits=training.limits,
        on_failure=lambda request, error: failed.append(failure_row(request, error)),
    )
    # All processes of a launch have played the same; one writes.
    if process_rank() == 0:
        if failed:
            append_jsonl(training.folder / FAILED, ({"round": number} | row for row in failed))
        write_jsonl(path, map(to_json, episodes))
    return episodes


def write_rounds(training: Training, rounds: Sequence[Sequence[Episode]]) -> None:
    """Write `rounds.jsonl`: for each round the turns that were played until its end, and the share of it that was won.

    Args:
        training: whose folder.
        rounds: the episodes of each.
    """
    turns = accumulate(sum(len(episode.turns) for episode in part) for part in rounds)
    rows = [
        {"round": number, "turns": played, "success_rate": sum(episode.success for episode in part) / len(part)}
        for number, (part, played) in enumerate(zip(rounds, turns, strict=True))
    ]
    if process_rank() == 0:
        write_jsonl(training.folder / "rounds.jsonl", rows)
