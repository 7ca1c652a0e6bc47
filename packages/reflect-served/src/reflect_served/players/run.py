"""The endpoint that all players of a run share.

All jobs of a run share the folder `endpoint`: what one of them has asked is not asked again by another, and the budget
is that of the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reflect_served.llm import Endpoint
from reflect_served.settings import endpoint_config

if TYPE_CHECKING:  # its module reads the settings of this package
    from reflect_rl.runs.config import RunConfig

FOLDER = "endpoint"
"""Folder of the answers in a run folder, and of the list of all that was sent."""


def endpoint_of(run: RunConfig, purpose: str) -> Endpoint:
    """The endpoint of a run; `purpose` is what it is asked for, for the list of requests."""
    return Endpoint(endpoint_config(run), run.output_dir / FOLDER, purpose)


def lock_of(run: RunConfig) -> Path:
    """The file that evaluations lock while they ask."""
    # Without the lock two seeds would send the same request at the same time, and both would be paid for.
    return run.output_dir / FOLDER / ".lock"
