"""RL algorithms, one file each: pure tensors in, loss out. They know no model.

An algorithm of another package is written against the names below.
"""

from reflect_rl.algorithms._batch import Advantages, Algorithm, Batch, Critic, Loss, Outputs, Trajectory
from reflect_rl.algorithms._common import (
    MOVED_BY_ADVANTAGES,
    BaselineConfig,
    Clipped,
    ClippedConfig,
    Grouped,
    PolicyGradientConfig,
    finite,
    importance_weights,
    moved_by_advantages,
    normalised,
    per_turn,
    regularisers,
    returns_of,
    shaped_rewards,
    total_reward_std,
    weighted_loss,
)
from reflect_rl.algorithms._returns import generalised_advantages, group_relative, leave_one_out, rewards_to_go, std

__all__ = [
    "MOVED_BY_ADVANTAGES",
    "Advantages",
    "Algorithm",
    "BaselineConfig",
    "Batch",
    "Clipped",
    "ClippedConfig",
    "Critic",
    "Grouped",
    "Loss",
    "Outputs",
    "PolicyGradientConfig",
    "Trajectory",
    "finite",
    "generalised_advantages",
    "group_relative",
    "importance_weights",
    "leave_one_out",
    "moved_by_advantages",
    "normalised",
    "per_turn",
    "regularisers",
    "returns_of",
    "rewards_to_go",
    "shaped_rewards",
    "std",
    "total_reward_std",
    "weighted_loss",
]
