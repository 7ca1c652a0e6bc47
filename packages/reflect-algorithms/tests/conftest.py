from __future__ import annotations

import pytest

import offline_toy
from reflect_rl.types import Episode


@pytest.fixture(scope="session")
def random_log() -> list[Episode]:
    """Random walks in corridors whose goal is the right end."""
    return offline_toy.log("random", 40)


@pytest.fixture(scope="session")
def mixed_log() -> list[Episode]:
    """Random and expert walks in the same corridors."""
    return offline_toy.log("mixed", 12)
