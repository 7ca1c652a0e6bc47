"""A tiny embedded model that plays the corridor, and online training of it in a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reflect_rl.config import parse
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import MODES, Corridor, CorridorConfig
from reflect_rl.models.embedded import EmbeddedConfig, build_embedded
from reflect_rl.models.labels import Labels, find_labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.prompts import policy_prompt
from reflect_rl.rollout import NoReflector, Reflector
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.types import Observation, Task, View

SMALL = CorridorConfig(length=5, lengths=2, max_episode_steps=6)
"""Corridors of 5 and 6 cells: 18 tasks, few enough to be learned by heart."""
SPEC = EnvSpec(Corridor, SMALL)


class Numbered(Corridor):
    """Corridors of both modes under the same keys."""

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """Those of the corridor, numbered in each split."""
        return tuple(replace(task, key=f"{split}/{k}") for k, task in enumerate(super().tasks(mode, split)))


class Drawn(Corridor):
    """Corridors whose start the game draws, whatever the task says."""

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Stand in a cell that the generator draws."""
        free = [cell for cell in range(int(task.data["cells"])) if cell != task.data["goal"]]
        drawn = free[0] if rng is None else int(rng.choice(free))
        return super().reset(replace(task, data={**task.data, "start": drawn}), rng)


def training_tasks(config: CorridorConfig = SMALL) -> list[Task]:
    """All training tasks, easiest mode first."""
    return [task for mode in MODES for task in Corridor(config).tasks(mode, "train")]


@cache
def _texts() -> tuple[str, ...]:
    game = Corridor(SMALL)
    observations = [game.reset(task) for mode in MODES for task in Corridor(SMALL).tasks(mode, "train")]
    hints = (None, "I begin. The goal is to the left. Next: left.", "The last action wait was a mistake. Next: right.")
    return tuple(
        policy_prompt(View(seen, tuple(range(len(seen.actions))), hint), ("0", "1", "2"))
        for seen in observations
        for hint in hints
    )


def tiny_player(seed: int = 0, hidden_size: int = 16, layers: int = 1) -> tuple[LanguageModel, Labels]:
    """A random model whose tokenizer knows the corridor's words, and its three labels."""
    shape = EmbeddedConfig(hidden_size=hidden_size, layers=layers, heads=2, vocabulary_size=400, context_tokens=256)
    model = build_embedded(_texts(), shape, seed)
    return model, find_labels(model, 3)


def rlft(**changes: Any) -> RLFTConfig:
    """Settings of a short online training; `algorithm` is a table such as `{"name": "ppo"}`."""
    base: Mapping[str, Any] = {
        "total_turns": 120,
        "starts_per_update": 4,
        "episodes_per_start": 2,
        "minibatch_turns": 32,
        "validate_every": 0,
        "curriculum": {"name": "uniform", "modes": ["near", "far"]},
    }
    return parse(RLFTConfig, {**base, **changes})


def trainer(folder: Path, config: RLFTConfig, reflector: Reflector | None = None, **options: Any) -> OnlineTrainer:
    """An online trainer of a fresh tiny player on the small corridors."""
    model, labels = tiny_player()
    return OnlineTrainer(model, labels, reflector or NoReflector(), SPEC, config, folder, seed=0, **options)
