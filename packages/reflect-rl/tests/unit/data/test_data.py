"""Demonstrations: what is taught, what is never taught, and whose starts are left out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from reflect_locate.envs import autoexplore
from reflect_rl.data.generate import (
    DATASETS,
    DataConfig,
    Renumbering,
    Row,
    demonstration_tasks,
    demonstrations,
    exercises,
    held_out_states,
    rows,
    shuffled,
)
from reflect_rl.envs import corridor, dangerous_taxi
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import ConfigError, FaultyEnvironmentError
from reflect_rl.evaluation.evaluate import EvaluationConfig, evaluate
from reflect_rl.players.scripted import LexicalReflector
from reflect_rl.prompts import parts_of
from reflect_rl.rollout import NoReflector, RandomPolicy
from reflect_rl.types import Decision, Episode, Observation, Task, Turn
from small_task_set import save_small_task_set
from three_projects import save_three_projects
from toy import Numbered

CORRIDOR = EnvSpec.of(corridor.Corridor)
LABELS = tuple("ABCDEF")
GAMES: list[tuple[EnvSpec, int]] = [(CORRIDOR, 20), (EnvSpec.of(dangerous_taxi.DangerousTaxi), 12)]


@pytest.fixture(scope="module", params=GAMES, ids=lambda game: game[0].name)
def game(request) -> tuple[EnvSpec, dict[str, list[Episode]]]:
    config, budget = request.param
    return config, demonstrations(DataConfig(perturbation=0.4), config, budget, seed=0)


def replayed_oracles(spec: EnvSpec, episode: Episode) -> list:
    """What the solver says at each turn of an episode that is played again."""
    game = spec.make()
    game.reset(episode.task, None)
    oracles = []
    for turn in episode.turns:
        oracles.append((game.oracle(), game.teach()))
        game.step(turn.decision.index)
    return oracles


def test_the_clean_label_source_teaches_an_optimal_action_in_every_state(game):
    config, episodes = game
    for kind in ("positive", "negative"):
        for episode in episodes[kind][:60]:
            for turn, (oracle, lesson) in zip(episode.turns, replayed_oracles(config, episode), strict=True):
                assert turn.decision.target == oracle.best
                assert turn.decision.index == oracle.best or turn.decision.index in oracle.safe
                assert turn.reflection == lesson


def test_positive_episodes_are_never_perturbed_and_always_won(game):
    _, episodes = game
    assert all(e.success for e in episodes["positive"])
    assert all(t.decision.index == t.decision.target for e in episodes["positive"] for t in e.turns)


def test_about_the_configured_share_of_negative_steps_is_perturbed(game):
    _, episodes = game
    turns = [t for e in episodes["negative"] for t in e.turns]
    share = sum(t.decision.index != t.decision.target for t in turns) / len(turns)
    # 0.4, less the states without a safe detour.
    assert 0.25 < share < 0.45


def test_a_perturbed_action_is_never_a_target(game):
    _, episodes = game
    table = rows("policy_reflect", episodes["negative"], LABELS, frozenset())
    turns = [t for e in episodes["negative"] for t in e.turns]
    perturbed = 0
    for row, turn in zip(table, turns, strict=True):
        assert turn.decision.target is not None
        assert row.completion == LABELS[turn.decision.target]
        if turn.decision.index != turn.decision.target:
            perturbed += 1
            assert row.completion != LABELS[turn.decision.index]
    assert perturbed > 50


@pytest.mark.parametrize("dataset", DATASETS)
def test_exactly_the_rows_after_a_perturbation_are_negative(game, dataset):
    _, episodes = game
    kinds = iter(row.kind for row in rows(dataset, episodes["negative"], LABELS, frozenset()))
    for episode in episodes["negative"]:
        before = None
        for turn in episode.turns:
            wrong = before is not None and before.decision.index != before.decision.target
            assert next(kinds) == ("negative" if wrong else "positive")
            before = turn
    assert {row.kind for row in rows(dataset, episodes["positive"], LABELS, frozenset())} == {"positive"}


def test_the_reflection_after_a_perturbation_notices_it(game):
    _, episodes = game
    negative = [r for r in rows("reflector", episodes["negative"], LABELS, frozenset()) if r.kind == "negative"]
    assert negative
    assert all("mistake" in row.completion for row in negative)


def test_the_three_prompts_of_a_turn():
    episodes = demonstrations(DataConfig(), CORRIDOR, 1, 0)["positive"][:1]
    turn = episodes[0].turns[0]
    assert turn.decision.target is not None
    numbered = "".join(f" {label} {name}" for label, name in zip(LABELS, turn.observation.actions, strict=False))
    plain, choice = turn.observation.text, LABELS[turn.decision.target]
    expected = {
        "reflector": (f"{plain} # Analyze:\n", turn.reflection),
        "policy_plain": (f"{plain}\nActions:{numbered}\n # Action:\n", choice),
        "policy_reflect": (f"{plain} # Analyze:\n{turn.reflection}\nActions:{numbered}\n # Action:\n", choice),
    }
    for dataset in DATASETS:
        row = rows(dataset, episodes, LABELS, frozenset())[0]
        assert (row.prompt, row.completion) == expected[dataset.removesuffix("_positive")]
        assert (row.task, row.turn, row.state) == (episodes[0].task.key, 0, turn.observation.state)


def test_the_paper_label_source_teaches_what_was_played():
    episodes = demonstrations(DataConfig(label_source="paper", perturbation=0.9), CORRIDOR, 20, 0)["negative"]
    table = rows("policy_plain", episodes, LABELS, frozenset())
    played = [LABELS[turn.decision.index] for e in episodes for turn in e.turns]
    assert [row.completion for row in table] == played
    # Perturbations are drawn from all actions, fatal ones too, and most of them are wrong.
    assert any(not e.success for e in episodes)
    wrong = [
        turn.decision.index != oracle.best
        for e in episodes
        for turn, (oracle, _) in zip(e.turns, replayed_oracles(CORRIDOR, e), strict=True)
    ]
    assert sum(wrong) > len(wrong) / 3


def test_rows_leave_out_the_excluded_states(game):
    config, episodes = game
    modes = config.modes[-1:]
    held_out = held_out_states(config, modes)
    everything = [e for pool in episodes.values() for e in pool]
    for dataset in DATASETS:
        kept = rows(dataset, everything, LABELS, held_out)
        assert {row.state for row in kept}.isdisjoint(held_out)
        complete = rows(dataset, everything, LABELS, frozenset())
        assert [row for row in complete if row.state not in held_out] == kept
    # The demonstrations do pass through such states, so leaving them out matters.
    assert len(kept) < len(complete)


def test_held_out_states_are_the_starts_of_validation_and_test_tasks():
    expected = {
        f"{task.data['cells']}-{task.data['goal']}-{task.data['start']}"
        for split in ("validation", "test")
        for task in CORRIDOR.tasks("far", split)
    }
    assert held_out_states(CORRIDOR, ("far",)) == expected
    assert held_out_states(CORRIDOR, ("near", "far")) > expected


class Dice(Corridor):
    """Corridors in which chance chooses the cell of the start."""

    resets, by_chance = 0, True

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        type(self).resets += 1
        if rng is None or not self.by_chance:
            return super().reset(task)
        start = int(rng.integers(1, task.data["cells"] - 1))
        return super().reset(replace(task, data={**task.data, "start": start}))


def test_of_a_start_that_is_drawn_every_state_is_held_out_and_first_those_that_evaluations_play():
    spec = EnvSpec.of(Dice)
    held_out = held_out_states(spec, ("far",))
    ends = {(t.data["cells"], t.data["goal"]) for split in ("validation", "test") for t in spec.tasks("far", split)}
    assert held_out == {f"{cells}-{goal}-{start}" for cells, goal in ends for start in range(1, cells - 1)}
    settings = EvaluationConfig(split="test", repetitions=20, horizons=(1,))
    played, _ = evaluate(spec, settings, "far", "sampled", NoReflector(), RandomPolicy())
    assert {episode.turns[0].observation.state for episode in played} <= held_out


def test_a_start_without_chance_is_made_once(monkeypatch):
    monkeypatch.setattr(Dice, "by_chance", False)
    monkeypatch.setattr(Dice, "resets", 0)
    spec = EnvSpec.of(Dice)
    held_out_states(spec, ("far",))
    assert Dice.resets == sum(len(spec.tasks("far", split)) for split in ("validation", "test"))


@pytest.mark.parametrize(
    ("shown", "what"),
    [
        (None, r"task \S+, start: TypeError: reset and step must show an Observation, and no NoneType\.$"),
        (Observation("At 1.", ("left",), ["1"]), r"TypeError: the state \['1'\] is no text but of type list"),
    ],
)
def test_a_held_out_start_that_shows_no_state_is_named(monkeypatch, shown, what):
    monkeypatch.setattr(Dice, "reset", lambda *_: shown)
    with pytest.raises(FaultyEnvironmentError, match=what):
        held_out_states(EnvSpec.of(Dice), ("far",))


def test_no_demonstration_starts_like_a_held_out_task(game):
    config, episodes = game
    held_out = {t.key for mode in config.modes for split in ("validation", "test") for t in config.tasks(mode, split)}
    states = held_out_states(config, config.modes[-1:])
    for pool in episodes.values():
        for episode in pool:
            assert episode.task.split == "train"
            assert episode.task.key not in held_out
            assert episode.turns[0].observation.state not in states


def test_a_smaller_budget_is_a_subset_of_a_larger_one():
    small, large = (demonstration_tasks(DataConfig(), CORRIDOR, budget, seed=3) for budget in (5, 15))
    assert (len(small), len(large)) == (5, 15)
    assert {t.key for t in small} < {t.key for t in large}
    other = demonstration_tasks(DataConfig(), CORRIDOR, 5, seed=4)
    assert {t.key for t in small} != {t.key for t in other}


def test_each_demonstrated_mode_gets_the_budget():
    tasks = demonstration_tasks(DataConfig(modes=("near", "far")), CORRIDOR, 4, 0)
    assert [task.mode for task in tasks] == ["near"] * 4 + ["far"] * 4
    assert {task.split for task in tasks} == {"train"}


def test_more_starts_than_there_are_name_the_number_there_is():
    count = len(CORRIDOR.tasks("far", "train"))
    with pytest.raises(ConfigError, match=rf"1000 starts are asked for, .* corridor has {count}\."):
        demonstration_tasks(DataConfig(), CORRIDOR, 1000, 0)


def test_the_numbers_of_episodes():
    settings = DataConfig(perturbed_episodes_per_start=3, restarts_per_start=2)
    episodes = demonstrations(settings, CORRIDOR, 5, 0)
    assert len(episodes["positive"]) == 5 + 5 * 2
    assert len(episodes["negative"]) == 5 * 3 + 5 * 2
    without = demonstrations(DataConfig(restarts_per_start=0), CORRIDOR, 5, 0)
    assert [e.task for e in without["positive"]] == demonstration_tasks(DataConfig(), CORRIDOR, 5, 0)


def test_restarts_begin_in_states_that_their_own_kind_met(game):
    _, episodes = game
    for pool in episodes.values():
        met = {turn.observation.state for episode in pool for turn in episode.turns[1:]}
        starts = [e.turns[0].observation.state for e in pool]
        assert len([s for s in starts if s in met]) > len(pool) / 4


def test_restarts_are_in_the_mode_in_which_a_state_was_met():
    spec = EnvSpec.of(Numbered)
    played = demonstrations(DataConfig(modes=("near", "far"), perturbation=0.4), spec, 5, seed=0)
    for pool in played.values():
        first = [e for e in pool if e.task.key.startswith("train/")]
        met = {(e.task.mode, turn.observation.state) for e in first for turn in e.turns[1:]}
        again = {(e.task.mode, e.turns[0].observation.state) for e in pool if e not in first}
        assert again <= met
        assert {mode for mode, _ in again} == {mode for mode, _ in met}


def test_one_seed_gives_one_set_of_demonstrations():
    first, second = (demonstrations(DataConfig(), CORRIDOR, 3, 5) for _ in range(2))
    assert first == second
    assert demonstrations(DataConfig(), CORRIDOR, 3, 6) != first


def test_exercises_ask_for_a_named_line():
    pool = demonstrations(DataConfig(), CORRIDOR, 16, 0, shuffle_labels=True)["negative"]
    turns = [turn for episode in pool for turn in episode.turns]
    asked = set()
    for row, turn in zip(exercises(pool, frozenset(), np.random.default_rng(0)), turns, strict=True):
        match = re.fullmatch(r"(?s)(.*)\nWanted: ([\w ]+)\.\nActions:\n(.+)\n # Action:\n", row.prompt)
        assert match
        text, wanted, lines = match.group(1), match.group(2), match.group(3).split("\n")
        assert all(line.startswith(" ") for line in lines)
        listed = [line[1:] for line in lines]
        # The first words of the text, and at least two of the actions.
        assert text.split() == turn.observation.text.split()[: len(text.split())]
        assert 1 <= len(text.split()) <= 40
        assert 2 <= len(listed) == len(set(listed))
        assert set(listed) <= set(turn.observation.actions)
        assert row.completion == f" {wanted}"
        assert row.state == turn.observation.state
        asked.add((wanted, listed.index(wanted)))
    # Every action is asked for, in several places of the list.
    assert {action for action, _ in asked} == {"left", "right", "wait"}
    assert len(asked) > 6


def test_rows_of_the_line_rule_are_prompts_with_their_lines(game):
    _, episodes = game
    table = rows("policy_reflect", episodes["positive"], LABELS, frozenset(), "line_end")
    turns = [turn for episode in episodes["positive"] for turn in episode.turns]
    for row, turn in zip(table, turns, strict=True):
        head, lines, _ = parts_of(row.prompt)
        assert head == f"{turn.observation.text} # Analyze:\n{turn.reflection}\nActions:\n"
        assert [re.sub(r" =\d+$", "", line) for line in lines] == [
            f" {turn.observation.actions[k]}" for k in turn.order
        ]
        assert row.completion == lines[turn.order.index(turn.decision.target)]


def test_exercises_are_about_no_excluded_state(game):
    config, episodes = game
    held_out = held_out_states(config, config.modes[-1:])
    pool = episodes["positive"] + episodes["negative"]
    kept = exercises(pool, held_out, np.random.default_rng(0))
    states = [turn.observation.state for episode in pool for turn in episode.turns]
    assert [row.state for row in kept] == [state for state in states if state not in held_out]
    assert len(kept) < len(states)


def test_one_stream_gives_one_set_of_exercises(game):
    _, episodes = game
    first, same, other = (
        exercises(episodes["positive"], frozenset(), np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert first == same != other


def test_a_game_without_an_explorer_is_demonstrated_by_its_solver():
    assert demonstrations(DataConfig(label_source="exploring"), CORRIDOR, 3, 5) == demonstrations(
        DataConfig(), CORRIDOR, 3, 5
    )


def test_the_exploring_label_source_teaches_to_look_for_the_target(tmp_path):
    """In wrong folders the explorer reads what is there, where the solver turns back."""
    save_three_projects(tmp_path, folders=4, files=4)
    config = EnvSpec.of(autoexplore.AutoExplore, tasks=tmp_path, modes=("d2k16",))
    settings = {"modes": ("d2k16",), "perturbation": 0.4}
    both = {
        label_source: demonstrations(
            DataConfig.model_validate({"label_source": label_source, **settings}), config, 6, 0
        )
        for label_source in ("clean", "exploring")
    }
    differing = 0
    for label_source, pools in both.items():
        for episode in pools["negative"]:
            for turn, (oracle, _) in zip(episode.turns, replayed_oracles(config, episode), strict=True):
                assert turn.decision.target == (oracle.best if label_source == "clean" else oracle.explorer)
                differing += label_source == "exploring" and oracle.best != oracle.explorer
    assert differing > 5


def test_lexical_rows_teach_what_their_reflection_recommends(tmp_path):
    """Rows whose reflection contradicts the label are left out; there are some, and some are kept."""
    config = EnvSpec.of(
        autoexplore.AutoExplore, tasks=save_small_task_set(tmp_path, "train"), modes=("d1raw",), leaks=("none", "name")
    )
    data = DataConfig(label_source="exploring", modes=("d1raw",), perturbation=0.5, perturbed_episodes_per_start=6)
    shown = demonstrations(data, config, 3, 0, reflector=LexicalReflector(config.prototype), excluded=frozenset())
    episodes = shown["positive"] + shown["negative"]
    labels = [str(number) for number in range(40)]
    every = rows("policy_reflect", episodes, labels, frozenset())
    for name in ("policy_lexical", "policy_lexical_positive"):
        kept = rows(name, episodes, labels, frozenset())
        assert kept == [row for row in every if f"={row.completion}.\nActions:" in row.prompt]
        assert 0 < len(kept) < len(every)


@pytest.fixture
def advised(tmp_path) -> list[Episode]:
    """Episodes of AutoExplore whose reflections end in the number of an action."""
    config = EnvSpec.of(
        autoexplore.AutoExplore, tasks=save_small_task_set(tmp_path, "train"), modes=("d1raw",), leaks=("none", "name")
    )
    data = DataConfig(label_source="exploring", modes=("d1raw",))
    shown = demonstrations(data, config, 3, 0, excluded=frozenset())
    return shown["positive"] + shown["negative"]


def copies(count: int = 1) -> Renumbering:
    return Renumbering(count, np.random.default_rng(0))


ADVICE = re.compile(r"Next: (.*?)(?: =(\d+))?\.\nActions:(.*)\n # Action:", re.DOTALL)


def test_the_numbers_of_a_copy_agree_in_reflection_list_and_label(advised):
    numbers = [str(number) for number in range(40)]
    before = rows("policy_reflect", advised, numbers, frozenset())
    after = rows("policy_reflect", advised, numbers, frozenset(), renumbering=copies())
    for row in after:
        action, number, listed = ADVICE.search(row.prompt).groups()
        assert number == row.completion
        # The line ends where the next number begins, or the list does.
        assert re.search(rf" {number} {re.escape(action)}(?= \d+ |$)", listed)
    states = [[row.prompt.partition(" # Analyze:")[0] for row in table] for table in (before, after)]
    assert states[0] == states[1]
    assert changed(before, after) > len(before) / 2


def changed(before: list[Row], after: list[Row]) -> int:
    return sum(one.completion != other.completion for one, other in zip(before, after, strict=True))


def test_each_copy_is_drawn_anew(advised):
    numbers = [str(number) for number in range(40)]
    before = rows("policy_reflect", advised, numbers, frozenset())
    assert rows("policy_reflect", advised, numbers, frozenset(), renumbering=copies(0)) == []
    after = rows("policy_reflect", advised, numbers, frozenset(), renumbering=copies(2))
    assert len(after) == 2 * len(before)
    assert changed(after[::2], after[1::2]) > len(before) / 2


def shown(actions: tuple[str, ...], reflection: str, target: int) -> list[Episode]:
    """An episode of one turn, whose label is `target`."""
    decision = Decision(target, "annotator", target=target)
    turn = Turn(Observation("You wait.", actions, "s"), tuple(range(len(actions))), reflection, decision, 0.0)
    return [Episode(Task("t"), (turn,), terminated=True, truncated=False, success=True, seed=0, environment="e-v1")]


@pytest.mark.parametrize(
    ("actions", "reflection", "target", "said"),
    [
        # Without a number only the places change.
        (("look", "wait", "go"), "Next: go.", 2, {"Next: go."}),
        # Advice to do something else keeps its own number, which changes if the label takes its place.
        (("look", "wait"), "Next: look =0.", 1, {f"Next: look ={n}." for n in (0, 1, 2)}),
        (
            ("look", "wait"),
            "Look =0 is usual. Next: wait =1.",
            1,
            {f"Look =0 is usual. Next: wait ={n}." for n in (0, 1, 2)},
        ),
        # Advice to do what is not listed loses its number.
        (("look", "wait"), "Next: go =7.", 1, {"Next: go."}),
        # Numbers behind the end of its list are answers, too.
        (("look",), "Next: look =0.", 0, {f"Next: look ={n}." for n in (0, 1, 2)}),
    ],
)
def test_the_number_of_the_advised_action_follows(actions, reflection, target, said):
    table = rows(
        "policy_reflect", shown(actions, reflection, target), ["0", "1", "2"], frozenset(), renumbering=copies(20)
    )
    assert {row.prompt.split(" # Analyze:\n")[1].split("\nActions:")[0] for row in table} == said
    for row in table:
        assert f" {row.completion} {actions[target]}" in row.prompt.split("\nActions:")[1]
    assert {row.completion for row in table} == {"0", "1", "2"}


def test_labels_of_a_copy_are_drawn_from_all_in_their_order():
    numbers = [str(number) for number in range(10)]
    episodes = shown(("look", "wait", "go"), "Next: go =2.", 2)
    table = rows("policy_reflect", episodes, numbers, frozenset(), renumbering=copies(400))
    listed = [re.findall(r" (\d) (look|wait|go)", row.prompt.split("\nActions:")[1]) for row in table]
    assert all({name for _, name in one} == {"look", "wait", "go"} for one in listed)
    assert all([number for number, _ in one] == sorted(number for number, _ in one) for one in listed)
    answers = Counter(row.completion for row in table)
    assert set(answers) == set(numbers)
    # Usual lists are short, so low numbers stay more frequent.
    assert answers["0"] > 3 * answers["9"]
    whole = rows("policy_reflect", episodes, numbers[:3], frozenset(), renumbering=copies(20))
    assert {row.completion for row in whole} == {"0", "1", "2"}


def test_of_two_actions_with_one_text_the_label_is_named():
    episodes = shown(("look", "go", "look"), "Next: look =0.", 0)
    for row in rows("policy_reflect", episodes, ["0", "1", "2"], frozenset(), renumbering=copies(20)):
        assert f"Next: look ={row.completion}." in row.prompt


def test_letters_change_places_and_marks_stay(advised):
    letters = [chr(65 + number // 26) + chr(65 + number % 26) for number in range(40)]
    before = rows("policy_reflect", advised, letters, frozenset())
    after = rows("policy_reflect", advised, letters, frozenset(), renumbering=copies())
    assert changed(before, after) > len(before) / 2
    for one, other in zip(before, after, strict=True):
        action, number, listed = ADVICE.search(other.prompt).groups()
        assert ADVICE.search(one.prompt).groups()[:2] == (action, number)
        assert f" {other.completion} {action} ={number}" in listed


def test_letters_beside_digits_are_no_numbers():
    labels = ["0", "1", "A", "B"]
    episodes = shown(("look", "wait", "go"), "Next: go =2.", 2)
    for row in rows("policy_reflect", episodes, labels, frozenset(), renumbering=copies(20)):
        assert "Next: go =2." in row.prompt
        assert row.completion in labels


def test_shuffling_rows_keeps_them_all():
    table = rows("reflector", demonstrations(DataConfig(), CORRIDOR, 3, 0)["positive"], LABELS, frozenset())
    mixed = shuffled(table, np.random.default_rng(0))
    assert mixed != table
    assert sorted(map(repr, mixed)) == sorted(map(repr, table))
