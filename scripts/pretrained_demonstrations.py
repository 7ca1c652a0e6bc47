"""Gain from pretraining: test games won against the number of demonstrations, a pretrained model beside a small one.

python scripts/pretrained_demonstrations.py --model smollm2-135m --seeds 0 1 2 --out runs/demonstrations
python scripts/pretrained_demonstrations.py --model embedded --seeds 0 1 2 --out runs/demonstrations

The game is that of packages/reflect-rl/tests/guess.py; the script of `pretrained_methods.py` demonstrates it without an
error. Each line of `MODEL.jsonl` is one training; lines that are there are not computed again.
"""

from __future__ import annotations

import argparse
from functools import partial

from pretrained_methods import ADAPTER, SFT, Guess, Halving, options_of

import reflect_rl as rrl
from reflect_rl.agent import Player

COUNTS = (0, 1, 5, 20, 100)
"""Demonstrated games; more are the same ones and further ones."""


def trained(name: str, count: int, seed: int) -> Player:
    """A policy that has learned from so many demonstrated games; none: the model as it comes."""
    if name == "embedded":
        model = rrl.load_model("embedded", hidden_size=32, layers=2, seed=seed)
        settings = {"steps": 300, "batch_size": 32, "learning_rate": 3e-3}
    else:
        model, settings = rrl.load_model(name, **ADAPTER, seed=seed), SFT
    if not count:
        return model
    games = rrl.collect(Guess, Halving(0), episodes=count, seed=seed)
    return rrl.train_sft(model, games, env=Guess, seed=seed, **settings)


def main() -> None:
    """Train what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options, results = options_of(parser, "runs/demonstrations")
    for seed in options.seeds:
        # A small model from nothing knows no word of the game.
        for count in COUNTS[options.model == "embedded" :]:
            if not results.has(seed=seed, demonstrations=count):
                results.add(partial(trained, options.model, count, seed), seed=seed, demonstrations=count)


if __name__ == "__main__":
    main()
