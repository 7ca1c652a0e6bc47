"""Trained methods of the paper with a pretrained model, on a game without a solver: success against demonstrated games.

python scripts/pretrained_methods.py --model smollm2-135m --seeds 0 1 2 --out runs/methods

The game is that of packages/reflect-rl/tests/guess.py. A script demonstrates it and errs in `--noise` of its turns;
another one writes the reflections. Each game is imitated, whether it was won or not; `sft_won` imitates those that were
won. Each line of `MODEL.jsonl` is one player; lines that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

import reflect_rl as rrl
from reflect_rl import Decision, Episode
from reflect_rl.agent import Player
from reflect_rl.types import View

sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "reflect-rl" / "tests"))

from guess import Guess

GUESS_LOWEST, ASK, ACTIONS = 0, 2, 3
ADAPTER = {"lora_rank": 16, "precision": "auto"}
SFT = {"steps": 60, "batch_size": 8, "learning_rate": 4e-4}
RL = {"learning_rate": 4e-4, "minibatch_turns": 64, "validate_every": 0}
"""Settings of a pretrained model on this game."""


class Halving:
    """Asks whether the number is above the middle until one is left, and guesses that one; errs by chance."""

    name = "halving"
    sees_oracle = False

    def __init__(self, noise: float) -> None:
        """A demonstrator.

        Args:
            noise: share of turns in which any action is played.
        """
        self.noise = noise

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The action for each view."""
        return [Decision(self._choose(view, rng), self.name) for view, rng in zip(views, rngs, strict=True)]

    def _choose(self, view: View, rng: np.random.Generator) -> int:
        if rng.random() < self.noise:
            return int(rng.integers(ACTIONS))
        return GUESS_LOWEST if found(view) else ASK


class Teacher:
    """Says whether the number is found, and what to seek; it recommends no action."""

    name = "teacher"
    sees_oracle = False

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """A sentence or two for each view."""
        return [
            "One number is left, so it is found. Seek: the end of the game."
            if found(view)
            else "Several numbers are left. Seek: the half that holds the number."
            for view in views
        ]


def found(view: View) -> bool:
    """True where one number is left."""
    return " 1 left" in view.observation.text


class Results:
    """File of results, one line for each player that was trained and measured."""

    def __init__(self, path: Path) -> None:
        """The lines that are there stay.

        Args:
            path: a JSONL file, or where one is to be.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def has(self, **key: float | str) -> bool:
        """True where a line has these values."""
        return any(key.items() <= row.items() for row in self.rows)

    def add(self, train: Callable[[], Player], **key: float | str) -> Player:
        """Train a player and play the test games with it; a line that is there is not written again.

        Args:
            train: makes the player.
            **key: values that tell its line from the others.
        """
        busy = time.process_time()
        agent = train()
        busy = time.process_time() - busy
        if not self.has(**key):
            won = {how: rrl.evaluate(agent, Guess, decoding=how) for how in ("greedy", "sampled")}
            counts = {how: [result.successes, len(result.episodes)] for how, result in won.items()}
            self.rows.append({**key, "cpu_seconds": round(busy, 1), **counts})
            with self.path.open("a") as file:
                file.write(json.dumps(self.rows[-1]) + "\n")
            print(self.rows[-1], flush=True)
        return agent


def options_of(parser: argparse.ArgumentParser, out: str) -> tuple[argparse.Namespace, Results]:
    """Options of a script with its own ones added, and its results; torch gets one thread."""
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path(out))
    options = parser.parse_args()
    torch.set_num_threads(1)
    return options, Results(options.out / f"{Path(options.model).name}.jsonl")


def main() -> None:
    """Train and measure what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demonstrations", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--turns", type=int, default=4000)
    options, results = options_of(parser, "runs/methods")
    for seed in options.seeds:
        model = rrl.load_model(options.model, **ADAPTER, seed=seed)

        def supervised(games: list[Episode], seed: int = seed, model: Player = model, **own: bool) -> Player:
            return rrl.train_sft(model, games, env=Guess, seed=seed, **SFT | {"lost": True} | own)

        def online(start: Player, seed: int = seed) -> Player:
            return rrl.train_rl(start, Guess, turns=options.turns, seed=seed, **RL)

        for count in (0, *options.demonstrations):
            noise = options.noise if count else 0.0
            games = rrl.collect(Guess, Halving(noise), Teacher(), episodes=count, seed=seed) if count else []
            starts: dict[str, tuple[str, Callable[[], Player]]] = {"untuned": ("rlft", lambda model=model: model)}
            if count:
                starts = {
                    "sft": ("sft_rlft", partial(supervised, games)),
                    "sft_reflect": ("reflect_rl", partial(supervised, games, reflections=True)),
                }
            own = {"seed": seed, "demonstrations": count, "noise": noise}
            for before, (after, start) in starts.items():
                # The second of a pair goes on from the first, so that is trained again where the second is missing.
                if not (results.has(**own, method=before) and results.has(**own, method=after)):
                    first = results.add(start, **own, method=before)
                    results.add(partial(online, first), **own, method=after)
            if any(game.success for game in games) and not results.has(**own, method="sft_won"):
                results.add(partial(supervised, games, lost=False), **own, method="sft_won")


if __name__ == "__main__":
    main()
