"""One online training, by as many processes as were launched: `distributed_training.py FOLDER [--shard] [--stop]`.

With `--shard` Accelerate is told that FSDP runs on CPUs: it allows it on GPUs only, PyTorch on both. With `--stop` the
training ends after its third update, as if it had been interrupted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from reflect_rl.players.scripted import OracleReflector
from reflect_rl.training.distributed import leave
from toy import rlft, tiny_player, trainer

CONFIG = rlft(
    algorithm={"name": "ppo", "baseline": "value", "kl_coef": 0.1},
    replay_capacity=10,
    replay_per_update=3,
    validate_every=2,
    checkpoint_every=2,
    learning_rate=1e-3,
    starts_per_update=5,
    total_turns=200,
    micro_batch_tokens=300,  # so that gradients are summed over several passes before they are exchanged
)


class StopError(Exception):
    pass


def main(folder: Path, *, shard: bool, stop: bool) -> None:
    torch.set_num_threads(1)
    if shard:
        allow_sharding()
    training = trainer(folder, CONFIG, OracleReflector(), reference=tiny_player()[0])
    parts = [weight for weight in training.learner.trained.parameters() if isinstance(weight, DTensor)]
    assert bool(parts) == training.engine.sharded == shard
    assert sum(part.to_local().numel() for part in parts) <= 0.6 * sum(part.numel() for part in parts)

    def progress(*_: Any) -> None:
        if stop and training.update == 3:
            raise StopError

    try:
        training.train(progress)
    except StopError:
        return
    weights = {name: weight.detach() for name, weight in training.learner.own.named_parameters()}
    if training.engine.main:
        save_file({n: w.clone() for n, w in weights.items() if "lm_head" not in n}, folder / "weights.safetensors")
    (folder / f"hash-{training.engine.rank}").write_text(training.model.hash())


def allow_sharding() -> None:
    """What Accelerate does with the FSDP plugin on GPUs."""
    before = AcceleratorState.__init__

    def init(self: Any, *words: Any, fsdp_plugin: Any = None, **options: Any) -> None:
        before(self, *words, fsdp_plugin=fsdp_plugin, **options)
        if fsdp_plugin is not None:
            self.fsdp_plugin = fsdp_plugin
            self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = init


if __name__ == "__main__":
    main(Path(sys.argv[1]), shard="--shard" in sys.argv, stop="--stop" in sys.argv)
    leave()
    # A thread of the group that outlives the interpreter aborts it, rarely, after all work is done. Sharded weights
    # keep a group of gloo for good; on GPUs, where they belong, there is none.
    if "--shard" in sys.argv:
        os._exit(0)
    if sys.platform == "linux":
        names = [thread.read_text().strip() for thread in Path("/proc/self/task").glob("*/comm")]
        assert not [name for name in names if "gloo" in name], names
