"""A task set of six files and three questions, small enough to be played by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.repositories.snapshot import Snapshot

FILES = {
    "core/engine.py": '"""Starts a motor and keeps it warm."""\n\ndef start(): ...\n',
    "core/gears.py": '"""Shifts between cogs while the motor turns."""\n\ndef shift(): ...\n',
    "net/limits.py": '"""Refuses callers that come too often."""\n\nclass Refusal: ...\n',
    "net/sockets.py": '"""Parsing rate limits of remote callers."""\n\ndef parse(): ...\n',
    "net/deep/proxies.py": '"""Forwards traffic through another machine."""\n\ndef forward(): ...\n',
    "setup.py": "print('nothing to see')\n",
}
NAME = "small"
LIMITS = Question("small/0", "Parsing rate limits of remote callers", NAME, NAME, ("net/sockets.py",), "symdoc")
SENTENCE = {"core/gears.py": ((3, 44),)}
MOTOR = Question("small/1", "Cogs of the motor", NAME, NAME, ("core/gears.py",), "moddoc", spans=SENTENCE)
ENGINE = Question("small/2", "A warm engine starts", NAME, NAME, ("core/engine.py",), "moddoc", leak="name")


def save_small_task_set(folder: Path, split: str = "test") -> Path:
    """All questions in one split; the folder."""
    questions = [replace(question, split=split) for question in (LIMITS, MOTOR, ENGINE)]
    TaskSet.save(folder, questions, [Snapshot(NAME, FILES)], {})
    return folder
