"""The examples of docs/start/api.md run as they stand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.types import View

PAGE = Path(__file__).parents[4] / "docs" / "start" / "api.md"


def test_the_trainings_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    known = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    # The last block computes in plain transformers what the agent does.
    chances, observation = known["probabilities"], known["observation"]
    view = View(observation, tuple(range(len(observation.actions))), known["reflection"])
    (decision,) = known["agent"].policy("greedy").decide([view], [None])
    assert chances.log().tolist() == pytest.approx(decision.log_probs, abs=1e-4)
    assert known["agent"].origin.method == "reflect_rl"
    assert "sft_rlft on corridor-v1 (test, greedy, horizon 20)" in capsys.readouterr().out
    assert (tmp_path / "runs" / "corridor" / "report.html").is_file()


def test_the_loop_plays_games_that_need_a_generator_and_ends_where_they_cut_off():
    class Strict(Corridor):
        steps = 0

        def reset(self, task, rng):
            assert rng is not None
            return super().reset(task, rng)

        def step(self, action):
            Strict.steps += 1
            return replace(super().step(action), terminated=False, success=False, truncated=Strict.steps == 2)

    (loop,) = re.findall(r"```python\n([^`]*agent\.act\(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    made = SimpleNamespace(make_env=lambda name: EnvSpec.of(Strict))
    exec(compile(loop, str(PAGE), "exec"), {"rrl": made, "agent": SimpleNamespace(act=lambda observation: 0)})
    assert Strict.steps == 2
