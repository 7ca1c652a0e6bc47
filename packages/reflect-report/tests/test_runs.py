"""Reading run folders: what must be there, and what may be missing or cut off."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from reflect_report.page import write_report
from reflect_report.runs import ALGORITHMS, Curve, read_curves, read_run, read_runs
from reflect_report.tables import terminal_table, unfinished
from reflect_rl import registry
from reflect_rl.errors import RunFolderError

from .conftest import result_row, write_json, write_lines


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"no run folder '.*nowhere'.*reflect-rl run"):
        read_run(tmp_path / "nowhere")


def test_a_folder_without_results_is_told_to_evaluate(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"is no run folder\. Name one that `reflect-rl run` has written"):
        read_run(tmp_path)
    (tmp_path / "config.json").write_text('{"methods": []}')
    with pytest.raises(RunFolderError, match=r"results.json is missing. Run `reflect-rl eval .*` first"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{", "is not readable"),
        ("{}", "no list of results"),
        ("[]", "no list of results"),
        ("[3]", "row 0: : Input should be a valid dictionary"),
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
    with pytest.raises(RunFolderError, match="row 1: decoding: Field required"):
        read_run(tmp_path)


def test_results_alone_are_a_run(bare_run: Path) -> None:
    run = read_run(bare_run)
    assert (run.card, run.config, run.units, run.label_source) == (None, {}, [], "clean")


def test_results_of_another_version_are_refused_in_one_sentence(tmp_path: Path) -> None:
    old = {key: value for key, value in result_row().items() if key != "schema_version"}
    write_json(tmp_path / "results.json", [old])
    with pytest.raises(RunFolderError) as raised:
        read_run(tmp_path)
    path = tmp_path / "results.json"
    assert str(raised.value) == (
        f"{path} was written by another version of this program (schema 1 of results, and 2 is read here): evaluate "
        "again in another --output-dir."
    )


def test_a_run_folder_of_another_version_is_named_as_such(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"methods": ["sft"]})
    write_json(tmp_path / "run.json", {"benchmark": "dangerous_taxi", "command": "reflect-rl run"})
    with pytest.raises(RunFolderError, match=r"is a run folder of another version of this program \(schema 1, "):
        read_run(tmp_path)


def write_unfinished(folder: Path) -> Path:
    """Two methods, two seeds; `sft` is evaluated for the first seed, online training is at turn 120."""
    settings = {"total_turns": 4000, "algorithm": {"name": "ppo"}}
    config = {"methods": ["sft", "reflect_rl"], "seeds": [0, 1], "data": {"demonstration_starts": [100]}}
    write_json(folder / "config.json", config | {"rlft": settings})
    write_json(folder / "run.json", {"schema_version": 2, "benchmark": "dangerous_taxi"})
    lines = [{"turns": turns, "rollout/success_rate": 0.5} for turns in (60, 120)]
    write_lines(folder / "starts-100" / "seed-0" / "rlft" / "reflect_rl" / "metrics.jsonl", lines)
    return folder


def test_a_run_that_is_not_finished_says_what_is_missing(tmp_path: Path) -> None:
    run = read_run(write_unfinished(tmp_path))
    assert run.results == ()
    assert run.algorithm("reflect_rl") == "ppo"
    online = "not evaluated yet: Reflect-RL (2 of 2 units); online training is at 120 of 4,000 turns"
    assert unfinished(run) == ["not evaluated yet: SFT (2 of 2 units)", online]
    write_json(tmp_path / "results.json", [result_row(method="sft")])
    assert unfinished(read_run(tmp_path)) == ["not evaluated yet: SFT (1 of 2 units)", online]


def test_a_finished_run_misses_nothing(tmp_path: Path) -> None:
    write_unfinished(tmp_path)
    rows = [result_row(method=method, seed=seed) for method in ("sft", "reflect_rl") for seed in (0, 1)]
    write_json(tmp_path / "results.json", rows)
    assert unfinished(read_run(tmp_path)) == []


@pytest.mark.parametrize("evaluated", [False, True])
def test_an_unfinished_run_has_a_page_and_a_table(tmp_path: Path, evaluated: bool) -> None:
    folder = write_unfinished(tmp_path)
    if evaluated:
        write_json(folder / "results.json", [result_row(method="sft")])
    page = write_report([folder], folder).read_text(encoding="utf-8")
    assert "not evaluated yet: Reflect-RL (2 of 2 units)" in page
    assert ("No method is evaluated yet." in page) is not evaluated
    assert "<title>Reflect-RL report: dangerous_taxi</title>" in page
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(terminal_table([folder]))
    shown = console.export_text()
    assert "not evaluated yet: Reflect-RL (2 of 2 units)" in shown
    assert ("80.0" in shown) is evaluated


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


def test_numbers_that_no_page_can_draw_are_left_out() -> None:
    rows = [{"turns": 10**400, "won": 0.5}, {"turns": 5, "won": True}, {"turns": 6, "won": float("nan")}]
    curve = Curve("solver", 8, 0, "sft_rlft", "ppo", (*rows, {"turns": 7, "won": 0.25}), 0)
    assert curve.series("turns", "won") == [(7.0, 0.25)]
