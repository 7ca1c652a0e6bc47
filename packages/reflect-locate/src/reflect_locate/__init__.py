"""Find the file of a repository that answers a question, on this machine.

The command line is a thin shell over these names. Importing the package loads no model library; the first use of a name
does.

>>> import tempfile
>>> from pathlib import Path
>>> from reflect_locate import find, open_repository
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "limits.py").write_text("# Parsing of rate limits.")
>>> _ = (folder / "clock.py").write_text("# Wall clocks and stop watches.")
>>> answer = find(open_repository(folder), "Where are rate limits parsed?")
>>> answer.sureness, answer.files[0].path
('sure', 'limits.py')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reflect_locate.adapted_ranking import AdaptedRanking
    from reflect_locate.finder import SearchOptions, locate
    from reflect_locate.ranking import Answer, FoundFile, find
    from reflect_locate.repositories.ingest import open_repository
    from reflect_locate.repositories.ingest_config import IngestConfig
    from reflect_locate.repositories.snapshot import SnapshotError
    from reflect_locate.repositories.tree import Tree
    from reflect_locate.rereading import PassageReader, open_reader, reread
    from reflect_locate.trained_player import Player, export_player, load_player

__all__ = [
    "AdaptedRanking",
    "Answer",
    "FoundFile",
    "IngestConfig",
    "PassageReader",
    "Player",
    "SearchOptions",
    "SnapshotError",
    "Tree",
    "export_player",
    "find",
    "load_player",
    "locate",
    "open_reader",
    "open_repository",
    "reread",
]

_PLACES = {
    "AdaptedRanking": "adapted_ranking",
    "Answer": "ranking",
    "FoundFile": "ranking",
    "IngestConfig": "repositories.ingest_config",
    "PassageReader": "rereading",
    "Player": "trained_player",
    "SearchOptions": "finder",
    "SnapshotError": "repositories.snapshot",
    "Tree": "repositories.tree",
    "export_player": "trained_player",
    "find": "ranking",
    "load_player": "trained_player",
    "locate": "finder",
    "open_reader": "rereading",
    "open_repository": "repositories.ingest",
    "reread": "rereading",
}
"""Module of each public name."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported on first use: `reflect-rl --help` must not wait for torch.
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
