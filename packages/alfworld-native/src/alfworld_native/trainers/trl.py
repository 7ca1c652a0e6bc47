"""Household games as tools of TRL's GRPO: `GRPOTrainer(environment_factory=HouseholdTools, train_dataset=rows(…))`.

TRL makes one object for each rollout, calls `reset` with the columns of the row, offers the public methods as tools and
scores with `get_reward`. Nothing of TRL is imported here.
"""

from __future__ import annotations

from typing import Any

from alfworld_native.errors import GameError
from alfworld_native.generate import GameSplit
from alfworld_native.trainers.episode import INSTRUCTION, Episode, numbered_record


class HouseholdTools:
    """One game for one rollout. Its only tool is `act`."""

    _episode: Episode | None = None

    # No default: a data set without the column would play one game for ever.
    def reset(self, game: int, split: GameSplit = "train", max_episode_steps: int = 50, **_: Any) -> str:
        """Begin the generated game of a number; rows of one number are one group of GRPO."""
        self._episode = Episode(numbered_record(split, game), max_episode_steps)
        return self._episode.text()

    def act(self, command: str) -> str:
        """Give one command to the game.

        Args:
            command: One of the listed commands, for example "go to fridge 1".

        Returns:
            What happens, and the commands that can be given next.
        """
        return self._begun().give(command)

    def get_reward(self) -> float:
        """1 for a game that is won, else 0."""
        return float(self._begun().won)

    def _begun(self) -> Episode:
        if self._episode is None:
            raise GameError("no game has begun; call reset() first.")
        return self._episode


def rows(count: int, split: GameSplit = "train", first: int = 0) -> list[dict[str, Any]]:
    """Rows of a data set (`datasets.Dataset.from_list`), one for each generated game."""
    prompt = [{"role": "user", "content": f"{INSTRUCTION} Call the tool `act` for each.\n\n"}]
    return [{"prompt": prompt, "game": number, "split": split} for number in range(first, first + count)]
