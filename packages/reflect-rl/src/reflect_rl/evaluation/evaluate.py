"""Evaluation: the same loop as training, on held-out tasks, and its result row. This file is the row's only definition.

Episodes are sampled and greedy, at several horizons. An episode is played once, to the longest horizon; no observation
shows how many turns are left, except in games with `fixed_horizon`, for which other horizons are refused, so what would
have happened at a shorter horizon is its beginning, exactly. No episode is ever left out, whatever
`limits.failed_episodes` says: the rate of those that are left would be another.

An evaluation writes its rows to `rows.json`, a run collects them in `results.json`, and reports read them back.
Players behind servers add where they are and what they took.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Self, SupportsFloat

from pydantic import Field, ValidationError

from reflect_rl.config import Frozen
from reflect_rl.envs.base import EnvSpec, HasMeasures, HasStrata, NamesGames
from reflect_rl.errors import FaultyEnvironmentError, RunFolderError
from reflect_rl.evaluation.methods import Method
from reflect_rl.players.decoding import DecodingSetting, temperature_of
from reflect_rl.rollout import Metered, Policy, Reflector, RunsElsewhere, evaluation_request, play
from reflect_rl.store import read_json_value, write_json
from reflect_rl.types import NO_ACTION, Decoding, Episode, Task, to_json
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits, guarded

SCHEMA_VERSION: Final = 2
"""2: typed rows with strata, costs and tested games as objects of their own. Files of 1 carry no version."""

NO_ALGORITHM = "none"
"""Algorithm of a method without online training."""


def algorithm_of(method: Method, configured: str) -> str:
    """The RL algorithm that trains a method, or `NO_ALGORITHM`.

    Args:
        method: of any distribution.
        configured: the one of `[rlft]`.

    >>> [algorithm_of(Method("mine", "My own", online=online), "grpo") for online in (True, False)]
    ['grpo', 'none']
    """
    return (method.algorithm or configured) if "rlft" in method.follows else NO_ALGORITHM


PLAYER_FACTS: Final = ("advice", "expert")
"""Facts of a game that tell who taught its players; the games are the same."""
TASKS_DIGEST: Final = "tasks_digest"
"""Fact of every result: a hash of the tasks. Older results lack it."""


def tasks_digest(spec: EnvSpec, mode: str, split: str) -> str:
    """A hash of the tasks of a mode and split: settings files, or the class itself, may give others another day."""
    tasks = [[task.key, dict(task.data)] for task in spec.tasks(mode, split)]
    return hashlib.sha256(json.dumps(tasks, sort_keys=True).encode()).hexdigest()[:12]


class TestedGames(Frozen):
    """The games that were played, where a split alone does not tell which they are."""

    __test__ = False  # pytest takes classes named Test* for tests

    version: int | None = None
    """Version of text, rules and rewards; None: the result is older than such notes."""
    facts: dict[str, str] = Field(default_factory=dict)
    """Further facts of the environment (`NamesGames`), for example a digest of the games."""

    @classmethod
    def of(cls, spec: EnvSpec, mode: str, split: str) -> Self:
        """The games of a mode and split: a hash of the tasks, and what the game says of them."""
        game = spec.capability(NamesGames)
        named = {} if game is None else dict(game.games_tested(mode, split))
        return cls(version=spec.version, facts={TASKS_DIGEST: tasks_digest(spec, mode, split)} | named)

    def differ(self, other: TestedGames) -> bool:
        """Tell whether the games of two results are known to differ, in version, choice, text or engine."""
        # Without a version a result is older than these notes; other results lack facts that came later.
        if self.version is None or other.version is None:
            return False
        shared = self.facts.keys() & other.facts.keys() - {*PLAYER_FACTS}
        return self.version != other.version or any(self.facts[key] != other.facts[key] for key in shared)

    def can_pool(self, other: TestedGames) -> bool:
        """Tell whether two results can be one rate: all facts are the same, also those of the players.

        An older result does not say which tasks it was played on, and one without a version says nothing.
        """
        if self.version is None or other.version is None:
            return True
        # A fact that one side lacks stands for the usual setting there, and the other side has another one.
        said, others = ({k: v for k, v in one.facts.items() if k != TASKS_DIGEST} for one in (self, other))
        return said == others and not self.differ(other)


class RemotePlayers(Frozen):
    """Players that run behind a server rather than in this process."""

    chat_template: int | None = None
    """Version of the prompts that a chat model was given; None: no chat model played."""
    reflection_server: str | None = None
    """Host of the server that wrote the reflections."""
    reflection_model: str | None = None
    """Name of the model there."""
    endpoint: str | None = None
    """Host of the chat model that chose the actions."""
    answers: str | None = None
    """Form of its answers."""


class Condition(Frozen):
    """Key that tells a result from the others."""

    benchmark: str
    """Name of the environment."""
    tested: TestedGames = TestedGames()
    label_source: str
    """Source of the actions that the policy learned from."""
    demonstration_starts: int
    seed: int
    method: str
    algorithm: str
    """RL algorithm that trained the method, or `none`."""
    model: str
    """Language model of the policy, or `none`."""
    remote: RemotePlayers | None = None
    mode: str
    split: str
    decoding: Decoding
    horizon: int
    """Turns after which an episode counts as lost."""
    fingerprint: str = ""
    """Hash of rules, texts, prompts, splits and demonstrations: results with equal ones can be compared."""


class Stratum(Frozen):
    """Success on the tasks that share their properties."""

    properties: dict[str, str]
    episodes: int
    successes: int
    success_rate: float
    ci95: tuple[float, float]
    """Wilson's interval."""

    @classmethod
    def of(cls, properties: dict[str, str], won: Sequence[bool]) -> Self:
        """The stratum of tasks with these outcomes; at least one."""
        # Strata are small, often with every task won or lost: there Wilson's interval still has a width.
        count, successes = len(won), sum(won)
        return cls(
            properties=properties,
            episodes=count,
            successes=successes,
            success_rate=successes / count,
            ci95=wilson_interval(successes, count),
        )


class Costs(Frozen):
    """Costs of chat players: means over episodes, of all answers to the largest horizon.

    An answer that several episodes share was paid once, and counts for each of them.
    """

    invalid_answers: float
    """Answers that name no action, up to the row's horizon."""
    answers: float
    prompt_tokens: float
    completion_tokens: float
    cost: float
    """Price in the currency of the configured prices."""
    seconds_per_answer: float
    """Mean over answers."""
    seconds_per_answer_p95: float


class Measurement(Frozen):
    """Figures of one evaluation."""

    episodes: int
    successes: int
    success_rate: float
    ci95: tuple[float, float]
    """Wilson's interval, which takes episodes as independent."""
    mean_return: float | None = None
    """Undiscounted; None: nothing was played, as with an index."""
    mean_turns: float | None = None
    turns_per_second: float | None = None
    """Speed of play; None: nothing was played here, or answers were read from a cache. After an interruption, of the
    episodes that were played since."""
    measures: dict[str, float] = Field(default_factory=dict)
    """Means over episodes of what the environment measures (`HasMeasures`)."""
    costs: Costs | None = None
    strata: tuple[Stratum, ...] = ()

    @property
    def all_measures(self) -> dict[str, float]:
        """Measures of the environment, then the costs of chat players."""
        return self.measures | ({} if self.costs is None else dict(self.costs))


class ResultRow(Measurement, Condition):
    """A row of results: a measurement under a condition."""

    schema_version: Literal[2] = SCHEMA_VERSION

    @classmethod
    def of(cls, condition: Condition, measured: Measurement) -> Self:
        """The row of a measurement."""
        # `dict` keeps nested models as they are; `model_dump` would take them apart, only to validate them again.
        return cls(**dict(condition), **dict(measured))


def write_rows(path: Path, rows: Iterable[ResultRow]) -> None:
    """Write rows to a JSON file, whole or not at all."""
    # Absent rather than null: a row without chat players or measured games stays short to read.
    write_json(path, [row.model_dump(mode="json", exclude_none=True) for row in rows])


def read_rows(path: Path, remedy: str) -> tuple[ResultRow, ...]:
    """Rows of a file that `write_rows` wrote.

    Args:
        path: the file.
        remedy: end of the message where the file is of no use.

    Raises:
        RunFolderError: the file is missing, is of another version of this program, or holds something else.
    """
    rows = read_json_value(path, remedy)
    if not isinstance(rows, list) or not rows:
        raise RunFolderError(f"{path} holds no list of results. {remedy}")
    return tuple(_row(path, number, row, remedy) for number, row in enumerate(rows))


def _row(path: Path, number: int, row: Any, remedy: str) -> ResultRow:
    # Rows without a version are told apart here: validation would complain of single fields, and hide that the
    # whole file is of an earlier version.
    if isinstance(row, dict) and "success_rate" in row and row.get("schema_version") != SCHEMA_VERSION:
        raise RunFolderError(
            f"{path} was written by another version of this program (schema {row.get('schema_version', 1)} of results, "
            f"and {SCHEMA_VERSION} is read here): evaluate again in another --output-dir."
        )
    try:
        return ResultRow.model_validate(row)
    except ValidationError as error:
        # One error is enough for the reader: where one field is wrong, the remedy is the same as for ten.
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RunFolderError(f"{path}: row {number}: {place}: {first['msg']}. {remedy}") from None


def _metered(players: Sequence[Reflector | Policy]) -> list[Metered]:
    # Local players cost nothing that a bill could name.
    return [player for player in players if isinstance(player, Metered)]


def reset_usage(*players: Reflector | Policy) -> None:
    """Count the usage of players from zero, where they have any."""
    for player in _metered(players):
        player.reset_usage()


def is_metered(*players: Reflector | Policy) -> bool:
    """Tell whether a bill is kept of what one of the players takes."""
    return bool(_metered(players))


def progress_of(
    tell: Callable[[str], None], mode: str, *players: Reflector | Policy, known: Iterable[Episode] = ()
) -> Callable[[Episode], None]:
    """Make a callback that shows how many games have ended and been won, and what metered players have cost.

    Args:
        tell: shows a note.
        mode: that is played.
        players: both.
        known: episodes that were played before.
    """
    metered = _metered(players)
    ended = [episode.success for episode in known]

    def on_episode(episode: Episode) -> None:
        ended.append(episode.success)
        bills = [player.bill for player in metered]
        sent, cost = sum(bill.requests for bill in bills), sum(bill.cost for bill in bills)
        spent = f", {sent} requests" if metered else ""
        tell(f"{mode} {sum(ended)} of {len(ended)} won{spent}" + (f", cost {cost:.4g}" if cost else ""))

    return on_episode


def origin_of(*players: Reflector | Policy) -> RemotePlayers | None:
    """Collect what the record says of players that are not in this process; None where both are."""
    noted: dict[str, str | int] = {}
    for player in players:
        if isinstance(player, RunsElsewhere):
            noted |= player.origin
    return RemotePlayers.model_validate(noted) if noted else None


def costs_of(episodes: Sequence[Episode], horizon: int, *players: Reflector | Policy) -> Costs | None:
    """Count what metered players took since `reset_usage`; None where nobody was asked.

    Args:
        episodes: at least one.
        horizon: of the row.
        players: both.
    """
    import numpy as np  # here, because whoever only searches files needs none of it

    used = [player.usage for player in _metered(players)]
    # Every answer has its seconds, so an empty list means that nobody was asked.
    seconds = [value for usage in used for value in usage.seconds]
    if not seconds:
        return None
    # Longer episodes than the row's horizon were played, and their later turns belong to other rows.
    turns = [turn for episode in episodes for turn in episode.turns[:horizon]]
    count = len(episodes)
    return Costs(
        invalid_answers=sum(turn.decision.index == NO_ACTION for turn in turns) / count,
        answers=len(seconds) / count,
        prompt_tokens=sum(usage.prompt_tokens for usage in used) / count,
        completion_tokens=sum(usage.completion_tokens for usage in used) / count,
        cost=sum(usage.cost for usage in used) / count,
        seconds_per_answer=sum(seconds) / len(seconds),
        seconds_per_answer_p95=float(np.percentile(seconds, 95)),
    )


Z_95 = 1.959964
"""97.5% quantile of the standard normal distribution."""


def wilson_interval(successes: int, episodes: int, z: float = Z_95) -> tuple[float, float]:
    """Score interval of a binomial rate (Wilson 1927, JASA 22:209).

    Args:
        successes: episodes won.
        episodes: episodes played; with none, nothing is known and the interval is (0, 1).
        z: normal quantile; the default gives 95%.

    Raises:
        ValueError: not 0 <= successes <= episodes.

    >>> [round(end, 4) for end in wilson_interval(8, 10)]
    [0.4902, 0.9433]
    >>> wilson_interval(0, 0)
    (0.0, 1.0)
    """
    if not 0 <= successes <= episodes:
        raise ValueError(f"{successes} successes in {episodes} episodes: a count is wrong.")
    if episodes == 0:
        return 0.0, 1.0
    rate, correction = successes / episodes, z * z / episodes
    centre = (rate + correction / 2) / (1 + correction)
    half = z * math.sqrt(rate * (1 - rate) / episodes + correction / (4 * episodes)) / (1 + correction)
    # At rates 0 and 1 the exact end is 0 or 1; rounding must not move it.
    lo = 0.0 if successes == 0 else max(0.0, centre - half)
    hi = 1.0 if successes == episodes else min(1.0, centre + half)
    return lo, hi


class EvaluationConfig(Frozen):
    """Evaluation of every method."""

    modes: tuple[str, ...] = ()
    """Modes to evaluate (empty: those of the environment's configuration)."""
    split: Literal["train", "validation", "test"] = "test"
    """Tasks to evaluate on; choose hyperparameters on `validation`."""
    horizons: tuple[int, ...] = ()
    """Horizons in turns (empty: those of the environment, or its longest episode)."""
    decodings: tuple[DecodingSetting, ...] = Field(("sampled", "greedy"), min_length=1)
    """Choice of actions: `sampled` at temperature 1 (as in the paper), `greedy`, or `sampled@T` at another
    temperature, such as `sampled@0.4`."""
    repetitions: int = Field(3, ge=1)
    """Sampled episodes per task (greedy play is deterministic: one)."""
    num_envs: int = Field(64, ge=1)
    """Games played at once."""


@dataclass(frozen=True)
class EvaluatedEpisode:
    """An episode and how it was evaluated: a line of `episodes.jsonl`."""

    episode: Episode
    mode: str
    decoding: str
    horizon: int | None = None
    """Turns after which it would have been cut off; None: the longest horizon of the run."""

    def to_json(self) -> dict[str, object]:
        """The line as a JSON object."""
        told = {} if self.horizon is None else {"horizon": self.horizon}
        return to_json(self.episode) | {"mode": self.mode, "decoding": self.decoding} | told


def evaluate(  # noqa: PLR0913 (each part of a game is a part of the call)
    spec: EnvSpec,
    config: EvaluationConfig,
    mode: str,
    decoding: str,
    reflector: Reflector,
    policy: Policy,
    *,
    shuffle_labels: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    known: Mapping[int, Episode] | None = None,
    on_episode: Callable[[Episode], None] | None = None,
) -> tuple[list[Episode], float | None]:
    """The episodes of one mode and decoding, and the turns played per second (None: none had to be played).

    Every method plays the same tasks with the same seeds, so methods can be compared in pairs.

    Args:
        spec: the environment.
        config: what to play.
        mode: of the environment.
        decoding: how actions are chosen.
        reflector: the reflection player.
        policy: the policy.
        shuffle_labels: number the actions in a random order in every state.
        limits: how long environment and players may take.
        known: episodes by seed that were played before; these are not played again.
        on_episode: called with each episode that is played, as it ends.

    Raises:
        FaultyEnvironmentError: an episode failed, and it cannot be left out here; or the game gives wrong strata, or
            wrong measures of the first episode that ends.
        FaultyPlayerError: a player hung, or answered what cannot be played.
    """
    tasks = spec.tasks(mode, config.split)
    # A deterministic player would only repeat itself: copies would narrow the interval without new knowledge.
    copies = config.repetitions if temperature_of(decoding) else 1
    requests = [evaluation_request(task, copy) for task in tasks for copy in range(copies)]
    # Before anything is played: told by the rows, a wrong value would come after the last episode.
    by_strata(spec, [(task, False) for task in tasks])
    ended = list[Episode]()

    def note(episode: Episode) -> None:
        if on_episode is not None:
            on_episode(episode)
        # One alone, because measuring may take as long as playing.
        if not ended:
            ended.append(episode)
            summary(spec, ended)

    found = dict(known or {})
    started = time.perf_counter()
    played = play(
        spec,
        [request for request in requests if request.seed not in found],
        reflector,
        policy,
        num_envs=config.num_envs,
        max_episode_steps=max(config.horizons or spec.horizons),
        shuffle_labels=shuffle_labels,
        # Training may leave out a few failed episodes; here one failure ends the evaluation.
        limits=limits.without_failures(),
        on_episode=note,
    )
    turns, seconds = sum(len(episode.turns) for episode in played), time.perf_counter() - started
    found |= {episode.seed: episode for episode in played}
    return [found[request.seed] for request in requests], turns / max(seconds, 1e-9) if turns else None


def measured(
    episodes: Sequence[Episode],
    horizon: int,
    turns_per_second: float | None,
    spec: EnvSpec | None = None,
    costs: Costs | None = None,
) -> Measurement:
    """Success rate with its Wilson interval, mean return and mean length at one horizon.

    Args:
        episodes: at least one, played to this horizon or a longer one.
        horizon: turns after which an episode counts as lost.
        turns_per_second: speed of play; None: not known.
        spec: the environment that was played; what it measures, and success by kind of task, is added.
        costs: what chat players took. The time of play says nothing where answers were in a cache, so the row of chat
            players has no speed.
    """
    successes = sum(episode.success_within(horizon) for episode in episodes)
    # Rewards after the horizon are cut off, too, so that return and success speak of the same turns.
    returns = [sum(turn.reward for turn in episode.turns[:horizon]) for episode in episodes]
    mean_turns = sum(min(len(episode.turns), horizon) for episode in episodes) / len(episodes)
    # Answers from a cache take no time, so a chat player has no speed.
    speed = None if costs is not None else turns_per_second
    cut_episodes = [cut(episode, horizon) for episode in episodes]
    measures = {} if spec is None else summary(spec, cut_episodes)
    if measures and speed:
        # Wall time over episodes: many are played at once, so one alone takes longer.
        measures["seconds_per_episode"] = mean_turns / speed
    return Measurement(
        episodes=len(episodes),
        successes=successes,
        success_rate=successes / len(episodes),
        # Wilson rather than rate ± 1.96 standard errors: that has no width at 0% and 100%, which occur here.
        ci95=wilson_interval(successes, len(episodes)),
        mean_return=sum(returns) / len(episodes),
        mean_turns=mean_turns,
        turns_per_second=None if speed is None else round(speed, 1),
        measures=measures,
        costs=costs,
        strata=() if spec is None else by_strata(spec, [(each.task, each.success) for each in cut_episodes]),
    )


def cut(episode: Episode, horizon: int) -> Episode:
    """The beginning of an episode, as it would have been at a shorter horizon."""
    if len(episode.turns) <= horizon:
        return episode
    # The end that was played lies beyond the horizon: at this one the episode was neither won nor over.
    return replace(episode, turns=episode.turns[:horizon], success=False, terminated=False, truncated=True)


def summary(spec: EnvSpec, episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over episodes of what the environment measures; empty where it measures nothing.

    Args:
        spec: the environment that was played.
        episodes: at least one, cut to the horizon.

    Raises:
        FaultyEnvironmentError: `measures` failed, gave no finite number, or names that differ between episodes.
    """
    game = spec.capability(HasMeasures)
    if game is None:
        return {}
    rows = [_measures(spec, game, episode) for episode in episodes]
    # Every episode of an environment has the same measures, so the first one names them.
    for episode, row in zip(episodes, rows, strict=True):
        if row.keys() != rows[0].keys():
            raise FaultyEnvironmentError(
                f"{spec.identity}, task {episode.task.key}, HasMeasures: measures() names {sorted(row)}, and of task "
                f"{episodes[0].task.key} {sorted(rows[0])}. Give every episode the same measures."
            )
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _measures(spec: EnvSpec, game: HasMeasures, episode: Episode) -> dict[str, float]:
    what = f"{spec.identity}, task {episode.task.key}, HasMeasures: measures()"

    def taken() -> dict[str, float]:
        row = {}
        for name, value in game.measures(episode).items():
            # So that numbers of NumPy are taken and texts are not, which `float` would read.
            number = float(value) if isinstance(value, SupportsFloat) else math.nan
            if not isinstance(name, str) or not math.isfinite(number):
                raise FaultyEnvironmentError(
                    f"{what} gives {name!r:.100} the value {value!r:.100}. Give a text as name and a finite number."
                )
            row[name] = number
        return row

    return guarded(what, 0, taken)


def by_strata(spec: EnvSpec, outcomes: Iterable[tuple[Task, bool]]) -> tuple[Stratum, ...]:
    """Success for each combination of properties that occurs, sorted by the properties.

    Args:
        spec: the environment that the tasks are of.
        outcomes: task and success of each episode, or of whatever else answers.

    Raises:
        FaultyEnvironmentError: `strata` failed, or gave something else than texts.
    """
    game = spec.capability(HasStrata)
    if game is None:
        return ()
    won: dict[tuple[tuple[str, str], ...], list[bool]] = {}
    for task, success in outcomes:
        # A mapping cannot be a key; its items can, and keep the order in which the environment names them.
        won.setdefault(tuple(_strata(spec, game, task).items()), []).append(success)
    return tuple(Stratum.of(dict(kind), wins) for kind, wins in sorted(won.items()))


def _strata(spec: EnvSpec, game: HasStrata, task: Task) -> dict[str, str]:
    what = f"{spec.identity}, task {task.key}, HasStrata: strata()"
    found = guarded(what, 0, lambda: dict(game.strata(task)))
    for name, value in found.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise FaultyEnvironmentError(
                f"{what} gives {name!r:.100} the value {value!r:.100}. Give texts, such as str(...)."
            )
    return found
