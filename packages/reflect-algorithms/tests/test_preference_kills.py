"""SIGKILL in the middle of `pairs`, `reward` and `learn` of DPO: the same command then ends as if nothing had been."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLOCKS = ("time/", "memory/")
STAGES = {"pairs": "pairs", "reward": "reward", "learn": "learn/dpo"}
"""Stage -> folder of the job that is killed."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    script = Path(__file__).parent / "killed_preferences.py"
    # A process that is killed leaves the file of its watchdog in the folder for temporary files.
    variables = os.environ | {"TMPDIR": str(folder)}
    command = [sys.executable, script, folder]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, env=variables)
    assert done.returncode == 0, done.stderr
    (folder / "starts.jsonl").write_text(done.stdout)
    return folder


def made(folder: Path) -> dict[str, object]:
    """Content of all files of a job, without times and memory."""
    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.name == "metrics.jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [{k: v for k, v in row.items() if not k.startswith(CLOCKS)} for row in rows]
        # The mark holds the checksum of the metrics with their clocks.
        elif path.name != "done":
            found[name] = path.read_bytes()
    return found


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_stage_goes_on_to_the_same_files(killed: Path, stage: str):
    starts = [json.loads(line) for line in (killed / "starts.jsonl").read_text().splitlines()]
    own = [start for start in starts if start[0].startswith(f"{stage}-")]
    # Each of four places was killed once, and then came to its end.
    assert [ended for _, ended, _ in own] == [False, True] * 4
    places = sorted({name for name, _, _ in own})
    assert len(places) == 4
    # Some kills find a checkpoint, so the second start goes on and does not begin anew; the end leaves none.
    assert (max(checkpoints for *_, checkpoints in own) > 0) == (stage != "pairs")
    assert {checkpoints for _, ended, checkpoints in own if ended} == {0}
    unit = Path("starts-4") / "seed-0" / STAGES[stage]
    wanted = made(killed / "whole" / unit)
    assert len(wanted) >= 2
    for name in places:
        assert (killed / name / unit / "done").is_file()
        assert made(killed / name / unit) == wanted
