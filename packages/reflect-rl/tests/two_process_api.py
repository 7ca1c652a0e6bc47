"""One process of two that train from Python: `accelerate launch two_process_api.py FOLDER` leaves one run folder."""

from __future__ import annotations

import sys
from pathlib import Path

import reflect_rl as rrl
from reflect_rl.launch import process_rank
from reflect_rl.training.distributed import leave


def main(folder: Path) -> None:
    model = rrl.load_model("embedded", hidden_size=16, layers=1, device="cpu")
    recorded = rrl.collect("corridor", "oracle", episodes=6)
    out = folder / "run"
    agent = rrl.train_sft(model, recorded, env="corridor", steps=2, out=out)
    agent = rrl.train_rl(agent, "corridor", turns=20, starts_per_update=4, out=out)
    rrl.evaluate(agent, "corridor")
    (folder / f"hash-{process_rank()}").write_text(agent.model.hash())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    leave()
