"""Stages that are killed with SIGKILL at several events, and go on: `pairs`, `reward` and `learn` of DPO.

`python killed_preferences.py FOLDER` leaves in FOLDER/whole the unit of a run that was left alone, and in
FOLDER/<stage>-<event> that of one whose stage was killed before this event. It prints for each start of a stage a
line of JSON: the folder, whether the stage came to its end, and the number of checkpoints that are there then.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

TESTS = Path(__file__).parents[2] / "reflect-rl" / "tests"
sys.path[:0] = [str(TESTS), str(Path(__file__).parent)]

import torch  # noqa: E402

from killed_sft import EVENTS, announced, in_a_process, killed_at  # noqa: E402
from reflect_rl.config import parse  # noqa: E402
from reflect_rl.runs.config import RunConfig  # noqa: E402
from reflect_rl.runs.stages import execute, plan  # noqa: E402
from reflect_rl.runs.workers import silence  # noqa: E402
from run_toy import corridor_run  # noqa: E402

SETTINGS = corridor_run(
    '["dpo", "rlhf"]',
    """\
[sft.base]
steps = 2
[sft.policy_plain]
steps = 2
[preferences.pairs]
count = 24
[preferences.training]
steps = 6
save_steps = 2
batch_size = 4
""",
)
STAGES = {"pairs": "", "reward": "", "learn": "dpo"}
"""Stage -> its job that is killed."""


def do(run: Path, stage: str, at_event: Callable[[], None]) -> None:
    """Do a job in this process; `at_event` is called at each step, and at each call that changes the disk."""
    config = parse(RunConfig, tomllib.loads(SETTINGS) | {"output_dir": str(run)})
    for name in EVENTS:
        setattr(os, name, announced(getattr(os, name), at_event))
    for job in plan(config):
        if job.kind == stage and job.name == STAGES.get(stage, job.name) and not job.done:
            execute(job, config, lambda *_: at_event())


def counted(run: Path, stage: str, note: Path) -> None:
    """Do a job, and note how many events it has."""
    count = 0

    def at_event() -> None:
        nonlocal count
        count += 1

    do(run, stage, at_event)
    note.write_text(str(count))


def main(folder: Path) -> None:
    """Do each stage in peace, and with kills at a quarter, a half, three quarters and the end of its events."""
    torch.set_num_threads(1)
    silence()
    whole = folder / "whole"
    for stage in ("data", "sft"):
        do(whole, stage, lambda: None)
    for stage in STAGES:
        before, note = folder / f"before-{stage}", folder / f"events-{stage}"
        shutil.copytree(whole, before)
        assert in_a_process(partial(counted, whole, stage, note))
        events = int(note.read_text())
        for moment in sorted({max(1, events * part // 4) for part in (1, 2, 3, 4)}):
            place = folder / f"{stage}-{moment}"
            shutil.copytree(before, place)
            for event in (moment, 0):
                ended = in_a_process(partial(do, place, stage, killed_at(event)))
                checkpoints = len(list(place.glob("**/checkpoints/step-????????")))
                print(json.dumps([place.name, ended, checkpoints]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
