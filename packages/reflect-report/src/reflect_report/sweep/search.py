"""Search with Optuna: values that are drawn from the results so far, and cells that are given up early.

What is drawn is a pure function of the trials so far and of the number of the trial, so an interrupted search goes on
as if nothing had happened. With several jobs it also depends on which cells ended first.

Differs from Optuna's own loop: (1) the sampler is made anew for each trial with a seed of its own, because a resumed
one would repeat its first draws; (2) numbers are rounded to four digits, because they name folders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from reflect_report.runs import read_lines
from reflect_report.sweep.axes import Axis, Span, Values
from reflect_rl.config import Frozen
from reflect_rl.errors import RunFolderError, UserError
from reflect_rl.store import read_json, write_json
from reflect_rl.types import seed_for

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

TRIALS = "trials.json"
ATTEMPTS = 50
"""Draws after which a search says that there are no new values."""
PATIENCE = 4
"""Finished trials before which none is given up: a median of fewer says little."""


class Trial(Frozen):
    """Values that were drawn, and what became of them."""

    number: int
    values: dict[str, str]
    state: Literal["running", "done", "failed", "stopped"] = "running"
    success: float | None = None
    """Validation success over all seeds."""
    reports: tuple[float, ...] = ()
    """Validation success of the first seed during online training, in its order."""
    reason: str = ""


def require_optuna() -> None:
    """Refuse a search where Optuna is not installed.

    Raises:
        UserError: it is not.
    """
    from importlib.util import find_spec

    if find_spec("optuna") is None:
        raise UserError("--search needs the package optuna: pip install 'reflect-report[search]'.")


def draw(axes: Sequence[Axis | Span], past: Sequence[Trial], seed: int) -> Values | None:
    """The values of the next trial; None where no new ones were found.

    Args:
        axes: what is varied, without the seeds.
        past: all trials so far, running ones among them.
        seed: of the search.
    """
    import optuna

    known = [trial.values for trial in past]
    for attempt in range(ATTEMPTS):
        number = seed_for(seed, "sweep", len(past), attempt) % 2**32
        # Running trials count as bad ones, so that two that are drawn at the same time lie apart.
        sampler = optuna.samplers.TPESampler(seed=number, constant_liar=True, n_startup_trials=min(10, 4 * len(axes)))
        params = _study(axes, past, sampler).ask(_distributions(axes)).params
        values = tuple((axis.field, _word(axis, params[axis.field])) for axis in axes)
        if dict(values) not in known:
            return values
    return None


def gives_up(axes: Sequence[Axis | Span], past: Sequence[Trial], trial: Trial) -> bool:
    """Tell whether a trial falls behind the median of the finished ones at the same measurement.

    Args:
        axes: what is varied, without the seeds.
        past: all trials so far.
        trial: the running one, with its reports.
    """
    import optuna

    pruner = optuna.pruners.MedianPruner(n_startup_trials=PATIENCE)
    study = _study(axes, [other for other in past if other.number != trial.number])
    return bool(trial.reports) and pruner.prune(study, _frozen(axes, trial))


def _study(axes: Sequence[Axis | Span], past: Sequence[Trial], sampler: Any = None) -> Study:
    import optuna

    # It tells each trial on the terminal otherwise, as if it were its own program.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.add_trials(_frozen(axes, trial) for trial in past if trial.state != "failed")
    return study


def _frozen(axes: Sequence[Axis | Span], trial: Trial) -> FrozenTrial:
    from optuna.trial import TrialState, create_trial

    states = {"running": TrialState.RUNNING, "done": TrialState.COMPLETE, "stopped": TrialState.PRUNED}
    return create_trial(
        state=states[trial.state],
        value=trial.success if trial.state == "done" else None,
        params={axis.field: _param(axis, trial.values[axis.field]) for axis in axes},
        distributions=_distributions(axes),
        intermediate_values=dict(enumerate(trial.reports)),
    )


def _distributions(axes: Sequence[Axis | Span]) -> dict[str, BaseDistribution]:
    return {axis.field: _distribution(axis) for axis in axes}


def _distribution(axis: Axis | Span) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(axis, Axis):
        return CategoricalDistribution(axis.values)
    if axis.is_whole:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.is_log)
    return FloatDistribution(axis.low, axis.high, log=axis.is_log)


def _word(axis: Axis | Span, value: Any) -> str:
    """A drawn value as it would be written on a command line."""
    if isinstance(axis, Axis) or axis.is_whole:
        return str(value)
    # Rounding must not step over an end of the interval.
    return f"{min(axis.high, max(axis.low, float(f'{value:.4g}'))):g}"


def _param(axis: Axis | Span, word: str) -> str | int | float:
    if isinstance(axis, Axis):
        return word
    return int(word) if axis.is_whole else min(axis.high, max(axis.low, float(word)))


def reports_of(run: Path, method: str) -> tuple[float, ...]:
    """Validation success during online training, as mean over the modes; of the first unit of a run.

    Args:
        run: a run folder, which may be written meanwhile.
        method: that is trained.
    """
    paths = sorted(run.glob(f"starts-*/seed-*/rlft/{method}/metrics.jsonl"))
    found = []
    for _, row in read_lines(paths[0]) if paths else ():
        rates = _rates(row or {})
        if rates:
            found.append(sum(rates) / len(rates))
    return tuple(found)


def _rates(row: Mapping[str, Any]) -> list[float]:
    keys = [key for key in row if key.startswith("validation/") and key.endswith("/success_rate")]
    return [float(row[key]) for key in keys if isinstance(row[key], (int, float))]


def read_trials(folder: Path) -> list[Trial]:
    """The trials of a sweep's folder; none where there is no file.

    Raises:
        RunFolderError: the file is not readable.
    """
    path, remedy = folder / TRIALS, "Delete the file; finished cells are kept, and drawn anew."
    if not path.exists():
        return []
    try:
        return [Trial.model_validate(row) for row in read_json(path, remedy).get("trials", [])]
    except ValidationError as error:
        raise RunFolderError(f"{path}: {error.errors()[0]['msg']}. {remedy}") from None


def write_trials(folder: Path, trials: Sequence[Trial]) -> None:
    """Write the trials of a sweep."""
    write_json(folder / TRIALS, {"schema_version": 1, "trials": [trial.model_dump(mode="json") for trial in trials]})
