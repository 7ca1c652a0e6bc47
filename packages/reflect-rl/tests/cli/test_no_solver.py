"""Runs of a game without a solver, in a module of the current folder, from the command line."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sys
import warnings
from pathlib import Path

import pytest

import guess
from reflect_rl.config import parse, read_toml
from reflect_rl.data.recorded import read_episodes
from reflect_rl.errors import ReflectRLWarning
from reflect_rl.runs import run
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.stages import plan

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


BROKEN = """
import os
import time
from own_game import Guess


class Broken(Guess):
    def step(self, action):
        if os.path.exists("slow"):
            time.sleep(600)
        answer = super().step(action)
        return type(answer)(answer.observation, answer.reward * 5, answer.terminated, answer.success)


class Wordless(Guess):
    def reset(self, task, rng):
        return None


class Leaves(Guess):
    def reset(self, task, rng):
        os._exit(3)
"""


def test_what_an_own_game_breaks_of_the_contract_is_told_once_before_a_run(call, folder, recwarn, monkeypatch):
    # As long as a busy machine may take.
    monkeypatch.setattr(run, "GAME_SECONDS", 600.0)
    (folder / "broken_game.py").write_text(BROKEN, encoding="utf-8")
    path = write_run(folder, ["rlft"], "")
    words = ("run", path, "--environment.name", "broken_game:Broken", "--seeds", 0, 1)
    answer = call(*words)
    assert answer.code == 0, answer
    told = [str(one.message) for one in recwarn if issubclass(one.category, ReflectRLWarning)]
    assert told == ["broken, mode 'default': task '0/0': the reward 5 is not in [-1, 1]."]
    assert methods_evaluated(folder) == ["rlft", "rlft"]
    # Nothing is left to do, so nothing is told.
    recwarn.clear()
    assert call(*words).code == 0
    assert not [one for one in recwarn if issubclass(one.category, ReflectRLWarning)]


def test_a_start_that_shows_nothing_is_named_before_a_run(call, folder):
    (folder / "broken_game.py").write_text(BROKEN, encoding="utf-8")
    answer = call("rlft", write_run(folder, ["rlft"], ""), "--environment.name", "broken_game:Wordless")
    shown = "error: wordless-v1, task 0/0, start: TypeError: reset and step must show an Observation, and no NoneType."
    assert answer.errors.startswith(shown)
    assert "unexpected" not in answer.errors


def test_a_look_at_an_own_game_ends_in_time_and_leaves_its_failures_to_the_jobs(call, folder, monkeypatch):
    (folder / "broken_game.py").write_text(BROKEN, encoding="utf-8")
    (folder / "slow").touch()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(run, "GAME_SECONDS", 0.5)
    kept = folder / "temporary"
    kept.mkdir()
    monkeypatch.setenv("TMPDIR", str(kept))
    values = read_toml(write_run(folder, ["rlft"], ""))
    for game in ("broken_game:Broken", "broken_game:Leaves", "own_game:Guess"):
        config = parse(RunConfig, values | {"environment": {"name": game}})
        # The first game would sleep for minutes.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run._warn_of_game(config, plan(config), multiprocessing.get_context("fork"))
    assert list(kept.iterdir()) == []


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


def test_another_run_with_an_own_reflection_player_makes_the_data_that_the_first_one_lacks(call, folder):
    with (folder / "own_game.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\nclass Hint:\n    name, sees_oracle = 'hint', False\n\n"
            "    def reflect(self, views):\n        return ['I look.' for _ in views]\n"
        )
    path = write_run(folder, ["random", "sft"], 'label_source = "successes"')
    assert call("run", path).code == 0
    words = ("run", path, "--output-dir", "run2", "--start-from", "run", "--methods", "sft_reflect")
    mistake = call(*words).mistake
    assert "lacks data sets of these methods, and those of 'sft_reflect' cannot be made here: own_game:Guess" in mistake
    assert not (folder / "run2").exists()
    tiny = ("--sft.policy-reflect.steps", "2")
    answer = call(*words, "--reflector.kind", "own_game:Hint", *tiny)
    assert (answer.code, "taken" in answer.output) == (0, False), answer
    rows = json.loads((folder / "run2" / "results.json").read_text(encoding="utf-8"))
    assert [row["method"] for row in rows] == ["sft_reflect"]
    data = folder / "run2" / "starts-40" / "seed-0" / "data" / "policy_reflect.jsonl"
    assert "I look." in data.read_text(encoding="utf-8")


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
