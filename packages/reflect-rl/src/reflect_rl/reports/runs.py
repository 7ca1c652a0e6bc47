"""Reading run folders. Only the results are required; every other part may be missing or still be written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.methods import describe
from reflect_rl.evaluation.result import NO_ALGORITHM, ResultRow, read_rows
from reflect_rl.reports.lines import UNKNOWN_ALGORITHM, look_of
from reflect_rl.runs.card import CARD, RunCard, read_card

__all__ = ["Curve", "Run", "Unit", "read_curves", "read_lines", "read_run", "read_runs", "setting", "unfinished"]

STARTS = ("data", "demonstration_starts")


@dataclass(frozen=True, slots=True)
class Unit:
    """Repetition inside a run: a number of demonstration starts and a seed."""

    folder: Path
    demonstration_starts: int
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """Run folder: its card, its configuration and its results."""

    folder: Path
    card: RunCard | None
    """`run.json`; None if there is none."""
    config: Mapping[str, object]
    """`config.json`; empty if there is none."""
    results: tuple[ResultRow, ...]

    def algorithm(self, method: str) -> str:
        """The RL algorithm that trained a method of this run; `none` for one without online training."""
        # A row says what was evaluated, the configuration only what was asked for: it counts where there is no row yet.
        named = (row.algorithm for row in self.results if row.method == method)
        return next(named, None) or _configured_algorithm(method, self.config)

    @property
    def label_source(self) -> str:
        """Source of the labels of the demonstrations: `clean` or `paper`."""
        configured = setting(self.config, "data", "label_source")
        return str(configured or next((row.label_source for row in self.results), UNKNOWN_ALGORITHM))

    @property
    def units(self) -> list[Unit]:
        """The repetitions, fewest demonstration starts and lowest seed first."""
        found = []
        for folder in self.folder.glob("starts-*/seed-*"):
            # The pattern above also finds other names; and as text, `seed-10` would come before `seed-2`.
            match = re.fullmatch(r"starts-(\d+)/seed-(\d+)", folder.relative_to(self.folder).as_posix())
            if match and folder.is_dir():
                found.append(Unit(folder, int(match[1]), int(match[2])))
        return sorted(found, key=lambda unit: (unit.demonstration_starts, unit.seed))


@dataclass(frozen=True, slots=True)
class Curve:
    """The metrics of one training."""

    label_source: str
    demonstration_starts: int
    seed: int
    name: str
    """Method (RL) or model (SFT)."""
    algorithm: str
    """RL algorithm; `none` for SFT."""
    rows: tuple[Mapping[str, Any], ...]
    skipped_lines: int

    def series(self, x: str, y: str) -> list[tuple[float, float]]:
        """Points of the rows that carry both keys as numbers."""
        return [(float(r[x]), float(r[y])) for r in self.rows if _is_number(r.get(x)) and _is_number(r.get(y))]


def _is_number(value: object) -> bool:
    # In Python a bool is an int: `true` in a file would be drawn as 1.
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Each run folder once, in the order given.

    Raises:
        RunFolderError: no folder is named, or one is not a run folder with results.
    """
    if not folders:
        raise RunFolderError("no run folder given. Name at least one folder that `reflect-rl eval` has written.")
    # Resolved first: one folder under two names would count its episodes twice and narrow the intervals.
    return [read_run(folder) for folder in dict.fromkeys(Path(folder).resolve() for folder in folders)]


def read_run(folder: Path) -> Run:
    """Read a run folder; one that is not finished has the results it has so far, maybe none.

    Raises:
        RunFolderError: the folder is missing, is no run folder, or a file in it is corrupt.
    """
    if not folder.is_dir():
        raise RunFolderError(f"no run folder {str(folder)!r}. Name a folder that `reflect-rl run` has written.")
    config = _read_object(folder / "config.json")
    card = read_card(folder) if (folder / CARD).is_file() else None
    path, remedy = folder / "results.json", f"Run `reflect-rl eval {folder}` first."
    if path.is_file():
        return Run(folder, card, config, read_rows(path, remedy))
    # A run writes both files before its first job: a folder without them is none that is still running.
    if not config or card is None:
        raise RunFolderError(f"no results in {str(folder)!r}: {path.name} is missing. {remedy}")
    return Run(folder, card, config, ())


def unfinished(run: Run) -> list[str]:
    """Sentences on the results that the configuration asks for and that are missing, one for each method."""
    names, starts, seeds = (setting(run.config, *keys) for keys in (("methods",), STARTS, ("seeds",)))
    if not all(isinstance(values, list) and values for values in (names, starts, seeds)):
        return []
    present = {(row.method, row.demonstration_starts, row.seed) for row in run.results}
    units = [(budget, seed) for budget in starts for seed in seeds]
    missing = {name: [unit for unit in units if (name, *unit) not in present] for name in names}
    return [
        f"not evaluated yet: {look_of(name).title}"
        + ("" if len(units) == 1 else f" ({len(lacking)} of {len(units)} units)")
        + _progress(run, name)
        for name, lacking in missing.items()
        if lacking
    ]


def _progress(run: Run, name: str) -> str:
    """Progress of the online training of a method; empty where it has none, or has not begun."""
    total = setting(run.config, "rlft", "total_turns")
    turns = [row.get("turns") for curve in read_curves(run, "rlft") if curve.name == name for row in curve.rows[-1:]]
    known = [int(value) for value in turns if isinstance(value, (int, float))]
    # The seed that is furthest behind says when the method can be evaluated.
    return f"; online training is at {min(known):,} of {total:,} turns" if known and isinstance(total, int) else ""


def _configured_algorithm(method: str, config: Mapping[str, object]) -> str:
    """Algorithm that trained a method, by the run's configuration."""
    if not describe(method).online:
        return NO_ALGORITHM
    return str(setting(config, "rlft", "algorithm", "name") or UNKNOWN_ALGORITHM)


def setting(config: Mapping[str, object], *keys: str) -> Any:
    """A value inside nested objects; None where it, or an object on the way, is missing.

    >>> setting({"rlft": {"algorithm": {"name": "ppo"}}}, "rlft", "algorithm", "name")
    'ppo'
    """
    value: Any = config
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _read_object(path: Path) -> Mapping[str, object]:
    value = _read_json(path) if path.is_file() else {}
    if not isinstance(value, Mapping):
        raise RunFolderError(f"{path}: expected a JSON object. Restore the file or remove it.")
    return value


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"cannot read {path}: {error}. Restore the file or run `reflect-rl eval` again.") from None


def read_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Byte offset and object of each line of a JSONL file; None for a line that is no JSON object.

    A run that was killed leaves half a line, usually the last.
    """
    with path.open("rb") as lines:
        offset = 0
        for line in lines:
            # Empty lines are no episodes and no damage, but their bytes count for the offsets of later lines.
            if line.strip():
                yield offset, _object_or_none(line)
            offset += len(line)


def _object_or_none(line: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_curves(run: Run, stage: str) -> list[Curve]:
    """The metrics of every training of one stage (`sft` or `rlft`) that has any."""
    curves = []
    for unit in run.units:
        for path in sorted(unit.folder.glob(f"{stage}/*/metrics.jsonl")):
            values = [value for _, value in read_lines(path)]
            rows = tuple(value for value in values if value is not None)
            # A training that has just begun has an empty file.
            if rows:
                name, skipped = path.parent.name, len(values) - len(rows)
                algorithm = run.algorithm(name) if stage == "rlft" else NO_ALGORITHM
                curves.append(
                    Curve(run.label_source, unit.demonstration_starts, unit.seed, name, algorithm, rows, skipped)
                )
    return curves
