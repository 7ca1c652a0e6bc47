"""A check of a game of one's own: does it keep the contract that training and results rely on?

What no game could be played with, play refuses by itself. What is found here would train, and give wrong results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from reflect_rl.envs.base import SPLITS, EnvSpec, HasSolver, HasTeacher
from reflect_rl.players.scripted import OraclePolicy, OracleReflector
from reflect_rl.rollout import NoReflector, Policy, RandomPolicy, Reflector, Request, evaluation_request, play
from reflect_rl.types import Episode
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits


def broken_promises(spec: EnvSpec, episodes: int) -> list[str]:
    """Sentences that each name a promise that a game breaks.

    Args:
        spec: the game with its settings.
        episodes: most tasks of each mode and split; those of training are played, at random and by its solver.

    Raises:
        FaultyEnvironmentError: the game failed, or gave what cannot be played.
        UserError: its tasks are no tasks, or one is in two splits.
    """
    return list(told(spec, episodes))


def told(spec: EnvSpec, episodes: int, limits: Limits = DEFAULT_LIMITS) -> Iterator[str]:
    """The sentences of `broken_promises`, each as soon as it is found.

    Args:
        spec: the game with its settings.
        episodes: see `broken_promises`.
        limits: how long the game may take.
    """
    played = partial(_played, spec, limits=limits)
    for mode in spec.modes:
        yield from (f"{spec.name}, mode {mode!r}: {found}" for found in _in_mode(spec, mode, episodes, played))


def _in_mode(spec: EnvSpec, mode: str, episodes: int, played_by: Callable[..., list[Episode]]) -> Iterator[str]:
    tasks = {split: spec.tasks(mode, split) for split in SPLITS}
    for split, listed in tasks.items():
        if not listed:
            yield f"there is no {split} task."
        elif tuple(spec.make().tasks(mode, split)) != listed:
            yield f"another copy of the game lists other {split} tasks, or in another order."
    if not tasks["train"]:
        return
    requests = [evaluation_request(task, 0) for task in tasks["train"][:episodes]]
    played = played_by(requests, len(requests))
    if played_by(requests, len(requests)) != played:
        yield "equal seeds play other episodes. Draw all randomness from the rng of reset."
    # One copy of the game plays them all, so that each begins where another has ended.
    elif played_by(requests, 1) != played:
        yield "an episode goes otherwise after another one. Let reset keep nothing of the episode before."
    yield from _of_turns(played)
    held_out = [evaluation_request(task, 0) for split in SPLITS[1:] for task in tasks[split][:episodes]]
    # One turn, as the loop looks at what a game shows before it asks for an action.
    yield from _of_starts(played, played_by(held_out, len(held_out), max_episode_steps=1))
    if spec.capability(HasSolver) is not None:
        yield from _of_solver(spec, played_by(requests, len(requests), OraclePolicy()))
    if spec.capability(HasTeacher) is not None:
        taught = played_by(requests, len(requests), reflector=OracleReflector())
        if any(not (turn.reflection or "").strip() for episode in taught for turn in episode.turns):
            yield "its teacher writes an empty text."


def _played(
    spec: EnvSpec,
    requests: Sequence[Request],
    num_envs: int,
    policy: Policy | None = None,
    reflector: Reflector | None = None,
    **settings: Any,
) -> list[Episode]:
    return play(spec, requests, reflector or NoReflector(), policy or RandomPolicy(), num_envs=num_envs, **settings)


def _of_turns(episodes: Sequence[Episode]) -> Iterator[str]:
    turns = [(episode.task.key, turn) for episode in episodes for turn in episode.turns]
    for key, turn in turns:
        if not -1 <= turn.reward <= 1:
            yield f"task {key!r}: the reward {turn.reward:g} is not in [-1, 1]."
            break
    for key, turn in turns:
        if not turn.observation.text.strip():
            yield f"task {key!r}: a state has no text."
            break
    for key, turn in turns:
        actions = turn.observation.actions
        if twice := next((action for action in actions if actions.count(action) > 1), None):
            yield f"task {key!r}: the action {twice!r} is listed twice."
            break
    for key, turn in turns:
        if odd := next((each for each in turn.observation.actions if not each.strip() or "\n" in each), None):
            yield f"task {key!r}: the action {odd!r} is no single line of text."
            break


def _of_starts(episodes: Sequence[Episode], held_out: Sequence[Episode]) -> Iterator[str]:
    """Training leaves out the turns whose states begin held-out tasks; nothing may be left."""
    left_out = {episode.turns[0].observation.state for episode in held_out} - {""}
    if all(episode.turns[0].observation.state in left_out for episode in episodes):
        yield (
            "every training task begins in a state in which a validation or test task begins, and nothing is learned "
            "from such states. Let Observation.state name the task, or leave it empty."
        )


def _of_solver(spec: EnvSpec, solved: Sequence[Episode]) -> Iterator[str]:
    if lost := [episode.task.key for episode in solved if not episode.success]:
        yield (
            f"its solver loses {len(lost)} of {len(solved)} training tasks within {spec.max_episode_steps} turns, such "
            f"as {lost[0]!r}."
        )
