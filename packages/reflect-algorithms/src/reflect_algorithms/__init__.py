"""Other ways to fine-tune a language model on the same multi-turn games: from logs, a solver, or with both players."""

from __future__ import annotations

__all__ = ["train_both", "train_offline"]


from reflect_algorithms.api import train_offline
from reflect_algorithms.both.api import train_both
