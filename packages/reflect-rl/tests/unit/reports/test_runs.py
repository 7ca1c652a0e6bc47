"""Reading run folders: what must be there, and what may be missing or cut off."""

from pathlib import Path

import pytest

from reflect_rl import registry
from reflect_rl.errors import RunFolderError
from reflect_rl.reports.lines import ALGORITHMS
from reflect_rl.reports.runs import read_curves, read_run, read_runs

from .conftest import result_row, write_json, write_lines


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"no run folder '.*nowhere'.*reflect-rl eval"):
        read_run(tmp_path / "nowhere")


def test_a_folder_without_results_is_told_to_evaluate(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"results.json is missing. Run `reflect-rl eval .*` first"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{", "cannot read"),
        ("{}", "no list of results"),
        ("[]", "no list of results"),
        ("[3]", "row 0 lacks benchmark"),
    ],
)
def test_corrupt_results_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(RunFolderError, match=message):
        read_run(tmp_path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    row = result_row()
    del row["decoding"]
    write_json(tmp_path / "results.json", [result_row(), row])
    with pytest.raises(RunFolderError, match="row 1 lacks decoding"):
        read_run(tmp_path)


def test_results_alone_are_a_run(bare_run: Path) -> None:
    run = read_run(bare_run)
    assert (run.card, run.config, run.units, run.label_source) == ({}, {}, [], "clean")


@pytest.mark.parametrize(
    ("method", "config", "algorithm"),
    [
        ("reflect_rl", {"rlft": {"algorithm": {"name": "rloo"}}}, "rloo"),
        ("reflect_rl", {}, "unknown"),
        ("sft_reflect", {"rlft": {"algorithm": {"name": "rloo"}}}, "none"),
    ],
)
def test_results_without_an_algorithm_have_that_of_the_configuration(
    tmp_path: Path, method: str, config: dict[str, object], algorithm: str
) -> None:
    write_json(tmp_path / "results.json", [result_row(method=method)])
    write_json(tmp_path / "config.json", config)
    run = read_run(tmp_path)
    assert (run.results[0]["algorithm"], run.algorithm(method)) == (algorithm, algorithm)


def test_the_algorithm_of_the_results_counts_more_than_that_of_the_configuration(tmp_path: Path) -> None:
    write_json(tmp_path / "results.json", [result_row(algorithm="grpo")])
    write_json(tmp_path / "config.json", {"rlft": {"algorithm": {"name": "ppo"}}})
    write_lines(tmp_path / "starts-100" / "seed-0" / "rlft" / "reflect_rl" / "metrics.jsonl", [{"turns": 1}])
    write_lines(tmp_path / "starts-100" / "seed-0" / "sft" / "reflector" / "metrics.jsonl", [{"step": 1}])
    run = read_run(tmp_path)
    assert [read_curves(run, stage)[0].algorithm for stage in ("rlft", "sft")] == ["grpo", "none"]


def test_every_algorithm_of_the_catalog_has_a_look_of_its_own() -> None:
    assert {algorithm.name for algorithm in ALGORITHMS} == set(registry.names("algorithms"))
    assert len({algorithm.colour for algorithm in ALGORITHMS}) == len(ALGORITHMS)


def test_a_folder_named_twice_is_read_once(bare_run: Path) -> None:
    assert len(read_runs([bare_run, bare_run / ".." / bare_run.name])) == 1


def test_no_folder_is_an_error() -> None:
    with pytest.raises(RunFolderError, match="no run folder given"):
        read_runs([])


def test_units_are_sorted_by_number_and_strangers_ignored(bare_run: Path) -> None:
    for name in ("starts-100/seed-0", "starts-20/seed-10", "starts-20/seed-2", "starts-x/seed-0", "starts-5/seed-old"):
        (bare_run / name).mkdir(parents=True)
    assert [(unit.demonstration_starts, unit.seed) for unit in read_run(bare_run).units] == [
        (20, 2),
        (20, 10),
        (100, 0),
    ]


def test_a_half_written_last_line_is_left_out_and_counted(bare_run: Path) -> None:
    path = bare_run / "starts-100" / "seed-0" / "rlft" / "reflect_rl" / "metrics.jsonl"
    write_lines(path, [{"turns": 10, "rollout/success_rate": 0.5}, {"turns": 20, "rollout/success_rate": None}])
    with path.open("a") as lines:
        lines.write('{"turns": 30, "roll')
    (curve,) = read_curves(read_run(bare_run), "rlft")
    assert curve.skipped_lines == 1
    assert (curve.name, curve.demonstration_starts, curve.seed) == ("reflect_rl", 100, 0)
    assert curve.series("turns", "rollout/success_rate") == [(10.0, 0.5)]


def test_an_empty_metrics_file_is_no_curve(bare_run: Path) -> None:
    write_lines(bare_run / "starts-100" / "seed-0" / "sft" / "reflector" / "metrics.jsonl", [])
    assert read_curves(read_run(bare_run), "sft") == []
