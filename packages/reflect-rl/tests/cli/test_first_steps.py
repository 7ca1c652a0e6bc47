"""What newcomers try first: another mode, another horizon, a mistake that they correct, a look at a run in progress."""

import json

import pytest
from tiny_run import SMOKE, TINY

UNIT = "starts-4/seed-0"
QUICK = TINY[: TINY.index("--evaluation.horizons")]


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows(run):
    return json.loads((run / "results.json").read_text(encoding="utf-8"))


@pytest.fixture
def start(call, tmp_path):
    """Calls a verb on the tiny run in a folder of its own."""

    def start(verb, *flags):
        return call(verb, SMOKE, "--output-dir", tmp_path / "run", *QUICK, "--methods", "random", "sft_rlft", *flags)

    return start


def test_a_mode_of_the_environment_is_trained_on_and_evaluated_and_its_longest_episode_is_the_horizon(start, tmp_path):
    answer = start("run", "--environment.modes", "pickup", "--environment.max-episode-steps", "7")
    assert answer.code == 0, answer
    run = tmp_path / "run"
    assert {episode["task"]["mode"] for episode in lines(run / UNIT / "data" / "episodes.jsonl")} == {"pickup"}
    # Uniform over one mode, so every update of online training is about it.
    assert {update["stage"] for update in lines(run / UNIT / "rlft" / "sft_rlft" / "metrics.jsonl")} == {"pickup"}
    assert {(row["mode"], row["horizon"]) for row in rows(run)} == {("pickup", 7)}


def test_a_start_that_failed_is_corrected_in_the_same_folder(start, tmp_path):
    assert "no/such/model" in start("data", "--model.path", "no/such/model").mistake
    assert start("data").code == 0
    assert (tmp_path / "run" / UNIT / "data" / "done").exists()


def test_a_report_of_a_run_in_progress_shows_what_is_there_and_says_what_is_not(start, call, tmp_path):
    run = tmp_path / "run"
    for verb in ("data", "sft"):
        assert start(verb).code == 0
    answer = call("report", run)
    assert answer.code == 0, answer
    assert "not evaluated yet: SFT + RLFT" in (run / "report.html").read_text(encoding="utf-8")
