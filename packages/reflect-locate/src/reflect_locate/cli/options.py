"""Options of `locate` and `serve`, with their bounds; a call without flags has their defaults.

They are no pydantic models, whose library takes as long to import as an answer. `flags.py` checks what flags set.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Interval


@dataclass(frozen=True)
class PlayerOptions:
    """Search by an index alone, or by a trained player, too."""

    deep: bool = False
    """Let a language model read the best lines of the best files, and rank them anew; larger ones than `small` take
    seconds."""
    reader: str = "small"
    """Model that reads with `--deep`: `small` (in this package), a name of `reflect-rl model list`, a folder, or
    `hub:owner/name`."""
    adapted: Path | None = None
    """Folder of `adapt`: rank by what was learned from the history of this repository, too."""
    walk: bool = False
    """Let the trained player walk through the files, too; that takes seconds."""
    model: Path | None = None
    """Player or run folder that walks (unset: the player that comes with this package, with `--walk`)."""
    unit: str = ""
    """Unit of a run folder, for example `starts-100/seed-0` (empty: the run's first)."""
    method: str = ""
    """Trained method of a run folder that plays (empty: the last one that its configuration names)."""
    episodes: Annotated[int, Interval(ge=0, le=1000)] = 8
    """Sampled episodes of the player on each question, besides a greedy one."""
    search: bool | None = None
    """The player looks words up in an index (`--search`), or only walks (`--no-search`); unset: as in training."""
    threshold: Annotated[float | None, Interval(ge=0, le=1)] = None
    """Confidence below which an answer is only a guess (unset: as measured)."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of the sampled episodes."""
    no_cache: bool = False
    """Read and write nothing in the user's cache folder."""

    @property
    def is_played(self) -> bool:
        """Tell whether a player is asked."""
        return self.walk or self.model is not None


@dataclass(frozen=True)
class LocateOptions(PlayerOptions):
    """Settings of a search and of what is shown."""

    top_k: Annotated[int, Interval(ge=1, le=1000)] = 5
    """Most files to show."""
    as_json: bool = False
    """Print a JSON list of objects with `path`, `sureness`, `first_line`, `last_line`, `symbol`, `excerpt` and more."""
    seconds: Annotated[float, Interval(gt=0, le=86_400)] = 60.0
    """Longest search of the player; episodes that are not finished then do not count."""
