"""Trains in child processes that are killed at given moments, then once to the end: `killed_training.py FOLDER`.

Each child is a fork of this process, which has imported everything and computed nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from reflect_rl.envs.base import Step
from reflect_rl.envs.corridor import Corridor
from reflect_rl.players.scripted import OracleReflector
from toy import rlft, tiny_player, trainer

CONFIG = rlft(
    algorithm={"name": "ppo", "baseline": "value", "kl_coef": 0.1},
    replay_capacity=10,
    replay_per_update=3,
    validate_every=2,
    checkpoint_every=1,
    keep="best",
    learning_rate=1e-2,
    curriculum={"name": "stages"},
    total_turns=200,
)


class Caching(OracleReflector):
    """Its share of answers from a cache differs in each process, as after a kill."""

    @property
    def hit_rate(self) -> float:
        return 1 / os.getpid()


def train(folder: Path) -> None:
    training = trainer(folder, CONFIG, Caching(), reference=tiny_player()[0])
    training.train(lambda *_: None)
    (folder / "result").write_text(training.model.hash())


def kill_at_flush(count: int) -> None:
    """The process dies at the n-th flush to disk, inside the writing of a checkpoint or of metrics."""
    fsync, calls = os.fsync, [0]

    def counting(handle: int) -> None:
        calls[0] += 1
        if calls[0] == count:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    os.fsync = counting


def kill_at_step(count: int) -> None:
    """The process dies in the n-th step of its environments, in the middle of a rollout."""
    step, calls = Corridor.step, [0]

    def counting(env: Corridor, action: int) -> Step:
        calls[0] += 1
        if calls[0] == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(env, action)

    Corridor.step = counting


def child(work) -> int:
    """Run in a fork; its exit status as of `os.waitstatus_to_exitcode`."""
    process = os.fork()
    if not process:
        try:
            work()
        except BaseException as error:  # a fork must never return into the code above it
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    assert child(lambda: train(folder / "whole")) == 0
    deaths = []
    moments = [lambda k=k: kill_at_step(k) for k in (1, 10, 30, 60)]
    moments += [lambda k=k: kill_at_flush(k) for k in (1, 3, 6, 8, 9, 12, 17)]
    for moment in moments:
        deaths.append(child(lambda moment=moment: (moment(), train(folder / "parts"))))
    assert child(lambda: train(folder / "parts")) == 0
    print(deaths.count(-signal.SIGKILL), "killed", deaths)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
