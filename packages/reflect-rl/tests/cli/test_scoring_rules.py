"""Runs of every stage whose actions are scored where their lines end, or by their texts."""

from __future__ import annotations

import json

import pytest
from tiny_run import SMOKE, TINY

import reflect_rl as rrl
from reflect_rl.agent import Agent
from reflect_rl.types import episode_from_json, stream


def test_a_run_scores_lines_in_every_stage_and_online_rl_changes_the_policy(call, tmp_path):
    run = tmp_path / "run"
    flags = ("--prompt.scoring", "line_end", "--data.reading", "exercises", "--data.reading-starts", "4")
    answer = call("run", SMOKE, "--output-dir", run, *TINY, "--methods", "sft", "sft_rlft", *flags)
    assert answer.code == 0, answer
    unit = run / "starts-4" / "seed-0"
    rows = [json.loads(line) for line in (unit / "data" / "base.jsonl").read_text().splitlines()]
    assert rows
    assert all("\nWanted: " in row["prompt"] and row["completion"] in row["prompt"].splitlines() for row in rows)
    check_online_rl(run)


@pytest.mark.parametrize(
    ("rule", "reading"), [("sum", ("--data.reading", "short_rows")), ("token_mean", ("--data.reading", "text"))]
)
def test_a_run_scores_texts_in_every_stage_and_online_rl_changes_the_policy(call, tmp_path, rule, reading):
    run = tmp_path / "run"
    methods = ("--methods", "sft", "sft_rlft")
    answer = call("run", SMOKE, "--output-dir", run, *TINY, *methods, "--prompt.scoring", rule, *reading)
    assert answer.code == 0, answer
    rows = (run / "starts-4" / "seed-0" / "data" / "policy_plain.jsonl").read_text().splitlines()
    assert rows
    assert all("Actions:" not in json.loads(row)["prompt"] and json.loads(row)["completion"].isalpha() for row in rows)
    check_online_rl(run)


def check_online_rl(run) -> None:
    """Online RL has played, has changed the policy, and has a row."""
    unit = run / "starts-4" / "seed-0"
    updates = [json.loads(line) for line in (unit / "rlft" / "sft_rlft" / "metrics.jsonl").read_text().splitlines()]
    assert updates[-1]["turns"] >= 40
    before = (unit / "models" / "policy_plain" / "model.safetensors").read_bytes()
    assert (unit / "rlft" / "sft_rlft" / "model" / "model.safetensors").read_bytes() != before
    assert {row["method"] for row in json.loads((run / "results.json").read_text())} == {"sft", "sft_rlft"}
    check_python(run, {"sft": unit / "models" / "policy_plain", "sft_rlft": unit / "rlft" / "sft_rlft" / "model"})


def check_python(run, models) -> None:
    """Models that are loaded from Python play as they did in the run."""
    settings = json.loads((run / "config.json").read_text())["environment"]
    spec = rrl.make_env(settings.pop("name"), **settings)
    for method, folder in models.items():
        agent = Agent.of(rrl.load_model(folder, device="cpu"), spec.max_actions)
        lines = (run / "starts-4" / "seed-0" / "evaluation" / method / "episodes.jsonl").read_text().splitlines()
        turn = episode_from_json(json.loads(lines[0])).turns[0]
        (decision,) = agent.policy().decide([turn.view], [stream(0)])
        assert decision.log_probs == pytest.approx(turn.decision.log_probs, abs=1e-5)
