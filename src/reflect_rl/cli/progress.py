"""Progress bars of a run, one per job at work; where the output is no terminal, one line per finished job."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reflect_rl.pipeline.jobs import Job

__all__ = ["Bars"]


class Bars:
    """Shows the jobs that are at work."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("{task.description}", justify="left"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def started(self, job: Job) -> None:
        """A new bar."""
        self.tasks[job.title] = self.progress.add_task(job.title, total=None, note="")

    def advanced(self, title: str, done: int, total: int, note: str) -> None:
        """The bar moves."""
        if title in self.tasks:
            self.progress.update(self.tasks[title], completed=done, total=total, note=note)

    def finished(self, job: Job, seconds: float) -> None:
        """The bar becomes a line."""
        self.progress.remove_task(self.tasks.pop(job.title))
        self.progress.console.print(f"done  {job.title}  ({seconds:.1f} s)", highlight=False)
