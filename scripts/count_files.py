"""Count the files that one turn of Dangerous Taxi crosses, from the command line to the page of the report.

    python scripts/count_files.py

The command `reflect-rl run` plays one task for one turn by the method `random` and writes the page. A file
counts when a function in it is called in this process; importing it does not count. Workers are threads here, so that
their calls are seen. Two numbers are printed: all files from the command to the page, and those that are entered while
the episode is played.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from reflect_rl.cli.main import main as command_line
from reflect_rl.evaluation import evaluate
from reflect_rl.runs import run

PACKAGES = (
    *("reflect_rl", "alfworld_native", "reflect_report", "reflect_served", "reflect_locate", "reflect_games"),
    "reflect_algorithms",
)
FLAGS = (
    *("--methods", "random", "--workers", "1", "--data.demonstration-starts", "1"),
    *("--environment.test-starts", "1", "--environment.validation-starts", "1", "--environment.modes", "pickup"),
    *("--evaluation.horizons", "1", "--evaluation.decodings", "sampled", "--evaluation.repetitions", "1"),
)


class Threads(ThreadPoolExecutor):
    """Threads in the place of worker processes."""

    def __init__(self, workers: int, mp_context: Any, initializer: Callable[..., None], initargs: Any) -> None:
        del mp_context
        super().__init__(workers, initializer=initializer, initargs=initargs)


def main() -> None:
    """Run the command once and print the counts."""
    everything, playing = set[str](), set[str]()
    play = evaluate.play

    def watched(*arguments: Any, **named: Any) -> Any:
        with traced(playing):
            return play(*arguments, **named)

    run.ProcessPoolExecutor = Threads  # type: ignore[misc,assignment]
    evaluate.play = watched
    config = Path(__file__).parents[1] / "configs" / "taxi" / "smoke.toml"
    with TemporaryDirectory() as folder, traced(everything):
        code = command_line(["run", str(config), "--output-dir", f"{folder}/run", *FLAGS])
    if code:
        sys.exit(code)
    everything |= playing
    for name in sorted(everything):
        print("turn" if name in playing else "    ", name)
    print(f"{len(everything)} files from the command to the page, {len(playing)} of them while the turn is played")


@contextmanager
def traced(found: set[str]) -> Iterator[None]:
    """Collect the files of our packages in which a function is called inside the block, in all new threads as well."""

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # The bodies of modules and classes are no functions: they run when a file is imported.
        if event != "call" or not code.co_flags & CO_OPTIMIZED or not code.co_filename.endswith(".py"):
            return
        parts = Path(code.co_filename).parts
        for package in PACKAGES:
            if package in parts:
                found.add("/".join(parts[parts.index(package) :]))

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


if __name__ == "__main__":
    main()
