"""Gymnasium environment of household games: texts in, texts out, the admissible commands in `info`.

    import gymnasium
    import alfworld_native.environment  # registers the id

    env = gymnasium.make("alfworld_native/Household-v0")
    text, info = env.reset(seed=0)
    text, reward, terminated, truncated, info = env.step(info["admissible_commands"][0])

`info` has `admissible_commands` (sorted), `won`, and `game`, the key of the game that is played. `gymnasium.make_vec`
gives many games in one process (`alfworld_native.vector`).
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium
from gymnasium.spaces import Text

from alfworld_native.commands import check_command
from alfworld_native.engine import State, Step, open_game
from alfworld_native.errors import GameError
from alfworld_native.games import GameSet
from alfworld_native.generate import GeneratedGames, game_seed
from alfworld_native.record import GameRecord, Wording
from alfworld_native.sources import games_of
from alfworld_native.wording import WORDINGS

ENV_ID: Final = "alfworld_native/Household-v0"

MAX_EPISODE_STEPS: Final = 50
"""ALFWorld's limit; `gymnasium.make` truncates there."""

GENERATED_GAMES: Final = 100_000
"""Number of generated training games that `reset` draws from when there are no others."""


class HouseholdEnv(gymnasium.Env[str, str]):
    """Household games as a Gymnasium environment.

    The reward is 1 for the command that wins, else 0. A command that is not admissible changes nothing.

    Args:
        games: the games that `reset` draws from: records, or a source (`sources.games_of`) such as `$ALFWORLD_DATA` or
            `generated:train:1000`; None = generated training games, each made when it is drawn.
        split: of a folder that holds several, such as `valid_seen`; None = its training games.
        wording: version of ALFWorld's text that is played, whatever the game files have: `2.1.1` (`put X in/on Y`) or
            `2.1.2` (`move X to Y`).
        render_mode: None, or `ansi` for `render()` to return the last text.

    Raises:
        GameError: `games` is empty or cannot be used, or there is no such wording or split.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (declared so by Gymnasium)

    def __init__(
        self,
        games: Sequence[GameRecord] | str | Path | None = None,
        wording: Wording = "2.1.1",
        render_mode: str | None = None,
        split: str | None = None,
    ) -> None:
        # Here and not at the first game, which would be blamed for it.
        if wording not in WORDINGS:
            raise GameError(f"no wording {wording!r}. Known: {', '.join(WORDINGS)}; 2.1.2 is that of later ones, too.")
        # Bounds that no text of a game comes near; Gymnasium wants some.
        self.observation_space = Text(max_length=100_000, min_length=0, charset=string.printable)
        self.action_space = Text(max_length=200, min_length=0, charset=string.printable)
        self.render_mode = render_mode
        self._games, self._wording = drawn_from(games, split), wording
        self._state: State | None = None
        self._paid = False
        self._key, self._text = "", ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a game.

        Args:
            seed: of the draws, as in Gymnasium.
            options: `{"game": record}` plays this `GameRecord` instead of drawing one; a key in its place, such as
                `info["game"]`, plays the game of this key among those that are drawn from.

        Raises:
            GameError: an unknown option, no game of this key, or a game that cannot be played.
        """
        check_options(options, ("game",))
        # No draw for a chosen game, so the next draws do not depend on it.
        chosen = self._chosen((options or {}).get("game"))
        super().reset(seed=seed)
        record = chosen or self._draw()
        self._state, self._key = open_game(record, self._wording).start(), record.key
        self._paid = False
        return self._told(self._state.first())

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Give a command.

        Raises:
            GameError: the command is not a text, or no game has begun.
        """
        if self._state is None:
            raise GameError("no game has begun; call reset() first.")
        text, info = self._told(self._state.step(check_command(action)))
        won = self._state.won
        # A won game goes on, as in TextWorld, and can be left and won again; only the first win is paid.
        reward = float(won and not self._paid)
        self._paid = self._paid or won
        return text, reward, won, False, info

    def render(self) -> str | None:
        """The last text, in mode `ansi`."""
        return self._text if self.render_mode == "ansi" else None

    def _chosen(self, game: object) -> GameRecord | None:
        if game is None or isinstance(game, GameRecord):
            return game
        if not isinstance(game, str):
            raise GameError(f"options['game'] is a GameRecord or the key of a game, not {game!r:.60}.")
        if isinstance(self._games, GameSet | GeneratedGames):
            return self._games.find(game)
        found = next((record for record in self._games if record.key == game), None)
        if found is None:
            raise GameError(f"no game {game!r} among the {len(self._games)} of this environment; give its GameRecord.")
        return found

    def _draw(self) -> GameRecord:
        return self._games[int(self.np_random.integers(len(self._games)))]

    def _told(self, step: Step) -> tuple[str, dict[str, Any]]:
        self._text = step.feedback
        info = {"admissible_commands": list(step.admissible), "won": step.won, "game": self._key}
        return step.feedback, info


def drawn_from(games: Sequence[GameRecord] | str | Path | None, split: str | None = None) -> Sequence[GameRecord]:
    """The games that `reset` draws from.

    Raises:
        GameError: there are none, they cannot be used, or they have no such split.
    """
    if games is not None:
        return games_of(games, split)
    if split is not None:
        raise GameError(f"split is {split!r}, but there is no folder; name it with `games`, such as $ALFWORLD_DATA.")
    return GeneratedGames(game_seed("train", 0), GENERATED_GAMES)


def check_options(options: object, known: Collection[str]) -> None:
    """Refuse options of `reset` that it does not know; Gymnasium passes on whatever it is given.

    Raises:
        GameError: names the option, and those that there are.
    """
    if options is not None and not isinstance(options, Mapping):
        raise GameError(f"the options of reset() are a dictionary, not {options!r:.60}.")
    for name in options or ():
        if name not in known:
            raise GameError(f"reset() has no option {name!r}; it knows {' and '.join(map(repr, known))}.")


# A module that is loaded anew, as in notebooks, must not warn.
if ENV_ID not in gymnasium.registry:
    gymnasium.register(
        ENV_ID,
        entry_point="alfworld_native.environment:HouseholdEnv",
        vector_entry_point="alfworld_native.vector:HouseholdVectorEnv",
        max_episode_steps=MAX_EPISODE_STEPS,
    )
