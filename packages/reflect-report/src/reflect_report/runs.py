"""Reading run folders, pooling their results over seeds, and the order, titles and colours in which these are shown.

Only the results are required; every other part may be missing or still be written. Where a method was trained with
several RL algorithms, each is a line of its own, in the colour of the algorithm.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any

from reflect_report.files import kept_until_changed, read_lines
from reflect_rl.errors import RunFolderError, UnknownNameError, UserError
from reflect_rl.evaluation.evaluate import (
    NO_ALGORITHM,
    ResultRow,
    TestedGames,
    algorithm_of,
    read_rows,
    wilson_interval,
)
from reflect_rl.evaluation.methods import METHODS, Method, find_method
from reflect_rl.players.decoding import temperature_of
from reflect_rl.runs.folder import CARD, RunCard, read_card, write_results
from reflect_rl.store import check_seal, read_json


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
    stage: str = "rlft"
    """Folder of its stage in a unit."""

    @property
    def axis(self) -> str:
        """Key of what it is drawn over: `turns` where it plays, else `step`."""
        return "turns" if any("turns" in row for row in self.rows) else "step"

    def series(self, x: str, y: str) -> list[tuple[float, float]]:
        """Points of the rows that carry both keys as numbers."""
        points = [(finite(row.get(x)), finite(row.get(y))) for row in self.rows]
        return [(across, up) for across, up in points if across is not None and up is not None]


def finite(value: object) -> float | None:
    """A finite number of a file; None for anything else, as a broken training or somebody else's file may hold it.

    >>> finite(3), finite(True), finite("3"), finite(float("nan")), finite(10**400)
    (3.0, None, None, None, None)
    """
    with suppress(OverflowError):
        # In Python a bool is an int: `true` in a file would be drawn as 1.
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


def read_runs(folders: Sequence[Path], at_work: bool = False) -> list[Run]:
    """Each run folder once, in the order given.

    Args:
        folders: the run folders.
        at_work: see `read_run`.

    Raises:
        RunFolderError: no folder is named, or one is not a run folder with results.
    """
    if not folders:
        raise RunFolderError("no run folder given. Name at least one folder that `reflect-rl eval` has written.")
    # Resolved first: one folder under two names would count its episodes twice and narrow the intervals.
    return [read_run(folder, at_work) for folder in dict.fromkeys(Path(folder).resolve() for folder in folders)]


def read_run(folder: Path, at_work: bool = False) -> Run:
    """Read a run folder; one that is not finished has the results it has so far, maybe none.

    Args:
        folder: the run folder.
        at_work: whether the results are those of the evaluations that are done, where there are any: `results.json`
            is written last, and after a restart it is of an earlier time.

    Raises:
        RunFolderError: the folder is missing, is no run folder, or a file in it is corrupt.
    """
    if not folder.is_dir():
        raise RunFolderError(f"no run folder {str(folder)!r}. Name a folder that `reflect-rl run` has written.")
    config = _read_object(folder / "config.json")
    card = read_card(folder) if (folder / CARD).is_file() else None
    path, remedy = folder / "results.json", f"Run `reflect-rl eval {shlex.quote(str(folder))}` first."
    for mark in sorted(folder.glob("starts-*/seed-*/**/done")):
        # Weights are not compared: no report reads them.
        check_seal(mark, f"Delete {mark} and run the command of the run again.", ".safetensors")
    if at_work and (rows := evaluated(folder, skips=True)):
        return Run(folder, card, config, _with_algorithms(rows, config))
    if path.is_file():
        rows = read_rows(path, remedy)
        _compare(folder, path, rows)
        return Run(folder, card, config, _with_algorithms(rows, config))
    # A run writes both files before its first job: a folder without them is none that is still running.
    if not config and card is None and any(folder.glob("starts-*/seed-*/")):
        # A training from Python has neither until its player is evaluated.
        raise RunFolderError(
            f"no results in {str(folder)!r}: the player that was trained there was not evaluated. Call "
            "reflect_rl.evaluate(agent, env) first."
        )
    if not config and card is None:
        raise RunFolderError(f"{str(folder)!r} is no run folder. Name one that `reflect-rl run` has written.")
    if not config or card is None:
        raise RunFolderError(f"no results in {str(folder)!r}: {path.name} is missing. {remedy}")
    return Run(folder, card, config, ())


def evaluated(folder: Path, skips: bool = False) -> tuple[ResultRow, ...]:
    """The results of the evaluations that are done, also where a kill left them out of `results.json`.

    Args:
        folder: the run folder.
        skips: whether unreadable ones are left out.

    Raises:
        RunFolderError: one is not readable.
    """
    rows: list[ResultRow] = []
    for mark in sorted(folder.glob("starts-*/seed-*/evaluation/*/done")):
        with suppress(RunFolderError) if skips else nullcontext():
            rows += read_rows(mark.parent / "rows.json", "Delete its folder and evaluate again.")
    return tuple(rows)


def gather(folder: Path) -> None:
    """Write `results.json` from the evaluations that are finished, and note when the last of them is.

    Nothing that the folder names is looked up: a game of one's own need not be at hand, and of somebody else's nothing
    is imported. Where no evaluation is finished, a `results.json` that came without them stays.

    Args:
        folder: the run folder.

    Raises:
        RunFolderError: its configuration or an evaluation is not readable.
    """
    config = _read_object(folder / "config.json")
    done = {mark.parent.relative_to(folder).as_posix() for mark in folder.glob("starts-*/seed-*/evaluation/*/done")}
    names, budgets, seeds = asked(config)
    # In the order of the run. Places are compared as text, so that no name in the file leads out of the folder.
    places = [f"starts-{n}/seed-{seed}/evaluation/{name}" for n in budgets for seed in seeds for name in names]
    finished = [folder / place for place in places if place in done]
    write_results(folder, finished, is_whole=len(finished) == len(places))


def asked(config: Mapping[str, object]) -> tuple[list[str], list[int], list[int]]:
    """Methods, numbers of demonstration starts and seeds that a configuration asks for; empty where it tells none."""
    methods, starts, seeds = (
        values if isinstance(values := setting(config, *keys), list) else []
        for keys in (("methods",), ("data", "demonstration_starts"), ("seeds",))
    )
    # A file may hold anything in their places.
    names = [name for name in methods if isinstance(name, str)]
    return names, [n for n in starts if isinstance(n, int)], [seed for seed in seeds if isinstance(seed, int)]


def _compare(folder: Path, path: Path, rows: Sequence[ResultRow]) -> None:
    """Refuse results that are not those of the evaluations; runs from Python have none to compare with."""
    known = {row.model_dump_json() for row in evaluated(folder)}
    if known and any(row.model_dump_json() not in known for row in rows):
        raise RunFolderError(
            f"{path} differs from the evaluations in {folder}. Run `reflect-rl report {folder}` alone."
        )


def _configured_algorithm(method: str, config: Mapping[str, object]) -> str:
    """Algorithm that trained a method, by the run's configuration."""
    return algorithm_of(describe(method), str(setting(config, "rlft", "algorithm", "name") or UNKNOWN_ALGORITHM))


def _with_algorithms(rows: Sequence[ResultRow], config: Mapping[str, object]) -> tuple[ResultRow, ...]:
    """The results, with the algorithms of methods that an installed stage trains by online RL.

    Files of before they were noted say `none` there, which stays where the configuration names no algorithm.
    """
    if not setting(config, "rlft", "algorithm", "name"):
        return tuple(rows)

    def named(row: ResultRow) -> ResultRow:
        return row.model_copy(update={"algorithm": _configured_algorithm(row.method, config)})

    return tuple(named(row) if row.algorithm == NO_ALGORITHM else row for row in rows)


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
    return read_json(path, "Restore the file or remove it.") if path.is_file() else {}


@kept_until_changed
def _metrics(path: Path) -> tuple[tuple[Mapping[str, Any], ...], int]:
    """Rows of a `metrics.jsonl`, and the number of its unreadable lines."""
    values = [value for _, value in read_lines(path)]
    rows = tuple(value for value in values if value is not None)
    return rows, len(values) - len(rows)


def read_curves(run: Run, stage: str) -> list[Curve]:
    """The metrics of every training of one stage that has any.

    Args:
        run: the run.
        stage: its folder in a unit, such as `sft`.
    """
    curves = []
    for unit in run.units:
        # A stage with one job has no folder for it inside its own.
        folder, patterns = unit.folder / stage, ("metrics.jsonl", "*/metrics.jsonl")
        for path in (path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()):
            rows, skipped = _metrics(path)
            # A training that has just begun has an empty file.
            if rows:
                name = path.parent.name
                # Supervised models are named after data sets, which are no methods.
                algorithm = NO_ALGORITHM if stage == "sft" else run.algorithm(name)
                curves.append(
                    Curve(run.label_source, unit.demonstration_starts, unit.seed, name, algorithm, rows, skipped, stage)
                )
    return curves


def installed_stages(run: Run) -> list[str]:
    """Stages with metrics that are none of the core's, by alphabet.

    They are found by their folders: whoever reads a run need not have the distribution that trained it.
    """
    found = {
        path.relative_to(unit.folder).parts[0]
        for unit in run.units
        for pattern in ("*/metrics.jsonl", "*/*/metrics.jsonl")
        for path in unit.folder.glob(pattern)
        if path.is_file()
    }
    return sorted(found - {"sft", "rlft"})


def describe(name: str) -> Method:
    """The method as tables show it; one that is not installed here is shown under its own name.

    >>> describe("sft_rlft").title, describe("mine").title
    ('SFT + RLFT', 'mine')
    """
    # The name may come from somebody else's results, and a file must not choose which modules are imported.
    try:
        return Method(name, name.rpartition(":")[2]) if ":" in name else find_method(name)
    except UserError:
        return Method(name, name)


def in_order(names: Iterable[str]) -> list[str]:
    """Distinct names in listing order; those without a place last, by alphabet.

    >>> in_order(["reflect_rl", "mine", "sft", "sft"])
    ['sft', 'reflect_rl', 'mine']
    """
    return sorted(set(names), key=lambda name: (describe(name).place, name))


def start_of(method: Method) -> str:
    """Name of the method that its online training starts from; empty without online training.

    >>> start_of(find_method("reflect_rl")), start_of(find_method("rlft")), start_of(find_method("sft"))
    ('sft_reflect', 'base', '')
    """
    if not method.online:
        return ""
    # The same supervised data for both players: that is the model which online training changes, so the difference
    # between the two rows is what online training adds.
    players = (method.reflector, method.policy)
    starts = (other for other in METHODS if other.model and not other.online)
    return next((other.name for other in starts if (other.reflector, other.policy) == players), "")


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Look of one RL algorithm where a method was trained with several."""

    name: str
    """Name in `rlft.algorithm.name`."""
    label: str
    colour: str


ALGORITHMS = (
    Algorithm("reinforce", "REINFORCE", "#999999"),
    Algorithm("expected", "Expected", "#009E73"),
    Algorithm("rloo", "RLOO", "#0072B2"),
    Algorithm("grpo", "GRPO", "#56B4E9"),
    Algorithm("gigpo", "GiGPO", "#CC79A7"),
    Algorithm("g2po", "G2PO", "#999933"),
    Algorithm("raft", "RAFT", "#E69F00"),
    Algorithm("ppo", "PPO", "#D55E00"),
)
"""Algorithms in the order in which tables list them; the paper's last, as among the methods."""

UNKNOWN_ALGORITHM = "unknown"
"""Algorithm of online training that neither the results nor the configuration name."""

_ALGORITHMS = {algorithm.name: algorithm for algorithm in ALGORITHMS}
_ALGORITHM_RANK = {algorithm.name: rank for rank, algorithm in enumerate(ALGORITHMS)}


def look_of(name: str, algorithm: str = "") -> Method:
    """The method as a line of a table or figure shows it.

    Args:
        name: the method.
        algorithm: the algorithm that tells it from other lines of the same method; empty if there is no need.

    >>> look_of("sft_rlft").title, look_of("mine").title, look_of("reflect_rl", "grpo").title
    ('SFT + RLFT', 'mine', 'Reflect-RL (GRPO)')
    """
    method = describe(name)
    if not algorithm:
        return method
    look = describe_algorithm(algorithm)
    # The colour of the method would be the same for each of its algorithms, and the lines could not be told apart.
    return replace(method, title=f"{method.title} ({look.label})", colour=look.colour)


def describe_algorithm(name: str) -> Algorithm:
    """The look of an algorithm; one that is not listed is shown under its own name.

    >>> describe_algorithm("gigpo").label, describe_algorithm("mine.algorithm").label
    ('GiGPO', 'mine.algorithm')
    """
    # The name may come from somebody else's results, so an algorithm that is not installed here needs a look, too.
    return _ALGORITHMS.get(name) or Algorithm(name, name, "#777777")


def with_several_algorithms(lines: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Methods that occur with more than one algorithm.

    Args:
        lines: method and algorithm of each line of a table or figure.

    >>> sorted(with_several_algorithms([("sft", "none"), ("rlft", "ppo"), ("rlft", "grpo")]))
    ['rlft']
    """
    # A set, as each seed and mode brings the same pair again.
    distinct = [method for method, _ in set(lines)]
    return frozenset(method for method in distinct if distinct.count(method) > 1)


def algorithms_in_order(names: Iterable[str]) -> list[str]:
    """Distinct names in listing order; unlisted ones last, by alphabet.

    >>> algorithms_in_order(["ppo", "mine", "reinforce", "ppo"])
    ['reinforce', 'ppo', 'mine']
    """
    return sorted(set(names), key=lambda name: (_ALGORITHM_RANK.get(name, len(ALGORITHMS)), name))


def lines_in_order(lines: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Distinct pairs of method and algorithm in listing order.

    >>> lines_in_order([("reflect_rl", "ppo"), ("reflect_rl", "rloo"), ("sft", "none")])
    [('sft', 'none'), ('reflect_rl', 'rloo'), ('reflect_rl', 'ppo')]
    """
    distinct = set(lines)
    methods = in_order(method for method, _ in distinct)
    algorithms = algorithms_in_order(algorithm for _, algorithm in distinct)
    return sorted(distinct, key=lambda line: (methods.index(line[0]), algorithms.index(line[1])))


def models_in_order(lines: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Distinct triples of method, algorithm and model in listing order; models by alphabet.

    >>> models_in_order([("rlft", "ppo", "b"), ("rlft", "ppo", "a"), ("sft", "none", "b")])
    [('sft', 'none', 'b'), ('rlft', 'ppo', 'a'), ('rlft', 'ppo', 'b')]
    """
    known = set(lines)
    return [line for pair in lines_in_order(line[:2] for line in known) for line in sorted(known) if line[:2] == pair]


def with_several_models(lines: Iterable[tuple[str, str, str]]) -> frozenset[tuple[str, str]]:
    """Pairs of method and algorithm that occur with more than one model.

    >>> sorted(with_several_models([("sft", "none", "a"), ("sft", "none", "b"), ("rlft", "ppo", "a")]))
    [('sft', 'none')]
    """
    distinct = [line[:2] for line in set(lines)]
    return frozenset(pair for pair in distinct if distinct.count(pair) > 1)


def decoding_rank(decoding: str) -> tuple[float, str]:
    """Sort key of a decoding, from the highest temperature to greedy play; an unknown one comes last.

    >>> sorted(["beam", "greedy", "sampled@0.4", "sampled"], key=decoding_rank)
    ['sampled', 'sampled@0.4', 'greedy', 'beam']
    """
    try:
        return -temperature_of(decoding), decoding
    except UnknownNameError:
        return 1.0, decoding


@dataclass(frozen=True)
class PooledCondition:
    """Condition that pooled seeds have in common."""

    benchmark: str
    label_source: str
    demonstration_starts: int
    split: str
    method: str
    algorithm: str
    """RL algorithm that trained the method; `none` without online training."""
    model: str
    mode: str
    horizon: int
    """Longest episode that counts as won, in turns."""
    decoding: str

    @property
    def table(self) -> tuple[str, str, int, str]:
        """Settings that all cells of a table share."""
        return self.benchmark, self.label_source, self.demonstration_starts, self.split

    @property
    def line(self) -> tuple[str, str, str]:
        """Method, algorithm and model: a line of a table."""
        return self.method, self.algorithm, self.model


@dataclass(frozen=True)
class SummaryRow(PooledCondition):
    """Success of one method and algorithm under one condition, all seeds pooled."""

    successes: int
    episodes: int
    success_rate: float
    """Pooled: successes / episodes."""
    lo: float
    """Lower end of Wilson's 95% interval of the pooled counts, which takes episodes as independent."""
    hi: float
    mean: float
    """Mean of the seeds' rates; equal to the pooled rate when each seed plays the same number of episodes."""
    lowest: float
    """Rate of the worst seed."""
    highest: float
    """Rate of the best seed."""
    seeds: int


POOL_FIELDS = {field.name for field in fields(PooledCondition)}


def summarise(rows: Iterable[ResultRow]) -> list[SummaryRow]:
    """Results with the seeds of the same condition pooled.

    A row that occurs twice counts once. Sorted by table, then mode (from easy to hard), then method and algorithm (in
    listing order).

    Raises:
        RunFolderError: two different results claim the same seed of the same condition, or two are on different games.
    """
    rows = list(rows)
    _refuse_mixed_games(rows)
    pools: dict[PooledCondition, dict[int, ResultRow]] = {}
    for row in rows:
        seeds = pools.setdefault(PooledCondition(**row.model_dump(include=POOL_FIELDS)), {})
        _refuse_other_games(next(iter(seeds.values()), row), row)
        known = seeds.setdefault(row.seed, row)
        # Counts only: the speed differs each time that the same evaluation is repeated.
        if (known.successes, known.episodes) != (row.successes, row.episodes):
            raise RunFolderError(
                f"two different results for {row.method}, algorithm {row.algorithm}, {row.mode}, horizon "
                f"{row.horizon}, {row.decoding}, seed {row.seed}, label source {row.label_source}, "
                f"{row.demonstration_starts} demonstration starts. "
                "The run folders hold the same experiment with other settings: report them one by one."
            )
    summaries = [_pool(list(seeds.values())) for seeds in pools.values()]
    ranks = {line: rank for rank, line in enumerate(lines_of(summaries))}
    modes = {mode: rank for rank, mode in enumerate(_modes_in_order(rows))}
    return sorted(
        summaries, key=lambda s: (*s.table, modes[s.mode], ranks[s.line], s.horizon, decoding_rank(s.decoding))
    )


def _modes_in_order(rows: Iterable[ResultRow]) -> list[str]:
    """Modes from easy to hard, the order in which each player was evaluated in them and which the alphabet would lose.

    Of two players one may have been evaluated in a part of the modes.
    """
    played: dict[tuple[object, ...], dict[str, None]] = {}
    for row in rows:
        key = (row.benchmark, row.split, row.method, row.algorithm, row.model, row.demonstration_starts, row.seed)
        played.setdefault(key, {})[row.mode] = None
    order = TopologicalSorter[str]()
    for modes in played.values():
        for mode in modes:
            order.add(mode)
        for easier, harder in pairwise(modes):
            order.add(harder, easier)
    try:
        return list(order.static_order())
    except CycleError:  # somebody evaluated the harder mode first
        return list(dict.fromkeys(mode for modes in played.values() for mode in modes))


def _refuse_other_games(first: ResultRow, row: ResultRow) -> None:
    """A rate over two sets of games, or two versions of one, would be none of either."""
    # Players that were taught otherwise may share a table, and not a rate.
    if not first.tested.can_pool(row.tested):
        raise _other_games(first, row)


def _refuse_mixed_games(rows: Iterable[ResultRow]) -> None:
    """Lines of a table on different games would tell which games are easier, in the place of which player is better."""
    kinds: dict[tuple[str, str, str], dict[str, ResultRow]] = {}
    for row in rows:
        # One of each kind is compared: a page may have thousands of rows.
        known = kinds.setdefault((row.benchmark, row.split, row.mode), {})
        if (kind := row.tested.model_dump_json()) in known:
            continue
        for first in known.values():
            if first.tested.differ(row.tested):
                raise _other_games(first, row)
        known[kind] = row


def _other_games(first: ResultRow, row: ResultRow) -> RunFolderError:
    return RunFolderError(
        f"results on different games: {row.benchmark}, {row.split} split, was played as {_games(first.tested)} and as "
        f"{_games(row.tested)}. Report the run folders one by one."
    )


def _games(tested: TestedGames) -> str:
    return ", ".join([f"version {tested.version}", *(f"{key} {value}" for key, value in tested.facts.items())])


def lines_of(summaries: Iterable[PooledCondition]) -> list[tuple[str, str, str]]:
    """Method, algorithm and model of each line of a table, in listing order."""
    return models_in_order(s.line for s in summaries)


def _pool(rows: Sequence[ResultRow]) -> SummaryRow:
    successes, episodes = sum(row.successes for row in rows), sum(row.episodes for row in rows)
    rates = [row.successes / row.episodes for row in rows if row.episodes] or [0.0]
    # Wilson's interval stays inside [0, 1] and keeps a width at 0% and 100%, where the normal one has none.
    lo, hi = wilson_interval(successes, episodes)
    return SummaryRow(
        **rows[0].model_dump(include=POOL_FIELDS),
        successes=successes,
        episodes=episodes,
        success_rate=successes / episodes if episodes else 0.0,
        lo=lo,
        hi=hi,
        mean=sum(rates) / len(rates),
        lowest=min(rates),
        highest=max(rates),
        seeds=len(rows),
    )


def summarise_runs(runs: Sequence[Run]) -> list[SummaryRow]:
    """The pooled results of several runs.

    Raises:
        RunFolderError: two runs hold different results of the same experiment and seed, or two trainings that would be
            pooled had unlike settings.
    """
    _refuse_other_trainings(runs)
    # Other games are named before the settings that they follow from.
    summaries = summarise(row for run in runs for row in run.results)
    _refuse_other_settings(runs)
    return summaries


NOTED = "rlft/*/settings.json"
"""Settings of a training from Python, in a unit; a run of the command line has one `config.json` for all."""
BINDING = ("training", "scoring", "environment", "environment_settings")
"""Parts of a training's `settings.json` that do not follow from its seed."""


def _refuse_other_trainings(runs: Iterable[Run]) -> None:
    """Seeds of trainings with unlike settings are no repetitions; the rows do not tell, as the training's file does."""
    known: dict[tuple[object, ...], tuple[Path, dict[str, object]]] = {}
    noted = [(run, unit, path) for run in runs for unit in run.units for path in unit.folder.glob(NOTED)]
    for run, unit, path in noted:
        had = {part: setting(_read_object(path), part) for part in BINDING}
        own = (path.parent.name, unit.seed, unit.demonstration_starts)
        for row in run.results:
            if (row.method, row.seed, row.demonstration_starts) != own:
                continue
            pool = (row.benchmark, row.label_source, row.demonstration_starts, row.method, row.algorithm, row.model)
            first, other = known.setdefault(pool, (path, had))
            if differing := sorted(_differing(other, had)):
                raise RunFolderError(
                    f"trainings with unlike settings are not pooled: {differing[0]} in {first} and {path}. Give each "
                    "its own `out`, and report the run folders one by one."
                )


def _refuse_other_settings(runs: Iterable[Run]) -> None:
    """Runs with unlike settings are no repetitions either; their configurations tell, where both have one."""
    known: dict[tuple[object, ...], tuple[Run, dict[str, object]]] = {}
    for run in runs:
        # Rows of a run differ in mode, horizon and decoding as well, and it may have thousands.
        pools = {
            (row.benchmark, row.label_source, row.demonstration_starts, row.method, row.algorithm, row.model)
            for row in run.results
        }
        for pool in sorted(pools) if run.config else ():
            settings = _followed(run.config, method=pool[3])
            first, had = known.setdefault(pool, (run, settings))
            if differing := sorted(_differing(_shared(had, settings), _shared(settings, had))):
                raise RunFolderError(
                    f"runs with unlike settings are not pooled: {differing[0]} in {first.folder} and {run.folder}, for "
                    f"{pool[3]}. Report the run folders one by one."
                )


APART = {
    # The number of starts and the model tell rows apart anyway.
    "data": ("demonstration_starts", "episodes"),
    "model": ("path", "device", "precision"),
    "sft": ("save_steps",),
    "rlft": ("checkpoint_every",),
}
"""Settings that may differ between repetitions."""


def _followed(config: Mapping[str, object], method: str) -> dict[str, object]:
    """The settings of a run that a method's results follow from, besides its seed."""
    try:
        found = find_method(method)
    except UserError:  # its distribution is not installed here
        return {}
    tables = ["environment"]
    if found.model:
        tables += ["prompt", "data", "model", *(["reflector"] if found.reflector else []), *found.follows]
    followed: dict[str, object] = {table: _kept(table, setting(config, table)) for table in tables}
    for data in sorted({name.removesuffix("_positive") for name in found.datasets}):
        followed[f"sft.{data}"] = _kept("sft", setting(config, "sft", data))
    return followed


def _kept(table: str, values: object) -> dict[str, object]:
    """The settings of a table that must be the same in repetitions."""
    if not isinstance(values, Mapping):
        return {}
    # Where a file or folder of a game lies differs between machines, and `tested` says whether the games do.
    moved = {key for key, value in values.items() if isinstance(value, str) and re.search(r"[$/\\]", value)}
    apart = {*APART.get(table, ()), *(moved if table == "environment" else ())}
    return {str(key): value for key, value in values.items() if key not in apart}


def _shared(settings: object, others: object) -> object:
    """The settings that both have; an earlier version knew fewer."""
    if not (isinstance(settings, Mapping) and isinstance(others, Mapping)):
        return settings
    return {key: _shared(value, others[key]) for key, value in settings.items() if key in others}


def _differing(first: object, other: object, path: str = "") -> Iterator[str]:
    """Name each setting that differs, for example `training.total_turns is 100 and 200`."""
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        for key in first.keys() | other.keys():
            yield from _differing(first.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    elif first != other:
        yield f"{path} is {first!r} and {other!r}"


def all_horizons(summaries: Iterable[SummaryRow]) -> list[int]:
    """Every horizon that was evaluated, shortest first."""
    return sorted({summary.horizon for summary in summaries})


def at_longest(summaries: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The results at the longest horizon of their table and mode; two games need not share a horizon."""
    longest: dict[tuple[object, ...], int] = {}
    for s in summaries:
        longest[s.table, s.mode] = max(s.horizon, longest.get((s.table, s.mode), 0))
    return [s for s in summaries if s.horizon == longest[s.table, s.mode]]


def hardest_mode(summaries: Sequence[SummaryRow]) -> str:
    """`full` where it exists, else the last mode, as modes are evaluated from easy to hard; empty without results."""
    modes = [summary.mode for summary in summaries]
    return "full" if "full" in modes else modes[-1] if modes else ""
