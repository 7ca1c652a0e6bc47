"""Other ways to fine-tune a language model on the same multi-turn games: from logs, a solver, or with both players.

The names are loaded on first use: every run reads the settings of this package, and most need no torch for that.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reflect_algorithms.api import train_offline
    from reflect_algorithms.both.api import train_both

__all__ = ["train_both", "train_offline"]

_MODULES = {"train_both": "both.api", "train_offline": "api"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        # The words of Python itself: `hasattr` and `from ... import` rely on AttributeError.
        raise AttributeError(f"module 'reflect_algorithms' has no attribute {name!r}")
    return getattr(importlib.import_module(f"reflect_algorithms.{_MODULES[name]}"), name)
