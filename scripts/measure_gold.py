"""Play ScienceWorld's gold paths from the lists of commands, and print the table of the guide.

python scripts/measure_gold.py                         # all tasks, three training variations each
python scripts/measure_gold.py --modes melt boil --games 10 --most-actions 1000

A game is won with all points. Commands of a gold path that are not listed are left out.
"""

from __future__ import annotations

import argparse

from reflect_games.scienceworld.env import MODES, ScienceWorld
from reflect_rl.envs.base import EnvSpec
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector, Request, play


def main() -> None:
    """Print a row of the table for each task."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="tasks (all)")
    parser.add_argument("--games", type=int, default=3, help="training variations of each task")
    parser.add_argument("--most-actions", type=int, default=100, help="commands of a state")
    parser.add_argument("--turns", type=int, default=300, help="turns after which a game is lost")
    arguments = parser.parse_args()
    for mode in arguments.modes:
        spec = EnvSpec.of(
            ScienceWorld, modes=(mode,), max_episode_steps=arguments.turns, most_actions=arguments.most_actions
        )
        tasks = spec.tasks(mode, "train")[: arguments.games]
        won = 0
        for task in tasks:
            (episode,) = play(spec, [Request(task, 0)], NoReflector(), OraclePolicy())
            won += episode.success
        print(f"| `{mode}` | {won} of {len(tasks)} |", flush=True)


if __name__ == "__main__":
    main()
