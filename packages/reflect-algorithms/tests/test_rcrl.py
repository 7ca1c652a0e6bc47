from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from offline_toy import RIGHT, StoppedError, agent, shuffled, stops_at, success_of
from reflect_algorithms import rounds, train_offline
from reflect_algorithms.learners.rcrl import RCRL
from reflect_algorithms.learners.rvs import RvS
from reflect_algorithms.log import turns_of
from reflect_algorithms.settings import RCRLConfig, RvSConfig
from reflect_rl.algorithms import Outputs
from reflect_rl.data.recorded import read_episodes
from reflect_rl.errors import UserError

SETTINGS = {"env": RIGHT, "steps": 240, "batch_size": 32, "learning_rate": 5e-3}
SMALL = RCRLConfig(rounds=8, episodes=100)


def test_each_turn_is_imitated_given_what_followed_it(mixed_log):
    lost, won = (next(e for e in mixed_log if e.success == verdict and len(e.turns) > 1) for verdict in (False, True))
    turns = turns_of([replace(lost, turns=lost.turns[:1]), replace(won, turns=won.turns[:1])])
    objective = RvS().objective(turns, 6)
    assert [view.reflection for view in objective.views] == ["Asked: loss.", "Asked: win."]
    # By hand: the actions that were played have the probabilities 1/2 and 1/8; (ln 2 + ln 8) / 2 = 2 ln 2.
    table = torch.full((2, 3), 0.1)
    table[0, turns.actions[0]], table[1, turns.actions[1]] = 0.5, 0.125
    loss = objective.loss(torch.tensor([0, 1]), Outputs(table.log()))
    assert loss.value.item() == pytest.approx(2 * math.log(2))


def test_the_first_round_is_asked_for_nothing_and_the_others_for_the_best(tmp_path: Path):
    train_offline(agent(), [], learner=RCRL(SMALL), out=tmp_path, **SETTINGS)
    asked = [
        {turn.reflection for episode in read_episodes(tmp_path / f"round-{number}.jsonl") for turn in episode.turns}
        for number in range(8)
    ]
    assert asked == [{None}, *[{"Asked: win."}] * 7]
    rows = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == [*range(8)]
    assert rows[0]["success_rate"] < 0.5 < rows[-1]["success_rate"]


CONDITIONS = pytest.mark.parametrize("condition", ["success", "return"])


@CONDITIONS
def test_it_learns_by_playing(condition):
    learner = RCRL(SMALL, RvSConfig(condition=condition))
    assert success_of(agent()) < 0.5
    assert success_of(train_offline(agent(), [], learner=learner, **SETTINGS)) >= 0.75


@CONDITIONS
def test_it_learns_nothing_from_shuffled_outcomes(monkeypatch, condition):
    play = rounds.play
    monkeypatch.setattr(rounds, "play", lambda *args, **options: shuffled(play(*args, **options)))
    learner = RCRL(SMALL, RvSConfig(condition=condition))
    assert success_of(train_offline(agent(), [], learner=learner, **SETTINGS)) < 0.65


def test_a_win_cannot_be_asked_for_before_one_was_seen(monkeypatch):
    play = rounds.play
    lost = lambda *args, **options: [replace(e, success=False) for e in play(*args, **options)]  # noqa: E731
    monkeypatch.setattr(rounds, "play", lost)
    with pytest.raises(UserError, match=r"or of the rounds so far"):
        train_offline(agent(), [], learner=RCRL(SMALL), **SETTINGS)


@pytest.mark.parametrize("step", [2, 4, 5, 7])
def test_an_interruption_changes_nothing(tmp_path: Path, step):
    settings = {"env": RIGHT, "steps": 8, "save_steps": 3, "learner": RCRL(RCRLConfig(rounds=2, episodes=10))}
    whole = train_offline(agent(), [], **settings)
    with pytest.raises(StoppedError):
        train_offline(agent(), [], out=tmp_path, progress=stops_at(step), **settings)
    assert train_offline(agent(), [], out=tmp_path, **settings).model.hash() == whole.model.hash()
    assert train_offline(agent(), [], seed=1, **settings).model.hash() != whole.model.hash()
