"""Record of a household game before it is played; every source of games makes the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Wording = Literal["2.1.1", "2.1.2"]
"""Version of ALFWorld's text: "2.1.1" has `put X in/on Y` and "You arrive at loc 8."; "2.1.2", also that of later
versions, has `move X to Y`, `help` and "You arrive at bed 1."."""

TaskType = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]

TASK_TYPES: tuple[TaskType, ...] = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""ALFWorld's kinds of task, in the order of its configuration (1 to 6)."""


@dataclass(frozen=True, slots=True)
class GameRecord:
    """One household game."""

    key: str
    """Unique: the id of the record, or `generated/<seed>/<number>`."""
    task_type: TaskType
    goal: str
    """The sentence in the game, for example "put some tomato on microwave."."""
    problem: str
    """The PDDL problem."""
    scene: str = ""
    """For example FloorPlan13; empty when unknown."""
    subject: str = ""
    """Thing, movable receptacle and target in ALFWorld's names ("Tomato-None-Microwave"); named filters compare it."""
    annotations: tuple[str, ...] = ()
    """Sentences that people wrote about the task."""
    # Part of a run's fingerprint: two files of the same name need not be the same game.
    sha256: str = ""
    """Checksum of the original game file; empty when there is none."""
