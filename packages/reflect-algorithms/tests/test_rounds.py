from __future__ import annotations

from pathlib import Path

import offline_toy
from reflect_algorithms.rounds import played_round
from reflect_algorithms.settings import LearnerSteps
from reflect_algorithms.training import Training
from reflect_rl.envs.base import EnvSpec
from reflect_rl.rollout import RandomPolicy
from reflect_rl.store import read_jsonl
from reflect_rl.types import Observation, Step, Task, silent
from reflect_rl.watchdog import Limits

BROKEN = offline_toy.TASKS[0].key


class WithALooseBoard(offline_toy.RightEnd):
    """Corridors of which one cannot be walked."""

    def reset(self, task: Task, rng=None) -> Observation:
        self._key = task.key
        return super().reset(task, rng)

    def step(self, action: int) -> Step:
        if self._key == BROKEN:
            raise RuntimeError("a loose board")
        return super().step(action)


def test_episodes_that_are_left_out_are_written_down(tmp_path: Path):
    start = offline_toy.agent()
    training = Training(
        start.model,
        start.labels,
        lambda: offline_toy.agent().model,
        EnvSpec(WithALooseBoard, offline_toy.RIGHT.config),
        [],
        offline_toy.TASKS,
        LearnerSteps(),
        tmp_path,
        0,
        silent,
        limits=Limits(failed_episodes=2),
    )
    count = 2 * len(offline_toy.TASKS)
    episodes = played_round(training, 3, count, RandomPolicy())
    failed = read_jsonl(tmp_path / "failed_episodes.jsonl", "")
    assert len(episodes) == count - len(failed)
    assert {(row["round"], row["task"]) for row in failed} == {(3, BROKEN)}
    assert "a loose board" in failed[0]["message"]
    # Read again, the round fails nowhere.
    assert len(played_round(training, 3, count, RandomPolicy())) == len(episodes)
    assert len(read_jsonl(tmp_path / "failed_episodes.jsonl", "")) == len(failed)
