"""Pairs to learn from: read from a file of answers, or made by the true reward; the one file that needs reflect-report.

The reward chooses between episodes that a policy plays from training starts: the one with the higher undiscounted
return, or, of two actions in one state, the one after which the game's solver earns more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reflect_algorithms.comparisons import Comparison, Played
from reflect_algorithms.preferences.settings import Compared, PairsConfig
from reflect_report.preferences.pairs import Pair, Played as PlayedEpisode, action_pairs, episode_pairs, value_by_solver
from reflect_report.preferences.records import (
    OTHER_SIDE,
    REWARD,
    ActionSide,
    Choice,
    EpisodeSide,
    Preference,
    read_preferences,
)
from reflect_rl.envs.base import EnvSpec, HasSolver
from reflect_rl.errors import UserError
from reflect_rl.types import NO_ACTION, Episode, Task, View, stream

WHEN = "1970-01-01T00:00:00+00:00"
"""Time of a choice by the reward: none, so that the same seed writes the same file."""


@dataclass(frozen=True)
class Source:
    """Facts about the game and the pairs that a choice by the reward is written with."""

    spec: EnvSpec
    fingerprint: str
    compare: Compared
    seed: int
    """Seed of the pairs, their sides and the noise."""
    method: str = "sft"
    unit: str = ""


def by_reward(source: Source, episodes: Iterable[Episode], noise: float = 0.0) -> Iterator[Preference]:
    """The preferences of the true reward; pairs of equal or unknown value are left out.

    Args:
        source: game, kind of the pairs, and seed.
        episodes: of training tasks.
        noise: probability with which a choice is turned round.

    Raises:
        CapabilityError: actions are compared, and the game has no solver.
    """
    played = [PlayedEpisode(episode, source.method, source.unit, "sampled") for episode in episodes]
    pairs: Iterable[Pair]
    if source.compare == "actions":
        source.spec.needed(HasSolver, "a reward that compares actions")
        pairs = action_pairs(played, source.seed, value_by_solver(source.spec))
    else:
        pairs = episode_pairs(played, source.seed)
    for pair in pairs:
        row = _preference(source, pair, noise)
        truth = row.true_choice
        if truth in ("left", "right"):
            turned = stream(source.seed, "pairs", "noise", pair.mark).random() < noise
            choice: Choice = OTHER_SIDE[truth] if turned else truth
            yield row.model_copy(update={"choice": choice})


def _preference(source: Source, pair: Pair, noise: float) -> Preference:
    return Preference(
        pair=pair.hash,
        environment=source.spec.identity,
        fingerprint=source.fingerprint,
        task=pair.task,
        situation=pair.situation,
        left=pair.left,
        right=pair.right,
        choice="skip",
        by=REWARD,
        source="reward",
        noise=noise,
        when=WHEN,
    )


def made_pairs(
    config: PairsConfig, source: Source, tasks: Sequence[Task], play_round: Callable[[int], list[Episode]]
) -> list[Preference]:
    """So many preferences of the true reward, between episodes that are played for them.

    Args:
        config: number and noise.
        source: game, kind of the pairs, and seed.
        tasks: the starts.
        play_round: plays one episode of each of them, another one for each number.

    Raises:
        UserError: the episodes do not differ often enough.
    """
    # One pair of actions for each episode; all pairs of the episodes of a start.
    rounds = 1 + config.count // len(tasks) if source.compare == "actions" else 2
    episodes: list[Episode] = []
    played = 0
    found: list[Preference] = []
    # Eight times as many at the most: a policy that always plays the same gives no pairs, however long it plays.
    for limit in (rounds, 2 * rounds, 4 * rounds, 8 * rounds):
        for number in range(played, limit):
            episodes += play_round(number)
        played = limit
        found = list(by_reward(source, episodes, config.noise))
        if len(found) >= config.count:
            return found[: config.count]
    raise UserError(
        f"preferences.pairs.count: {len(episodes)} episodes of {len(tasks)} starts make {len(found)} pairs that differ "
        f"in reward, and {config.count} are asked for. Lower it, or raise data.demonstration_starts."
    )


def read_pairs(path: Path, config: PairsConfig, spec: EnvSpec, fingerprint: str | None) -> list[Preference]:
    """The preferences of a file that are about training starts.

    Args:
        path: as `reflect-rl prefer` writes it.
        config: least number of pairs.
        spec: the game that they must be about.
        fingerprint: that of the run they must be about (None: any).

    Raises:
        PreferenceError: a line is damaged, contradicts another of the same person, is about another game or start.
        UserError: fewer pairs of training starts than `config.count`.
    """
    every = read_preferences(path, spec=spec, fingerprint=fingerprint)
    # Results on tasks that were learned from would look like generalisation.
    kept = [one for one in every if one.task.split == "train"]
    pairs = {one.pair for one in kept if one.choice in ("left", "right")}
    if len(pairs) < config.count:
        raise UserError(
            f"preferences.pairs.file: {path} holds {len(pairs)} pairs of training starts with a better side, and "
            f"preferences.pairs.count asks for {config.count}. Collect more with `reflect-rl prefer`, or lower it."
        )
    return kept


@dataclass(frozen=True)
class Counts:
    """Numbers of a file of preferences, for its card."""

    pairs: int
    """Comparisons that are learned from or measured with."""
    no_side: int
    """Answers `equal` and `skip`, which name no better side."""
    contradicted: int
    """Answers to pairs on which two people disagree, kept or dropped as the settings say."""
    excluded: int
    """Answers of which a side has no turn left outside the states where held-out tasks begin."""
    wrong: int
    """Comparisons that the true reward would have answered otherwise, where it is known."""

    def left_out(self, config: PairsConfig) -> str:
        """Sentence on answers with a side that are in no comparison; empty where there are none."""
        text = ""
        if self.contradicted and config.contradictions == "drop":
            text += (
                f"{self.contradicted} answers were dropped, since people disagree on their pairs "
                "(preferences.pairs.contradictions), though preferences.pairs.count counts these. "
            )
        if self.excluded:
            text += f"{self.excluded} answers were left out, since a side has only states where held-out tasks begin. "
        return text.strip()


def comparisons_of(
    preferences: Sequence[Preference], config: PairsConfig, excluded: frozenset[str] = frozenset()
) -> tuple[list[Comparison], Counts]:
    """Comparisons that can be learned from preferences, and how many they were.

    Args:
        preferences: of one game.
        config: what to do with contradictions.
        excluded: states that nothing is learned from.
    """
    sided = [one for one in preferences if one.choice in ("left", "right")]
    answers: dict[str, set[str | None]] = defaultdict(set)
    for one in sided:
        answers[one.pair].add(one.preferred)
    contradicted = [one for one in sided if len(answers[one.pair]) > 1]
    if config.contradictions == "drop":
        sided = [one for one in sided if len(answers[one.pair]) == 1]
    found = [_comparison(one, excluded) for one in sided]
    kept = [one for one in found if one.better and one.worse]
    no_side = sum(one.choice in ("equal", "skip") for one in preferences)
    wrong = sum(one.agrees is False for one in kept)
    return kept, Counts(len(kept), no_side, len(contradicted), len(found) - len(kept), wrong)


def _comparison(one: Preference, excluded: frozenset[str]) -> Comparison:
    left, right = _played(one, one.left, excluded), _played(one, one.right, excluded)
    truth = one.true_choice
    agrees = None if truth not in ("left", "right") else truth == one.choice
    better, worse = (left, right) if one.choice == "left" else (right, left)
    return Comparison(one.task.key, better, worse, agrees)


def _played(one: Preference, side: EpisodeSide | ActionSide, excluded: frozenset[str]) -> Played:
    if isinstance(side, EpisodeSide):
        # Without the reflections: whoever learns from pairs plays without a reflection player.
        return tuple(
            (turn.plain_view, turn.decision.index)
            for turn in side.episode.turns
            if turn.decision.index != NO_ACTION and turn.observation.state not in excluded
        )
    assert one.situation is not None  # noqa: S101 (the format says so, and the reader has checked it)
    seen = one.situation.observation
    return () if seen.state in excluded else ((View(seen, tuple(range(len(seen.actions)))), side.index),)
