"""Offline trainings that are killed with SIGKILL at several events, and go on.

`python killed_offline.py FOLDER` leaves in FOLDER/<event>/ what each training left; it prints how each start ended.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2] / "reflect-rl" / "tests"
sys.path[:0] = [str(TESTS), str(Path(__file__).parent)]

import torch  # noqa: E402

import offline_toy  # noqa: E402
from killed_sft import EVENTS, announced, in_a_process, killed_at  # noqa: E402
from reflect_algorithms import train_offline  # noqa: E402
from toy import SPEC  # noqa: E402


def main(folder: Path) -> None:
    """Train once in peace, and with kills at the given events of the disk."""
    torch.set_num_threads(1)
    log = offline_toy.log("mixed", 4)

    def train(place: Path, moment: int) -> None:
        at_event = killed_at(moment)
        for name in EVENTS:
            setattr(os, name, announced(getattr(os, name), at_event))
        settings = {"steps": 8, "save_steps": 3, "batch_size": 4}
        train_offline(offline_toy.agent(), log, env=SPEC, out=place, progress=lambda *_: at_event(), **settings)

    for moment in (0, 6, 17, 28):
        place = folder / f"event-{moment:02}"
        for event in [moment, 0] if moment else [0]:
            ended = in_a_process(lambda place=place, event=event: train(place, event))
            print("ended" if ended else "killed", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
