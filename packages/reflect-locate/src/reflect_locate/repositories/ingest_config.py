"""`[ingest]` of a task set: which files a snapshot takes, checked."""

from __future__ import annotations

from pydantic import field_validator

from reflect_locate.repositories.gate import IngestRules
from reflect_locate.repositories.ignore import is_bounded
from reflect_rl.config import Frozen


class IngestConfig(Frozen, IngestRules):
    """Files that a snapshot takes."""

    @field_validator("exclude")
    @classmethod
    def _are_rules(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for rule in value:
            # The same bound as for files of strangers: one slow rule would be matched against each path.
            if not is_bounded(rule):
                raise ValueError(f"{rule!r} is no rule of a .gitignore, or has too many stars")
        return value

    def told_endings(self) -> str:
        """The files that are read, in a sentence, and how to read more."""
        return f"{super().told_endings()} `--files locate` reads every text."
