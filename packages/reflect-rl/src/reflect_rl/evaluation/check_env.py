"""A check of a game of one's own: does it keep the contract that training and results rely on?

What no game could be played with, play refuses by itself. What is found here would train, and give wrong results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from reflect_rl.envs.base import SPLITS, EnvSpec, HasSolver, HasTeacher
from reflect_rl.players.scripted import OraclePolicy, OracleReflector
from reflect_rl.rollout import NoReflector, Policy, RandomPolicy, Reflector, Request, evaluation_request, play
from reflect_rl.types import Episode, Task


def broken_promises(spec: EnvSpec, episodes: int) -> list[str]:
    """Sentences that each name a promise that a game breaks.

    Args:
        spec: the game with its settings.
        episodes: most tasks of each mode and split; those of training are played, at random and by its solver.

    Raises:
        FaultyEnvironmentError: the game failed, or gave what cannot be played.
        UserError: its tasks are no tasks, or one is in two splits.
    """
    return [f"{spec.name}, mode {mode!r}: {found}" for mode in spec.modes for found in _in_mode(spec, mode, episodes)]


def _in_mode(spec: EnvSpec, mode: str, episodes: int) -> Iterator[str]:
    tasks = {split: spec.tasks(mode, split) for split in SPLITS}
    for split, listed in tasks.items():
        if not listed:
            yield f"there is no {split} task."
        elif tuple(spec.make().tasks(mode, split)) != listed:
            yield f"another copy of the game lists other {split} tasks, or in another order."
    if not tasks["train"]:
        return
    requests = [evaluation_request(task, 0) for task in tasks["train"][:episodes]]
    played = _played(spec, requests, len(requests))
    if _played(spec, requests, len(requests)) != played:
        yield "equal seeds play other episodes. Draw all randomness from the rng of reset."
    # One copy of the game plays them all, so that each begins where another has ended.
    elif _played(spec, requests, 1) != played:
        yield "an episode goes otherwise after another one. Let reset keep nothing of the episode before."
    yield from _of_turns(played)
    yield from _of_starts(spec, played, [*tasks["validation"][:episodes], *tasks["test"][:episodes]])
    if spec.capability(HasSolver) is not None:
        yield from _of_solver(spec, requests)
    if spec.capability(HasTeacher) is not None:
        taught = _played(spec, requests, len(requests), reflector=OracleReflector())
        if any(not (turn.reflection or "").strip() for episode in taught for turn in episode.turns):
            yield "its teacher writes an empty text."


def _played(
    spec: EnvSpec,
    requests: Sequence[Request],
    num_envs: int,
    policy: Policy | None = None,
    reflector: Reflector | None = None,
) -> list[Episode]:
    return play(spec, requests, reflector or NoReflector(), policy or RandomPolicy(), num_envs=num_envs)


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


def _of_starts(spec: EnvSpec, episodes: Sequence[Episode], held_out: Sequence[Task]) -> Iterator[str]:
    """Training leaves out the turns whose states begin held-out tasks; nothing may be left."""
    game = spec.make()
    left_out = {game.reset(task, np.random.default_rng(0)).state for task in held_out} - {""}
    if all(episode.turns[0].observation.state in left_out for episode in episodes):
        yield (
            "every training task begins in a state in which a validation or test task begins, and nothing is learned "
            "from such states. Let Observation.state name the task, or leave it empty."
        )


def _of_solver(spec: EnvSpec, requests: Sequence[Request]) -> Iterator[str]:
    solved = _played(spec, requests, len(requests), OraclePolicy())
    if lost := [episode.task.key for episode in solved if not episode.success]:
        yield (
            f"its solver loses {len(lost)} of {len(solved)} training tasks within {spec.max_episode_steps} turns, such "
            f"as {lost[0]!r}."
        )
