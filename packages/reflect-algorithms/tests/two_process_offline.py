"""One process of those that train together: `python two_process_offline.py FOLDER` trains each learner in FOLDER."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).parents[2] / "reflect-rl" / "tests"
sys.path[:0] = [str(TESTS), str(Path(__file__).parent)]

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import offline_toy  # noqa: E402
import preferences_toy  # noqa: E402
from reflect_algorithms.learners.a_lol import ALoL  # noqa: E402
from reflect_algorithms.learners.archer import ArCHer  # noqa: E402
from reflect_algorithms.learners.dagger import DAgger  # noqa: E402
from reflect_algorithms.learners.gail import GAIL  # noqa: E402
from reflect_algorithms.learners.rcrl import RCRL  # noqa: E402
from reflect_algorithms.preferences.reward_model import train_reward  # noqa: E402
from reflect_algorithms.preferences.settings import RewardConfig  # noqa: E402
from reflect_algorithms.settings import (  # noqa: E402
    ALoLConfig,
    ArCHerConfig,
    DAggerConfig,
    GAILConfig,
    LearnerSteps,
    RCRLConfig,
    RvSConfig,
)
from reflect_algorithms.training import Training  # noqa: E402
from reflect_rl.launch import process_rank  # noqa: E402
from reflect_rl.training.distributed import leave  # noqa: E402
from reflect_rl.types import silent  # noqa: E402
from toy import SPEC, rlft  # noqa: E402


class Reward:
    """The reward model as a learner."""

    def train(self, training: Training) -> None:
        """Train it on pairs of episodes, whose lengths differ."""
        train_reward(replace(training, comparisons=preferences_toy.comparisons("episodes")), RewardConfig())


LEARNERS = {
    "reward": Reward(),
    # Examples of several turns, of which the processes get unequal numbers.
    "a_lol": ALoL(ALoLConfig(variant="sequence")),
    # It plays between its steps, with weights that all processes must share.
    "dagger": DAgger(DAggerConfig(rounds=2, episodes=6)),
    "rcrl": RCRL(RCRLConfig(rounds=2, episodes=6), RvSConfig(condition="return")),
    "archer": ArCHer(ArCHerConfig(rounds=2, episodes=6, critic_steps=5)),
    # Two networks, of which each takes steps between those of the other.
    "gail": GAIL(GAILConfig(discriminator_steps=2), rlft(total_turns=60)),
}


def main(folder: Path) -> None:
    """Train each learner."""
    torch.set_num_threads(1)
    log = offline_toy.log("mixed", 4)
    for name, learner in LEARNERS.items():
        start, place = offline_toy.agent(), folder / name
        training = Training(
            start.model,
            start.labels,
            lambda: offline_toy.agent().model,
            SPEC,
            log,
            offline_toy.TASKS,
            # Steps of this size would double any difference that is more than rounding.
            LearnerSteps(steps=6, batch_size=5, save_steps=2, learning_rate=1e-3, warmup_steps=0),
            place,
            0,
            silent,
        )
        learner.train(training)
        # By parameters: tied weights are one of them.
        weights = {key: weight.detach() for key, weight in start.model.model.named_parameters()}
        save_file(weights, place / f"model-{process_rank()}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    leave()
