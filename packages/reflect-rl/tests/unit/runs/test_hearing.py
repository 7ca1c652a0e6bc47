"""The policy learns beside the reflection player that it will play beside."""

from __future__ import annotations

import json

import pytest

from reflect_rl.config import parse
from reflect_rl.errors import ConfigError
from reflect_rl.data.annotate import Note
from reflect_rl.runs import hearing
from reflect_rl.runs import jobs
from reflect_rl.runs.check import check
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import units
from reflect_rl.runs.hearing import JOURNAL, examples_heard, weights_of
from reflect_rl.runs.jobs import execute, plan
from reflect_rl.players.reflectors.lexical import LexicalReflector
from reflect_rl.prompts.render import reflection_prompt

STEPS = {"steps": 2, "batch_size": 4}


def config(folder, game="corridor", **changes) -> RunConfig:
    return parse(
        RunConfig,
        {
            "output_dir": str(folder),
            "methods": ["sft_reflect", "sft_reflect_no_negatives"],
            "environment": {"name": game},
            "data": {"demonstration_starts": [3]},
            "model": {"embedded": {"hidden_size": 16, "layers": 1, "heads": 2, "vocabulary_size": 512}},
            "sft": {"policy_hears": "player"}
            | dict.fromkeys(("base", "reflector", "policy_plain", "policy_reflect"), STEPS),
            "reflector": {"max_new_tokens": 8},
            **changes,
        },
    )


class Echo:
    """Says which prompt it was asked."""

    sees_oracle = False

    def __init__(self, told=lambda view: f"heard {hash(reflection_prompt(view))}", stops_after=None):
        self.told, self.stops_after, self.asked = told, stops_after, 0

    def reflect(self, views):
        if self.stops_after is not None and self.asked >= self.stops_after:
            raise KeyboardInterrupt
        self.asked += len(views)
        assert not any(view.observation.actions for view in views)  # it reads the state only, here as in play
        return [self.told(view) for view in views]


def heard(run, player, dataset="policy_reflect", count=10_000, weights="abc"):
    (unit,) = units(run)
    return examples_heard(run, unit, dataset, lambda: player, weights, count, lambda *_: None)


def test_each_row_is_the_teachers_row_with_the_players_words(tmp_path):
    run = config(tmp_path)
    data = next(job for job in plan(run) if job.kind == "data")
    execute(data, run, lambda *_: None)
    taught = [json.loads(line) for line in data.unit.dataset("policy_reflect").read_text().splitlines()]

    def parts(prompt):
        state, _, rest = prompt.partition(" # Analyze:\n")
        return state, rest.partition("\nActions:")[0], rest.partition("\nActions:")[2]

    rows = heard(run, Echo())
    assert sorted((state, actions, label) for (state, _, actions), label in ((parts(p), c) for p, c in rows)) == sorted(
        (parts(row["prompt"])[0], parts(row["prompt"])[2], row["completion"]) for row in taught
    )
    for prompt, _ in rows:
        state, words, _ = parts(prompt)
        assert words == f"heard {hash(state + ' # Analyze:' + chr(10))}"


def test_no_more_turns_are_written_about_than_training_will_see(tmp_path):
    player = Echo()
    assert len(heard(config(tmp_path), player, count=7)) == 7
    assert player.asked == 7


def test_positive_rows_come_from_unperturbed_episodes_only(tmp_path):
    run = config(tmp_path)
    everything, positive = heard(run, Echo()), heard(run, Echo(), "policy_reflect_positive")
    assert 0 < len(positive) < len(everything)


def test_what_was_written_is_not_written_again_and_the_rows_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(hearing, "CHUNK", 5)
    run, whole = config(tmp_path / "run"), heard(config(tmp_path / "whole"), Echo())
    with pytest.raises(KeyboardInterrupt):
        heard(run, Echo(stops_after=10))
    (unit,) = units(run)
    journal = unit.sft("policy_reflect") / JOURNAL
    assert len(journal.read_text().splitlines()) == 10
    journal.write_text(journal.read_text() + '{"state": "half a li')
    again = Echo()
    assert heard(run, again) == whole
    assert again.asked == len(whole) - 10
    assert heard(run, None) == whole  # everything is there: nobody is asked, no model is loaded


def test_what_other_weights_wrote_is_written_anew(tmp_path):
    run = config(tmp_path)
    first = heard(run, Echo())
    again = Echo(lambda view: "new")
    second = heard(run, again, weights="other")
    assert again.asked == len(second) == len(first)
    assert all("\nnew\n" in prompt or " new" in prompt for prompt, _ in second)
    (unit,) = units(run)
    assert len((unit.sft("policy_reflect") / JOURNAL).read_text().splitlines()) == len(second)


def test_weights_are_told_apart_by_what_is_in_their_files(tmp_path):
    for name, content in (("a", b"one"), ("b", b"two"), ("c", b"one")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(content)
    marks = [weights_of(tmp_path / name) for name in "abc"]
    assert marks[0] == marks[2] != marks[1]
    assert weights_of(tmp_path) == ""


def test_a_journal_of_something_else_is_refused_by_name(tmp_path):
    run = config(tmp_path)
    (unit,) = units(run)
    unit.sft("policy_reflect").mkdir(parents=True)
    (unit.sft("policy_reflect") / JOURNAL).write_text('{"text": "?"}\n')
    with pytest.raises(
        jobs.RunFolderError, match=r"reflections.jsonl holds a row without player or reflection. Delete "
    ):
        heard(run, Echo())


def test_labels_stay_those_that_an_annotator_chose(tmp_path, monkeypatch):
    class Annotated:
        def note(self, episode, place):
            return Note("told", 0)

    monkeypatch.setattr(hearing, "read_annotations", lambda *_: Annotated())
    assert {label for _, label in heard(config(tmp_path), Echo())} == {"0"}


def test_where_advice_can_be_checked_rows_that_contradict_the_label_are_left_out(tmp_path):
    run = config(tmp_path, "alfworld", data={"demonstration_starts": [2], "recipe": "exploring"})
    teacher = LexicalReflector("alfworld")
    everything = heard(run, Echo(lambda view: teacher.reflect([view])[0]))
    assert everything
    wrong = config(tmp_path / "wrong", "alfworld", data={"demonstration_starts": [2], "recipe": "exploring"})
    mistaken = heard(wrong, Echo(lambda view: "Next: look."))
    assert len(mistaken) < len(everything) / 4
    lost = config(tmp_path / "lost", "alfworld", data={"demonstration_starts": [2], "recipe": "exploring"})
    # What cannot be done contradicts nothing: there the policy has to see for itself.
    assert len(heard(lost, Echo(lambda view: "Next: go to fridge 77 =5."))) == len(everything)


def test_the_jobs_train_beside_the_trained_player(tmp_path):
    run = config(tmp_path)
    order = [(job.kind, job.name) for job in plan(run)]
    assert order.index(("sft", "reflector")) < order.index(("sft", "policy_reflect"))
    for job in plan(run):
        if job.kind in ("data", "sft"):
            execute(job, run, lambda *_: None)
    (unit,) = units(run)
    for dataset, player in (("policy_reflect", "reflector"), ("policy_reflect_positive", "reflector_positive")):
        assert unit.model(dataset).is_dir()
        (job,) = (job for job in plan(run) if job.name == dataset)
        assert unit.sft(player) in job.needs
        lines = [json.loads(line) for line in (unit.sft(dataset) / JOURNAL).read_text().splitlines()]
        assert len(lines) == 8  # two steps of four rows
        assert all(set(line) == {"player", "state", "reflection"} for line in lines)
        assert {line["player"] for line in lines} == {weights_of(unit.model(player))}


@pytest.mark.parametrize(
    ("game", "set_numbers", "there"), [("alfworld", True, True), ("alfworld", False, False), ("corridor", True, False)]
)
def test_numbers_are_set_right_where_the_game_has_some_and_it_is_wanted(tmp_path, game, set_numbers, there):
    run = config(tmp_path, game, reflector={"set_numbers": set_numbers})
    assert (jobs.numbers_of(run) is not None) == there


def test_without_the_trained_player_the_job_says_what_to_run(tmp_path):
    run = config(tmp_path)
    for job in plan(run):
        if job.kind == "data" or job.name in ("base", "reflector"):
            execute(job, run, lambda *_: None)
    (unit,) = units(run)
    (unit.sft("reflector") / "done").unlink()
    (job,) = (job for job in plan(run) if job.name == "policy_reflect")
    with pytest.raises(jobs.RunFolderError, match=r"needs .*reflector, which is not finished. Run `reflect-rl sft`"):
        execute(job, run, lambda *_: None)


def test_a_chat_model_in_the_players_place_is_refused(tmp_path):
    run = config(tmp_path, reflector={"kind": "chat"})
    with pytest.raises(ConfigError, match=r"sft.policy_hears: 'player' has the run's own reflection model write"):
        check(run)
