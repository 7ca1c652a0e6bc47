"""Preferences: pairs from one start, hashes that bind what was shown, and a reader that names every mistake."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reflect_report.preferences.pairs import Played, action_pairs, episode_pairs, placed, value_by_solver
from reflect_report.preferences.records import (
    EpisodeSide,
    Preference,
    PreferenceError,
    agreement,
    hash_of_episode,
    read_preferences,
)
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import RunFolderError
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, play
from reflect_rl.types import Episode, Task, Turn

SPEC = EnvSpec.of(Corridor)
EXAMPLE = Path(__file__).parents[3] / "examples" / "preferences.jsonl"


def episodes_of(policy, tasks, seed: int = 0) -> list[Episode]:
    return play(SPEC, [Request(task, seed) for task in tasks], NoReflector(), policy)


@pytest.fixture(scope="module")
def episodes() -> list[Played]:
    tasks = SPEC.tasks("far", "train")[:4]
    found = [Played(one, "random", "starts-1/seed-0", "sampled") for one in episodes_of(RandomPolicy(), tasks)]
    return found + [Played(one, "oracle", "starts-1/seed-0", "greedy") for one in episodes_of(OraclePolicy(), tasks)]


@pytest.fixture(scope="module")
def rows(episodes) -> list[dict]:
    found = []
    for pair in episode_pairs(episodes, seed=0):
        one = preference(pair)
        found.append(one.model_copy(update={"choice": one.true_choice}).model_dump(mode="json"))
    return found


def preference(pair, **changes) -> Preference:
    values = {"choice": "left", "by": "anna", "source": "person", "when": "2026-01-01T00:00:00+00:00"} | changes
    return Preference(
        pair=pair.hash, environment="corridor-v1", fingerprint="f", task=pair.task, situation=pair.situation,
        left=pair.left, right=pair.right, **values,
    )  # fmt: skip


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_start_gives_a_pair_before_any_gives_two(episodes):
    tasks = [played.episode.task for played in episodes[:4]]
    more = [Played(one, "random", "u", "sampled") for one in episodes_of(RandomPolicy(), tasks, seed=1)]
    pairs = list(episode_pairs([*episodes, *more], seed=0))
    # Three different episodes from each of four starts: three pairs each.
    assert len(pairs) == 12
    assert len({pair.task.key for pair in pairs[:4]}) == 4
    assert len({pair.hash for pair in pairs}) == 12
    for pair in pairs:
        assert pair.left.episode.task == pair.right.episode.task == pair.task
        assert pair.left.episode.turns[0].observation == pair.right.episode.turns[0].observation


def test_episodes_of_two_modes_make_no_pair_although_their_keys_and_first_states_are_equal(episodes):
    first, second = episodes[0], episodes[4]
    other = replace(second, episode=replace(second.episode, task=replace(second.episode.task, mode="near")))
    assert len(list(episode_pairs([first, second], seed=0))) == 1
    assert list(episode_pairs([first, other], seed=0)) == []


def test_episodes_that_went_alike_make_no_pair(episodes):
    again = [replace(played, method="other", episode=replace(played.episode, seed=99)) for played in episodes[4:]]
    assert list(episode_pairs([*episodes[4:], *again], seed=0)) == []


def test_the_side_is_drawn_for_each_pair_and_follows_from_neither_player_nor_file(episodes):
    pairs = list(episode_pairs(episodes, seed=0))
    assert list(episode_pairs(episodes[::-1], seed=0)) == pairs
    first = pairs[0]
    assert placed(replace(first, left=first.right, right=first.left), seed=0) == first
    sides = [placed(first, seed).left.method for seed in range(100)]
    # A fair coin shows between 30 and 70 of 100 with a probability above 99.99%.
    assert 30 <= sides.count("oracle") <= 70


def test_no_draw_follows_from_the_last_digit_of_a_probability(episodes):
    def changed(turn: Turn) -> Turn:
        log_probs = tuple(value + 1e-7 for value in turn.decision.log_probs or ())
        return replace(turn, decision=replace(turn.decision, log_probs=log_probs))

    def nearly(played: Played) -> Played:
        return replace(played, episode=replace(played.episode, turns=tuple(map(changed, played.episode.turns))))

    def done(pairs):
        sides = [(pair.situation, side) for pair in pairs for side in (pair.left, pair.right)]
        return [side.index if situation else _indices(side) for situation, side in sides]

    tasks = [played.episode.task for played in episodes[:4]]
    more = [Played(one, "random", "u", "sampled") for k in (1, 2) for one in episodes_of(RandomPolicy(), tasks, seed=k)]
    every = [*episodes, *more]
    other = [nearly(played) for played in every]
    assert {hash_of_episode(played.episode) for played in every} != {hash_of_episode(one.episode) for one in other}
    assert done(episode_pairs(every, 0)) == done(episode_pairs(other, 0))
    assert done(action_pairs(every, 0, None)) == done(action_pairs(other, 0, None))


def _indices(side) -> list[int]:
    return [turn.decision.index for turn in side.episode.turns]


def test_the_value_of_an_action_is_the_return_when_the_solver_plays_on():
    # Cells 0 to 4, the goal at 4, standing at 2: right, right = -0.05 + 1; left first costs two more steps.
    task = Task("far/5-4-2", "far", "train", {"cells": 5, "goal": 4, "start": 2})
    (episode,) = episodes_of(RandomPolicy(), [task])
    (pair,) = action_pairs([Played(replace(episode, turns=episode.turns[:1]), "random", "u", "sampled")], 0, None)
    value = value_by_solver(SPEC)
    assert value is not None
    assert [value(task, pair.situation, index) for index in range(3)] == pytest.approx([0.85, 0.95, 0.9])
    # Off the end: at cell 0 after two steps to the left, another one loses at once.
    situation = pair.situation.model_copy(update={"actions_before": (0, 0)})
    state = pair.situation.observation.text.replace("You are at 2", "You are at 0").replace("none", "left")
    at_end = situation.model_copy(update={"observation": replace(pair.situation.observation, text=state)})
    assert value(task, at_end, 0) == -0.5
    # A game that does not come to the shown state again has no value.
    assert value(task, situation, 0) is None
    # Nor has what a game lists only after it has heard a reflection.
    assert value(task, situation.model_copy(update={"actions_before": (3,)}), 0) is None
    shown = pair.situation.observation
    heard = situation.model_copy(update={"actions_before": (), "observation": replace(shown, actions=(*"abc", "d"))})
    assert value(task, heard, 3) is None


def test_pairs_of_actions_are_of_one_state_and_hold_the_chosen_action(episodes):
    for played in episodes:
        (pair,) = action_pairs([played], 0, value_by_solver(SPEC))
        assert pair.situation is not None
        turn = played.episode.turns[len(pair.situation.actions_before)]
        assert turn.observation == pair.situation.observation
        assert pair.left.index != pair.right.index
        chosen, other = sorted((pair.left, pair.right), key=lambda side: side.index != turn.decision.index)
        assert chosen.index == turn.decision.index
        # The solver's own action is never worse than another one.
        assert played.method != "oracle" or chosen.value >= other.value
    # The same state and actions in two episodes are one pair.
    assert len(list(action_pairs([episodes[0], episodes[0]], 0, None))) == 1


def test_what_was_written_is_read_back(rows, episodes, tmp_path):
    actions = [preference(pair).model_dump(mode="json") for pair in action_pairs(episodes, 0, value_by_solver(SPEC))]
    path = write(tmp_path / "p.jsonl", [*rows, *actions])
    found = read_preferences(path, spec=SPEC, fingerprint="f", pairs=4 + len(actions))
    assert [json.loads(one.model_dump_json()) for one in found] == json.loads(json.dumps([*rows, *actions]))
    assert [one.kind for one in found] == ["episodes"] * 4 + ["actions"] * len(actions)
    assert all(hash_of_episode(one.left.episode) == one.left.sha256 for one in found[:4])
    # The reward chose, so all agree.
    assert agreement(found[:4]).agreeing == 4


def test_half_a_line_of_a_killed_process_is_left_out(rows, tmp_path):
    path = write(tmp_path / "p.jsonl", rows[:2])
    path.write_text(path.read_text() + json.dumps(rows[2])[:100])
    assert len(read_preferences(path)) == 2


def changed(row: dict, *keys: str, to: object) -> dict:
    row = json.loads(json.dumps(row))
    place = row
    for key in keys[:-1]:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[keys[-1]] = to
    return row


@pytest.mark.parametrize(
    ("keys", "to", "sentence"),
    [
        (("choice",), "both", "line 1: choice: "),
        (("by",), "", "line 1: by: "),
        (("schema_version",), 2, "line 1: schema_version: "),
        (("typo",), 1, "line 1: typo: "),
        (("noise",), 0.9, "line 1: noise: "),
        (("environment",), "taxi-v1", "line 1: it is about taxi-v1, and corridor-v1 is needed."),
        (("fingerprint",), "g", "line 1: its fingerprint 'g' is that of other rules, texts or tasks than 'f'"),
        (("task", "key"), "far/99", "line 1: the start 'far/99' is no task of this environment."),
        (("task", "data", "start"), 0, "is no task of this environment."),
        (("left", "episode", "turns", "0", "reward"), 0.5, "line 1: the left side has changed since it was shown"),
        (("right", "sha256"), "0", "line 1: the right side has changed since it was shown"),
        (("pair",), "0", "line 1: its hash is that of another pair."),
        (("left", "episode", "task", "key"), "x", "line 1: the left episode begins at 'x' and not at "),
        (("situation",), {}, "line 1: situation."),
    ],
)
def test_a_wrong_line_is_one_sentence_with_its_number(rows, tmp_path, keys, to, sentence):
    path = write(tmp_path / "p.jsonl", [changed(rows[0], *keys, to=to), *rows[1:]])
    with pytest.raises(PreferenceError) as refused:
        read_preferences(path, spec=SPEC, fingerprint="f")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_one_person_who_contradicts_themselves_is_refused_and_two_may_disagree(rows, tmp_path):
    other = {"left": "right", "right": "left"}[rows[0]["choice"]]
    disagrees = rows[0] | {"choice": other, "by": "ben"}
    assert len(read_preferences(write(tmp_path / "p.jsonl", [rows[0], disagrees]))) == 2
    # The same answer in the other order is no contradiction.
    turned = rows[0] | {"left": rows[0]["right"], "right": rows[0]["left"], "choice": other}
    skipped = rows[0] | {"choice": "skip"}
    assert len(read_preferences(write(tmp_path / "p.jsonl", [rows[0], turned, skipped]))) == 3
    path = write(tmp_path / "p.jsonl", [rows[1], rows[0], rows[0] | {"choice": other}])
    with pytest.raises(PreferenceError, match="lines 2 and 3 contradict each other: 'anna' answered the same pair"):
        read_preferences(path)


def test_fewer_pairs_than_asked_and_other_kinds_are_refused(rows, tmp_path):
    path = write(tmp_path / "p.jsonl", [*rows, rows[0], rows[1] | {"choice": "skip", "by": "ben"}])
    assert len(read_preferences(path, pairs=4)) == 6
    with pytest.raises(PreferenceError, match="holds 4 pairs with an answer, and 5 are asked for"):
        read_preferences(path, pairs=5)
    with pytest.raises(PreferenceError, match=r"line 1: it compares episodes, and actions are needed."):
        read_preferences(path, kind="actions")
    with pytest.raises(RunFolderError, match=r"is missing. Collect preferences with `reflect-rl prefer`"):
        read_preferences(tmp_path / "nothing.jsonl")


def test_agreement_counts_sides_ties_and_skips(rows):
    found = [Preference.model_validate(row) for row in rows]
    wrong = found[0].model_copy(update={"choice": {"left": "right", "right": "left"}[found[0].choice]})
    equal = found[1].model_copy(update={"choice": "equal"})
    skipped = found[2].model_copy(update={"choice": "skip"})
    told = agreement([wrong, equal, skipped, found[3]])
    assert (told.agreeing, told.decided, told.sides, told.equal, told.skipped) == (1, 2, 2, 1, 1)
    # Wilson's interval of 1 in 2.
    assert "50.0% [9, 91] of 2 agree with the true reward" in told.sentence
    assert agreement([]).sentence.endswith("There is no true reward to compare them with.")


def test_the_example_file_is_valid():
    found = read_preferences(EXAMPLE, spec=SPEC, pairs=4)
    assert {one.kind for one in found} == {"episodes", "actions"}
    assert {one.source for one in found} == {"person", "reward"}


def test_returns_that_differ_by_rounding_alone_are_equal(rows):
    def side(rewards: tuple[float, ...], one: EpisodeSide) -> EpisodeSide:
        turn = one.episode.turns[0]
        return one.model_copy(
            update={"episode": replace(one.episode, turns=tuple(replace(turn, reward=reward) for reward in rewards))}
        )

    one = Preference.model_validate(rows[0])
    left, right = side((0.1, 0.2), one.left), side((0.3,), one.right)
    assert left.episode.total_reward != right.episode.total_reward
    assert one.model_copy(update={"left": left, "right": right}).true_choice == "equal"
