"""Tasks of BabyAI: seeds of a level, no two of which begin in the same state."""

from __future__ import annotations

import os
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from reflect_rl.errors import UserError
from reflect_rl.types import Task

if TYPE_CHECKING:
    from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

FIRST_SEEDS: Final = {"train": 0, "validation": 1_000_000_000, "test": 2_000_000_000}
"""First seed of each split. BabyAI's own programs train from small seeds and evaluate from 10^9 on."""
MOST_REPEATS: Final = 1000
"""Seeds in a row that may begin like earlier ones; after as many the search for new starts ends."""

MISSING = (
    "BabyAI comes with the package minigrid, which is not installed. Install it: pip install 'reflect-games[minigrid]'"
)


def open_level(name: str) -> RoomGridLevel:
    """A level of BabyAI, not yet started.

    Args:
        name: BabyAI's, such as `GoToLocal`.

    Raises:
        UserError: `minigrid` is not installed, or has no such level.
    """
    _load_minigrid()
    import gymnasium

    try:
        level: Any = gymnasium.make(f"BabyAI-{name}-v0", disable_env_checker=True).unwrapped
    except gymnasium.error.Error as error:
        raise UserError(
            f"minigrid has no level BabyAI-{name}-v0: {error}. Update it: pip install -U minigrid"
        ) from None
    return level


@cache
def _load_minigrid() -> None:
    # pygame, which minigrid imports and this package never uses, greets on the standard output.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import minigrid  # noqa: F401 (registers the levels)
        from minigrid.envs.babyai.core import roomgrid_level
    except ImportError:
        raise UserError(MISSING) from None
    # Levels that draw a mission twice print why; in the output of a training that would be noise.
    vars(roomgrid_level)["print"] = lambda *_: None


def state_of(level: RoomGridLevel) -> str:
    """Identity of a state: the same for all seeds and all ways that lead to it."""
    cells = [(index, *cell.encode()) for index, cell in enumerate(level.grid.grid) if cell is not None]
    carried = level.carrying and (level.carrying.type, level.carrying.color)
    agent = (*map(int, level.agent_pos), int(level.agent_dir))
    return blake2b(repr((level.mission, agent, carried, cells)).encode(), digest_size=8).hexdigest()


@lru_cache(64)
def level_tasks(name: str, sizes: tuple[tuple[str, int], ...]) -> dict[str, tuple[Task, ...]]:
    """The tasks of all splits of a level.

    Args:
        name: of the level, which is also the mode.
        sizes: number of tasks of each split. Splits that come later have no start of an earlier one.

    Raises:
        UserError: the level has fewer starts.
    """
    level, met = open_level(name), set[str]()

    def new_starts(split: str, wanted: int) -> list[Task]:
        found: list[Task] = []
        repeats = 0
        for seed in count(FIRST_SEEDS[split]):
            if len(found) == wanted:
                break
            if repeats == MOST_REPEATS:
                raise UserError(
                    f"environment.{split}_tasks = {wanted}: {name} has no more than {len(found)} starts for it beside "
                    f"those of the splits before, as {MOST_REPEATS} seeds in a row began like others. Lower it to "
                    f"{len(found)}, or choose a larger level."
                )
            level.reset(seed=seed)
            start = state_of(level)
            repeats += 1
            # Levels with one thing in one room have few starts, so seeds do repeat them.
            if start not in met:
                met.add(start)
                found.append(Task(f"{name}/{seed}", name, split, {"seed": seed, "start": start}))
                repeats = 0
        return found

    return {split: tuple(new_starts(split, wanted)) for split, wanted in sizes}
