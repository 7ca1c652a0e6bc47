"""Adapting a player: which questions, which modes, what is measured, and what a difference is worth."""

import json

import pytest

from reflect_locate.adapt import (
    Outcome,
    TrainingAmount,
    compare,
    drop_long_rows,
    held_out,
    measure,
    run_config,
    task_set_of,
    trained_modes,
)
from reflect_locate.envs import autoexplore
from reflect_locate.finder import SearchOptions
from reflect_locate.trained_player import PlayerSettings, load_settings
from reflect_rl.errors import RunFolderError, UserError
from reflect_rl.runs.folder import units
from three_projects import save_three_projects
from tiny_player import ScriptedPlayer, save_tiny_player, write_files


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Three projects of 96 files each; the train project has a question about every file."""
    return save_three_projects(tmp_path_factory.mktemp("set"), folders=8, files=6)


def outcome(key, rank, leak="none"):
    return Outcome(str(key), rank, leak, 9)


def test_first_and_near_are_told_apart():
    assert [(o.first, o.near) for o in (outcome(1, 1), outcome(2, 5), outcome(3, 6), outcome(4, 0))] == [
        (True, True),
        (False, True),
        (False, False),
        (False, False),
    ]


def test_a_comparison_counts_pairs():
    before = [outcome(key, 0) for key in range(10)]
    after = [outcome(key, 1 if key < 6 else 3) for key in range(10)]
    first, near = compare(before, after)
    assert (first.name, first.questions) == ("first", 10)
    assert (first.before[0], first.after[0]) == (0, 6)
    assert first.difference.difference == pytest.approx(0.6)
    # Six questions changed, all for the better: p = 2 / 2^6.
    assert first.difference.p_value == pytest.approx(2 / 64)
    assert first.is_clear
    assert near.after[0] == 10


def test_a_small_difference_is_not_clear():
    before = [outcome(key, 1 if key < 5 else 0) for key in range(20)]
    after = [outcome(key, 1 if key < 6 else 0) for key in range(20)]
    assert not compare(before, after)[0].is_clear


def test_questions_that_name_their_file_are_told_apart():
    before = [outcome(key, 1, "name" if key < 4 else "none") for key in range(10)]
    names = {entry.name: entry.questions for entry in compare(before, before)}
    assert names == {"first": 10, "first 5": 10, "first, not named": 6, "first 5, not named": 6}


def test_outcomes_of_other_questions_are_not_compared():
    with pytest.raises(ValueError, match="different questions"):
        compare([outcome(1, 1)], [outcome(2, 1)])


def test_modes_are_the_largest_that_enough_questions_fit(tasks):
    environment = autoexplore.Config(tasks=tasks.folder)
    # Two folders up there are 48 files, three up 96; both carry trees of 32. At depth 3 there are none of a set size.
    assert trained_modes(environment) == ["d1k32", "d1raw", "d2k32", "d2raw", "d3raw"]
    assert trained_modes(environment.model_copy(update={"hard": True})) == trained_modes(environment)


def test_too_few_questions_are_a_mistake(tmp_path):
    few = save_three_projects(tmp_path, folders=1, files=2)
    with pytest.raises(UserError, match="too few questions to learn from"):
        trained_modes(autoexplore.Config(tasks=few.folder))
    with pytest.raises(UserError, match="gives 4 held-out questions, and a comparison needs 10"):
        held_out(few, 100)


def test_held_out_questions_are_of_the_test_split_and_drawn_by_the_seed(tasks):
    chosen = held_out(tasks, 20, seed=1)
    assert len(chosen) == 20
    assert {question.split for question in chosen} == {"test"}
    assert chosen == held_out(tasks, 20, seed=1) != held_out(tasks, 20, seed=2)
    assert len(held_out(tasks, 1000)) == 96


def test_every_question_is_asked_once_on_its_whole_tree(tasks, tmp_path):
    asked = []

    def straight(actions):
        if actions[-1].startswith("id "):
            asked.append(actions[-1])
            return {actions[-1]: 0.9}
        return {next(action for action in actions if action.startswith(("cd lib", "cd east", "cd back", "cat"))): 0.9}

    questions = held_out(tasks, 12)
    player, file = ScriptedPlayer(straight, straight), tmp_path / "before.jsonl"
    first = measure(player, tasks, questions[:10], SearchOptions(0), file, lambda done, total: None)
    assert len(first) == len(asked) == 10
    # The player always names the first file of one folder; it is right exactly where that is the target.
    named = asked[0].removeprefix("id ")
    assert [entry.rank == 1 for entry in first] == [named in question.targets for question in questions[:10]]
    progress = []
    again = measure(player, tasks, questions, SearchOptions(0), file, lambda *counts: progress.append(counts))
    assert again[:10] == first
    assert len(asked) == 12
    assert progress == [(11, 12), (12, 12)]


def test_the_sentence_of_a_question_is_blanked_out(tasks, tmp_path):
    seen = []

    class Curious:
        name, sees_oracle = "curious", False

        def reflect(self, views):
            seen.extend(view.observation.text for view in views)
            return [None] * len(views)

    def reading(actions):
        return {next(a for a in actions if a.startswith(("cat", "cd lib", "cd east", "cd back", "cd .."))): 0.9}

    (question,) = held_out(tasks, 1)
    player = ScriptedPlayer(reading, reading, reflector=Curious())
    measure(player, tasks, [question], SearchOptions(0), tmp_path / "x.jsonl", lambda done, total: None)
    assert any(text.startswith(f"Task: {question.text}") for text in seen)
    assert not any(question.text in text.partition("\n")[2] for text in seen)


def test_a_run_goes_on_from_the_player(tasks, tmp_path):
    settings, policy = load_settings(save_tiny_player(tmp_path / "player"))
    config = run_config(settings, policy, tasks, tmp_path / "run", TrainingAmount(starts=5, sft_steps=7, rlft_turns=30))
    assert config.methods == ("reflect_rl_lexical",)
    assert config.model.path == str(policy.resolve())
    assert config.data.demonstration_starts == (5,)
    assert config.sft.policy_lexical.steps == 7
    assert config.rlft.total_turns == 30
    assert config.rlft.curriculum.modes == config.data.modes == ("d1k32", "d1raw", "d2k32", "d2raw", "d3raw")
    assert config.environment.page_entries == settings.environment.page_entries
    assert config.environment.leaks == ("none", "tokens", "name")


def test_a_player_without_reflections_is_trained_without(tasks, tmp_path):
    settings = PlayerSettings(reflector="none")
    assert run_config(settings, tmp_path, tasks, tmp_path / "run", TrainingAmount()).methods == ("sft_rlft",)


def test_a_player_with_a_writing_model_is_refused(tasks, tmp_path):
    with pytest.raises(UserError, match="written by a model"):
        run_config(PlayerSettings(reflector="model"), tmp_path, tasks, tmp_path / "run", TrainingAmount())


@pytest.mark.parametrize(("lengths", "kept"), [([10, 20, 900], 2), ([900, 900, 5], None)])
def test_examples_that_are_too_long_are_left_out(tasks, tmp_path, lengths, kept):
    settings, policy = load_settings(save_tiny_player(tmp_path / "player", context_tokens=512))
    config = run_config(settings, policy, tasks, tmp_path / "run", TrainingAmount(starts=5))
    (unit,) = units(config)
    file = unit.dataset("policy_lexical")
    file.parent.mkdir(parents=True)
    rows = [json.dumps({"prompt": "é" * (length // 2), "completion": "0"}) for length in lengths]
    file.write_text("\n".join(rows) + "\n")
    if kept is None:
        with pytest.raises(UserError, match="2 of 3 examples are too long"):
            drop_long_rows(config)
        assert len(file.read_text().splitlines()) == 3
    else:
        assert drop_long_rows(config) == (1, 3)
        assert len(file.read_text().splitlines()) == kept
        assert drop_long_rows(config) == (0, 2)


def test_questions_are_made_once_for_a_repository(tmp_path):
    project = write_files(tmp_path / "kettle")
    told = []
    made = task_set_of(str(project), tmp_path / "tasks", told.append)
    assert "kettle: 4 files" in told[0]
    assert task_set_of(str(project), tmp_path / "tasks", told.append).identity == made.identity
    assert "made before" in told[-1]
    with pytest.raises(RunFolderError, match="Choose another --output-dir"):
        task_set_of(str(tmp_path), tmp_path / "tasks", told.append)
