"""Gain from pretraining: test games won against the number of demonstrations, a pretrained model beside a small one.

python scripts/pretrained_demonstrations.py --model smollm2-135m --seeds 0 1 2 --out runs/demonstrations
python scripts/pretrained_demonstrations.py --model embedded --seeds 0 1 2 --out runs/demonstrations

The game is that of packages/reflect-rl/tests/guess.py; the script of `pretrained_methods.py` demonstrates it without an
error. Each line of `MODEL.jsonl` is one training; lines that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from pretrained_methods import Guess, Halving

import reflect_rl as rrl
from reflect_rl.agent import Player

COUNTS = (0, 1, 5, 20, 100)
"""Demonstrated games; more are the same ones and further ones."""


def trained(name: str, count: int, seed: int) -> Player:
    """A policy that has learned from so many demonstrated games; none: the model as it comes."""
    pretrained = name != "embedded"
    if pretrained:
        model = rrl.load_model(name, lora_rank=16, precision="bfloat16", seed=seed)
        settings = {"steps": 60, "batch_size": 8, "learning_rate": 4e-4}
    else:
        model = rrl.load_model("embedded", hidden_size=32, layers=2, seed=seed)
        settings = {"steps": 300, "batch_size": 32, "learning_rate": 3e-3}
    if not count:
        return model
    return rrl.train_sft(
        model, rrl.collect(Guess, Halving(0), episodes=count, seed=seed), env=Guess, seed=seed, **settings
    )


def main() -> None:
    """Train what is not there yet, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/demonstrations"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.model}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["seed"], row["demonstrations"]) for row in rows}
    for seed in options.seeds:
        for count in COUNTS:
            # A model from nothing knows no word of the game.
            if (seed, count) in done or (options.model == "embedded" and not count):
                continue
            busy = time.process_time()
            agent = trained(options.model, count, seed)
            busy = time.process_time() - busy
            won = {how: rrl.evaluate(agent, Guess, decoding=how) for how in ("greedy", "sampled")}
            row = {"seed": seed, "demonstrations": count, "cpu_seconds": round(busy, 1)}
            row |= {how: [result.successes, len(result.episodes)] for how, result in won.items()}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
