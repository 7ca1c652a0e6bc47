"""Text environments, one file each; they know no prompt, no model and no algorithm.

Importing this package registers the games with Gymnasium, so that `gymnasium.make("reflect_rl/Corridor-v1")` works. The
file of a game is imported when one is made.
"""

import gymnasium

__all__: list[str] = []

_REGISTERED = (
    ("reflect_rl/Alfworld-v1", "alfworld_native.plugin.env:Environment", 50),
    ("reflect_rl/Autoexplore-v1", "reflect_locate.envs.autoexplore:Environment", 15),
    ("reflect_rl/AutoexplorePaper-v1", "reflect_locate.envs.autoexplore_paper:Environment", 15),
    ("reflect_rl/Corridor-v1", "reflect_rl.envs.corridor:Environment", 20),
    ("reflect_rl/DangerousTaxi-v1", "reflect_rl.envs.dangerous_taxi:Environment", 30),
)
"""Gymnasium id, class, and turns after which `gymnasium.make` truncates."""

for _id, _entry_point, _horizon_turns in _REGISTERED:
    if _id not in gymnasium.registry:
        gymnasium.register(_id, entry_point=_entry_point, max_episode_steps=_horizon_turns)
