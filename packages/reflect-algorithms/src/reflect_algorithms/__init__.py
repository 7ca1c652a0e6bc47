"""Other ways to fine-tune a language model on the same multi-turn games: from logs of episodes, and from a solver."""

from __future__ import annotations

__all__ = ["train_offline"]


from reflect_algorithms.api import train_offline
