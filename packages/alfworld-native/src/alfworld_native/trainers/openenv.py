"""Household games as an OpenEnv server; its clients need nothing of this package (`openenv.core.GenericEnvClient`).

python -m alfworld_native.trainers.openenv 8000
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

from alfworld_native.errors import GameError
from alfworld_native.trainers.episode import Episode, numbered_record


def make_app(max_concurrent_envs: int = 64, max_episode_steps: int = 50) -> Any:
    """A FastAPI application: a game for each connected client.

    `reset` takes `seed`, the number of a generated game, and `split`. Without a seed it begins the next game, counted
    from 0 over all clients, so that nobody plays one game for ever. `step` takes `{"command": ...}`. Observations have
    `text`, `admissible_commands`, `won`, `done` and `reward`, which is 1 for the command that wins.

    Args:
        max_concurrent_envs: clients at a time.
        max_episode_steps: commands in a game.

    Raises:
        GameError: openenv is not installed.
    """
    try:
        from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
    except ImportError:
        raise GameError("this needs openenv: pip install 'alfworld-native[openenv]'.") from None

    unseeded = itertools.count()

    class HouseholdAction(Action):  # here, because the library is loaded only now
        """One command."""

        command: str

    class HouseholdObservation(Observation):
        """Answer of the game."""

        text: str
        admissible_commands: list[str]
        won: bool

    class Household(Environment):
        """One client's game."""

        # Games share nothing that changes.
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._episode: Episode | None = None
            self._id: str | None = None

        def reset(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> HouseholdObservation:
            """Begin the generated game of a number, or without one the next game."""
            self._id = episode_id
            number = next(unseeded) if seed is None else seed
            self._episode = Episode(numbered_record(row.get("split", "train"), number), max_episode_steps)
            return self._observed(self._episode, 0.0)

        def step(self, action: HouseholdAction, timeout_s: float | None = None, **_: Any) -> HouseholdObservation:
            """Give a command.

            Raises:
                GameError: no game has begun.
            """
            if self._episode is None:
                raise GameError("no game has begun; reset first.")
            was_won = self._episode.won
            self._episode.give(action.command)
            return self._observed(self._episode, float(self._episode.won and not was_won))

        @property
        def state(self) -> State:
            """Number of commands so far."""
            return State(episode_id=self._id, step_count=self._episode.steps if self._episode else 0)

        def _observed(self, episode: Episode, reward: float) -> HouseholdObservation:
            return HouseholdObservation(
                text=episode.feedback,
                admissible_commands=list(episode.admissible),
                won=episode.won,
                done=episode.over,
                reward=reward,
            )

    # Annotations of classes inside a function are texts that only this function can resolve.
    for model in (HouseholdAction, HouseholdObservation):
        model.model_rebuild()
    return create_fastapi_app(Household, HouseholdAction, HouseholdObservation, max_concurrent_envs=max_concurrent_envs)


def serve(port: int = 8000, host: str = "127.0.0.1") -> None:
    """Serve until interrupted.

    Args:
        port: to listen on.
        host: address; the default is reached from this machine only.
    """
    import uvicorn  # comes with openenv

    uvicorn.run(make_app(), host=host, port=port, log_level="warning")


if __name__ == "__main__":
    serve(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
