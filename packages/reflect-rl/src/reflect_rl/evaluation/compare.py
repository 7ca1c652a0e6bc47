"""The outcome of an evaluation from Python, and the paired test against another one. All formulas are closed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import UserError
from reflect_rl.evaluation.evaluate import PLAYER_FACTS, wilson_interval
from reflect_rl.types import Episode

APART = ("name", "modes", "max_episode_steps", *PLAYER_FACTS)
"""Settings that leave the games as they are: episodes and horizons are compared by themselves."""


def rules_of(spec: EnvSpec) -> dict[str, object]:
    """The settings of an environment by which two evaluations may have been of different games."""
    return spec.config.model_dump(mode="json", exclude={*APART, *spec.env_class.evaluation_only})


@dataclass(frozen=True)
class Evaluation:
    """Episodes of one player on the tasks of a split, none left out."""

    player: str
    """Name of the policy."""
    environment: str
    """Name and version, for example `dangerous_taxi-v1`."""
    split: str
    """`train`, `validation` or `test`."""
    decoding: str
    """`sampled` or `greedy`."""
    horizon: int
    """Turns after which an episode counts as lost."""
    episodes: tuple[Episode, ...]
    turns_per_second: float
    """Speed of play."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings that may change the game (`rules_of`)."""

    @property
    def successes(self) -> int:
        """Episodes that were won within the horizon."""
        return sum(episode.success_within(self.horizon) for episode in self.episodes)

    @property
    def rate(self) -> float:
        """Share of the episodes that were won, in [0, 1]."""
        return self.successes / len(self.episodes)

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the rate (Wilson 1927). Episodes of the same task count as independent."""
        return wilson_interval(self.successes, len(self.episodes))

    @property
    def mean_return(self) -> float:
        """Mean undiscounted return of the episodes."""
        return sum(episode.total_reward for episode in self.episodes) / len(self.episodes)

    @property
    def mean_turns(self) -> float:
        """Mean number of turns of the episodes."""
        return sum(len(episode.turns) for episode in self.episodes) / len(self.episodes)

    def compare(self, other: Evaluation) -> PairedDifference:
        """This rate minus another one, over the episodes that both played, with interval and exact McNemar test.

        Args:
            other: an evaluation on the same environment and split. Where one was sampled more often than the other,
                the episodes that both have are compared. Other decodings and horizons are compared as they are, and
                named.

        Raises:
            UserError: the environments or their settings differ, or no task was played by both.
        """
        if not isinstance(other, Evaluation):
            raise UserError(f"{other!r:.200} is no evaluation. Give what evaluate(...) returns.")
        if (self.environment, self.split) != (other.environment, other.split):
            raise UserError(
                f"cannot compare {self.environment} ({self.split}) with {other.environment} ({other.split}): "
                "evaluate both on the same environment and split."
            )
        known = [name for name in self.settings if name in other.settings]
        if changed := [name for name in known if self.settings[name] != other.settings[name]]:
            ours, theirs = (
                ", ".join(f"{name}={one.settings[name]!r:.100}" for name in changed) for one in (self, other)
            )
            raise UserError(
                f"cannot compare {self.environment} with {ours} and {other.environment} with {theirs}, which may be "
                "other games: evaluate both with the same settings."
            )
        outcomes, others = self._outcomes(), other._outcomes()
        # Shared starts only: over different tasks, a difference of rates would also show which tasks were easier.
        common = [key for key in outcomes if key in others]
        if not common:
            raise UserError(
                "no task was played in both evaluations, so they cannot be compared. Tasks are the same where mode, "
                "key and data are: give both evaluations the environment with the same settings."
            )
        # Both sides meet the same starts, so their wins are correlated. A test of two independent rates would ignore
        # this; the exact McNemar test counts the starts that only one side won.
        found = paired_difference([outcomes[key] for key in common], [others[key] for key in common])
        told = [f"{self.decoding} against {other.decoding}"] if self.decoding != other.decoding else []
        if self.horizon != other.horizon:
            told.append(f"horizon {self.horizon} against {other.horizon}")
        return replace(found, differs=", ".join(told))

    def _outcomes(self) -> dict[tuple[str, str, str, int], bool]:
        # The task alone is no key: sampled play repeats it, each time with another seed. Nor is its name: modes may
        # share names, and with other settings of the game a name may stand for another start.
        return {
            (e.task.mode, e.task.key, json.dumps(dict(e.task.data), sort_keys=True), e.seed): e.success_within(
                self.horizon
            )
            for e in self.episodes
        }

    def __str__(self) -> str:
        lo, hi = self.interval
        return (
            f"{self.player} on {self.environment} ({self.split}, {self.decoding}, horizon {self.horizon}): "
            f"{self.rate:.1%} won [95% interval {lo:.1%} to {hi:.1%}], {self.successes} of {len(self.episodes)} "
            f"episodes, {self.mean_turns:.1f} turns on average"
        )


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Success rate of A minus success rate of B, both measured on the same starts."""

    difference: float
    """In [-1, 1]."""
    lo: float
    """Lower end of the 95% interval."""
    hi: float
    """Upper end of the 95% interval."""
    p_value: float
    """Exact two-sided McNemar test of "no difference"."""
    pairs: int
    """Episodes that both sides played, from the same starts; repetitions of a start count each."""
    differs: str = ""
    """Decoding and horizon of both sides where they are not the same, for the printed line."""

    def __str__(self) -> str:
        lo, hi = 100 * self.lo, 100 * self.hi
        episodes = f"{self.pairs} shared episode{'s' * (self.pairs != 1)}"
        return (
            f"{100 * self.difference:+.1f} percentage points [95% interval {lo:+.1f} to {hi:+.1f}], "
            f"{episodes}, McNemar p = {self.p_value:.3g}" + (f"; {self.differs}" if self.differs else "")
        )


def mcnemar_p_value(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar test: are the starts that only one side won split evenly?

    Args:
        only_a: starts that A won and B lost.
        only_b: starts that B won and A lost.

    >>> mcnemar_p_value(5, 0)
    0.0625
    """
    discordant = only_a + only_b
    # Doubling counts the middle twice where both sides won as often; a p-value is 1 at most.
    tail = sum(math.comb(discordant, k) for k in range(min(only_a, only_b) + 1))
    return min(1.0, 2 * tail / 2**discordant)


def paired_difference(a: Sequence[bool], b: Sequence[bool]) -> PairedDifference:
    """Difference of two paired success rates, with a 95% interval and a test.

    The interval is Newcombe's method 10 (1998, Statistics in Medicine 17:2635): the Wilson intervals of both rates,
    combined by square-and-add with a continuity-corrected φ correlation. The p-value is the exact McNemar test.

    Args:
        a: success of A at each start.
        b: success of B at the same starts, in the same order.

    Raises:
        ValueError: the lengths differ, or there is no pair.

    >>> paired_difference([True] * 6, [True] + [False] * 5).p_value
    0.0625
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"cannot pair {len(a)} with {len(b)} outcomes: give one outcome of each side per start.")
    both = sum(bool(x and y) for x, y in zip(a, b, strict=True))
    only_a, only_b = sum(map(bool, a)) - both, sum(map(bool, b)) - both
    rate_a, rate_b = (both + only_a) / len(a), (both + only_b) / len(a)
    lo_a, hi_a = wilson_interval(both + only_a, len(a))
    lo_b, hi_b = wilson_interval(both + only_b, len(a))
    phi = _corrected_phi(both, only_a, only_b, len(a) - both - only_a - only_b)
    difference = rate_a - rate_b
    return PairedDifference(
        difference=difference,
        lo=difference - _square_and_add(rate_a - lo_a, hi_b - rate_b, phi),
        hi=difference + _square_and_add(hi_a - rate_a, rate_b - lo_b, phi),
        p_value=mcnemar_p_value(only_a, only_b),
        pairs=len(a),
    )


def _square_and_add(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(0.0, first * first - 2 * phi * first * second + second * second))


def _corrected_phi(both: int, only_a: int, only_b: int, neither: int) -> float:
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    # A side that won all or lost all: φ is not defined, and Newcombe takes 0.
    if margins == 0:
        return 0.0
    excess = float(both * neither - only_a * only_b)
    if excess > 0:
        # Newcombe corrects a positive association only; a correction must not turn its sign.
        excess = max(excess - (both + only_a + only_b + neither) / 2, 0.0)
    return excess / math.sqrt(margins)
