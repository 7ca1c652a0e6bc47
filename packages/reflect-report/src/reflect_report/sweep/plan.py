"""The runs of a sweep: a cell for each combination, and what several cells have in common.

A cell is a run folder of its own, evaluated on the validation split. Data and supervised models are made in shared run
folders, of which each cell takes what it needs (`start_from`). Cells with equal settings of data and supervised
training have one shared folder, with all their seeds and budgets. A shared folder takes finished jobs from the earlier
ones whose data are the same, so that nothing is made twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

from reflect_report.sweep.axes import Values, name_of, setting_of
from reflect_rl.cli.arguments import fields_of, flag_of, parse_arguments, scan
from reflect_rl.errors import ConfigError, RunFolderError, UnknownNameError, suggestion
from reflect_rl.evaluation.methods import REFERENCE
from reflect_rl.store import read_json, write_json

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

NOTE = "sweep.json"
"""File of a sweep's folder that says what is varied."""
CELLS, SHARED, TESTS = "cells", "shared", "test"
"""Folders of a sweep: its cells, what they share, and evaluations on the configuration's own split."""
FIXED = ("output_dir", "workers", "start_from", "trackers", "limits", "evaluation.split")
"""Fields, or groups of them, that change no result or that a sweep sets itself."""


@dataclass(frozen=True)
class Cell:
    """A run of a sweep."""

    values: Values
    config: RunConfig

    @property
    def name(self) -> str:
        """Name of its folder."""
        return name_of(self.values)

    @property
    def setting(self) -> Values:
        """Its values without the seed."""
        return setting_of(self.values)

    @property
    def learns(self) -> bool:
        """True where one of its methods has a model, so that there are data and trainings to share."""
        return any(self.config.method(name).model for name in self.config.methods)


@dataclass(frozen=True)
class Work:
    """A run folder to work in, and the jobs to do there."""

    name: str
    config: RunConfig
    kinds: tuple[str, ...]
    """Stages whose jobs are done."""
    sources: tuple[Path, ...] = ()
    """Run folders that finished jobs are taken from, in this order."""
    evaluates: bool = False
    """True where players of the source are evaluated, on whatever split."""
    after: tuple[str, ...] = ()
    """Names of works that end before it begins, well or not."""


def make_cell(words: Sequence[str], values: Values, sweep: Path, lists: Collection[str]) -> Cell:
    """The cell of a combination.

    Args:
        words: the configuration file or run folder of the sweep and its flags.
        values: of the varied fields.
        sweep: folder of the sweep.
        lists: fields that hold lists, whose entries are joined by plus signs.

    Raises:
        ConfigError: a field or value is refused, by the same sentence as in `run`.
        UnknownNameError: a named part does not exist.
    """
    from reflect_rl.runs.check import settle_precision

    # Flags decide which other flags exist (`rlft.algorithm.name`), so each cell is read as a command of its own.
    flags = [
        word for field, value in values for word in (flag_of(field), *(value.split("+") if field in lists else [value]))
    ]
    folder = sweep / CELLS / name_of(values)
    call = parse_arguments("run", [*words, *flags, "--output-dir", str(folder)])
    if call.dry_run:
        raise ConfigError("`reflect-rl sweep` has no --dry-run. Use it with `reflect-rl run` on the same file.")
    config = call.config
    # One format for all cells, also for those that are added on another day.
    config, _ = settle_precision(config, [*sorted(sweep.glob("*/*")), config.start_from])
    return Cell(values, config.model_copy(update={"workers": 1}))


def list_fields(config: RunConfig) -> frozenset[str]:
    """Fields of a configuration that hold lists."""
    fields = fields_of(type(config))
    return frozenset(name for name, field in fields if get_origin(field.annotation) is tuple)


def refuse_fields(fields: Sequence[str], words: Sequence[str]) -> None:
    """Refuse to vary what cannot be varied.

    Raises:
        ConfigError: a field changes no result, is set by the sweep, or is set by a flag as well.
    """
    _, flags, _ = scan(words)
    given = {flag.spelling.lstrip("-").replace("-", "_") for flag in flags}
    for field in fields:
        if field in FIXED or field.partition(".")[0] in FIXED:
            reason = "a sweep selects on the validation split" if field == "evaluation.split" else "no result follows"
            raise ConfigError(f"--over {field}: it cannot be varied, since {reason}{' from it' * ('no' in reason)}.")
        if field in given:
            raise ConfigError(f"{field} is varied by --over and set by {flag_of(field)}. Leave one of them out.")


def make_cells(words: Sequence[str], combinations: Iterable[Values], sweep: Path, lists: Collection[str]) -> list[Cell]:
    """The cells of a grid, all of them checked before anything begins.

    Raises:
        ConfigError: a cell is refused, or two are the same run.
        UnknownNameError: a named part does not exist.
    """
    from reflect_rl.runs.check import check, feasible

    cells = []
    seen: dict[str, str] = {}
    for values in combinations:
        cell = make_cell(words, values, sweep, lists)
        config, _ = feasible(cell.config)
        check(config)
        cells.append(Cell(values, config))
        text = config.model_copy(update={"output_dir": sweep}).model_dump_json()
        # `1e-4` and `0.0001` would be trained twice and count as two settings.
        if (other := seen.setdefault(text, cell.name)) != cell.name:
            raise ConfigError(f"--over: the cells {other!r} and {cell.name!r} are the same run. Leave one out.")
    return cells


def shared_works(cells: Sequence[Cell], sweep: Path) -> tuple[list[Work], dict[str, str]]:
    """The shared folders of some cells, and the name of the one that each cell takes from."""
    from reflect_rl.runs.stages import taken_stages

    kinds = taken_stages()
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if cell.learns:
            groups.setdefault(_keys(cell.config), []).append(cell)
    works: list[Work] = []
    names: dict[str, str] = {}
    for (data, trained), group in groups.items():
        config = _united([cell.config for cell in group])
        name = f"{SHARED}/{data}-{trained}"
        earlier = [work for work in works if work.name.startswith(f"{SHARED}/{data}-")]
        first = () if config.start_from is None else (config.start_from,)
        works.append(
            Work(
                name,
                config.model_copy(update={"output_dir": sweep / name, "start_from": None}),
                kinds,
                (*first, *(work.config.output_dir for work in earlier)),
                after=tuple(work.name for work in earlier),
            )
        )
        names |= {cell.name: name for cell in group}
    return works, names


def _keys(config: RunConfig) -> tuple[str, str]:
    """Hashes of the settings that the data follow from, and of those that supervised training follows from besides."""
    from reflect_rl.runs.start import SETTINGS, UNTRAINED, bound

    resolved = json.loads(config.model_dump_json())
    parts = {key: bound(resolved[key], key) for key in SETTINGS}
    # Each budget and seed is a unit of its own, and one folder holds those of all cells.
    del parts["data"]["demonstration_starts"]
    modes = sorted(config.evaluated_modes) if config.data.exclude_held_out_states else []
    sft = {name: {k: v for k, v in part.items() if k not in UNTRAINED} for name, part in resolved["sft"].items()}
    return _hash([parts, modes]), _hash([sft, sorted(config.methods)])


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def _united(configs: Sequence[RunConfig]) -> RunConfig:
    """The first configuration with the seeds and budgets of all."""
    seeds = dict.fromkeys(seed for config in configs for seed in config.seeds)
    budgets = dict.fromkeys(budget for config in configs for budget in config.data.demonstration_starts)
    data = configs[0].data.model_copy(update={"demonstration_starts": tuple(budgets)})
    return configs[0].model_copy(update={"seeds": tuple(seeds), "data": data})


def cell_work(cell: Cell, shared: str, sweep: Path) -> Work:
    """The work of a cell.

    Args:
        cell: the cell.
        shared: name of its shared folder (empty: it has none).
        sweep: folder of the sweep.
    """
    # Only validation is looked at before a setting is selected; the configuration's own split comes after it.
    evaluation = cell.config.evaluation.model_copy(update={"split": "validation"})
    config = cell.config.model_copy(update={"evaluation": evaluation, "start_from": None})
    # As in `run`: without a player that learns, demonstrations would be made for nobody.
    kinds = _all_stages() if cell.learns else ("eval",)
    # The cell tries itself what the shared folder could not make, and then fails by its own name.
    sources, after = ((sweep / shared,), (shared,)) if shared else ((), ())
    return Work(f"{CELLS}/{cell.name}", config, kinds, sources, after=after)


def _all_stages() -> tuple[str, ...]:
    from reflect_rl.runs.stages import stages

    return tuple(stages())


def test_work(cell: Cell, sweep: Path) -> Work:
    """The evaluation of a finished cell on the configuration's own split."""
    name = f"{TESTS}/{cell.name}"
    config = cell.config.model_copy(update={"output_dir": sweep / name, "start_from": None})
    return Work(name, config, ("eval",), (cell.config.output_dir,), evaluates=True)


def is_done(work: Work) -> bool:
    """True if all jobs of a work were finished."""
    from reflect_rl.runs.stages import plan

    return all(job.done for job in plan(work.config) if job.kind in work.kinds)


def score_method(config: RunConfig, chosen: str) -> str:
    """The method whose validation success selects.

    Args:
        config: of a cell.
        chosen: by the user (empty: the one that this project is about, or the last with a model).

    Raises:
        UnknownNameError: the cells do not have it.
    """
    if chosen and chosen not in config.methods:
        raise UnknownNameError(f"--method {chosen!r} is no method of the cells. {suggestion(chosen, config.methods)}")
    if chosen:
        return chosen
    learning = [name for name in config.methods if config.method(name).model]
    return REFERENCE if REFERENCE in config.methods else (learning or list(config.methods))[-1]


def open_sweep(sweep: Path, command: str, base: RunConfig, facts: dict[str, Any]) -> None:
    """Write what a sweep is, or check that the one in this folder is the same.

    Args:
        sweep: its folder.
        command: that begins it.
        base: the configuration without the varied values.
        facts: what is varied, and how.

    Raises:
        RunFolderError: the folder holds something else.
    """
    from reflect_rl.runs.start import bound, differences

    settings = json.loads(base.model_dump_json())
    # Settings of the sweep itself, and those that a cell may change on its way, tell no two sweeps apart.
    values = {"facts": facts, "base": bound(settings)}
    path, remedy = sweep / NOTE, "Choose another --output-dir, or delete the folder."
    if (sweep / "config.json").exists():
        raise RunFolderError(f"{sweep} is a run folder. {remedy}")
    if not path.exists():
        write_json(path, {"schema_version": 1, "command": command, **values})
        return
    before = read_json(path, remedy)
    now = json.loads(json.dumps(values))
    varied = [_over(one.get("facts")) for one in (before, now)]
    changed = sorted(differences({key: before.get(key) for key in values}, now))
    if varied[0] != varied[1]:
        raise RunFolderError(f"{sweep} holds a sweep of {varied[0]}, and this one is of {varied[1]}. {remedy}")
    if changed:
        raise RunFolderError(f"{sweep} holds a sweep with other settings: {'; '.join(changed[:3])}. {remedy}")


SHOWN_VALUES = 4
"""Values of a varied setting that a message lists."""


def _over(facts: Any) -> str:
    """The varied settings as a command gives them, shortened."""
    axes = facts.get("over", {}) if isinstance(facts, dict) else {}
    shown = {
        field: ",".join([*map(str, values[:SHOWN_VALUES]), *(["..."] if len(values) > SHOWN_VALUES else [])])
        for field, values in axes.items()
    }
    # A command varies `seed`, and the configuration has a list of them.
    called = {"seed" if field == "seeds" else field: values for field, values in shown.items()}
    return " ".join(f"--over {field}={values}" for field, values in called.items()) or "nothing"


def other_games(fields: Sequence[str]) -> Iterator[str]:
    """Varied fields that change what is played, so that success cannot be compared."""
    yield from (field for field in fields if field.startswith(("environment.", "evaluation.")))
