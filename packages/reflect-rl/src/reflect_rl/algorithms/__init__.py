"""RL algorithms, one file each: pure tensors in, loss out. They know no model.

An algorithm of another package is written against the names below.
"""

from reflect_rl.algorithms._batch import Advantages, Algorithm, Batch, Critic, Loss, Outputs, Trajectory
from reflect_rl.algorithms._common import PolicyGradientConfig, regularisers
from reflect_rl.algorithms._returns import rewards_to_go

__all__ = [
    "Advantages",
    "Algorithm",
    "Batch",
    "Critic",
    "Loss",
    "Outputs",
    "PolicyGradientConfig",
    "Trajectory",
    "regularisers",
    "rewards_to_go",
]
