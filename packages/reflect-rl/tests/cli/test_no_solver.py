"""Runs of a game without a solver, in a module of the current folder, from the command line."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import guess
from reflect_rl.data.recorded import read_episodes

RUN = """
output_dir = "run"
methods = {methods}
workers = 1
[environment]
name = "own_game:Guess"
[model]
device = "cpu"
[model.embedded]
hidden_size = 16
layers = 1
[data]
{data}
demonstration_starts = [40]
[sft.base]
steps = 2
[sft.policy_plain]
steps = 2
[rlft]
total_turns = 30
starts_per_update = 4
validate_every = 0
[evaluation]
decodings = ["greedy"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A current folder with a game in it, which is on no path yet."""
    shutil.copy(guess.__file__, tmp_path / "own_game.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_game", raising=False)
    return tmp_path


def write_run(folder: Path, methods: list[str], data: str) -> Path:
    path = folder / "run.toml"
    path.write_text(RUN.format(methods=json.dumps(methods), data=data), encoding="utf-8")
    return path


def methods_evaluated(folder: Path) -> list[str]:
    rows = json.loads((folder / "run" / "results.json").read_text(encoding="utf-8"))
    return [row["method"] for row in rows]


def test_recorded_episodes_train_a_player_and_what_lacks_is_said(call, folder):
    for seed in range(12):
        words = ("--environment.name", "own_game:Guess", "--player", "random", "--episode-seed", seed)
        assert call("play", *words, "--record", "demos.jsonl").output.endswith("recorded in demos.jsonl\n")
    episodes = read_episodes(folder / "demos.jsonl")
    assert len(episodes) == 12
    assert {episode.task.split for episode in episodes} == {"train"}
    wanted = ["oracle", "sft", "sft_rlft", "sft_reflect", "reflect_rl_no_negatives", "sft_lexical"]
    answer = call("run", write_run(folder, wanted, 'episodes = "demos.jsonl"'))
    assert answer.code == 0, answer
    for sentence in (
        "data: supervised training imitates the recorded episodes of demos.jsonl.",
        "methods: 'oracle' is left out: it needs HasSolver, which own_game:Guess does not offer.",
        "methods: 'sft_reflect' is left out: the episodes of demos.jsonl hold no reflections. Record some with",
        "methods: 'reflect_rl_no_negatives' is left out: without a solver there are no negative examples to leave out.",
        "methods: 'sft_lexical' is left out: it needs HasStateTeacher, which own_game:Guess does not offer.",
    ):
        assert sentence in answer.output
    assert methods_evaluated(folder) == ["sft", "sft_rlft"]
    won = {episode.task.key for episode in episodes if episode.success}
    learned = read_episodes(folder / "run" / "starts-40" / "seed-0" / "data" / "episodes.jsonl")
    assert {episode.task.key for episode in learned} == won
    assert all(turn.decision.target == turn.decision.index for episode in learned for turn in episode.turns)


def test_own_successes_and_untuned_online_training(call, folder):
    path = write_run(folder, ["sft", "rlft"], 'label_source = "successes"')
    answer = call("run", path)
    assert "data: supervised training imitates the won episodes of a random player." in answer.output
    assert methods_evaluated(folder) == ["sft", "rlft"]
    # A run folder may be somebody else's: its config.json loads nothing from the current folder.
    assert "names 'own_game:Guess', which no installed distribution provides" in call("eval", "run").mistake
    sys.path.remove(str(folder))
    sys.modules.pop("own_game", None)
    assert call("report", "run").code == 0
    assert "own_game" not in sys.modules
    assert call("eval", "run", "--environment.name", "own_game:Guess").code == 0


def test_nothing_to_imitate(call, folder):
    answer = call("run", write_run(folder, ["sft", "rlft"], ""))
    assert "methods: 'sft' is left out: own_game:Guess has no solver to demonstrate. Set data.episodes" in answer.output
    assert "data: own_game:Guess has no solver and nothing was recorded, so nothing is imitated." in answer.output
    assert methods_evaluated(folder) == ["rlft"]


def test_no_method_is_left(call, folder):
    mistake = call("run", write_run(folder, ["oracle", "sft"], "")).mistake
    assert "No method is left." in mistake
    assert not (folder / "run").exists()


def test_mistakes(call, folder):
    path = write_run(folder, ["sft"], 'episodes = "nowhere.jsonl"')
    assert "data.episodes: no file 'nowhere.jsonl'" in call("run", path).mistake
    path = write_run(folder, ["sft"], 'label_source = "recorded"')
    assert (
        "recorded episodes are label_source = 'recorded', and no other source has a file" in call("run", path).mistake
    )
    assert "own_game:Guess has no solver to show" in call("play", "--environment.name", "own_game:Guess").mistake
    path.write_text(path.read_text(encoding="utf-8") + '[reflector]\nkind = "prompted"\n', encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8").replace('"recorded"', '"successes"'), encoding="utf-8")
    assert "'prompted' asks the model of [model] as it comes" in call("run", path).mistake
