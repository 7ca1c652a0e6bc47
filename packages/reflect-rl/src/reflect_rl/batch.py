"""The batch of an update: fresh turns and replayed ones, with their advantages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from reflect_rl.algorithms import Advantages, Algorithm, Batch, Trajectory
from reflect_rl.errors import UserError
from reflect_rl.types import Episode, Turn, View


def collate(
    algorithm: Algorithm,
    fresh: Sequence[Episode],
    replayed: Sequence[Episode],
    excluded: frozenset[str],
    values: Callable[[Sequence[View]], Tensor] | None,
    reference: Callable[[Sequence[View]], Tensor] | None,
) -> tuple[list[View], Batch]:
    """Collect all turns to learn from.

    A replayed episode's advantage is its return above the mean return of the fresh episodes of its mode, never below
    zero (self-imitation, Oh et al. 2018), on the same scale as the fresh ones.

    Args:
        algorithm: what the episodes are worth, and on which scale.
        fresh: episodes of the current policy.
        replayed: earlier successes.
        excluded: states whose turns are not learnt from (starts of held-out tasks).
        values: (N,) V(s) of views; given exactly when the algorithm's critic is one of states.
        reference: (N, A) log π_ref of views, for the KL term.

    Raises:
        ValueError: an episode was played by a player that reports no probabilities.
    """
    # Fresh ones first: values, advantages and targets below are lists in this order.
    turns = [turn for episode in [*fresh, *replayed] for turn in episode.turns]
    # One call for all: equal views are scored once.
    old = None if values is None else values([turn.view for turn in turns]).tolist()
    result = algorithm.advantages([_trajectory(episode) for episode in fresh], _per_episode(old, fresh))
    _check(algorithm, result, fresh)
    advantages = _flat(result.values) + _gains(fresh, replayed, result.gain_scale)
    returns = _flat(result.returns) + _flat([result.target(_trajectory(episode)) for episode in replayed])
    count = sum(len(episode.turns) for episode in fresh)
    # Excluded turns leave after the returns were taken: the reward after them still counts for the turns before.
    rows = [i for i, turn in enumerate(turns) if turn.observation.state not in excluded]
    views = [turns[i].view for i in rows]
    batch = Batch(
        actions=torch.tensor([turns[i].decision.index for i in rows]),
        behaviour_log_probs=torch.tensor([chosen_log_prob(turns[i]) for i in rows]),
        advantages=torch.tensor([advantages[i] for i in rows]),
        returns=torch.tensor([returns[i] for i in rows]),
        replayed=torch.tensor([i >= count for i in rows]),
        # No turns, no width to pad to.
        reference_log_probs=None if reference is None or not rows else reference(views),
    )
    return views, batch


def _check(algorithm: Algorithm, result: Advantages, episodes: Sequence[Episode]) -> None:
    """Refuse advantages that are none of these episodes."""
    named = f"the algorithm {type(algorithm).__name__!r}: advantages"
    if not isinstance(result, Advantages):
        raise UserError(f"{named} returned {type(result).__name__}. Return reflect_rl.algorithms.Advantages.")
    turns = [len(episode.turns) for episode in episodes]
    for name, rows in (("values", result.values), ("returns", result.returns)):
        if (lengths := [len(row) for row in rows]) != turns:
            raise UserError(
                f"{named} gave {name} in rows of the lengths {lengths!s:.100} to episodes of {turns!s:.100} turns. "
                "Give one list for each episode, with one number for each turn."
            )


def _per_episode(values: list[float] | None, episodes: Sequence[Episode]) -> list[list[float]] | None:
    if values is None:
        return None
    flat = iter(values)
    return [[next(flat) for _ in episode.turns] for episode in episodes]


def _gains(fresh: Sequence[Episode], replayed: Sequence[Episode], scale: float) -> list[float]:
    """Advantages of all replayed turns."""
    gains = []
    for episode in replayed:
        # Taken over its own mode, since harder modes pay less whatever the policy does.
        peers = [e.total_reward for e in fresh if e.task.mode == episode.task.mode]
        # Never below zero: an old success is not unlearnt because the policy has become better.
        gain = max(0.0, episode.total_reward - float(np.mean(peers))) if peers else 0.0
        gains += [gain / scale] * len(episode.turns)
    return gains


def _trajectory(episode: Episode) -> Trajectory:
    return Trajectory(
        group="\n".join(episode.task.unique_key),
        rewards=[turn.reward for turn in episode.turns],
        entropies=[_entropy(turn) for turn in episode.turns],
        # Games that do not tell states apart are compared by their whole text.
        states=[turn.observation.state or turn.observation.text for turn in episode.turns],
        success=episode.success,
    )


def _entropy(turn: Turn) -> float:
    if turn.decision.log_probs is None:
        raise _unknown(turn)
    log_probs = np.asarray(turn.decision.log_probs)
    # 0 log 0 = 0: a player may give an action the probability 0.
    return float(-(np.exp(log_probs) * np.where(np.isneginf(log_probs), 0.0, log_probs)).sum())


def chosen_log_prob(turn: Turn) -> float:
    """The log-probability with which a turn's action was chosen.

    Raises:
        ValueError: the player reports no probabilities, or named no action.
    """
    value = turn.decision.log_prob
    if value is None:
        raise _unknown(turn)
    return value


def _unknown(turn: Turn) -> ValueError:
    player = turn.decision.player
    return ValueError(
        f"the player {player!r} reports no probabilities of its choice; train on episodes of a player that does"
    )


def _flat(table: Sequence[Sequence[float]]) -> list[float]:
    return [value for row in table for value in row]


class Replay:
    """The last `capacity` successful episodes, each with the probabilities under which it was played."""

    def __init__(self, capacity: int) -> None:
        self.episodes: deque[Episode] = deque(maxlen=capacity)
        self.stage: tuple[str, ...] = ()

    def enter(self, stage: tuple[str, ...]) -> None:
        """Forget everything when the stage of the curriculum changes."""
        # Successes of easier tasks would pull the policy back to them.
        if stage != self.stage:
            self.episodes.clear()
            self.stage = stage

    def add(self, episodes: Iterable[Episode]) -> None:
        """Keep the successful ones."""
        self.episodes.extend(episode for episode in episodes if episode.success)

    def draw(self, count: int, rng: np.random.Generator) -> list[Episode]:
        """Draw up to `count` different episodes, uniformly."""
        # NumPy refuses to draw from nothing.
        size = min(count, len(self.episodes))
        return [self.episodes[i] for i in rng.choice(len(self.episodes), size, replace=False)] if size else []


MOST_TURNS = 100
"""Turns left of a game that cannot be won any more."""


def with_progress(episode: Episode, reward: float) -> Episode:
    """The episode with `reward` for each turn by which an action shortened the solution, less for each longer one.

    An action that wins leaves no turn. After the last action of a lost episode nothing is known, and nothing added.

    Args:
        episode: whose turns know `turns_left`.
        reward: for one turn of progress; 0 changes nothing.

    Raises:
        UserError: a turn does not know it, as an expert may fall silent.
    """
    if not reward:
        return episode
    left = [turn.turns_left for turn in episode.turns]
    if None in left:
        raise UserError(
            f"rlft.progress = {reward}: the expert of {episode.environment} does not know at every turn how far the "
            f"goal is, for example in task {episode.task.key!r}, so progress cannot be rewarded. Set it to 0."
        )
    # A cap bounds the reward for leaving a lost position, or entering one.
    known = [min(turns, MOST_TURNS) for turns in left if turns is not None]
    # A lost episode's last action keeps the potential, which adds nothing.
    after = [*known[1:], 0 if episode.success else known[-1]]
    turns = (
        replace(turn, reward=turn.reward + reward * (before - then))
        for turn, before, then in zip(episode.turns, known, after, strict=True)
    )
    # A copy: metrics and the replay keep the game's own rewards.
    return replace(episode, turns=tuple(turns))


def by_action(values: Tensor, views: Sequence[View]) -> Tensor:
    """Values by action; a head gives them by the number under which an action is listed.

    Args:
        values: (N, K) outputs of a head for the numbers.
        views: N states.

    Returns:
        (N, A) in the order of `observation.actions`, A the most that a view has; 0 where there is no action.
    """
    width = max(len(view.order) for view in views)
    numbers = torch.zeros(len(views), width, dtype=torch.long)
    listed = torch.zeros(len(views), width, dtype=torch.bool)
    for row, view in enumerate(views):
        for number, index in enumerate(view.order):
            numbers[row, index], listed[row, index] = number, True
    return values.gather(1, numbers.to(values.device)).masked_fill(~listed.to(values.device), 0.0)
