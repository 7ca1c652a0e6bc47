"""Costs of a household game, read from its episode."""

from __future__ import annotations

from collections.abc import Sequence

from alfworld_native.reflections import mistake
from alfworld_native.scene import Scene
from reflect_rl.types import Episode

IDLE = frozenset({"look", "inventory", "help", "examine"})
"""First words of commands that change nothing."""


def household_measures(episode: Episode, scenes: Sequence[Scene], shortest_turns: int) -> dict[str, float]:
    """Costs of one episode.

    - `spl`: success weighted by path length, shortest / played turns where the game was won (Anderson et al. 2018,
      arXiv:1807.06757, section 4);
    - `places_searched`: receptacles that were looked into before the last turn;
    - `idle_turns`: commands that changed nothing;
    - `mistakes`: turns whose command was a mistake, as far as the game has told; the last turn left out.

    Args:
        episode: of ALFWorld.
        scenes: what the player had been told before each turn, at least one.
        shortest_turns: turns that the solver needs for the task.
    """
    # The scene after a turn without an action is the one before it, with the same last command.
    after = [scene for turn, scene in zip(episode.turns, scenes[1:], strict=False) if turn.action is not None]
    commands = [turn.action or "look" for turn in episode.turns]  # a turn without an action changed nothing either
    return {
        "spl": episode.success * shortest_turns / max(len(scenes), shortest_turns),
        "places_searched": float(len(scenes[-1].known)),
        "idle_turns": float(sum(command.partition(" ")[0] in IDLE for command in commands)),
        "mistakes": float(sum(bool(mistake(scene)) for scene in after)),
    }
