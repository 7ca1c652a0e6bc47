"""The log of episodes that offline methods learn from, and its turns as numbers.

Episodes are played by uniformly random players, by an expert who errs, or by both, each half. Each turn carries the
probabilities with which its action was drawn, which some methods need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from reflect_algorithms.settings import LogConfig, Quality
from reflect_rl.data.recorded import of_environment, read_episodes, refuse_held_out
from reflect_rl.envs.base import EnvSpec, HasSolver
from reflect_rl.errors import UserError
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, play
from reflect_rl.types import NO_ACTION, Decision, Episode, Task, Turn, View, seed_for
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import numpy as np


class ErringExpert:
    """Plays the solver's action, and with the probability `noise` a uniformly random one.

    Args:
        noise: the probability, above 0 and at most 1.
    """

    name = "erring_expert"
    sees_oracle = True

    def __init__(self, noise: float) -> None:
        self.noise = noise

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """Draw an action for each view; the decision carries the probabilities of all actions.

        Raises:
            UserError: a view has no solver.
        """
        return [self._decide(view, rng) for view, rng in zip(views, rngs, strict=True)]

    def _decide(self, view: View, rng: np.random.Generator) -> Decision:
        if view.oracle is None:
            raise UserError("the log's expert needs a game with a solver. Set offline.log.quality to 'random'.")
        count, best = len(view.observation.actions), view.oracle.best
        share = self.noise / count
        errs = rng.random() < self.noise
        index = int(rng.integers(count)) if errs else best
        probabilities = (share + (1 - self.noise) * (k == best) for k in range(count))
        return Decision(index, self.name, tuple(math.log(p) if p else -math.inf for p in probabilities), best)


RANDOM_SHARE: dict[Quality, tuple[bool, ...]] = {"random": (True,), "mixed": (True, False), "expert": (False,)}
"""Quality of a log -> whether the episodes of a task are random ones, in turn."""


def play_log(
    config: LogConfig,
    spec: EnvSpec,
    tasks: Sequence[Task],
    seed: int,
    *,
    shuffle_labels: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """The log: `episodes_per_start` episodes of each task, or those of the configured file.

    Args:
        config: who plays.
        spec: the environment.
        tasks: the starts.
        seed: of all randomness in play.
        shuffle_labels: number the actions in a random order in every state.
        limits: how long the environment and the players may take.
        on_episode: called with each episode as it ends.

    Raises:
        CapabilityError: an expert is to play, and the environment has no solver.
        UserError: the file holds no episode of a training task, or one of a task that is held out here.
    """
    if config.episodes is not None:
        return recorded(config, spec)
    turn = RANDOM_SHARE[config.quality]
    if not all(turn):
        spec.needed(HasSolver, "an expert's log")
    log: list[Episode] = []
    for is_random in sorted(set(turn), reverse=True):
        requests = [
            Request(task, seed_for(seed, "log", task.key, copy))
            for task in tasks
            for copy in range(config.episodes_per_start)
            if turn[copy % len(turn)] == is_random
        ]
        player = RandomPolicy() if is_random else ErringExpert(config.noise)
        log += play(
            spec,
            requests,
            NoReflector(),
            player,
            shuffle_labels=shuffle_labels,
            limits=limits,
            on_episode=on_episode,
        )
    return log


def recorded(config: LogConfig, spec: EnvSpec) -> list[Episode]:
    """The recorded episodes of training tasks.

    Args:
        config: names the file.
        spec: the environment that is trained.

    Raises:
        RunFolderError: the file is missing, or a line is no JSON.
        UserError: a line is no episode, one is of another environment or of a task that is held out here, or none is of
            a training task.
    """
    assert config.episodes is not None  # noqa: S101 (the caller asks only then)
    episodes = of_environment(read_episodes(config.episodes), spec.identity)
    # Results on tasks that were learned from would look like generalisation.
    kept = [episode for episode in episodes if episode.task.split == "train"]
    if not kept:
        raise UserError(
            f"offline.log.episodes: none of the {len(episodes)} episodes of {config.episodes} is of a training task, "
            "so there is nothing to learn from. Record some with `reflect-rl play --record`."
        )
    refuse_held_out(kept, spec, f"offline.log.episodes: {config.episodes}")
    return kept


@dataclass(frozen=True)
class Turns:
    """The turns of a log as numbers, N of them; those without an action and those of excluded states are left out."""

    views: tuple[View, ...]
    """States as the policy sees them, without reflections."""
    actions: Tensor
    """(N,) index of the action that was played."""
    behaviour_log_probs: Tensor
    """(N,) its log-probability when it was played; nan where nobody noted it."""
    returns: Tensor
    """(N,) Σ of the rewards from this turn on."""
    elapsed: Tensor
    """(N,) turns of the episode before this one."""
    won: Tensor
    """(N,) True = the episode was won."""
    episodes: Tensor
    """(N,) number of the episode."""
    players: tuple[str, ...]
    """Names of those who played, without repetition."""

    def __len__(self) -> int:
        return len(self.views)


def turns_of(episodes: Sequence[Episode], excluded: frozenset[str] = frozenset()) -> Turns:
    """The turns of episodes.

    Args:
        episodes: of training tasks.
        excluded: states that nothing is learned from.

    Raises:
        UserError: no turn is left.
    """
    kept: list[tuple[int, Turn, float, int, bool]] = []
    for number, episode in enumerate(episodes):
        rewards = [turn.reward for turn in episode.turns]
        for place, turn in enumerate(episode.turns):
            if turn.decision.index != NO_ACTION and turn.observation.state not in excluded:
                kept.append((number, turn, sum(rewards[place:]), place, episode.success))
    if not kept:
        raise UserError(
            f"no turn of the {len(episodes)} episodes can be learned from: all are in states where held-out tasks "
            "begin or name no action. Log more episodes (offline.log.episodes_per_start, data.demonstration_starts)."
        )
    return Turns(
        views=tuple(turn.plain_view for _, turn, *_ in kept),
        actions=torch.tensor([turn.decision.index for _, turn, *_ in kept]),
        behaviour_log_probs=torch.tensor([_log_prob(turn.decision) for _, turn, *_ in kept]),
        returns=torch.tensor([row[2] for row in kept]),
        elapsed=torch.tensor([row[3] for row in kept]),
        won=torch.tensor([row[4] for row in kept]),
        episodes=torch.tensor([row[0] for row in kept]),
        players=tuple(dict.fromkeys(turn.decision.player for _, turn, *_ in kept)),
    )


def _log_prob(decision: Decision) -> float:
    return math.nan if decision.log_prob is None else decision.log_prob
