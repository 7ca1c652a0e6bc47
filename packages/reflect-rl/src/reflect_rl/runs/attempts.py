"""Trainings of a reflection player that are made again where they went badly.

How well a small reflection player does on positions that it never saw depends on the order of its rows, and neither its
loss nor its training games show it. Its validation games do: they are played with the policy that reads reflections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from reflect_rl.config import Frozen
from reflect_rl.data.generate import policy_beside
from reflect_rl.launch import process_rank
from reflect_rl.models.load import LanguageModel
from reflect_rl.rollout import Request, play
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Job
from reflect_rl.runs.models import as_reflector, load_of_run, policy_of
from reflect_rl.store import write_json
from reflect_rl.training.distributed import Engine
from reflect_rl.training.trainer import checkpoints_in
from reflect_rl.types import Progress, seed_for

FILE = "attempts.json"
"""File of a job's folder: the validation games that each attempt won."""

Train = Callable[[int, Progress], LanguageModel]
"""Makes an attempt, counted from 1: a model trained from its beginning."""


class Attempt(Frozen):
    """Validation games won, as a share, by mode."""

    number: int
    """Counted from 1."""
    won: dict[str, float]

    @property
    def lowest(self) -> float:
        """Share of the mode that went worst: success in an easy mode must not hide failure in a hard one."""
        return min(self.won.values())


def seed_of(job: Job, number: int) -> int:
    """Seed of the row order of an attempt, counted from 1."""
    # By name, not by turn: adding a method to a run leaves the draws of the others as they are.
    return seed_for(job.unit.seed, "sft", job.name, *([number] if number > 1 else []))


def train_until_good(job: Job, run: RunConfig, train: Train, progress: Progress) -> LanguageModel:
    """The first reflection player whose pair wins enough validation games, or else the best of all attempts.

    Args:
        job: the training of a reflection player; the policy beside it is trained already.
        run: its configuration.
        train: makes an attempt.
        progress: called with what is under way.
    """
    settings, attempts, highest = run.sft.reflector, list[Attempt](), -1.0
    for number in range(1, settings.attempts + 1):
        name = f"attempt {number} of at most {settings.attempts}"
        model = train(number, partial(_tell, progress, name))
        attempts.append(Attempt(number=number, won=play_pair(job, run, model)))
        lowest = attempts[-1].lowest
        if process_rank() == 0:
            progress(number, settings.attempts, f"{name} wins {lowest:.3f} of the validation games")
        if lowest > highest:
            best, highest = model, lowest
        if lowest >= settings.retrain_below:
            break
    if process_rank() == 0:
        write_json(job.folder / FILE, [attempt.model_dump() for attempt in attempts])
    return best


def play_pair(
    job: Job, run: RunConfig, reflector: LanguageModel, split: Literal["validation", "test"] = "validation"
) -> dict[str, float]:
    """Play every game of a split once, greedily; the share won, by mode.

    Args:
        job: the training of the reflection player.
        run: its configuration.
        reflector: the player; it is not trained any further after this.
        split: whose games are played.
    """
    dataset = policy_beside(job.name)
    policy = load_of_run(run.model, job.unit.model(dataset), job.unit.sft(dataset), trainable=False)
    players, engine = (as_reflector(run, reflector), policy_of(run, policy, "greedy")), Engine(policy.device)
    won = {}
    for mode in run.evaluated_modes:
        tasks = run.env.tasks(mode, split)
        requests = [Request(task, seed_for(job.unit.seed, split, task.key)) for task in tasks]
        limits = run.limits.without_failures()
        shuffle = run.prompt.shuffle_labels
        episodes = play(run.env, engine.share(requests), *players, shuffle_labels=shuffle, limits=limits)
        wins = engine.all_gather([episode.success for episode in episodes])
        won[mode] = sum(wins) / len(wins)
    return won


def clear_checkpoints(job: Job, run: RunConfig) -> None:
    """Delete the checkpoints of all attempts."""
    for number in range(1, run.sft.reflector.attempts + 1):
        checkpoints_in(attempt_of(job, number).folder).clear()


def attempt_of(job: Job, number: int) -> Job:
    """The job of an attempt: the first is the job itself, later ones have a name and a folder of their own."""
    if number == 1:
        return job
    return replace(job, name=f"{job.name}-attempt-{number}", folder=job.folder / f"attempt-{number}")


def _tell(progress: Progress, name: str, done: int, total: int, note: str) -> None:
    progress(done, total, f"{name}, {note}")
