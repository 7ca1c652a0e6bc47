"""The frozen benchmark: questions about the standard library, rebuilt from the running Python.

It needs no download. Two machines with the same build of Python have the same questions; `benchmark.json` knows the
identities of some.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources

from reflect_locate.questions.build import build
from reflect_locate.questions.config import TasksConfig
from reflect_locate.questions.task_set import Question

BENCHMARK = TasksConfig(test=("stdlib",))
"""Settings of the benchmark (`configs/autoexplore/tasks-stdlib.toml` says the same)."""


def known() -> dict[str, dict[str, str | int]]:
    """Python version -> identity of the snapshot and of the questions, and their number."""
    text = resources.files("reflect_locate.questions").joinpath("benchmark.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, str | int]] = json.loads(text)
    return table


def fingerprint() -> dict[str, str | int]:
    """The row of the running Python, built now.

    Raises:
        UserError: its standard library cannot be read.
    """
    built = build(BENCHMARK, lambda _: None)
    return {
        "snapshot": built.snapshots[0].identity,
        "questions": _identity(built.questions),
        "count": len(built.questions),
    }


def check() -> tuple[bool, str]:
    """Tell whether the benchmark of the running Python is the known one, and in a sentence for the user, why not."""
    version = platform.python_version()
    now, row = fingerprint(), known().get(version)
    told = f"benchmark of Python {version}: {now['count']} questions"
    if row is None:
        return False, f"{told}; no identity of this version is known. Its row would be:\n{json.dumps({version: now})}"
    if row == now:
        return True, f"{told}, the known ones."
    # The snapshot is compared first: other files explain other questions, and not the reverse.
    if row["snapshot"] != now["snapshot"]:
        return False, f"{told}; its files are not those of the known one, so figures of the two cannot be compared."
    reason = "this version of the program makes other questions or labels, so figures of the two cannot be compared."
    return False, f"{told}, not the known ones, although the files are: {reason}"


def _identity(questions: Sequence[Question]) -> str:
    """SHA-256 of the questions with all their labels."""
    # Sorted keys, so that the order of a dataclass's fields does not change the identity.
    return hashlib.sha256(json.dumps([asdict(q) for q in questions], sort_keys=True).encode()).hexdigest()
