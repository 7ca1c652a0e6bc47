"""Named random streams: generated games are a pure function of a seed and names."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def seed_for(root: int, *names: str | int) -> int:
    """A 63-bit seed for the stream with these names.

    >>> seed_for(0, "household", 3) == seed_for(0, "household", 4)
    False
    """
    # The unit separator cannot occur in a name, so ("a", "bc") and ("ab", "c") are different streams.
    digest = hashlib.sha256("\x1f".join([str(root), *map(str, names)]).encode()).digest()
    # 63 bits, not 64: the seed then also fits where a signed integer is stored.
    return int.from_bytes(digest[:8], "big") >> 1


def stream(root: int, *names: str | int) -> np.random.Generator:
    """A generator for the stream with these names."""
    import numpy as np  # here, because it takes longer to import than all of this package

    return np.random.default_rng(seed_for(root, *names))
