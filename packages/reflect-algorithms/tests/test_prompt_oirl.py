from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import toy
from a_script import load_script
from reflect_algorithms.prompt_oirl import (
    TEMPLATES,
    PromptReward,
    Template,
    TemplatedPolicy,
    Trial,
    WordFeatures,
    logged_trials,
    read_templates,
    report_of,
)
from reflect_rl.errors import UserError
from reflect_rl.types import Decision, Observation, View

SIDES = tuple(
    Template(f"{side}{manner}".replace(" ", "_"), f"{{state}}\nWalk {side}{manner}.")
    for side in ("left", "right")
    for manner in ("", " slowly", " now")
)


class Obedient:
    """Walks to the side that the prompt names, so a template wins from the starts whose goal is there."""

    name, sees_oracle = "obedient", False

    def decide(self, views, rngs):
        return [Decision(int("Walk right" in view.observation.text), self.name) for view in views]


def trials(folder: Path, split: str) -> list[Trial]:
    tasks = [task for mode in toy.SPEC.modes for task in toy.SPEC.tasks(mode, split)]
    return logged_trials(toy.SPEC, tasks, Obedient(), SIDES, folder / split, 0)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompts")
    return trials(folder, "train"), [*trials(folder, "validation"), *trials(folder, "test")]


def test_there_are_six_templates_or_more_and_each_shows_the_state():
    assert len({template.name for template in TEMPLATES}) == len(TEMPLATES) >= 6
    assert all(template.text.count("{state}") == 1 for template in TEMPLATES)


def test_a_player_reads_states_through_the_template_and_nothing_else_changes():
    seen = []

    class Reader(Obedient):
        def decide(self, views, rngs):
            seen.extend(views)
            return super().decide(views, rngs)

    view = View(Observation("At {rules}.", ("a", "b"), "s"), (1, 0))
    player = TemplatedPolicy(Reader(), Template("t", "{rules} {state}"), "Rules.")
    assert player.decide([view], [np.random.default_rng(0)])[0].index == 0
    assert seen == [replace(view, observation=replace(view.observation, text="Rules. At {rules}."))]


def test_without_a_penalty_the_reward_is_the_share_of_wins():
    # One start and two templates that share no word: r is 3/4 for one and 1/5 for the other.
    rows = [Trial("s", "Begin.", "a", won) for won in (True, True, True, False)]
    rows += [Trial("s", "Begin.", "b", won) for won in (True, False, False, False, False)]
    reward = PromptReward(rows, [Template("a", "one {state}"), Template("b", "two {state}")], ridge=0.0)
    assert reward.predicted([("Begin.", "a"), ("Begin.", "b")]).tolist() == pytest.approx([0.75, 0.2], abs=1e-4)
    assert reward.best("Begin.", ["b", "a"]) == "a"


def test_features_are_word_sequences_that_tell_texts_apart():
    features = WordFeatures(["at 0 now", "at 1 now"])
    assert list(features.column) == ["0", "0 now", "1", "1 now", "at 0", "at 0 now", "at 1", "at 1 now"]
    # Four sequences of eight, each 1/2 in a vector of length one; the constant stands first.
    assert features(["at 0 now", "nothing"]).tolist() == [[1, 0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0], [1] + [0] * 8]


def test_the_report_of_a_log_by_hand():
    pair = (Template("a", "one {state}"), Template("b", "two {state}"))
    # From s, a wins and b loses; from t the other way round. Words tell s and t apart, so r is right everywhere.
    learned = [Trial(s, f"{s} x", n, (s == "s") == (n == "a")) for s in "st" for n in "ab"] + [
        Trial("s", "s x", "a", True)
    ]
    held = [Trial(f"{s}2", f"{s} x", n, (s == "s") == (n == "a")) for s in "ssst" for n in "ab"]
    found = report_of(learned, held, pair)
    # a wins 2 of 3 episodes of its log, b 1 of 2, so a is the best single one: it wins from s2 alone, of two starts.
    assert (found.chosen, found.best_single, found.random, found.oracle, found.accuracy) == (1.0, 0.5, 0.5, 1.0, 1.0)
    # Of the held-out episodes a wins 3/4, b 1/4; the means of the others in the log are 1/2 and 2/3.
    assert found.mean_of_others_error == pytest.approx((0.25 + 5 / 12) / 2)


def test_the_choice_is_as_good_as_the_oracle_where_the_start_tells_and_not_where_verdicts_are_shuffled(log):
    learned, held_out = log
    found = report_of(learned, held_out, SIDES)
    assert (found.oracle, found.chosen) == (1.0, 1.0)
    assert found.best_single < 0.8
    # An unseen manner walks to a side that other templates name, too.
    assert found.held_out_template_error < 0.2
    order = np.random.default_rng(1).permutation(len(learned))
    mixed = [replace(trial, won=learned[k].won) for trial, k in zip(learned, order, strict=True)]
    assert report_of(mixed, held_out, SIDES).chosen < 0.8


def test_what_was_played_is_read_again_and_the_same_log_gives_the_same_weights(log, tmp_path: Path):
    first = trials(tmp_path, "train")
    path = tmp_path / "train" / "left.jsonl"
    path.write_text(json.dumps({"start": "x", "state": "y", "template": "left", "won": True}) + "\n")
    assert trials(tmp_path, "train")[0] == Trial("x", "y", "left", True)
    weights = [PromptReward(rows, SIDES).weights for rows in (first, log[0])]
    assert weights[0].tolist() == weights[1].tolist()


def test_logs_that_cannot_be_judged_are_refused(log):
    learned, held_out = log
    with pytest.raises(UserError, match="on both sides: \\['far"):
        report_of(learned, learned, SIDES)
    with pytest.raises(UserError, match=r"missing: \[\('.*', 'right_now'\)"):
        report_of(learned, [trial for trial in held_out if trial.template != "right_now"], SIDES)
    with pytest.raises(UserError, match="no template has the name 'left'"):
        PromptReward(learned, TEMPLATES)
    with pytest.raises(UserError, match="no trials"):
        PromptReward([], TEMPLATES)


def test_templates_of_a_file_are_read(tmp_path: Path):
    path = tmp_path / "templates.json"
    path.write_text(json.dumps([{"name": "now", "text": "{state} Now!"}, {"name": "plain", "text": "{state}"}]))
    assert read_templates(path) == (Template("now", "{state} Now!"), Template("plain", "{state}"))
    shipped = read_templates(Path(__file__).parents[3] / "configs" / "prompts" / "corridor.json")
    assert len(shipped) >= 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "must be a JSON list"),
        ('{"name": "a"}', "must be a JSON list"),
        ('[{"name": "a"}]', "KeyError: 'text'"),
        ('[{"name": "a", "text": "Hello."}]', "'a' of .* needs .* a text with the place"),
        ('[{"name": "a", "text": "{state}"}, {"name": "a", "text": "{state}!"}]', "'a' of .* needs a name of its own"),
        ('[{"name": "../a", "text": "{state}"}]', "'../a' of .* needs a name of its own, of letters"),
    ],
)
def test_a_file_of_templates_that_cannot_be_used_is_refused(tmp_path: Path, text: str, said: str):
    (tmp_path / "templates.json").write_text(text)
    with pytest.raises(UserError, match=said):
        read_templates(tmp_path / "templates.json")


def test_the_script_plays_a_local_model_and_goes_on(tmp_path: Path, capsys):
    script = load_script("prompt_oirl")
    words = ["--model", "embedded", "--env", "corridor", "--starts", "4", "--out", str(tmp_path)]
    script.main(words)
    first = json.loads((tmp_path / "report.json").read_text())
    assert {"chosen", "best_single", "random", "oracle", "held_out_template_error"} <= set(first)
    times = [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*.jsonl"))]
    script.main(words)
    assert times == [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*.jsonl"))]
    assert json.loads((tmp_path / "report.json").read_text()) == first


def test_the_script_takes_templates_and_scoring_of_the_user(tmp_path: Path):
    (tmp_path / "two.json").write_text('[{"name": "a", "text": "{state}"}, {"name": "b", "text": "{rules} {state}"}]')
    words = ["--model", "embedded", "--env", "corridor", "--starts", "4", "--out", str(tmp_path / "out")]
    load_script("prompt_oirl").main([*words, "--templates", str(tmp_path / "two.json"), "--scoring", "token_mean"])
    assert sorted(path.stem for path in (tmp_path / "out" / "train").iterdir()) == ["a", "b"]
