"""The only loop that steps a game.

Many games are played at once; a finished one is replaced at once by the next in line, so that no forward pass is
padding. Each episode draws from its own random streams, so the number of num_envs changes nothing but rounding.

An environment that fails or hangs, a reward that is no finite number, and a player that answers what cannot be played
stop the play with an error that names them, before anything is learnt from. A player that speaks (`Decision.answer`)
may name no action: its turn passes without one, at the price of an ordinary step, and counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat, TypeVar

import numpy as np

from reflect_rl import registry
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import TextEnvironment, make
from reflect_rl.envs.guard import guarded
from reflect_rl.errors import FaultyEnvironmentError, FaultyPlayerError, PlayerTimeoutError
from reflect_rl.players.base import Policy, Reflector
from reflect_rl.seeding import stream
from reflect_rl.types import NO_ACTION, Decision, Episode, Observation, Task, Turn, View
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits, on_duty, watch

__all__ = ["Request", "blind", "failure_row", "play"]

Result = TypeVar("Result")

SLOW_PLAYER = "Is its server at work? Raise limits.player_seconds (0 = no limit), or lower the number of num_envs."


@dataclass(frozen=True, slots=True)
class Request:
    """An episode to be played; `seed` alone determines all its randomness."""

    task: Task
    seed: int


class _Table:
    """One slot: an environment and the episode that is being played in it.

    Args:
        hall: what all tables share.
        request: the first episode, which messages about the making of the environment name.
    """

    def __init__(self, hall: _Hall, request: Request) -> None:
        self.hall = hall
        self._sit(request)
        self.environment = self._guarded("making the environment", lambda: make(hall.config, hall.max_episode_steps))

    @property
    def game(self) -> TextEnvironment:
        game = self.environment.unwrapped
        if not isinstance(game, TextEnvironment):
            raise TypeError(f"the environment {type(game).__name__} is no TextEnvironment")
        return game

    def begin(self, position: int, request: Request) -> None:
        self.position = position
        self._sit(request)
        self.policy_rng = stream(request.seed, "policy")
        self.label_rng = stream(request.seed, "labels")
        self._guarded("reset", self._reset)

    def _sit(self, request: Request) -> None:
        self.request = request
        self.turns: list[Turn] = []
        self.has_idled = False
        self.name = f"{self.hall.identity}, task {request.task.key} (seed {request.seed})"

    def _reset(self) -> None:
        options = {"task": self.request.task}
        observation, _ = self.environment.reset(seed=self.request.seed % 2**32, options=options)
        self._show(observation)

    def _show(self, observation: Observation) -> None:
        """The state of the next turn, which the players will see."""
        count = len(observation.actions)
        if not count:
            raise ValueError("no action is admissible, and the game goes on")
        self.observation = observation
        self.order = tuple(self.label_rng.permutation(count).tolist()) if self.hall.shuffle_labels else _listed(count)
        self.oracle = self.game.oracle() if self.hall.asks_oracle else None

    def hear(self, reflection: str | None) -> None:
        """The game may list further actions because of a reflection; the players see those."""
        if reflection is None:
            return
        observation = self._guarded("hearing the reflection", lambda: self.game.hear(reflection))
        if observation is not self.observation:
            self._guarded("hearing the reflection", lambda: self._show(observation))

    def view(self, player: Reflector | Policy, reflection: str | None = None) -> View:
        return View(self.observation, self.order, reflection, self.oracle if player.sees_oracle else None)

    def step(self, reflection: str | None, decision: Decision) -> Episode | None:
        """Play one turn; the episode when it ends the game."""
        left = self.oracle.turns_left if self.oracle is not None and self.hall.notes_turns_left else None
        turn = Turn(self.observation, self.order, reflection, decision, 0.0, left)
        return self._guarded(f"action {turn.action!r}", lambda: self._step(turn))

    def _step(self, turn: Turn) -> Episode | None:
        observation, reward, terminated, truncated, info = self._advance(turn.decision.index)
        reward = float(reward)
        if not math.isfinite(reward):
            raise ValueError(f"the reward is {reward}")
        turn = replace(turn, reward=reward)
        if terminated or truncated:
            task, seed = self.request.task, self.request.seed
            turns, success = (*self.turns, turn), bool(info["success"])
            self.turns.append(turn)
            return Episode(task, turns, terminated, truncated, success, seed, self.hall.identity)
        self._show(observation)
        self.turns.append(turn)
        return None

    def _advance(self, index: int) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """The game's answer to an action, or to none."""
        idles = index == NO_ACTION
        self.has_idled = self.has_idled or idles
        answer = self.game.let_pass() if idles else self.environment.step(np.int64(index))
        observation, reward, terminated, truncated, info = answer
        # The limit around the environment has not seen the turns that passed without an action.
        late = self.has_idled and not terminated and len(self.turns) + 1 >= self.hall.horizon
        return observation, reward, terminated, truncated or late, info

    def _guarded(self, doing: str, act: Callable[[], Result]) -> Result:
        what = f"{self.name}, turn {len(self.turns) + 1}, {doing}"
        return guarded(what, self.hall.limits.environment_seconds, act)


def _listed(count: int) -> tuple[int, ...]:
    return tuple(range(count))


@dataclass(frozen=True, slots=True)
class _Observers:
    """Who is told what happens."""

    on_episode: Callable[[Episode], None] | None
    on_turn: Callable[[Turn], None] | None
    on_failure: Callable[[Request, Exception], None] | None


class _Hall:
    """What all tables share: the game, its limits, the line of requests, and the episodes that failed."""

    def __init__(
        self,
        config: EnvironmentConfig,
        requests: Iterable[Request],
        limits: Limits,
        *,
        max_episode_steps: int | None,
        shuffle_labels: bool,
        sees_oracle: bool,
        notes_turns_left: bool,
        observers: _Observers,
    ) -> None:
        module = registry.find("environments", config.name)
        self.identity = f"{module.NAME}-v{module.VERSION}"
        self.config, self.line, self.limits, self.observers = config, enumerate(requests), limits, observers
        self.max_episode_steps, self.shuffle_labels, self.notes_turns_left = (
            max_episode_steps,
            shuffle_labels,
            notes_turns_left,
        )
        self.asks_oracle = sees_oracle or notes_turns_left
        self.horizon = max_episode_steps or config.max_episode_steps
        self.finished: dict[int, Episode] = {}
        self.failures: list[FaultyEnvironmentError] = []

    def turn(self, table: _Table, reflection: str | None, decision: Decision) -> _Table | None:
        """Play one turn; the table for the next one, where there is one to be played."""
        try:
            episode = table.step(reflection, decision)
        except FaultyEnvironmentError as error:
            self.leave_out(table.request, error)
            return self.seat()
        if self.observers.on_turn is not None:
            self.observers.on_turn(table.turns[-1])
        if episode is None:
            return table
        self.finished[table.position] = episode
        if self.observers.on_episode is not None:
            self.observers.on_episode(episode)
        return self.seat(table)

    def seat(self, table: _Table | None = None) -> _Table | None:
        """A table at which the next request has begun (None: a new one); None when the line is empty."""
        for position, request in self.line:
            try:
                table = table or _Table(self, request)
                table.begin(position, request)
            except FaultyEnvironmentError as error:
                self.leave_out(request, error)
                table = None
            else:
                return table
        return None

    def leave_out(self, request: Request, error: FaultyEnvironmentError) -> None:
        """Count an episode that failed; it is an error when there are too many."""
        self.failures.append(error)
        if not self.limits.failed_episodes:
            raise error
        if self.observers.on_failure is not None:
            self.observers.on_failure(request, error)
        if len(self.failures) > self.limits.failed_episodes:
            raise self.too_many()

    def too_many(self) -> FaultyEnvironmentError:
        told = "\n".join(f"- {error}" for error in self.failures)
        return FaultyEnvironmentError(
            f"{len(self.failures)} episodes failed, more than limits.failed_episodes = {self.limits.failed_episodes} "
            f"allows, or all there were:\n{told}"
        )


def play(  # noqa: PLR0913 (each part of a game is a part of the call)
    config: EnvironmentConfig,
    requests: Iterable[Request],
    reflector: Reflector,
    policy: Policy,
    *,
    num_envs: int = 64,
    max_episode_steps: int | None = None,
    shuffle_labels: bool = False,
    note_turns_left: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_episode: Callable[[Episode], None] | None = None,
    on_turn: Callable[[Turn], None] | None = None,
    on_failure: Callable[[Request, Exception], None] | None = None,
) -> list[Episode]:
    """Play all requests and return their episodes in the order of the requests.

    Args:
        config: the environment.
        requests: what to play.
        reflector: the reflection player; never sees the action list.
        policy: the policy player.
        num_envs: games played at once.
        max_episode_steps: turns until truncation (default: the environment's).
        shuffle_labels: number the actions in a random order in every state.
        note_turns_left: ask the solver at every turn how far it is, for `Turn.turns_left`; players do not see it.
        limits: how long the environment and the players may take, and how many episodes may fail; those are not
            returned, and the others are what they would have been without them.
        on_episode: called with each episode as it ends.
        on_turn: called with each turn as it is played.
        on_failure: called with each episode that failed and is left out.

    Raises:
        FaultyEnvironmentError: an environment failed, hung (EnvironmentTimeoutError) or gave a reward that is no finite
            number, in more episodes than may fail, or in all.
        FaultyPlayerError: a player hung (PlayerTimeoutError), or answered what cannot be played.
    """
    hall = _Hall(
        config,
        requests,
        limits,
        max_episode_steps=max_episode_steps,
        shuffle_labels=shuffle_labels,
        sees_oracle=reflector.sees_oracle or policy.sees_oracle,
        notes_turns_left=note_turns_left,
        observers=_Observers(on_episode, on_turn, on_failure),
    )
    with on_duty(limits.environment_seconds, limits.player_seconds):
        tables: list[_Table] = []
        while len(tables) < num_envs and (seated := hall.seat()) is not None:
            tables.append(seated)
        while tables:
            answers = _answers(tables, reflector, policy, limits.player_seconds)
            seats = [hall.turn(table, *answer) for table, answer in zip(tables, answers, strict=True)]
            tables = [table for table in seats if table is not None]
    if hall.failures and not hall.finished:
        raise hall.too_many()
    return [hall.finished[position] for position in sorted(hall.finished)]


def _answers(
    tables: Sequence[_Table], reflector: Reflector, policy: Policy, seconds: float
) -> list[tuple[str | None, Decision]]:
    """What the two players say to each table."""
    count = len(tables)
    with watch(f"the reflection player {reflector.name!r} ({count} views)", seconds, PlayerTimeoutError, SLOW_PLAYER):
        reflections = reflector.reflect([blind(table.view(reflector)) for table in tables])
    if len(reflections) != count:
        raise FaultyPlayerError(
            f"the reflection player {reflector.name!r} wrote {len(reflections)} texts for {count} views."
        )
    for table, text in zip(tables, reflections, strict=True):
        table.hear(text)
    views = [table.view(policy, text) for table, text in zip(tables, reflections, strict=True)]
    with watch(f"the policy {policy.name!r} ({count} views)", seconds, PlayerTimeoutError, SLOW_PLAYER):
        decisions = policy.decide(views, [table.policy_rng for table in tables])
    if len(decisions) != count:
        raise FaultyPlayerError(f"the policy {policy.name!r} made {len(decisions)} decisions for {count} views.")
    for view, decision in zip(views, decisions, strict=True):
        _check(policy, view, decision)
    return list(zip(reflections, decisions, strict=True))


def _check(policy: Policy, view: View, decision: Decision) -> None:
    count, log_probs = len(view.observation.actions), decision.log_probs
    says_nothing = decision.index == NO_ACTION and decision.answer is not None
    if not (0 <= decision.index < count or says_nothing):
        raise FaultyPlayerError(
            f"the policy {policy.name!r} chose action {decision.index} in the state {view.observation.state!r}, which "
            f"lists actions 0 to {count - 1}."
        )
    if log_probs is not None and (len(log_probs) != count or math.isnan(sum(log_probs))):
        raise FaultyPlayerError(
            f"the policy {policy.name!r} gave the log-probabilities {list(log_probs)} to the {count} actions of the "
            f"state {view.observation.state!r}. Where they are nan, its weights or its logits are no longer numbers."
        )


def blind(view: View) -> View:
    """The view without its action list: the reflection player reads the state only (Reflect-RL, section 4)."""
    return replace(view, observation=replace(view.observation, actions=()), order=())


def failure_row(request: Request, error: Exception) -> dict[str, Any]:
    """An episode that was left out, as a JSON object."""
    task = request.task
    return {
        "task": task.key,
        "mode": task.mode,
        "seed": request.seed,
        "error": type(error).__name__,
        "message": str(error),
    }
