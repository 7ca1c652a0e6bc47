"""`AlfredTWEnv` by the native engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from alfworld_native.compat.batch import BatchEnv
from alfworld_native.compat.config import read_settings
from alfworld_native.compat.experts import EXPERTS
from alfworld_native.compat.games import find_games
from alfworld_native.errors import GameError


class AlfredTWEnv:
    """Games of a split, for the same program as `alfworld.agents.environment.AlfredTWEnv`.

    Args:
        config: alfworld's configuration.
        train_eval: `train`, `eval_in_distribution` or `eval_out_of_distribution`.
        skip_broken: open each game once, and pass over those that cannot be played. `skipped` counts what was passed
            over, for whatever reason, and `passed_over` names it.
        expert: False = no plan of an expert, whatever the configuration asks for.

    Raises:
        GameError: an unknown split, a setting that cannot be used, no game, or a broken game file.
    """

    def __init__(
        self, config: Mapping[str, Any], train_eval: str = "train", *, skip_broken: bool = False, expert: bool = True
    ) -> None:
        self.config = config
        self.train_eval = train_eval
        self._settings = read_settings(config, train_eval)
        self._games = find_games(
            self._settings.path, self._settings.task_types, skip_broken=skip_broken, split=self._settings.split
        )
        self._expert = self._settings.expert if expert else None
        most = self._settings.most_games
        self.game_files = list(self._games.paths[:most] if most > 0 else self._games.paths)
        self.num_games = len(self.game_files)
        self.skipped = self._games.skipped
        self.passed_over = dict(self._games.passed_over)
        # Parsed games never change, so one that comes again need not be read again: 32 KB each, shared by all batches.
        self._open = lru_cache(maxsize=2048)(self._games.open)

    def init_env(self, batch_size: int) -> BatchEnv:
        """An environment that plays some games at a time.

        Raises:
            GameError: the batch size is not 1 or more.
        """
        make_expert = EXPERTS[self._expert] if self._expert else None
        return BatchEnv(self.game_files, self._open, batch_size, self._settings.max_steps, make_expert)


def get_environment(env_type: str) -> type[AlfredTWEnv]:
    """The environment of a name, as `alfworld.agents.environment.get_environment`.

    Raises:
        GameError: not `AlfredTWEnv`; there are no images here.
    """
    if env_type != "AlfredTWEnv":
        raise GameError(f"only 'AlfredTWEnv' can be played here, not {env_type!r}: there are no images.")
    return AlfredTWEnv
