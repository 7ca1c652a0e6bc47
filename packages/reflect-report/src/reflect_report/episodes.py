"""Episodes of an evaluation: comparison of methods on the same starts, and a small sample to step through."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from reflect_report.files import Version, kept_until_changed, read_bytes, version_of
from reflect_report.runs import (
    Run,
    decoding_rank,
    describe_algorithm,
    in_order,
    look_of,
    models_in_order,
    with_several_algorithms,
    with_several_models,
)
from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.compare import PairedDifference, paired_difference
from reflect_rl.evaluation.evaluate import ResultRow, read_rows
from reflect_rl.evaluation.methods import REFERENCE

MISSES = 10
"""Episodes without room on the page after which no further ones are tried."""

NO_MODEL = "none"
"""Model of a player that has none, or whose results are not known."""

Line = tuple[str, str, str]
"""Method, algorithm and model."""

Wins = dict[Line, dict[tuple[int, str, int], bool]]
"""Outcome of each start (True = won), for each method, algorithm and model."""


@dataclass(frozen=True, slots=True)
class End:
    """End of one episode, as its line tells it."""

    environment: str
    """Name and version of the game."""
    split: str
    mode: str
    decoding: str
    horizon: int | None
    """Turns after which it would have been cut off; None: only the results beside it tell."""
    task: str
    episode_seed: int
    success: bool
    turns: int
    path: Path
    offset: int
    """Byte offset of its line."""


PARTS = tuple(field.name for field in fields(End))


@dataclass(frozen=True, slots=True)
class Verdict(End):
    """End of one episode, and under which condition it was played."""

    benchmark: str
    label_source: str
    demonstration_starts: int
    run_seed: int
    """Seed of the training that is evaluated."""
    method: str
    algorithm: str
    """RL algorithm that trained the method; `none` without online training."""
    model: str
    """Language model of the policy, or `none`."""

    @property
    def group(self) -> tuple[str, str, int, str]:
        """Benchmark, label source, number of demonstration starts and split."""
        return self.benchmark, self.label_source, self.demonstration_starts, self.split

    @property
    def line(self) -> Line:
        """Method, algorithm and model."""
        return self.method, self.algorithm, self.model

    @property
    def start(self) -> tuple[int, str, int]:
        """Key that the episodes of two methods share when they are a pair."""
        return self.run_seed, self.task, self.episode_seed


@dataclass(frozen=True, slots=True)
class Comparison:
    """The reference method, as one algorithm trained it, against another method or algorithm on the same starts."""

    benchmark: str
    label_source: str
    demonstration_starts: int
    split: str
    mode: str
    horizon: int
    decoding: str
    algorithm: str
    """Algorithm of the reference."""
    model: str
    """Language model of the reference."""
    method: str
    """The other side, which may be the reference with another algorithm."""
    label: str
    """Name of the other side for readers; its algorithm or model is named where the method occurs with several."""
    reference_rate: float
    method_rate: float
    result: PairedDifference
    """Reference minus method."""
    reference: str = REFERENCE

    @property
    def algorithm_label(self) -> str:
        """Name of the reference's algorithm for readers."""
        return describe_algorithm(self.algorithm).label


def read_verdicts(run: Run) -> tuple[list[Verdict], dict[Path, int]]:
    """The ends of all evaluated episodes, and the number of unreadable lines of each file that has any.

    Where an episode is written twice, the first counts.
    """
    verdicts: dict[tuple[Any, ...], Verdict] = {}
    skipped: dict[Path, int] = {}
    for unit in run.units:
        for path in sorted(unit.folder.glob("evaluation/*/episodes.jsonl")):
            method = path.parent.name
            results = _rows(path.with_name("rows.json")) or [
                row
                for row in run.results
                if (row.demonstration_starts, row.seed, row.method) == (unit.demonstration_starts, unit.seed, method)
            ]
            played: dict[tuple[str, str, str, str], _Played] = {}
            for end in _ends(path):
                if end is None:
                    skipped[path] = skipped.get(path, 0) + 1
                    continue
                condition = (end.environment, end.split, end.mode, end.decoding)
                # Kept, as all episodes of a condition have the same results.
                if condition not in played:
                    played[condition] = _played_as(end, results, run, method)
                known = played[condition]
                told = {name: getattr(end, name) for name in PARTS}
                verdict = Verdict(
                    **told | {"horizon": known.horizon if end.horizon is None else end.horizon},
                    benchmark=known.benchmark,
                    label_source=known.label_source,
                    demonstration_starts=unit.demonstration_starts,
                    run_seed=unit.seed,
                    method=method,
                    algorithm=known.algorithm,
                    model=known.model,
                )
                key = (*verdict.group, *verdict.line, end.mode, end.decoding, verdict.horizon, *verdict.start)
                # A pair of equal starts must count once: doubled pairs would make the p-value too small.
                verdicts.setdefault(key, verdict)
    return list(verdicts.values()), skipped


def _rows(path: Path) -> Sequence[ResultRow]:
    """The results beside a file of episodes; none where they are missing or of no use."""
    return _readable_rows(path) if path.is_file() else ()


@kept_until_changed
def _readable_rows(path: Path) -> Sequence[ResultRow]:
    with suppress(RunFolderError):
        return read_rows(path, "")
    return ()


class _Played(NamedTuple):
    """Parts of an episode's condition that its results tell."""

    benchmark: str
    label_source: str
    algorithm: str
    model: str
    horizon: int | None
    """The longest that was counted; None: there are no results."""


def _played_as(end: End, results: Iterable[ResultRow], run: Run, method: str) -> _Played:
    """The condition of the results that an episode is counted in."""
    condition = (end.split, end.mode, end.decoding)
    own = [row for row in results if (row.split, row.mode, row.decoding) == condition]
    # A folder that was filled from Python may hold several games; its rows name the game here, those of a run do not.
    own = [row for row in own if row.fingerprint == end.environment] or own
    if not own:
        benchmark = end.environment.rpartition("-v")[0] or end.environment
        return _Played(benchmark, run.label_source, run.algorithm(method), NO_MODEL, None)
    # A run plays an episode once, to its longest horizon.
    row = own[0]
    return _Played(row.benchmark, row.label_source, row.algorithm, row.model, max(row.horizon for row in own))


class _Turn(BaseModel):
    """A turn of which nothing is read."""


class _Task(BaseModel, coerce_numbers_to_str=True):
    """The part of a task that names it."""

    key: str
    split: str = "test"


class _Row(BaseModel, coerce_numbers_to_str=True):
    """End of an episode, as a line tells it; the rest of it is checked and not kept, which takes an eighth."""

    environment: str = ""
    mode: str
    decoding: str
    horizon: int | None = None
    task: _Task
    seed: int
    success: bool
    turns: list[_Turn]


@kept_until_changed
def _ends(path: Path) -> list[End | None]:
    """The end of each episode of a file; None for a line that holds none."""
    return [_end(line, path, offset) for offset, line in read_bytes(path)]


def _end(line: bytes, path: Path, offset: int) -> End | None:
    try:
        # The file may be of an interrupted run or edited by hand; one bad line must not cost the whole report.
        row = _Row.model_validate_json(line)
    except ValidationError:
        return None
    return End(
        environment=row.environment,
        split=row.task.split,
        mode=row.mode,
        decoding=row.decoding,
        horizon=row.horizon,
        task=row.task.key,
        episode_seed=row.seed,
        success=row.success,
        turns=len(row.turns),
        path=path,
        offset=offset,
    )


def compare(verdicts: Iterable[Verdict], mode: str, horizon: int, reference: str = REFERENCE) -> list[Comparison]:
    """The reference method against each other method, per benchmark, label source, budget, split and decoding.

    With several algorithms each of them is a reference: against the methods without online training, against its own
    training of other methods where there is one, and once against each other algorithm. So is each language model,
    against what has the same one, or none of the reference's.

    Args:
        verdicts: ends of episodes of all methods.
        mode: the mode to compare in.
        horizon: turns after which an episode counts as lost.
        reference: the method that the others are compared with.
    """
    wins: dict[tuple[str, str, int, str, str], Wins] = {}
    # The shortest horizon comes last and counts: of episodes that reach this one, its row in the tables is of those.
    for v in sorted(verdicts, key=lambda v: math.inf if v.horizon is None else v.horizon, reverse=True):
        # Nobody knows how a game that was cut off sooner would have ended at this horizon.
        if v.mode == mode and (v.horizon is None or v.horizon >= horizon):
            lines = wins.setdefault((*v.group, v.decoding), {})
            # Episodes are played once, to the longest horizon: a win after more turns is a loss at this one.
            lines.setdefault(v.line, {})[v.start] = v.success and v.turns <= horizon
    # Over all tables at once, so that a method has the same label in each of them.
    known = {line for lines in wins.values() for line in lines}
    comparisons = []
    for (benchmark, label_source, starts, split, decoding), lines in sorted(wins.items(), key=_table_order):
        for ours, theirs in _pairs(lines, reference):
            # Different starts are not equally hard; only on shared ones is a difference of rates one of the methods.
            shared = [start for start in lines[ours] if start in lines[theirs]]
            if not shared:
                continue
            won, won_by_other = [lines[ours][start] for start in shared], [lines[theirs][start] for start in shared]
            comparison = Comparison(
                *(benchmark, label_source, starts, split, mode, horizon, decoding),
                algorithm=ours[1],
                model=ours[2],
                method=theirs[0],
                label=_label(theirs, known, reference),
                reference_rate=sum(won) / len(shared),
                method_rate=sum(won_by_other) / len(shared),
                # Both sides meet the same starts, so their wins are correlated: tests of independent rates do not fit.
                # McNemar's counts the starts that only one side won; the interval is Newcombe's for paired rates.
                result=paired_difference(won, won_by_other),
                reference=reference,
            )
            comparisons.append(comparison)
    return comparisons


def _pairs(lines: Collection[Line], reference: str) -> Iterator[tuple[Line, Line]]:
    """Pairs of lines: each algorithm and model of the reference, and what it is compared with."""
    references = [line for line in models_in_order(lines) if line[0] == reference]
    models = {model for _, _, model in references}
    for ours in references:
        for method in in_order(method for method, *_ in lines if method != reference):
            others = [line for line in models_in_order(lines) if line[0] == method]
            same = [line for line in others if line[2] == ours[2]]
            # Scripts and chat models play beside every model of the reference; what has another of them does not.
            known = same or [line for line in others if line[2] not in models]
            # The same algorithm on both sides where there is one: otherwise the difference mixes method and algorithm.
            for theirs in [line for line in known if line[1] == ours[1]] or known:
                yield ours, theirs
    # The later one in listing order is the reference: so the paper's algorithm, listed last, meets all others.
    for theirs, ours in combinations(references, 2):
        if theirs[2] == ours[2]:
            yield ours, theirs


def _label(line: Line, known: Collection[Line], reference: str) -> str:
    method, algorithm, model = line
    if method == reference:
        return describe_algorithm(algorithm).label
    told = algorithm if method in with_several_algorithms(other[:2] for other in known) else ""
    title = look_of(method, told).title
    return f"{title} ({model})" if line[:2] in with_several_models(known) else title


def _table_order(item: tuple[tuple[str, str, int, str, str], object]) -> tuple[str, str, int, str, tuple[float, str]]:
    (benchmark, label_source, starts, split, decoding), _ = item
    return benchmark, label_source, starts, split, decoding_rank(decoding)


def sample(verdicts: Sequence[Verdict], max_characters: int) -> tuple[str, int]:
    """Episodes for the page as JSON, and how many there are.

    All starts of the lowest seed come first, and of each start the episodes of all methods, so that methods can be
    compared. Texts and action lists are stored once, as methods meet the same states. The JSON holds no `<`, so that it
    can stand inside a script element.

    Args:
        verdicts: ends of all episodes.
        max_characters: episodes that would make the JSON much longer than this are left out.
    """
    versions = {path: version_of(path) for path in {v.path for v in verdicts}}
    return _sampled(tuple(verdicts), max_characters, frozenset(versions.items()))


@lru_cache(maxsize=1)
def _sampled(
    verdicts: tuple[Verdict, ...], max_characters: int, versions: frozenset[tuple[Path, Version]]
) -> tuple[str, int]:
    """The sample of `sample`; the last one is kept until a file has another version."""
    names = _names({v.line for v in verdicts})
    varied = [part for part in ("benchmark", "split", "horizon") if len({getattr(v, part) for v in verdicts}) > 1]
    texts: dict[Any, int] = {}
    episodes: list[str] = []
    room, misses = max_characters, 0
    for verdict in _by_start(verdicts):
        known = len(texts)
        episode = _compact(verdict, _group_title(verdict, varied), names[verdict.line][0], texts)
        text = "" if episode is None else json_in_html(episode)
        length = len(text) + sum(len(json_in_html(new)) for new in list(texts)[known:])
        if episode is None or length > room:
            while len(texts) > known:
                texts.popitem()
            misses += 1
            # Shorter ones may still fit, but a folder of a thousand long ones need not be read to its end.
            if misses > MISSES:
                break
            continue
        episodes.append(text)
        room -= length
    head = json_in_html({"methods": list(names.values()), "texts": list(texts)})
    return f'{head[:-1]},"episodes":[{",".join(episodes)}]}}', len(episodes)


def _by_start(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """First the first start of every group, mode and decoding, by all methods; then the second, ..."""
    starts: dict[tuple[Any, ...], set[tuple[int, str, int]]] = {}
    verdicts = list(verdicts)
    for v in verdicts:
        starts.setdefault((*v.group, v.mode, v.decoding), set()).add(v.start)
    ranks = {key: {start: rank for rank, start in enumerate(sorted(found))} for key, found in starts.items()}
    lines = models_in_order(v.line for v in verdicts)
    # Where the room ends, every mode and method has shown about as many starts as the others.
    return sorted(
        verdicts,
        key=lambda v: (ranks[(*v.group, v.mode, v.decoding)][v.start], *v.group, v.mode, lines.index(v.line)),
    )


def json_in_html(value: Any) -> str:
    """JSON that can stand inside a script element."""
    # `JSON.parse` of a browser refuses NaN, which Python would write: better to fail here than on the page.
    # The HTML parser ends a script element at `</script`, even inside a JSON string.
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _names(lines: Collection[Line]) -> dict[Line, tuple[str, str]]:
    """Key and label of each method, algorithm and model, in listing order."""
    algorithms, models = with_several_algorithms(line[:2] for line in lines), with_several_models(lines)
    names = {}
    for line in models_in_order(lines):
        method, algorithm, model = line
        told = algorithm if method in algorithms else ""
        key, title = f"{method} {told}".rstrip(), look_of(method, told).title
        # The first is the key in the page: the method alone would be the same for each of its algorithms and models.
        names[line] = (f"{key} {model}", f"{title} ({model})") if line[:2] in models else (key, title)
    return names


def _group_title(verdict: Verdict, varied: Collection[str]) -> str:
    """The condition of an episode for readers, with those of its parts that the episodes of the page differ in."""
    parts = [verdict.benchmark] if "benchmark" in varied else []
    parts += [f"label source {verdict.label_source}", f"{verdict.demonstration_starts} starts"]
    parts += [f"seed {verdict.run_seed}"]
    parts += [f"{verdict.split} split"] if "split" in varied else []
    parts += [f"horizon {verdict.horizon}"] if "horizon" in varied and verdict.horizon is not None else []
    return ", ".join(parts)


def _compact(verdict: Verdict, group: str, key: str, texts: dict[Any, int]) -> dict[str, Any] | None:
    # Bytes, as the offset counts them; a text file can only seek to places that it has told itself.
    with verdict.path.open("rb") as lines:
        lines.seek(verdict.offset)
        line = lines.readline()
    try:
        # A run that begins anew may have written the file again since its ends were read.
        row = json.loads(line)
        turns = [_compact_turn(turn, texts) for turn in row["turns"]]
        # An answer may lie outside its probabilities, where somebody has edited the line.
        surprise = _surprise(row["turns"])
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    return {
        "group": group,
        "method": key,
        "mode": verdict.mode,
        "decoding": verdict.decoding,
        "start": f"{verdict.task}, seed {verdict.episode_seed}",
        "success": verdict.success,
        "truncated": bool(row.get("truncated")),
        "surprise": surprise,
        "turns": turns,
    }


def _surprise(turns: Sequence[Mapping[str, Any]]) -> list[float] | None:
    """Turn of the least likely action that was chosen, and its probability; None where no policy tells them."""
    told = [
        (_probability(log_probs[turn["decision"]["index"]]), number)
        for number, turn in enumerate(turns)
        if (log_probs := turn["decision"]["log_probs"]) is not None and turn["decision"]["index"] >= 0
    ]
    return list(reversed(min(told))) if told else None


def _compact_turn(turn: Mapping[str, Any], texts: dict[Any, int]) -> list[Any]:
    """(state, reflection, actions, order, probabilities, choice, reward); the first three point into `texts`.

    Where the player speaks, its answer follows, which points there too; choice -1 is an answer that names no action.
    """
    observation, decision = turn["observation"], turn["decision"]
    # A tuple, because it is a key of `texts`: turns with the same list share one copy.
    actions = tuple(str(action) for action in observation["actions"])
    # No order is noted where the actions were shown as the environment lists them.
    order = [int(index) for index in turn["order"]] or list(range(len(actions)))
    log_probs = decision["log_probs"]
    reward, answer = float(turn["reward"]), decision.get("answer")
    return [
        _index(texts, str(observation["text"])),
        None if turn["reflection"] is None else _index(texts, str(turn["reflection"])),
        _index(texts, actions),
        order,
        None if log_probs is None else [_probability(value) for value in log_probs],
        int(decision["index"]),
        # JSON has no NaN and no infinity; the page shows null as "not a number".
        float(f"{reward:.6g}") if math.isfinite(reward) else None,
        *([] if answer is None else [_index(texts, str(answer))]),
    ]


def _index(texts: dict[Any, int], text: Any) -> int:
    return texts.setdefault(text, len(texts))


def _probability(log_prob: float | None) -> float:
    if log_prob is None or math.isnan(log_prob):
        return 0.0
    # Rounding may lift a log-probability just above 0, and the bar in the page would be wider than its frame.
    # Four decimals are one digit more than the page shows.
    return round(math.exp(min(0.0, log_prob)), 4)
