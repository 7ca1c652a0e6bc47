"""Batch of household games with the interface of TextWorld's batch environment (`textworld.gym`)."""

from __future__ import annotations

import io
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from alfworld_native.commands import check_commands
from alfworld_native.engine import Game, State, Step
from alfworld_native.errors import GameError

if TYPE_CHECKING:
    from numpy.random import RandomState

FIRST_SEED: Final = 1234
"""Seed of the order of games before `seed` is called, TextWorld's."""

WIDTH: Final = 80
"""Columns of a text for people."""

YELLOW: Final = "\x1b[33m{}\x1b[0m"

Infos = dict[str, list[Any]]


class Expert(Protocol):
    """Player of one episode that says what it would do, whoever gives the commands."""

    def plan(self) -> list[str]:
        """Commands that it would give next, the first of them now."""

    def observe(self, command: str, step: Step) -> None:
        """Take up a command that was given, and its answer."""


@dataclass(slots=True)
class Episode:
    """One game of the batch."""

    state: State
    steps: int
    answer: Step
    expert: Expert | None
    plan: list[str]
    score: int = 0
    done: bool = False


class BatchEnv:
    """Games that are played side by side, one command each at a time.

    A game that is over, won or at its limit of steps, gives its last answer again until `reset`. Several environments
    can be used in several threads at once; one environment belongs to one thread at a time.

    Args:
        paths: of the games, in an order that `seed` shuffles.
        open_game: opens a game by its path.
        batch_size: number of games at a time.
        max_episode_steps: commands after which a game is over; 0 = no limit.
        make_expert: makes the expert of an episode, whose plan comes with every answer; None = no plan.

    Raises:
        GameError: the batch size is not 1 or more.
    """

    def __init__(
        self,
        paths: Sequence[str],
        open_game: Callable[[str], Game],
        batch_size: int,
        max_episode_steps: int,
        make_expert: Callable[[State], Expert] | None = None,
    ) -> None:
        size: object = batch_size
        # NumPy's integers are numbers, too; True is one, but no number of games.
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise GameError(f"batch_size must be a whole number from 1, not {batch_size!r}.")
        self.gamefiles = list(paths)
        self.batch_size = int(batch_size)
        self.max_episode_steps = max_episode_steps
        self.last_commands: list[str | None] = []
        self.obs: tuple[str, ...] = ()
        self._open = open_game
        self._make_expert = make_expert
        self._episodes: list[Episode] | None = None
        self._order: Iterator[str] = iter(())
        self.seed(FIRST_SEED)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Begin the order of games anew, shuffled by a seed; TextWorld's order for the same games and seed.

        Raises:
            GameError: NumPy's old generator does not take the seed.
        """
        self._order = _shuffled_cycle(self.gamefiles, _generator(seed))
        return [seed]

    def skip(self, nb_games: int = 1) -> None:
        """Pass over games in the order."""
        for _ in range(nb_games):
            next(self._order)

    def reset(self) -> tuple[tuple[str, ...], Infos]:
        """Begin the next games in the order.

        Raises:
            GameError: a game is missing or broken.
        """
        paths = [next(self._order) for _ in range(self.batch_size)]
        self._episodes = [self._begun(path) for path in paths]
        self.last_commands = [None] * self.batch_size
        infos = self._infos(self._episodes)
        return self._observed(self._episodes), {**infos, "extra.gamefile": paths}

    def step(self, commands: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...], tuple[bool, ...], Infos]:
        """Give one command to each game.

        Returns:
            observations, scores (1 for a game that is won, else 0), whether each game is over, and `infos`.

        Raises:
            GameError: no game has begun, or not one text for each game. No game has moved then.
        """
        if self._episodes is None:
            raise GameError("no game has begun; call reset() first.")
        given = check_commands(commands, self.batch_size)
        for episode, command in zip(self._episodes, given, strict=True):
            if not episode.done:
                self._move(episode, command)
        self.last_commands = [*given]
        observed = self._observed(self._episodes)
        scores = tuple(episode.score for episode in self._episodes)
        return observed, scores, tuple(episode.done for episode in self._episodes), self._infos(self._episodes)

    def render(self, mode: Literal["human", "ansi", "text"] = "human") -> io.StringIO | str | None:
        """The last commands and answers: printed (`human`), as a file with colours (`ansi`), or as a string."""
        views = [_view(command, text, mode) for command, text in zip(self.last_commands, self.obs, strict=True)]
        text = "\n-----\n".join(views) + "\n"
        if mode == "text":
            return text
        if mode == "ansi":
            # TextWorld gives a file whose end is the position; a write, not an initial value, does the same.
            file = io.StringIO()
            file.write(text)
            return file
        sys.stdout.write(text)
        return None

    def close(self) -> None:
        """End the games."""
        self._episodes = None

    def _begun(self, path: str) -> Episode:
        state = self._open(path).start()
        expert = self._make_expert(state) if self._make_expert else None
        return Episode(state, 0, state.first(), expert, expert.plan() if expert else [])

    def _move(self, episode: Episode, command: str) -> None:
        episode.answer = episode.state.step(command)
        episode.steps += 1
        episode.score = int(episode.answer.won)
        is_last = bool(self.max_episode_steps) and episode.steps >= self.max_episode_steps
        episode.done = episode.answer.won or is_last
        if episode.expert:
            episode.expert.observe(command.strip(), episode.answer)
            episode.plan = episode.expert.plan()

    def _observed(self, episodes: Sequence[Episode]) -> tuple[str, ...]:
        self.obs = tuple(episode.answer.feedback for episode in episodes)
        return self.obs

    def _infos(self, episodes: Sequence[Episode]) -> Infos:
        infos: Infos = {
            "won": [episode.answer.won for episode in episodes],
            # Lists of their own: a program may change what it is given.
            "admissible_commands": [list(episode.answer.admissible) for episode in episodes],
            # alfworld tells the file at reset only; after a command its value is None.
            "extra.gamefile": [None for _ in episodes],
        }
        if self._make_expert:
            infos["extra.expert_plan"] = [list(episode.plan) for episode in episodes]
        return infos


def _generator(seed: int | None) -> RandomState:
    import numpy as np  # here, because it takes longer to import than all of this package

    try:
        # The old generator, as TextWorld uses it: the order is part of what a seed means.
        return np.random.RandomState(seed)
    except (TypeError, ValueError, OverflowError):
        raise GameError(f"a seed is None or a whole number from 0 to {2**32 - 1}, not {seed!r:.60}.") from None


def _shuffled_cycle(paths: Sequence[str], rng: RandomState) -> Iterator[str]:
    """The paths again and again, in a new order each time."""
    order = list(paths)
    rng.shuffle(order)
    while True:
        yield from order
        rng.shuffle(order)


def _view(command: str | None, text: str, mode: str) -> str:
    view = text.rstrip() + "\n"
    if command is not None:
        given = f"> {command}"
        view = f"{given if mode == 'text' else YELLOW.format(given)}\n{view}"
    if mode == "human":
        view = "\n".join("\n".join(textwrap.wrap(paragraph, width=WIDTH)) for paragraph in view.split("\n"))
    return view
