"""`reflect-rl export`: a player out of a run, with a threshold that was measured."""

from __future__ import annotations

import json

import pytest

from reflect_locate import calibrate
from reflect_locate.calibrate import Calibration
from reflect_locate.evidence import Weights
from reflect_locate.trained_player import load_player
from three_projects import save_three_projects
from tiny_player import save_tiny_player


@pytest.fixture
def run(tmp_path):
    """A run folder with a trained policy of random weights, and its task set."""
    tasks = save_three_projects(tmp_path / "tasks", folders=2, files=3).folder
    folder, player = tmp_path / "run", save_tiny_player(tmp_path / "tiny", context_tokens=2048)
    config = {
        "environment": {"name": "autoexplore", "search": True, "tasks": str(tasks)},
        "data": {"demonstration_starts": [5]},
        "methods": ["reader", "sft_lexical", "bm25_names"],
    }
    model = folder / "starts-5/seed-0/models/policy_lexical"
    model.parent.mkdir(parents=True)
    (player / "policy").rename(model)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "run.json").write_text(json.dumps({"fingerprint": "f00"}))
    return folder


def test_the_threshold_is_measured_and_noted(run, tmp_path, call, monkeypatch):
    asked = []

    def collected(player, tasks, questions, effort, progress):
        asked.append((questions, effort.episodes))
        progress(1, len(questions))
        return asked

    def measured(candidates):
        assert candidates is asked
        return Calibration(Weights(named=0.7), 0.31, 0.9, 0.8, 10, 12)

    monkeypatch.setattr(calibrate, "collect", collected)
    monkeypatch.setattr(calibrate, "calibrate", measured)
    answer = call("export", run, tmp_path / "player", "--questions", 7, "--episodes", 3)
    assert answer.code == 0, answer.errors
    assert "weights of the evidence: coverage 1, match 1, path 0.4, named 0.7" in answer.output
    assert "threshold 0.31: 90% of 10 right answers are shown, 80% of 12 wrong ones are withheld" in answer.output
    ((questions, episodes),) = asked
    assert (len(questions), episodes) == (7, 3)
    assert {question.split for question in questions} == {"validation"}
    player = load_player(tmp_path / "player", device="cpu")
    settings = player.settings
    assert (settings.threshold, settings.weights) == (0.31, Weights(named=0.7))
    assert settings.trained["method"] == "sft_lexical"
    assert settings.trained["calibration"]["wrong"] == 12
    assert settings.trained["calibration"]["questions"] == 7
    assert player.model.hash() == settings.trained["weights"]


def test_without_questions_the_threshold_stays(run, tmp_path, call):
    assert call("export", run, tmp_path / "player", "--questions", 0, "--half", "true").code == 0
    settings = load_player(tmp_path / "player", device="cpu").settings
    assert (settings.threshold, settings.weights) == (0.2, Weights())
    assert "calibration" not in settings.trained
    assert b'"dtype":"F16"' in (tmp_path / "player" / "policy" / "model.safetensors").read_bytes()[:4000]


def test_answers_that_set_no_threshold_are_told(run, tmp_path, call):
    message = call("export", run, tmp_path / "player", "--questions", 2, "--episodes", 0).mistake
    assert "both are needed for a threshold. Ask more questions (--questions), or none (0)" in message
    assert not (tmp_path / "player").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "name a run and a folder for its player"),
        (["run", "player", "third"], "Got 3"),
        (["run", "."], "exists. Choose another folder"),
        (["no-run", "player"], "neither a player"),
        (["run", "player", "--method", "sft_lexica"], "Did you mean 'sft_lexical'"),
        (["run", "player", "--questions", "-1"], "questions"),
    ],
)
def test_mistakes_are_named(run, call, monkeypatch, words, message):
    monkeypatch.chdir(run.parent)
    assert message in call("export", *words).mistake
    assert not (run.parent / "player").exists()


def test_a_task_set_without_validation_questions_is_named(run, call, tmp_path):
    file = tmp_path / "tasks" / "questions.jsonl"
    config = json.loads((run / "config.json").read_text())
    kept = [line for line in file.read_text().splitlines() if json.loads(line)["split"] != "validation"]
    file.write_text("\n".join(kept) + "\n")
    message = call("export", run, tmp_path / "player").mistake
    assert config["environment"]["tasks"] in message
