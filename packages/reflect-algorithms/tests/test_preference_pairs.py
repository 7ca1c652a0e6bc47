"""Pairs of the reward and of people: noise, contradictions, and bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import preferences_toy
from offline_toy import TASKS, agent
from preferences_toy import MARK
from reflect_algorithms.preferences.api import train_on_preferences
from reflect_algorithms.preferences.pairs import Source, comparisons_of, made_pairs, read_pairs
from reflect_algorithms.preferences.settings import PairsConfig
from reflect_report.preferences.records import Preference
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import UserError
from reflect_rl.store import write_jsonl
from toy import SPEC

CONFIG = PairsConfig(count=2)


def written(path: Path, preferences: list[Preference]) -> Path:
    write_jsonl(path, [one.model_dump(mode="json") for one in preferences])
    return path


@pytest.mark.parametrize("compare", ["episodes", "actions"])
def test_the_reward_chooses_the_side_of_higher_value(compare):
    found = preferences_toy.preferences(compare)
    assert len(found) > 20
    assert all(one.kind == compare and one.task.split == "train" for one in found)
    values = [(one.left.value, one.right.value, one.choice) for one in found]
    assert all((left > right) == (choice == "left") and left != right for left, right, choice in values)
    kept, counts = comparisons_of(found, CONFIG)
    assert (counts.pairs, counts.wrong, counts.contradicted) == (len(found), 0, 0)
    assert {one.of_actions for one in kept} == {compare == "actions"}


def test_noise_turns_so_many_answers_round():
    clean, noisy = (preferences_toy.preferences("episodes", 8, noise, 2000) for noise in (0.0, 0.3))
    assert [one.pair for one in clean] == [one.pair for one in noisy]
    turned = sum(a.choice != b.choice for a, b in zip(clean, noisy, strict=True))
    assert turned / len(clean) == pytest.approx(0.3, abs=0.06)
    assert comparisons_of(noisy, CONFIG)[1].wrong == turned


def test_the_better_side_is_the_chosen_one():
    one = next(p for p in preferences_toy.preferences("episodes") if p.choice == "right")
    comparison = comparisons_of([one], CONFIG)[0][0]
    assert [index for _, index in comparison.better] == [t.decision.index for t in one.right.episode.turns]
    assert [index for _, index in comparison.worse] == [t.decision.index for t in one.left.episode.turns]


def test_people_who_contradict_each_other_are_counted_and_dropped_or_kept(tmp_path: Path):
    found = preferences_toy.preferences("episodes")[:5]
    other = {"left": "right", "right": "left"}[found[0].choice]
    disagrees = found[0].model_copy(update={"by": "ben", "source": "person", "choice": other})
    both = read_pairs(written(tmp_path / "p.jsonl", [*found, disagrees]), CONFIG, SPEC, MARK)
    for wanted, left in (("drop", 4), ("keep", 6)):
        kept, counts = comparisons_of(both, PairsConfig(contradictions=wanted))
        assert (len(kept), counts.contradicted) == (left, 2)


def test_answers_without_a_side_are_counted_and_left_out():
    found = preferences_toy.preferences("actions")[:3]
    found[1] = found[1].model_copy(update={"choice": "equal"})
    kept, counts = comparisons_of(found, CONFIG)
    assert (len(kept), counts.no_side) == (2, 1)


def test_turns_of_excluded_states_are_left_out():
    found = preferences_toy.preferences("actions")[:4]
    state = found[0].situation.observation.state
    hidden = sum(one.situation.observation.state == state for one in found)
    kept, counts = comparisons_of(found, CONFIG, frozenset({state}))
    assert (len(kept), counts.excluded) == (4 - hidden, hidden)


def _another_start(one: Preference) -> Preference:
    task = replace(one.task, key="nowhere")
    return one.model_copy(update={"task": task})


BAD = {
    "another fingerprint": (lambda one: one.model_copy(update={"fingerprint": "x"}), "its fingerprint 'x' is that of"),
    "an unknown start": (_another_start, "the start 'nowhere' is no task of this environment"),
    "another game": (lambda one: one.model_copy(update={"environment": "chess-v1"}), "it is about chess-v1"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_a_line_of_another_run_is_refused_with_its_number(tmp_path: Path, mistake):
    spoil, said = BAD[mistake]
    found = preferences_toy.preferences("episodes")[:3]
    path = written(tmp_path / "p.jsonl", [found[0], spoil(found[1]), found[2]])
    with pytest.raises(UserError, match=f"line 2: {said}"):
        read_pairs(path, CONFIG, SPEC, MARK)


def test_one_person_who_contradicts_herself_is_refused(tmp_path: Path):
    one = preferences_toy.preferences("episodes")[0]
    turned = one.model_copy(update={"choice": {"left": "right", "right": "left"}[one.choice]})
    with pytest.raises(UserError, match="lines 1 and 2 contradict each other"):
        read_pairs(written(tmp_path / "p.jsonl", [one, turned]), CONFIG, SPEC, MARK)


def test_too_few_pairs_are_refused(tmp_path: Path):
    path = written(tmp_path / "p.jsonl", preferences_toy.preferences("episodes")[:3])
    with pytest.raises(UserError, match=r"holds 3 pairs of training starts .*count asks for 4"):
        read_pairs(path, PairsConfig(count=4), SPEC, MARK)


def test_pairs_of_test_starts_are_not_learned_from():
    # The file that the documentation shows is about the corridor's test starts.
    path = Path(__file__).parents[3] / "examples" / "preferences.jsonl"
    with pytest.raises(UserError, match="holds 0 pairs of training starts"):
        read_pairs(path, CONFIG, EnvSpec.of(Corridor), None)


def test_episodes_that_are_all_alike_make_no_pairs():
    same = preferences_toy.walks(1)
    source = Source(SPEC, MARK, "episodes", 0)
    with pytest.raises(UserError, match="make 0 pairs that differ in reward, and 2 are asked for"):
        made_pairs(CONFIG, source, TASKS, lambda number: same)


def test_more_episodes_are_played_until_there_are_enough_pairs():
    rounds = []

    def play_round(number):
        rounds.append(number)
        return preferences_toy.walks(number + 1)[number :: number + 1]

    found = made_pairs(PairsConfig(count=60), Source(SPEC, MARK, "episodes", 0), TASKS, play_round)
    assert len(found) == 60
    assert rounds == list(range(len(rounds)))


def test_a_training_without_pairs_is_refused():
    with pytest.raises(UserError, match="dpo: there are no pairs to learn from"):
        train_on_preferences(agent(), env=SPEC, steps=1)
