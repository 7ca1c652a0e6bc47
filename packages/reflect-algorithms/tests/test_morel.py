from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import offline_toy
import toy
from offline_toy import StoppedError, agent, shuffled, success_of
from reflect_algorithms import train_offline
from reflect_algorithms.learners.morel import Member, MOReL, quality_of
from reflect_algorithms.settings import MOReLConfig
from reflect_algorithms.world import HALT, Outcome, Pair, World, WorldSpec, pairs_of, transitions
from reflect_rl.errors import UserError
from reflect_rl.types import Decision, Episode, Observation, Task, Turn

HERE, THERE = Observation("Here.", ("go", "stay"), "h"), Observation("There.", ("go",), "t")
TASK = Task("near/0", "near", "train")
GO, STAY, WIN = Pair("Here.", "go"), Pair("Here.", "stay"), Pair("There.", "go")


def episode(*turns, won=True, truncated=False):
    played = tuple(
        Turn(seen, tuple(range(len(seen.actions))), None, Decision(index, "p"), reward) for seen, index, reward in turns
    )
    return Episode(TASK, played, not truncated, truncated, won, 0, "toy-v1")


LOG = [
    episode((HERE, 0, -0.1), (THERE, 0, 1.0)),
    episode((HERE, 1, -0.2), (HERE, 1, -0.2), won=False, truncated=True),
]
ROWS = [
    (GO, Outcome(-0.1, "There.")),
    (WIN, Outcome(1.0, None, won=True)),
    (STAY, Outcome(-0.2, "Here.")),
]


def test_the_log_shows_what_follows_each_action_and_not_what_follows_the_end_of_the_turns():
    assert transitions(LOG) == ROWS
    silent = replace(LOG[0].turns[0], decision=Decision(-1, "p", answer="hm"))
    assert transitions([replace(LOG[0], turns=(silent, LOG[0].turns[1]))]) == ROWS[1:2]


def world(threshold: float = 0.5, penalty: float = 0.7) -> World:
    answers = {
        # Three of four agree, so 3 of the 6 pairs of members differ; the most frequent answer is true.
        GO: ["on -0.1\nThere."] * 3 + ["over 0"],
        # Two against two: 4 of 6 differ.
        STAY: ["on -0.2\nHere."] * 2 + ["on -0.2\nThere."] * 2,
        WIN: ["won 1"] * 4,
    }
    return World.voted(LOG, answers, threshold, penalty)


def test_pairs_are_known_up_to_the_threshold():
    assert [world().knows(pair) for pair in (GO, STAY, WIN)] == [True, False, True]
    assert [world(0.4).knows(pair) for pair in (GO, STAY, WIN)] == [False, False, True]
    assert [world(0.7).knows(pair) for pair in (GO, STAY, WIN)] == [True, True, True]


@pytest.mark.parametrize("said", ["on 1\nNowhere.", "on 1", "won 1\nHere.", "won one", "", "on 1.1.1\nHere."])
def test_what_is_no_outcome_or_no_logged_state_is_unknown_however_many_say_it(said):
    assert not World.voted(LOG, {GO: [said] * 4}, 0.5, 1.0).knows(GO)


def test_the_game_follows_the_members_and_an_unknown_action_costs_the_penalty_and_ends_it():
    spec = WorldSpec.beside(toy.SPEC, world())
    assert (spec.all_modes, spec.tasks("near", "train"), spec.tasks("near", "test")) == (("near",), (TASK,), ())
    assert spec.max_actions == 2
    game = spec.make()
    assert game.reset(TASK, np.random.default_rng(0)) == HERE
    step = game.step(0)
    assert (step.observation, step.reward, step.terminated) == (THERE, -0.1, False)
    step = game.step(0)
    assert (step.reward, step.terminated, step.success) == (1.0, True, True)
    game.reset(TASK, np.random.default_rng(0))
    step = game.step(1)
    assert (step.observation, step.reward, step.terminated, step.success) == (HALT, -0.7, True, False)


def test_a_task_begins_in_the_states_of_its_own_mode():
    far = Task(TASK.key, "far", "train")
    other = replace(LOG[0], task=far, turns=LOG[0].turns[1:])
    learned = World.voted([*LOG, other], {}, 0.5, 0.7)
    assert learned.tasks == (TASK, far)
    game = WorldSpec.beside(toy.SPEC, learned).make()
    begun = [{game.reset(task, np.random.default_rng(seed)) for seed in range(8)} for task in learned.tasks]
    assert begun == [{HERE}, {THERE}]


def test_members_are_tested_on_what_their_samples_left_out():
    said = {GO: "on -0.1\nThere.", STAY: "on -0.2\nThere.", WIN: "won 1"}
    members = [Member(frozenset({WIN, STAY}), said), Member(frozenset({GO}), said)]
    found = quality_of(ROWS, world(), members)
    # Left out: GO by the first (right); STAY (wrong) and WIN (right) by the second.
    assert (found["out_of_sample_answers"], found["out_of_sample_accuracy"]) == (3, pytest.approx(2 / 3))
    assert (found["pairs"], found["logged_pairs"], found["unknown_share"]) == (3, 3, pytest.approx(1 / 3))
    # What is known, GO and WIN, is as logged; nothing that was never played is listed.
    assert (found["accuracy"], found["unknown_share_of_never_played"]) == (1.0, None)


def test_rewards_that_their_text_rounds_are_those_of_the_log():
    rows = [(GO, Outcome(-1 / 30, "There.")), (WIN, Outcome(1 / 3, None, won=True))]
    said = {pair: outcome.answer for pair, outcome in rows}
    learned = World.voted(LOG, {pair: [text] * 2 for pair, text in said.items()}, 0.0, 1.0)
    found = quality_of(rows, learned, [Member(frozenset(), said)] * 2)
    assert (found["accuracy"], found["out_of_sample_accuracy"]) == (1.0, 1.0)


RL = {"total_turns": 800, "starts_per_update": 16, "learning_rate": 1e-2, "algorithm": {"name": "ppo"}}


def trained(log, folder: Path, members: int):
    learner = MOReL(MOReLConfig(members=members), toy.rlft(**RL))
    settings = {"steps": 300, "batch_size": 32, "learning_rate": 1e-2}
    player = train_offline(agent(), log, env=toy.SPEC, learner=learner, out=folder, **settings)
    return player, json.loads((folder / "card.json").read_text())


def test_it_learns_from_random_walks_and_what_nobody_played_is_mostly_unknown(random_log, tmp_path: Path):
    log = [episode for episode in random_log if all(turn.action != "wait" for turn in episode.turns)]
    player, card = trained(log, tmp_path, 3)
    assert success_of(player) >= 0.95
    assert card["accuracy"] >= 0.95
    assert card["unknown_share_of_never_played"] > 3 * card["unknown_share_of_logged"]
    # Pessimism: no more in the model than in the game.
    assert card["value_in_model"] <= card["value_in_game"] + 0.02


def test_it_learns_nothing_from_shuffled_outcomes(random_log, tmp_path: Path):
    player, _ = trained(shuffled(random_log), tmp_path, 2)
    assert success_of(player) < 0.5


def short(folder: Path | None, log, stop: int = 0) -> str:
    calls = iter(range(1, 1000))

    def progress(done, total, note):
        if next(calls) == stop:
            raise StoppedError

    learner = MOReL(MOReLConfig(members=2), toy.rlft(total_turns=60, checkpoint_every=1))
    settings = {"steps": 4, "batch_size": 4, "save_steps": 2, "progress": progress}
    return train_offline(agent(), log, env=toy.SPEC, learner=learner, out=folder, **settings).model.hash()


# The two members and the clone report four steps each; the rest are updates of the policy.
@pytest.mark.parametrize("stop", [3, 6, 10, 14])
def test_an_interrupted_training_goes_on_to_the_same_weights(mixed_log, tmp_path: Path, stop):
    with pytest.raises(StoppedError):
        short(tmp_path / "cut", mixed_log, stop)
    assert short(tmp_path / "cut", mixed_log) == short(tmp_path / "whole", mixed_log) == short(None, mixed_log)
    cards = [(tmp_path / name / "card.json").read_text() for name in ("cut", "whole")]
    assert cards[0] == cards[1]


def test_the_policy_clones_the_log_and_is_held_near_that(mixed_log, tmp_path: Path):
    # A price of divergence that lets nothing move: what is left is the clone, and not the untrained model.
    held = {"learning_rate": 1e-2, "algorithm": {"name": "ppo", "kl_coef": 1e4, "entropy_coef": 0.0}}
    learner = MOReL(MOReLConfig(members=2), toy.rlft(total_turns=200, **held))
    settings = {"steps": 100, "batch_size": 32, "learning_rate": 1e-2}
    won = [episode for episode in mixed_log if episode.success]
    player = train_offline(agent(), won, env=toy.SPEC, learner=learner, out=tmp_path, **settings)
    assert success_of(player) >= 0.7
    assert json.loads((tmp_path / "clone" / "metrics.jsonl").read_text().splitlines()[-1])["step"] == 100


def test_logs_that_show_too_little_are_refused():
    settings = {"env": toy.SPEC, "steps": 1}
    endless = [replace(LOG[1], turns=LOG[1].turns[:1], environment=toy.SPEC.identity)]
    with pytest.raises(UserError, match="no turn of the log shows what follows it"):
        train_offline(agent(), endless, learner="morel", **settings)
    near = [episode for episode in offline_toy.log("random", 1) if episode.task.mode == "near"]
    far = MOReL(MOReLConfig(members=2), toy.rlft(curriculum={"name": "uniform", "modes": ["far"]}))
    with pytest.raises(UserError, match="names 'far', of which the log shows no episode, only of near"):
        train_offline(agent(), near, learner=far, **settings)


def test_all_listed_actions_are_asked_about():
    assert pairs_of(LOG) == [GO, STAY, WIN]


def test_states_of_equal_texts_may_list_other_actions():
    wide = Observation("Here.", ("stay", "jump", "go"), "h2")
    log = [*LOG, episode((wide, 1, -0.3), (THERE, 0, 1.0)), episode((wide, 1, -0.3), (THERE, 0, 1.0))]
    assert pairs_of(log) == [GO, STAY, WIN, Pair("Here.", "jump")]
    answers = {pair: ["won 1"] * 2 for pair in pairs_of(log)}
    learned = World.voted(log, answers, 0.0, 1.0)
    assert WorldSpec.beside(toy.SPEC, learned).max_actions == 3
    member = Member(frozenset(), {pair: said[0] for pair, said in answers.items()})
    found = quality_of(transitions(log), learned, [member] * 2)
    assert (found["pairs"], found["logged_pairs"], found["unknown_share_of_logged"]) == (4, 4, 0.0)
