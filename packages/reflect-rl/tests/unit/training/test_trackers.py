"""The trackers themselves, each in a process of its own and without a network; skipped where one is not installed.

What a tracker keeps is read back from its files: the same names and steps as in `metrics.jsonl`, in all of them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from reflect_rl.training.metrics import PROJECT

NAME = "taxi/starts-4/seed-0/rlft/reflect_rl"
SCRIPT = """
import sys, warnings
from pathlib import Path
from reflect_rl.training.metrics import MetricsLog, TrackerWarning

warnings.simplefilter("error", TrackerWarning)
tracker, home, first, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
log = MetricsLog(home / "rlft" / "m", (tracker,), name=sys.argv[5], config={"seeds": [0]}, home=home)
if first:
    path = home / "rlft" / "m" / "metrics.jsonl"
    kept = b"".join(path.read_bytes().splitlines(keepends=True)[:first])
    import hashlib
    log.keep_until(first - 1, (len(kept), hashlib.sha256(kept).hexdigest()))
for update in range(first, last):
    log.append({"update": update, "turns": 10 * update, "stage": "near", "rollout/success_rate": update / 4}, "update")
log.close()
"""


def train(tracker: str, home: Path, first: int, last: int) -> None:
    """A training that logs the updates from `first` on, before `last`."""
    if find_spec(tracker) is None:
        pytest.skip(f"{tracker} is not installed; it is not tried here")
    # No tracker of this test may send anything, nor find settings of the user.
    settings = {"WANDB_MODE": "offline", "HF_HUB_OFFLINE": "1", "HOME": str(home), "PATH": os.environ["PATH"]}
    words = [sys.executable, "-c", SCRIPT, tracker, str(home), str(first), str(last), NAME]
    done = subprocess.run(words, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def expected(last: int) -> dict[int, dict[str, float]]:
    return {update: {"turns": 10 * update, "rollout/success_rate": update / 4} for update in range(last)}


def wandb_rows(home: Path) -> dict[int, dict[str, float]]:
    """What `wandb sync` would send, of all starts; names that begin with _ are the client's own."""
    from wandb.proto import wandb_internal_pb2

    found = {}
    for path in sorted(home.glob("wandb/offline-run-*/*.wandb")):
        for data in _records(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "history":
                items = {(item.key or "/".join(item.nested_key)): json.loads(item.value_json)
                         for item in record.history.item}  # fmt: skip
                found[int(items["_step"])] = {key: value for key, value in items.items() if key[0] != "_"}
    return found


def _records(data: bytes) -> Iterator[bytes]:
    """Records of a file in LevelDB's log format after a header of seven bytes; blocks of 32 KiB may split one."""
    at, part = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part, at = part + data[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield part
            part = b""


def trackio_rows(home: Path) -> dict[int, dict[str, float]]:
    with sqlite3.connect(home / "trackio" / f"{PROJECT}.db") as database:
        rows = database.execute("SELECT step, metrics FROM metrics WHERE run_name = ?", (NAME,)).fetchall()
    return {step: json.loads(values) for step, values in rows}


def tensorboard_rows(home: Path) -> dict[int, dict[str, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(home / "rlft" / "m" / "tensorboard"))
    events.Reload()
    found: dict[int, dict[str, float]] = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            found.setdefault(event.step, {})[tag] = event.value
    return found


READERS = {"tensorboard": tensorboard_rows, "wandb": wandb_rows, "trackio": trackio_rows}


@pytest.mark.parametrize("tracker", READERS)
def test_a_tracker_has_the_names_and_steps_of_the_file_also_after_an_interruption(tmp_path, tracker):
    train(tracker, tmp_path, 0, 3)
    assert READERS[tracker](tmp_path) == expected(3)
    # It goes on from the checkpoint of update 1.
    train(tracker, tmp_path, 2, 5)
    assert READERS[tracker](tmp_path) == expected(5)
    lines = (tmp_path / "rlft" / "m" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in lines] == list(range(5))
    # Nothing outside the run folder's own places.
    places = {"rlft", "wandb", "trackio"} - ({"wandb", "trackio"} - {tracker})
    kept = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert kept <= places
