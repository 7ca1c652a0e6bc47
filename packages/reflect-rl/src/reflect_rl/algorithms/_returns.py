"""Returns and advantages of whole episodes. Plain numbers, no tensors.

The horizon is part of the task (the paper's H), so a truncated episode earns nothing after its last turn and nothing is
bootstrapped there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

ROUNDING = 1e-12
"""Largest difference of a return and a mean of equal ones, as a part of the return or of one."""
SMALLEST_STD = 1e-8
"""Bound below which values count as equal: what differs is rounding."""


def rewards_to_go(rewards: Sequence[float], gamma: float = 1.0) -> list[float]:
    """Reward still to come at each turn of an episode: G_t = r_t + γ G_{t+1}, with the discount `gamma`.

    Sutton & Barto 2018, eq. 3.9; their R_{t+1} is our r_t.

    >>> rewards_to_go([-1.0, -1.0, 20.0])
    [18.0, 19.0, 20.0]
    """
    total, out = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        out.append(total)
    return out[::-1]


def generalised_advantages(
    rewards: Sequence[float], values: Sequence[float], gamma: float = 1.0, gae_lambda: float = 0.95
) -> list[float]:
    """GAE(γ, λ): Â_t = δ_t + γλ Â_{t+1}, δ_t = r_t + γ V(s_{t+1}) - V(s_t) (Schulman et al. 2016, eq. 16).

    Args:
        rewards: r_t of each turn of an episode.
        values: V(s_t) of each turn, in units of reward.
        gamma: γ, discount of a turn.
        gae_lambda: λ: 0 = the temporal difference alone, 1 = the return minus the value:

    >>> generalised_advantages([0.0, 1.0], [0.25, 0.5], gae_lambda=1.0)
    [0.75, 0.5]
    """
    # `upcoming` begins at zero: nothing follows the last turn, truncated or not.
    advantage, upcoming, out = 0.0, 0.0, []
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + gamma * upcoming - value + gamma * gae_lambda * advantage
        upcoming = value
        out.append(advantage)
    return out[::-1]


def leave_one_out(groups: Sequence[str], returns: Sequence[float]) -> list[float]:
    """Return of each episode minus the mean return of the other episodes of its group.

    RLOO (Ahmadian et al. 2024, eq. 9). A group of one has no others; its baseline is the mean over all episodes.

    >>> leave_one_out(["a", "a", "a"], [1.0, 0.0, 0.5])
    [0.75, -0.75, 0.0]
    """
    members = _members(groups, returns)
    overall = float(np.mean(returns))
    out = []
    for group, value in zip(groups, returns, strict=True):
        count, total = len(members[group]), sum(members[group])
        # The others' sum without adding them up for each member.
        out.append(_above(value, (total - value) / (count - 1) if count > 1 else overall))
    return out


def group_relative(
    groups: Sequence[str], values: Sequence[float], *, scaled: bool = True, pool_singles: bool = False
) -> list[float]:
    """Subtract from each value the mean of its group, divided by the group's standard deviation.

    Shao et al. 2024, section 4.1.2, with the standard deviation over n; a group whose values are all equal gives zeros.

    Args:
        groups: name of each value's group.
        values: the values.
        scaled: divide by the standard deviation (False: Liu et al. 2025, Dr. GRPO).
        pool_singles: a group of one is compared with all values; otherwise its result is zero.

    >>> group_relative(["a", "a", "b"], [3.0, 1.0, 5.0])
    [1.0, -1.0, 0.0]
    """
    members = _members(groups, values)
    out = []
    for group, value in zip(groups, values, strict=True):
        # A group of one has no mean to be above; against all values it still learns whether it did well.
        peers = values if pool_singles and len(members[group]) == 1 else members[group]
        out.append(_above(value, float(np.mean(peers))) / (std(peers) if scaled else 1.0))
    return out


def _members(groups: Sequence[str], values: Sequence[float]) -> dict[str, list[float]]:
    members: dict[str, list[float]] = defaultdict(list)
    for group, value in zip(groups, values, strict=True):
        members[group].append(value)
    return members


def turn_baseline(returns: Sequence[Sequence[float]]) -> list[list[float]]:
    """Rewards-to-go minus their mean over all episodes that are still running at the same turn.

    >>> turn_baseline([[1.0, 2.0], [3.0]])
    [[-1.0, 0.0], [1.0]]
    """
    longest = max(map(len, returns))
    # For each turn its own mean: late turns have less reward to come than early ones.
    means = [float(np.mean([row[t] for row in returns if t < len(row)])) for t in range(longest)]
    return [[_above(value, means[t]) for t, value in enumerate(row)] for row in returns]


def _above(value: float, baseline: float) -> float:
    """The difference; exactly zero where it is rounding, as a turn whose advantage is zero is not computed."""
    difference = value - baseline
    return difference if abs(difference) > ROUNDING * max(1.0, abs(value)) else 0.0


def std(values: Sequence[float]) -> float:
    """Standard deviation of the values, as a divisor: 1 where they are all equal and give no scale.

    >>> std([2.0, -2.0]), std([3.0, 3.0])
    (2.0, 1.0)
    """
    # Dividing equal values by their rounding error would make noise of them.
    scale = float(np.std(values)) if len(values) else 0.0
    return scale if scale > SMALLEST_STD else 1.0
