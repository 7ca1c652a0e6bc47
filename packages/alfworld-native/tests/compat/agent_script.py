"""A program that was written for alfworld, as a list of all that it is told, against alfworld or this package.

    python agent_script.py alfworld CONFIG.json SPLIT BATCH_SIZE SOLUTIONS.json OUT.json EPISODES [--shortcuts]

Half of the games are played by the given solutions and go on after their end, the others by turns of listed and wrong
commands. With shortcuts TextWorld gives the same answers sooner (`alfworld_native/_textworld_worker.py`).
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from alfworld_native._textworld_worker import SHORTCUTS, take_shortcuts


def play(
    module: str, config: dict, split: str, batch_size: int, solutions: dict[str, list[str]], episodes: int
) -> list:
    """Everything that two seeds and some resets give."""
    get_environment = importlib.import_module(module).get_environment
    environment = get_environment(config["env"]["type"])(config, train_eval=split)
    told = [environment.num_games, environment.game_files]
    env = environment.init_env(batch_size=batch_size)
    told.append(env.reset())
    # The first episode again, after the order of another seed.
    env.seed(7)
    env.skip(1)
    for episode in range(episodes):
        obs, infos = env.reset()
        told.append((obs, infos))
        paths = infos["extra.gamefile"]
        for step in range(14):
            commands = [
                command(infos["admissible_commands"][at], solutions.get(path, []), step, episode + at)
                for at, path in enumerate(paths)
            ]
            obs, scores, dones, infos = env.step(commands)
            told.append((commands, obs, scores, dones, infos))
        told.append(env.render(mode="text"))
    return told


def command(admissible: list[str], solution: list[str], step: int, number: int) -> str:
    """The next command of a game."""
    if number % 2 == 0:
        # Past its end, the game must give its last answer again.
        return solution[step] if step < len(solution) else "look"
    if step % 5 == 4:
        return "fly to the moon"
    return f" {admissible[(7 * step + 3 * number) % len(admissible)]} "


def main() -> None:
    """Play, and write what was told as JSON."""
    module, config, split, batch_size, solutions, out, episodes, *options = sys.argv[1:]
    if SHORTCUTS in options:
        take_shortcuts()
    told = play(
        module, json.loads(config), split, int(batch_size), json.loads(Path(solutions).read_text()), int(episodes)
    )
    # The facts that come with an expert are objects of TextWorld.
    Path(out).write_text(json.dumps(told, default=str))


if __name__ == "__main__":
    main()
