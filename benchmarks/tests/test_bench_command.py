"""`reflect-rl bench`."""

import json

import pytest

from reflect_bench import bench as benchmark, household
from reflect_bench.command import bench_options

FIGURES = {
    "whole_rlft_ratio",
    "rollout_ratio",
    "update_ratio",
    "scoring_ratio_a20_s500",
    "update_matmul_fraction",
    "model_share",
    "peak_memory_mb",
    "matmul_peak_gflops",
}
"""Fields that each measurement has at least."""


def options(*words):
    return bench_options(words)


def test_a_small_benchmark_prints_and_writes_its_figures(call, tmp_path):
    file, profile = tmp_path / "bench.json", tmp_path / "profile.txt"
    small = (
        "--quick",
        "--updates",
        1,
        "--starts",
        1,
        "--reference-seconds",
        0.2,
        "--max-episode-steps",
        2,
        "--threads",
        1,
    )
    answer = call("bench", "--json", file, "--profile", profile, *small)
    assert answer.code == 0, answer
    document = json.loads(file.read_text())
    (result,) = document["results"]
    assert all(isinstance(result[key], float) for key in FIGURES)
    assert (result["shape"], result["threads"], result["weights"]) == ("embedded", 1, "random")
    assert {"processor", "cores", "gpu"} <= document["machine"].keys()
    assert document["versions"]["torch"]
    assert len(result["scoring"]) == 6
    assert result["disagreement"] < 1e-4
    # Random weights never write the end token.
    assert result["mean_reflection_tokens"] == result["longest_reflection_tokens"] == 96
    assert "whole online training" in answer.output
    assert "rollout" in profile.read_text()


def test_every_measurement_is_written_when_it_is_done(call, tmp_path, monkeypatch):
    """An interruption keeps the ones before it."""
    file = tmp_path / "bench.json"

    def measured(_, shape, threads, report):
        report("something")
        if threads == 2:
            raise KeyboardInterrupt
        return {"shape": shape, "threads": threads}

    monkeypatch.setattr(benchmark, "_in_process", measured)
    answer = call("bench", "--json", file, "--shapes", "embedded", "--threads", 1, 2)
    assert (answer.code, answer.errors) == (130, "\ninterrupted.\n")
    assert json.loads(file.read_text())["results"] == [{"shape": "embedded", "threads": 1}]


def test_trees_are_measured_instead_of_training(call, tmp_path):
    (tmp_path / "tree" / "folder").mkdir(parents=True)
    for name in ("a.py", "folder/b.py", "folder/c.md"):
        (tmp_path / "tree" / name).write_text("Words of a file, and some more.\n")
    file = tmp_path / "bench.json"
    answer = call("bench", "--json", file, "--quick", "--exploring", tmp_path / "tree")
    assert answer.code == 0, answer
    (result,) = json.loads(file.read_text())["results"]
    assert (result["tree"], result["files"]) == (str(tmp_path / "tree"), 3)
    assert result["ratios"]["episode"] > 1
    assert "the reference's way" in answer.output


def test_household_games_are_measured_instead_of_training(call, tmp_path, monkeypatch):
    monkeypatch.setattr(household, "find_spec", lambda name: None)  # TextWorld has a test of its own
    file = tmp_path / "bench.json"
    answer = call("bench", "--json", file, "--quick", "--household")
    assert answer.code == 0, answer
    document = json.loads(file.read_text())
    (result,) = document["results"]
    assert document["options"]["household"] == result["games"] == "generated"
    assert result["engine"]["steps_per_second"] > 0
    assert "generated, 10 games" in answer.output


def test_a_folder_without_household_games_is_a_mistake(call, tmp_path):
    message = call("bench", "--json", tmp_path / "a.json", "--household", "no/such/folder").mistake
    assert "there is no folder no/such/folder with ALFWorld's games." in message


def test_a_tree_that_does_not_exist_is_a_mistake(call, tmp_path):
    message = call("bench", "--json", tmp_path / "a.json", "--exploring", "no/such/tree").mistake
    assert "no folder or archive 'no/such/tree'" in message


def test_flags():
    parsed = options("--json", "a.json", "--shapes", "gpt2-small", "embedded", "--threads", "1", "4", "--quick")
    assert str(parsed.file) == "a.json"
    assert (parsed.shapes, parsed.threads, parsed.quick) == (("gpt2-small", "embedded"), (1, 4), True)
    assert options("--quick", "False").quick is False
    assert [options(*words).household for words in ((), ("--household",), ("--household", "a/b"))] == [
        None,
        "generated",
        "a/b",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name the file for the figures: reflect-rl bench --json FILE."),
        (("--json", "no/such/folder/a.json"), "its folder does not exist"),
        (("--json", "a.json", "--device", "cuda:99"), "no device 'cuda:99' on this machine."),
        (("--json", "a.json", "--device", "abacus"), "no device 'abacus' on this machine."),
        (("--jsn", "a.json"), "unknown flag --jsn (value 'a.json'). Did you mean '--json'?"),
        (("--shapes", "gpt5"), "shapes"),
        (("--threads", "0"), "threads"),
        (("--json", "a.json", "--household", "--exploring", "stdlib"), "are two benchmarks: name one of them."),
        (("smoke.toml",), "bench takes no configuration file, got smoke.toml."),
    ],
)
def test_mistakes(call, words, message):
    assert message in call("bench", *words).mistake


def test_a_run_without_trained_players_is_refused(call, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    answer = call("bench", "--json", tmp_path / "a.json", "--quick", "--threads", 1, "--run", tmp_path)
    assert "Name a run that trained reflect_rl, or leave --run out." in answer.mistake


def test_the_help_shows_every_flag(call):
    answer = call("bench", "--help")
    assert answer.code == 0
    assert all(f"--{name}" in answer.output for name in ("json", "shapes", "threads", "quick", "run", "profile"))


def test_mistakes_are_found_before_anything_is_measured(call, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "_in_process", lambda *_: pytest.fail("something was measured"))
    file = tmp_path / "bench.json"
    assert "Name a run folder, or leave --run out." in call("bench", "--json", file, "--run", tmp_path / "no").mistake
    assert "cannot write" in call("bench", "--json", file, "--profile", tmp_path / "no" / "profile.txt").mistake
    assert not file.exists()
