"""What trained models follow from is not changed under them, and is told in results; nothing is trained here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reflect_algorithms.learners.cloning import Cloning
from reflect_algorithms.learners.gail import GAIL
from reflect_algorithms.preferences.rlhf import RLHF, PPOMax
from reflect_algorithms.training import algorithm_of as algorithm_of_learner
from reflect_report.runs import read_curves, read_run
from reflect_report.sweep.plan import make_cell, shared_works
from reflect_rl.config import parse
from reflect_rl.errors import RunFolderError
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.evaluate import _condition
from reflect_rl.runs.stages import plan
from reflect_rl.runs.start import begin, open_run
from reflect_rl.training.config import RLFTConfig

UNIT = "starts-2/seed-0"
BY_RLFT = ("reflect_rl_both", "rlhf", "ppo_max", "gail", "morel")
"""Methods of this package that train with the settings of `[rlft]`."""


def config(folder: Path, method: str, **changes: Any) -> RunConfig:
    values = {"output_dir": str(folder), "environment": {"name": "corridor"}, "methods": [method]}
    return parse(RunConfig, {**values, "data": {"demonstration_starts": [2]}, **changes})


def nested(name: str, value: object) -> dict[str, Any]:
    """The table of a dotted setting."""
    for key in reversed(name.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def left(folder: Path, name: str) -> None:
    """A file that a job has left."""
    (folder / UNIT / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / UNIT / name).touch()


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("bc", "offline.training.steps", 500),
        ("rvs", "offline.rvs.condition", "return"),
        ("a_lol", "offline.log.quality", "random"),
        ("dagger", "offline.dagger.rounds", 9),
        ("dpo", "preferences.pairs.noise", 0.5),
        ("rlhf", "preferences.rlhf.kl_coef", 5.0),
        ("reflect_rl_both", "reflector.max_new_tokens", 7),
        ("reflect_rl_both", "rlft.reflector.kl_coef", 5.0),
        *((method, "rlft.total_turns", 7) for method in BY_RLFT),
        *((method, "rlft.algorithm.name", "grpo") for method in BY_RLFT),
    ],
)
def test_an_evaluation_refuses_other_settings_than_the_models_were_trained_with(tmp_path, method, name, value):
    open_run(config(tmp_path / "source", method), "")
    other = config(tmp_path / "run", method, start_from=str(tmp_path / "source"), **nested(name, value))
    with pytest.raises(
        RunFolderError, match=rf"were made with other settings: .*{name} is .* there and {value!r} here"
    ):
        begin(other, "", evaluates=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("bc", "rlft.total_turns", 7),
        ("dpo", "rlft.algorithm.name", "grpo"),
        ("sft", "offline.training.steps", 500),
        ("sft", "preferences.dpo.beta", 5.0),
        ("bc", "endpoint.model", "another"),
        ("bc", "prompted.examples", 3),
    ],
)
def test_an_evaluation_may_change_what_its_models_do_not_follow_from(tmp_path, method, name, value):
    open_run(config(tmp_path / "source", method), "")
    begin(
        config(tmp_path / "run", method, start_from=str(tmp_path / "source"), **nested(name, value)), "", evaluates=True
    )
    assert (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    ("method", "made", "name", "value"),
    [
        *((m, f"learn/{m}/done", "rlft.total_turns", 7) for m in BY_RLFT if m != "reflect_rl_both"),
        ("reflect_rl_both", "rlft_both/reflect_rl_both/done", "rlft.total_turns", 7),
        ("reflect_rl_both", "rlft_both/reflect_rl_both/checkpoints/step-1/state", "reflector.max_new_tokens", 7),
        ("bc", "log/episodes.jsonl", "prompt.shuffle_labels", True),
    ],
)
def test_what_a_stage_made_with_a_setting_keeps_it(tmp_path, method, made, name, value):
    open_run(config(tmp_path, method), "")
    left(tmp_path, made)
    with pytest.raises(RunFolderError, match=rf"holds a run with other settings: {name} is .* there and {value} here"):
        open_run(config(tmp_path, method, **nested(name, value)), "")
    assert (tmp_path / UNIT / made).exists()


def test_online_rl_can_be_corrected_after_a_training_that_does_not_follow_from_it(tmp_path):
    open_run(config(tmp_path, "bc"), "")
    left(tmp_path, "learn/bc/done")
    open_run(config(tmp_path, "bc", rlft={"total_turns": 7}), "")
    assert (tmp_path / UNIT / "learn" / "bc" / "done").exists()


def test_a_training_by_online_rl_that_failed_can_be_corrected(tmp_path):
    open_run(config(tmp_path, "rlhf"), "")
    left(tmp_path, "learn/rlhf/error.txt")
    open_run(config(tmp_path, "rlhf", rlft={"total_turns": 7}), "")
    assert not (tmp_path / UNIT / "learn" / "rlhf").exists()


def test_results_name_the_algorithm_of_methods_that_train_with_rlft(tmp_path):
    def noted(method: str) -> str:
        run = config(tmp_path, method, rlft={"algorithm": {"name": "grpo"}})
        (job,) = (job for job in plan(run) if job.kind == "eval")
        return _condition(job, run, "near", "greedy", 20, "").algorithm

    assert {name: noted(name) for name in (*BY_RLFT, "bc", "dpo", "sft")} == {
        "reflect_rl_both": "grpo",
        "rlhf": "grpo",
        "ppo_max": "ppo",
        "gail": "grpo",
        "morel": "grpo",
        "bc": "none",
        "dpo": "none",
        "sft": "none",
    }


def test_a_learner_from_python_has_its_algorithm_in_its_origin():
    grpo = parse(RLFTConfig, {"algorithm": {"name": "grpo"}})
    assert [algorithm_of_learner(one) for one in (RLHF(rlft=grpo), PPOMax(rlft=grpo), GAIL(rlft=grpo), Cloning())] == [
        "grpo",
        "ppo",
        "grpo",
        "none",
    ]


def old_row(method: str) -> dict[str, Any]:
    """A row of before the algorithm of such methods was noted."""
    return {
        "schema_version": 2,
        "benchmark": "corridor",
        "label_source": "clean",
        "mode": "near",
        "split": "test",
        "method": method,
        "algorithm": "none",
        "model": "tiny",
        "seed": 0,
        "demonstration_starts": 2,
        "horizon": 20,
        "decoding": "sampled",
        "episodes": 10,
        "successes": 8,
        "success_rate": 0.8,
        "ci95": [0.0, 1.0],
    }


def test_old_results_and_curves_get_their_algorithm_from_the_configuration(tmp_path):
    methods = ("reflect_rl_both", "ppo_max", "bc")
    (tmp_path / "results.json").write_text(json.dumps([old_row(name) for name in methods]))
    assert [row.algorithm for row in read_run(tmp_path).results] == ["none", "none", "none"]
    (tmp_path / "config.json").write_text(json.dumps(nested("rlft.algorithm.name", "reinforce")))
    left(tmp_path, "learn/rlhf/x")
    for name in ("rlhf", "bc"):
        left(tmp_path, f"learn/{name}/metrics.jsonl")
        (tmp_path / UNIT / "learn" / name / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0}\n')
    run = read_run(tmp_path)
    assert [row.algorithm for row in run.results] == ["reinforce", "ppo", "none"]
    assert {curve.name: curve.algorithm for curve in read_curves(run, "learn")} == {"bc": "none", "rlhf": "reinforce"}


@pytest.mark.parametrize("method", ["rlhf", "bc", "reflect_rl_both"])
def test_a_sweep_shares_data_and_supervised_models_alone(tmp_path, method):
    settings = f'methods = ["{method}"]\n[environment]\nname = "corridor"\n[rlft]\nkeep = "last"\n'
    (tmp_path / "run.toml").write_text(settings)
    cell = make_cell([str(tmp_path / "run.toml")], (("rlft.total_turns", "7"),), tmp_path / "sweep", frozenset())
    (work,), _ = shared_works([cell], tmp_path / "sweep")
    assert {job.kind for job in plan(work.config) if job.kind in work.kinds} == {"data", "sft"}
