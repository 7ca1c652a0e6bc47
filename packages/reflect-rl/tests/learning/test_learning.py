"""Every algorithm, with each of its baselines, learns to walk right in seconds, and nothing from shuffled rewards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import reflect_rl.training.online as online
from reflect_rl import registry
from reflect_rl.types import Episode
from toy import rlft, trainer

LEARNED = 0.9
"""Success rate of the last three updates; the untrained player wins a quarter of its games."""


def variants() -> Iterator[dict[str, str]]:
    """The table `rlft.algorithm` of each algorithm, with each baseline where it leaves that open."""
    for name in registry.names("algorithms"):
        baseline = registry.find("algorithms", name).Config.model_fields.get("baseline")
        if baseline is None:
            yield {"name": name}
        else:
            yield from ({"name": name, "baseline": value} for value in get_args(baseline.annotation))


each_variant = pytest.mark.parametrize("algorithm", list(variants()), ids=lambda table: "-".join(table.values()))


def final_success_rate(folder: Path, algorithm: dict[str, str]) -> tuple[float, float]:
    """Success rate at the first update, and the mean over the last three."""
    config = rlft(
        total_turns=700,
        starts_per_update=10,
        episodes_per_start=4,
        learning_rate=1.4e-2,
        max_grad_norm=1.0,
        algorithm=algorithm,
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
        # Success teaches too. Its share, which is measured, stays.
        successes = rng.permutation([episode.success for episode in episodes]).tolist()
        return [
            replace(e, success=success, turns=tuple(replace(t, reward=next(rewards)) for t in e.turns))
            for e, success in zip(episodes, successes, strict=True)
        ]

    return shuffled


@each_variant
def test_it_learns(tmp_path, algorithm):
    first, last = final_success_rate(tmp_path, algorithm)
    assert first < 0.5
    assert last >= LEARNED


@each_variant
def test_it_does_not_learn_from_shuffled_rewards(tmp_path, monkeypatch, algorithm):
    monkeypatch.setattr(online, "play", played_with_shuffled_rewards(online.play))
    _, last = final_success_rate(tmp_path, algorithm)
    assert last < LEARNED
