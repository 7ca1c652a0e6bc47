"""Conduct of a sweep: which works are begun when, what became of each, and the table at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from reflect_report.runs import evaluated
from reflect_report.sweep.axes import SEEDS, Axis, Span, Values, combinations
from reflect_report.sweep.page import write_page
from reflect_report.sweep.plan import (
    Cell,
    Work,
    cell_work,
    is_done,
    list_fields,
    make_cells,
    other_games,
    score_method,
    shared_works,
    test_work,
)
from reflect_report.sweep.results import (
    CellRow,
    Condition,
    Score,
    SweepTable,
    condition_of,
    tabulate,
    terminal_sweep,
    write_table,
)
from reflect_report.sweep.search import Trial, draw, gives_up, read_trials, reports_of, write_trials
from reflect_report.sweep.settings import SweepOptions
from reflect_report.sweep.work import STOPPED, Crew, Ended, do_all
from reflect_report.tables import terminal_text
from reflect_rl.errors import ReflectRLError, UserError
from reflect_rl.runs.config import RunConfig

POLL = 1.0
"""Longest time between two looks at the cells of a search, in seconds."""


@dataclass
class Sweep:
    """A sweep at work: its cells, and what has become of them."""

    words: tuple[str, ...]
    """The configuration file or run folder, and the flags of the run."""
    base: RunConfig
    options: SweepOptions
    axes: tuple[Axis | Span, ...]
    folder: Path
    command: str
    console: Console
    cells: dict[str, Cell] = field(default_factory=dict)
    """Cells by name, in the order of the table."""
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons by name of cell."""

    def tell(self, text: str) -> None:
        """Print a line; values and reasons may come from files of others."""
        self.console.print(terminal_text(text))

    def add(self, values: Iterable[Values]) -> list[Cell]:
        """Make cells, and check them.

        Raises:
            UserError: one of them cannot be run.
        """
        made = make_cells(self.words, values, self.folder, list_fields(self.base))
        for cell in made:
            score_method(cell.config, self.options.selecting)
        self.cells |= {cell.name: cell for cell in made}
        return made

    @property
    def method(self) -> str:
        """The method that counts."""
        first = next(iter(self.cells.values()), None)
        return score_method(self.base if first is None else first.config, self.options.selecting)

    def conduct(self) -> SweepTable:
        """Run all cells, test the selected ones, and write the table and the page.

        Raises:
            ReflectRLError: cells failed; all others are done, and the table is written.
        """
        with Crew(self.options.jobs, self.command) as crew:
            if self.options.search:
                Search(self, crew).run()
            else:
                self._run_grid(crew)
            self._test(crew)
        table = self.write()
        broken = {name: reason for name, reason in self.failed.items() if reason != STOPPED}
        if broken:
            name, reason = next(iter(broken.items()))
            raise ReflectRLError(
                f"{len(broken)} of {len(self.cells)} cells failed, first {name}: {reason} The same command tries again."
            )
        return table

    def _run_grid(self, crew: Crew) -> None:
        cells = list(self.cells.values())
        shared, names = shared_works(cells, self.folder)
        works = [cell_work(cell, names.get(cell.name, ""), self.folder) for cell in cells]
        left = [work for work in works if not is_done(work)]
        self.tell(f"{len(works)} cells, {len(works) - len(left)} of them done, in {self.folder}")
        # Where all cells of a shared folder are done, it is not needed, and may have been deleted.
        needed = {name for work in left for name in work.after}
        do_all(crew, [*(work for work in shared if work.name in needed), *left], self.begun, self.ended)

    def _test(self, crew: Crew) -> None:
        split, chosen = self.base.evaluation.split, self.options.test
        # The same numbers a second time would look like a second measurement.
        if chosen == "none" or split == "validation":
            return
        best = self.table().selected
        rows = {row.name: row for row in self.table().settings}
        works = []
        for cell in self.cells.values():
            is_best = best is not None and dict(cell.setting) == rows[best].values
            if (chosen == "all" or is_best) and is_done(cell_work(cell, "", self.folder)):
                works.append(test_work(cell, self.folder))
        do_all(crew, [work for work in works if not is_done(work)], self.begun, self.ended)

    def begun(self, work: Work) -> None:
        """Tell that a work has begun."""
        self.tell(f"begun   {work.name}")

    def ended(self, end: Ended) -> None:
        """Tell and note how a work has ended."""
        kind, _, name = end.work.name.partition("/")
        if not end.reason:
            self.tell(f"done    {end.work.name}  ({end.seconds:.1f} s)")
        elif end.reason == STOPPED:
            self.tell(f"stopped {end.work.name}: others were better at this point")
            self.failed[name] = STOPPED
        else:
            self.tell(f"failed  {end.work.name}: {end.reason}")
            # Each cell tries itself what a shared folder lacks; so its failure is not the last word.
            if kind != "shared":
                self.failed[name] = end.reason

    def table(self) -> SweepTable:
        """The table of what is done."""
        rows = [(cell, evaluated(cell.config.output_dir), evaluated(self.folder / "test" / cell.name))
                for cell in self.cells.values()]  # fmt: skip
        condition = condition_of([row for _, found, _ in rows for row in found], self.method, self.options.mode)
        cells = [self._row(cell, found, tested, condition) for cell, found, tested in rows]
        settings = {cell.name: cell.setting for cell in self.cells.values()}
        obstacles = [*other_games([axis.field for axis in self.axes])]
        return tabulate(cells, settings, condition, self.base.evaluation.split, obstacles)

    def _row(self, cell: Cell, found: Sequence, tested: Sequence, condition: Condition) -> CellRow:
        validation = [row for row in found if condition.matches(row)]
        test = [row for row in tested if condition.matches(row)]
        reason = self.failed.get(cell.name, "")
        is_whole = is_done(cell_work(cell, "", self.folder))
        state = "done" if is_whole else "stopped" if reason == STOPPED else "failed" if reason else "waiting"
        return CellRow(
            name=cell.name,
            values=dict(cell.values),
            state=state,
            reason=reason,
            validation=Score.of(validation) if validation else None,
            test=Score.of(test) if test else None,
        )

    def write(self) -> SweepTable:
        """Write the table and the page of what is done, and print the table."""
        table = self.table()
        write_table(self.folder, table)
        page = write_page(self.folder, table, self.command)
        self.console.print(terminal_sweep(table))
        self.tell(table.sentence)
        self.tell(f"page: {page}")
        return table


class Search:
    """Draws settings, runs their cells, and gives up those that fall behind.

    Args:
        sweep: the sweep.
        crew: who does the works.
    """

    def __init__(self, sweep: Sweep, crew: Crew) -> None:
        self.sweep, self.crew = sweep, crew
        self.axes = [axis for axis in sweep.axes if axis.field != SEEDS]
        self.seeds = [axis for axis in sweep.axes if isinstance(axis, Axis) and axis.field == SEEDS]
        self.trials = read_trials(sweep.folder)
        self.cells: dict[int, list[Cell]] = {}
        self.queue: list[Work] = []
        self.unfinished: set[str] = set()
        self.known: set[str] = set()
        self.is_empty = False
        """True if no new values could be drawn."""

    def run(self) -> None:
        """Run until all trials have ended."""
        for trial in self.trials:
            # An interrupted trial goes on with its own values; a failed one is tried again.
            self._enter(trial)
        while self.queue or self.crew.busy or self._may_draw():
            while self.crew.free and self._next():
                pass
            for end in self.crew.ended(POLL):
                self.unfinished.discard(end.work.name)
                self.sweep.ended(end)
            self._look()
        write_trials(self.sweep.folder, self.trials)

    def _may_draw(self) -> bool:
        return len(self.trials) < self.sweep.options.search and not self.is_empty

    def _next(self) -> bool:
        """Begin a work if one is ready; draw a trial if none is left."""
        for work in self.queue:
            if not self.unfinished.intersection(work.after):
                self.queue.remove(work)
                self.sweep.begun(work)
                self.crew.begin(work)
                return True
        # A new trial before the last one has all its cells at work would know less than it could.
        return not self.queue and self._may_draw() and self._draw()

    def _draw(self) -> bool:
        values = draw(self.axes, self.trials, self.sweep.base.seeds[0])
        if values is None:
            self.is_empty = True
            self.sweep.tell(f"no new values were found after {len(self.trials)} settings")
            return False
        trial = Trial(number=len(self.trials), values=dict(values))
        self.trials.append(trial)
        # Before its cells begin, so that a kill finds the trial again.
        write_trials(self.sweep.folder, self.trials)
        self._enter(trial)
        return True

    def _enter(self, trial: Trial) -> None:
        """Put the cells of a trial into the queue, and what they share before them."""
        own = tuple((axis.field, trial.values[axis.field]) for axis in self.axes)
        try:
            cells = self.sweep.add((*own, *repetition) for repetition in combinations(self.seeds))
        except UserError as error:
            # A combination of drawn values may break a rule between two settings.
            self._note(trial.model_copy(update={"state": "failed", "reason": str(error)}))
            self.sweep.tell(f"failed  trial {trial.number}: {error}")
            return
        self.cells[trial.number] = cells
        if trial.state == "stopped":
            self.sweep.failed |= dict.fromkeys((cell.name for cell in cells), STOPPED)
            return
        if trial.state == "failed":
            self._note(trial.model_copy(update={"state": "running", "reason": ""}))
        shared, names = shared_works([cell for found in self.cells.values() for cell in found], self.sweep.folder)
        works = [cell_work(cell, names.get(cell.name, ""), self.sweep.folder) for cell in cells]
        left = [work for work in works if not is_done(work)]
        needed = {name for work in left for name in work.after} - self.known
        fresh = [*(work for work in shared if work.name in needed), *left]
        self.known |= {work.name for work in fresh}
        self.unfinished |= {work.name for work in fresh}
        self.queue += fresh

    def _note(self, trial: Trial) -> None:
        self.trials[trial.number] = trial

    def _look(self) -> None:
        """Bring the trials up to date, and stop those that fall behind."""
        changed = False
        for trial in [trial for trial in self.trials if trial.state == "running"]:
            new = self._looked_at(trial)
            if new != trial:
                self._note(new)
                changed = True
        if changed:
            write_trials(self.sweep.folder, self.trials)

    def _looked_at(self, trial: Trial) -> Trial:
        cells = self.cells[trial.number]
        reports = reports_of(cells[0].config.output_dir, self.sweep.method)
        trial = trial.model_copy(update={"reports": reports})
        works = {f"cells/{cell.name}" for cell in cells}
        reasons = [reason for cell in cells if (reason := self.sweep.failed.get(cell.name))]
        if not works & self.unfinished:
            if reasons:
                return trial.model_copy(update={"state": "failed", "reason": reasons[0]})
            return trial.model_copy(update={"state": "done", "success": self._success(cells)})
        if len(reports) > len(self.trials[trial.number].reports) and gives_up(self.axes, self.trials, trial):
            self._stop(works)
            return trial.model_copy(update={"state": "stopped"})
        return trial

    def _stop(self, works: set[str]) -> None:
        self.queue = [work for work in self.queue if work.name not in works]
        self.unfinished -= works
        self.sweep.failed |= dict.fromkeys((name.partition("/")[2] for name in works), STOPPED)
        for name in works:
            self.crew.stop(name)

    def _success(self, cells: Sequence[Cell]) -> float:
        """Validation success of a trial over its seeds."""
        rows = [row for cell in cells for row in evaluated(cell.config.output_dir)]
        condition = condition_of(rows, self.sweep.method, self.sweep.options.mode)
        return Score.of([row for row in rows if condition.matches(row)]).success_rate
