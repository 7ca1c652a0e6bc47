"""Every algorithm with every baseline learns to walk right in a second, and learns nothing from shuffled rewards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reflect_rl.training.online as online
from reflect_rl.core import catalog
from reflect_rl.core.types import Episode
from toy import rlft, trainer

ALGORITHMS = catalog.names("algorithms")
BASELINES = ("none", "batch", "leave_one_out", "value")
LEARNED = 0.9
"""Success rate of the last three updates; the untrained player wins a quarter of its games."""


def final_success_rate(folder: Path, algorithm: str, baseline: str) -> tuple[float, float]:
    """Success rate at the first update, and the mean over the last three."""
    config = rlft(
        total_turns=700,
        starts_per_update=10,
        episodes_per_start=4,
        learning_rate=1e-2,
        final_learning_rate_share=0.5,
        max_grad_norm=1.0,
        algorithm={"name": algorithm, "baseline": baseline},
    )
    training = trainer(folder, config)
    # The goal is always at the right end, so that one good habit wins every game.
    training.tasks = {mode: tuple(t for t in tasks if t.data["goal"]) for mode, tasks in training.tasks.items()}
    training.train(lambda *_: None)
    rates = [json.loads(line)["rollout/success_rate"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return rates[0], float(np.mean(rates[-3:]))


def played_with_shuffled_rewards(play: Any) -> Any:
    rng = np.random.default_rng(0)

    def shuffled(*args: Any, **options: Any) -> list[Episode]:
        episodes = play(*args, **options)
        rewards = iter(rng.permutation([turn.reward for episode in episodes for turn in episode.turns]).tolist())
        return [replace(e, turns=tuple(replace(t, reward=next(rewards)) for t in e.turns)) for e in episodes]

    return shuffled


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_learns(tmp_path, algorithm, baseline):
    first, last = final_success_rate(tmp_path, algorithm, baseline)
    assert first < 0.5
    assert last >= LEARNED


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_does_not_learn_from_shuffled_rewards(tmp_path, monkeypatch, algorithm, baseline):
    monkeypatch.setattr(online, "play", played_with_shuffled_rewards(online.play))
    _, last = final_success_rate(tmp_path, algorithm, baseline)
    assert last < LEARNED
