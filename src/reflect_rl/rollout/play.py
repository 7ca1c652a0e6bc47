"""The only loop that steps a game.

Many games are played at once; a finished one is replaced at once by the next in line, so that no forward pass is
padding. Each episode draws from its own random streams, so the number of slots changes nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reflect_rl.core import catalog
from reflect_rl.core.config import EnvironmentConfig
from reflect_rl.core.protocols import Policy, Reflector
from reflect_rl.core.seeding import stream
from reflect_rl.core.types import Decision, Episode, Observation, Task, Turn, View
from reflect_rl.environments._base import TextEnvironment, make

__all__ = ["Request", "play"]


@dataclass(frozen=True, slots=True)
class Request:
    """An episode to be played; `seed` alone determines all its randomness."""

    task: Task
    seed: int


class _Table:
    """One slot: an environment and the episode that is being played in it."""

    def __init__(self, config: EnvironmentConfig, horizon_turns: int | None, shuffle_labels: bool) -> None:
        self.environment = make(config, horizon_turns)
        module = catalog.find("environments", config.name)
        self.identity = f"{module.NAME}-v{module.VERSION}"
        self.shuffle_labels = shuffle_labels

    @property
    def game(self) -> TextEnvironment:
        game = self.environment.unwrapped
        if not isinstance(game, TextEnvironment):
            raise TypeError(f"the environment {type(game).__name__} is no TextEnvironment")
        return game

    def begin(self, position: int, request: Request) -> None:
        self.position, self.request = position, request
        self.turns: list[Turn] = []
        self.policy_rng = stream(request.seed, "policy")
        self.label_rng = stream(request.seed, "labels")
        self.observation, _ = self.environment.reset(seed=request.seed % 2**32, options={"task": request.task})
        self.order = self._order(self.observation)

    def _order(self, observation: Observation) -> tuple[int, ...]:
        count = len(observation.actions)
        return tuple(self.label_rng.permutation(count).tolist()) if self.shuffle_labels else tuple(range(count))

    def view(self, player: Reflector | Policy, reflection: str | None = None) -> View:
        oracle = self.game.oracle() if player.sees_oracle else None
        return View(self.observation, self.order, reflection, oracle)

    def step(self, reflection: str | None, decision: Decision) -> Episode | None:
        """Play one turn; the episode when it ends the game."""
        observation, reward, terminated, truncated, info = self.environment.step(np.int64(decision.index))
        self.turns.append(Turn(self.observation, self.order, reflection, decision, float(reward)))
        if terminated or truncated:
            task, seed = self.request.task, self.request.seed
            return Episode(task, tuple(self.turns), terminated, truncated, info["success"], seed, self.identity)
        self.observation = observation
        self.order = self._order(observation)
        return None


def play(  # noqa: PLR0913 (each part of a game is a part of the call)
    config: EnvironmentConfig,
    requests: Iterable[Request],
    reflector: Reflector,
    policy: Policy,
    *,
    slots: int = 64,
    horizon_turns: int | None = None,
    shuffle_labels: bool = False,
    on_episode: Callable[[Episode], None] | None = None,
    on_turn: Callable[[Turn], None] | None = None,
) -> list[Episode]:
    """Play all requests and return their episodes in the order of the requests.

    Args:
        config: the environment.
        requests: what to play.
        reflector: the reflection player; never sees the action list.
        policy: the policy player.
        slots: games played at once.
        horizon_turns: turns until truncation (default: the environment's).
        shuffle_labels: number the actions in a random order in every state.
        on_episode: called with each episode as it ends.
        on_turn: called with each turn as it is played.
    """
    line = enumerate(requests)
    tables: list[_Table] = []
    for position, request in line:
        tables.append(_Table(config, horizon_turns, shuffle_labels))
        tables[-1].begin(position, request)
        if len(tables) == slots:
            break
    finished: dict[int, Episode] = {}
    while tables:
        open_tables: list[_Table] = []
        for table, episode in zip(tables, _turn(tables, reflector, policy), strict=True):
            if on_turn is not None:
                on_turn(table.turns[-1])
            if episode is None:
                open_tables.append(table)
                continue
            finished[table.position] = episode
            if on_episode is not None:
                on_episode(episode)
            if (upcoming := next(line, None)) is not None:
                table.begin(*upcoming)
                open_tables.append(table)
        tables = open_tables
    return [finished[position] for position in sorted(finished)]


def _turn(tables: Sequence[_Table], reflector: Reflector, policy: Policy) -> list[Episode | None]:
    reflections = reflector.reflect([_blind(table.view(reflector)) for table in tables])
    views = [table.view(policy, text) for table, text in zip(tables, reflections, strict=True)]
    decisions = policy.decide(views, [table.policy_rng for table in tables])
    return [table.step(text, decision) for table, text, decision in zip(tables, reflections, decisions, strict=True)]


def _blind(view: View) -> View:
    """The view without its action list: the reflection player reads the state only (Reflect-RL, section 4)."""
    return replace(view, observation=replace(view.observation, actions=()), order=())
