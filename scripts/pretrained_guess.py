"""Online RL of a pretrained model on a game without a solver: success before and after, minutes, memory.

python scripts/pretrained_guess.py --model smollm2-135m --turns 14000 --learning-rate 4e-4 --seed 0

The game is that of packages/reflect-rl/tests/guess.py; its test starts are no training starts. `--model embedded`
trains the small model from nothing instead: on a random player's successes first, since it can read nothing.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import torch

import reflect_rl as rrl

sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "reflect-rl" / "tests"))

from guess import Guess


def main() -> None:
    """Train, and print two results and their difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--turns", type=int, default=14_000)
    parser.add_argument("--learning-rate", type=float, default=4e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    start, cpu = time.monotonic(), time.process_time()
    if options.model == "embedded":
        blank = rrl.load_model("embedded", hidden_size=32, layers=2, seed=options.seed)
        model = rrl.warm_up(blank, Guess, episodes=600, steps=150, seed=options.seed)
    else:
        model = rrl.load_model(options.model, lora_rank=16, precision="auto", seed=options.seed)
    before = rrl.evaluate(model, Guess)
    print(f"before: {before}", flush=True)
    agent = rrl.train_rl(
        model,
        Guess,
        algorithm="ppo",
        turns=options.turns,
        seed=options.seed,
        learning_rate=options.learning_rate,
        minibatch_turns=64,
        validate_every=0,
        progress=lambda done, total, note: print(f"{done} of {total} turns, {note}", flush=True),
    )
    after = rrl.evaluate(agent, Guess)
    print(f"after: {after}")
    print(after.compare(before))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    minutes, busy = (time.monotonic() - start) / 60, (time.process_time() - cpu) / 60
    print(f"{minutes:.1f} minutes, {busy:.1f} CPU minutes, {peak:.1f} GiB")


if __name__ == "__main__":
    main()
