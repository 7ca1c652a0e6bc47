"""An evaluation shows how far it is, whoever plays."""

from __future__ import annotations

import pytest

from reflect_rl.evaluation.evaluate import EvaluationConfig, evaluate, progress_of
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector, RandomPolicy
from toy import SPEC


@pytest.mark.parametrize("policy", [OraclePolicy(), RandomPolicy()])
def test_each_game_that_ends_is_told_and_counted(policy):
    notes: list[str] = []
    players = NoReflector(), policy
    told = progress_of(notes.append, "near", *players)
    episodes, _ = evaluate(SPEC, EvaluationConfig(repetitions=2), "near", "sampled", *players, on_episode=told)
    won = sum(episode.success for episode in episodes)
    assert len(notes) == len(episodes) > 1
    assert notes[-1] == f"near {won} of {len(episodes)} won"
