"""Pooling of seeds, and the tables for terminal and documentation."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from reflect_report.runs import hardest_mode, read_runs, summarise, summarise_runs
from reflect_report.tables import grids, markdown_table, terminal_table
from reflect_rl import make_env
from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.evaluate import TestedGames

from .conftest import result_row, typed_row, write_json


def test_seeds_are_pooled() -> None:
    rows = [
        typed_row(seed=0, episodes=10, successes=8),
        typed_row(seed=1, episodes=30, successes=12),
    ]
    (summary,) = summarise(rows)
    assert (summary.successes, summary.episodes, summary.seeds) == (20, 40, 2)
    assert summary.success_rate == 0.5
    assert summary.mean == pytest.approx(0.6)  # (8/10 + 12/30) / 2
    assert (summary.lowest, summary.highest) == (0.4, 0.8)
    # Wilson for 20/40: 0.5 -+ 1.96 sqrt(.25/40 + 1.96^2/(4*40^2)) / (1 + 1.96^2/40) = 0.5 -+ 0.148
    assert (summary.lo, summary.hi) == pytest.approx((0.352, 0.648), abs=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"label_source": "paper"},
        {"demonstration_starts": 10},
        {"method": "sft"},
        {"algorithm": "grpo"},
        {"model": "larger"},
        {"mode": "pickup"},
        {"split": "validation"},
        {"horizon": 15},
        {"decoding": "greedy"},
    ],
)
def test_different_conditions_stay_apart(change: dict[str, object]) -> None:
    assert len(summarise([typed_row(), typed_row(**change)])) == 2


def test_a_repeated_row_counts_once() -> None:
    (summary,) = summarise([typed_row(), typed_row()])
    assert (summary.episodes, summary.seeds) == (10, 1)


@pytest.mark.parametrize("seed", [0, 1])
def test_results_on_different_games_are_never_pooled(seed: int) -> None:
    one, other = ({"version": 1, "facts": {"games": name}} for name in ("valid_seen", "valid_unseen"))
    with pytest.raises(RunFolderError, match=r"results on different games: .*valid_seen.*valid_unseen.*one by one"):
        summarise([typed_row(tested=one), typed_row(tested=other, seed=seed)])
    assert len(summarise([typed_row(tested=one), typed_row(tested=one, seed=seed)])) == 1
    # Rows from before it was noted say nothing.
    assert len(summarise([typed_row(), typed_row(tested=one, seed=seed)])) == 1


def trained(folder: Path, seed: int, turns: int) -> Path:
    """A folder of a training from Python, and its result."""
    unit = folder / f"starts-100/seed-{seed}"
    write_json(unit / "rlft/reflect_rl/settings.json", {"training": {"total_turns": turns}, "start": f"weights {seed}"})
    write_json(unit / "evaluation/reflect_rl/rows.json", [result_row(seed=seed)])
    write_json(unit / "evaluation/reflect_rl/done", {})
    rows = [json.loads(path.read_text())[0] for path in sorted(folder.glob("*/*/evaluation/*/rows.json"))]
    write_json(folder / "results.json", rows)
    return folder


@pytest.mark.parametrize("second", ["a", "b"])
def test_seeds_of_trainings_from_python_with_unlike_settings_are_never_pooled(tmp_path: Path, second: str) -> None:
    folders = [trained(tmp_path / "a", 0, 1000), trained(tmp_path / second, 1, 1000)]
    (summary,) = summarise_runs(read_runs(folders))
    assert summary.seeds == 2
    trained(tmp_path / second, 1, 2000)
    with pytest.raises(RunFolderError, match=r"training\.total_turns is 1000 and 2000 in .*one by one"):
        summarise_runs(read_runs(folders))


def configured(folder: Path, seed: int, method: str = "reflect_rl", **tables: dict[str, object]) -> Path:
    """A run folder of the command line with a configuration and one result."""
    write_json(folder / "config.json", tables)
    write_json(folder / "results.json", [result_row(seed=seed, method=method)])
    return folder


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"rlft": {"learning_rate": 1e-2}}, r"rlft\.learning_rate is 0\.0001 and 0\.01 in .*one by one"),
        ({"environment": {"first_bump_fatal": False}}, r"environment\.first_bump_fatal is True and False in "),
        ({"sft": {"reflector": {"steps": 9}}}, r"sft\.reflector\.steps is 5 and 9 in "),
        # The policy that reads no reflection is none of its players, a folder may lie elsewhere, and a device changes
        # nothing that is learned.
        ({"sft": {"policy_plain": {"steps": 9}}}, ""),
        ({"environment": {"games": "/other/games"}}, ""),
        ({"model": {"device": "cuda"}}, ""),
        # A setting that the version of the other run did not know.
        ({"rlft": {"unheard_of": 1}}, ""),
    ],
)
def test_seeds_of_runs_with_unlike_settings_are_never_pooled(
    tmp_path: Path, tables: dict[str, dict[str, object]], message: str
) -> None:
    first: dict[str, dict[str, object]] = {
        "environment": {"name": "dangerous_taxi", "first_bump_fatal": True, "games": "$GAMES"},
        "model": {"device": "cpu"},
        "sft": {"reflector": {"steps": 5}, "policy_plain": {"steps": 5}},
        "rlft": {"learning_rate": 1e-4},
    }
    second = {table: values | tables.get(table, {}) for table, values in first.items()}
    folders = [configured(tmp_path / "a", 0, **first), configured(tmp_path / "b", 1, **second)]
    if message:
        with pytest.raises(RunFolderError, match=message):
            summarise_runs(read_runs(folders))
        return
    (summary,) = summarise_runs(read_runs(folders))
    assert summary.seeds == 2


def test_settings_that_a_method_does_not_follow_from_may_differ(tmp_path: Path) -> None:
    folders = [
        configured(tmp_path / str(seed), seed, "sft_reflect", rlft={"total_turns": seed}, environment={"name": "a"})
        for seed in (0, 1)
    ]
    (summary,) = summarise_runs(read_runs(folders))
    assert summary.seeds == 2


@pytest.mark.parametrize("name", ["dangerous_taxi", "corridor"])
def test_starts_of_another_split_are_other_games(name: str) -> None:
    specs = [make_env(name, split_seed=seed) for seed in (0, 1)]
    tested = [TestedGames.of(spec, spec.modes[-1], "test") for spec in specs]
    assert tested[0] == TestedGames.of(make_env(name), specs[0].modes[-1], "test")
    for change in ({"seed": 1}, {"method": "sft"}):
        with pytest.raises(RunFolderError, match=r"results on different games: .*tasks_digest"):
            summarise([typed_row(tested=tested[0]), typed_row(tested=tested[1], **change)])


def test_players_that_were_taught_otherwise_are_not_pooled() -> None:
    taught = [{"version": 1, "facts": {"advice": advice}} for advice in ("command", "goal")]
    with pytest.raises(RunFolderError, match="results on different games"):
        summarise([typed_row(tested=taught[0]), typed_row(tested=taught[1], seed=1)])


@pytest.mark.parametrize("digest", [{}, {"tasks_digest": "a1"}])
def test_a_fact_that_one_side_lacks_keeps_results_apart(digest: dict[str, str]) -> None:
    """`names` is told where it is not the usual setting alone; the tasks are told by results of today alone."""
    plain, near = ({"version": 1, "facts": digest | facts} for facts in ({}, {"names": "meaning"}))
    with pytest.raises(RunFolderError, match="results on different games"):
        summarise([typed_row(tested=plain), typed_row(tested=near, seed=1)])
    older = {"version": 1, "facts": {"names": "meaning"}}
    assert len(summarise([typed_row(tested=older), typed_row(tested=near, seed=1)])) == 1


HOUSEHOLD = {"games_digest": "25d4", "wording": "2.1.1", "state": "notes", "advice": "command"}


@pytest.mark.parametrize("change", [{"games_digest": "8ccc"}, {"wording": "2.1.2"}, {"state": "raw 5"}])
@pytest.mark.parametrize("other", [{"method": "sft"}, {"label_source": "paper"}, {"demonstration_starts": 10}])
def test_lines_on_different_games_share_no_page(change: dict[str, str], other: dict[str, object]) -> None:
    rows = [typed_row(tested={"version": 1, "facts": facts}) for facts in (HOUSEHOLD, HOUSEHOLD | change)]
    with pytest.raises(RunFolderError, match=r"results on different games: .* and as .*one by one"):
        summarise([rows[0], rows[1].model_copy(update=other)])
    # Other modes and splits are other games, whatever their facts are.
    for apart in ({"mode": "pickup"}, {"split": "validation"}):
        assert len(summarise([rows[0], rows[1].model_copy(update=apart)])) == 2


@pytest.mark.parametrize("facts", [HOUSEHOLD | {"advice": "goal"}, {"games_digest": "25d4", "wording": "2.1.1"}, {}])
def test_lines_of_players_that_were_taught_otherwise_share_a_table(facts: dict[str, str]) -> None:
    """Those of before a fact was noted, too."""
    rows = [
        typed_row(tested={"version": 1, "facts": known}, method=method)
        for known, method in ((HOUSEHOLD, "sft"), (facts, "reflect_rl"))
    ]
    assert len(grids(summarise(rows))) == 1


def test_contradicting_rows_of_one_seed_are_refused() -> None:
    with pytest.raises(RunFolderError, match=r"two different results for reflect_rl.*seed 0.*report them one by one"):
        summarise([typed_row(successes=8), typed_row(successes=7)])


def test_no_episodes_means_no_knowledge() -> None:
    (summary,) = summarise([typed_row(episodes=0, successes=0)])
    assert (summary.success_rate, summary.lo, summary.hi) == (0.0, 0.0, 1.0)


def test_table_order_is_methods_by_list_modes_by_occurrence_sampled_first() -> None:
    rows = [
        typed_row(method=method, mode=mode, decoding=decoding)
        for method in ("reflect_rl", "random", "mine", "sft")
        for mode in ("pickup", "full")
        for decoding in ("greedy", "sampled")
    ]
    (grid,) = grids(summarise(rows))
    assert [row.method for row in grid.rows] == ["random", "sft", "reflect_rl", "mine"]
    assert [(column.mode, column.decoding) for column in grid.columns] == [
        ("pickup", "sampled"),
        ("pickup", "greedy"),
        ("full", "sampled"),
        ("full", "greedy"),
    ]


def test_the_papers_figures_stand_beside_ours() -> None:
    rows = [typed_row(method=method, mode=mode) for method in ("oracle", "reflect_rl") for mode in ("pickup", "full")]
    (grid,) = grids(summarise(rows))
    assert grid.paper_modes == ("pickup", "full")
    assert [row.paper for row in grid.rows] == [(None, None), (58, 29)]


def test_no_paper_column_for_another_benchmark() -> None:
    (grid,) = grids(summarise([typed_row(benchmark="corridor")]))
    assert grid.paper_modes == ()


def test_largest_horizon_by_default_and_any_on_request() -> None:
    summaries = summarise([typed_row(horizon=horizon) for horizon in (15, 20, 30)])
    assert [column.horizon for column in grids(summaries)[0].columns] == [30]
    assert [column.horizon for column in grids(summaries, [20, 15])[0].columns] == [15, 20]
    with pytest.raises(RunFolderError, match=r"no results at horizon 99. Evaluated: 15, 20, 30"):
        grids(summaries, [99])


def test_each_game_is_shown_at_its_longest_horizon(tmp_path: Path) -> None:
    rows = [result_row(horizon=30), result_row(benchmark="alfworld", mode="all", horizon=50)]
    write_json(tmp_path / "results.json", rows)
    both = grids(summarise([typed_row(horizon=15), *(typed_row(**row) for row in rows)]))
    assert [(grid.benchmark, [column.horizon for column in grid.columns]) for grid in both] == [
        ("alfworld", [50]),
        ("dangerous_taxi", [30]),
    ]
    assert "dangerous_taxi" in markdown_table([tmp_path])
    console = Console(width=100, record=True)
    console.print(terminal_table([tmp_path]))
    assert "dangerous_taxi" in console.export_text()


def test_the_hardest_mode_is_the_last_of_the_players_that_were_evaluated_in_it() -> None:
    rows = [typed_row(mode="all"), typed_row(mode="pick", seed=1), typed_row(mode="all", seed=1)]
    assert hardest_mode(summarise(rows)) == "all"
    # One player in the harder mode first: then there is no order that suits all.
    contrary = [typed_row(mode="all"), typed_row(mode="pick"), typed_row(mode="pick", seed=1)]
    assert hardest_mode(summarise([*contrary, typed_row(mode="all", seed=1)])) == "pick"


def test_two_models_of_one_method_get_a_line_each() -> None:
    (grid,) = grids(summarise([typed_row(model="tiny"), typed_row(model="gpt2")]))
    assert [row.label for row in grid.rows] == ["Reflect-RL (gpt2)", "Reflect-RL (tiny)"]


def test_several_algorithms_of_one_method_get_a_line_each() -> None:
    rows = [typed_row(algorithm=name) for name in ("ppo", "mine", "reinforce")]
    (grid,) = grids(summarise([*rows, typed_row(method="sft", algorithm="none")]))
    assert [row.label for row in grid.rows] == [
        "SFT",
        "Reflect-RL (REINFORCE)",
        "Reflect-RL (PPO)",
        "Reflect-RL (mine)",
    ]
    assert len({row.look.colour for row in grid.rows}) == 4
    assert [row.paper for row in grid.rows] == [(0,), (None,), (29,), (None,)]  # the paper's algorithm is PPO


def test_an_algorithm_is_named_in_every_table_if_it_is_in_one() -> None:
    rows = [typed_row(algorithm=name) for name in ("ppo", "grpo")]
    tables = grids(summarise([*rows, typed_row(algorithm="ppo", demonstration_starts=5)]))
    assert [row.label for row in tables[0].rows] == ["Reflect-RL (PPO)"]


def test_one_algorithm_is_not_named() -> None:
    (grid,) = grids(summarise([typed_row(algorithm="grpo")]))
    assert [(row.label, row.paper) for row in grid.rows] == [("Reflect-RL", (29,))]


def test_markdown_table(tmp_path: Path) -> None:
    write_json(tmp_path / "results.json", [result_row(successes=10), result_row(method="sft|x", successes=0)])
    assert markdown_table([tmp_path]).splitlines()[:6] == [
        "Success % [95% interval]: dangerous_taxi, label source clean, 100 demonstration starts, test split",
        "",
        "| method | full, h30, sampled | full, paper |",
        "| --- | ---: | ---: |",
        "| Reflect-RL | 100.0 [72, 100] | 29 |",  # lower end n / (n + z^2) = 10 / 13.84
        "| sft\\|x | 0.0 [0, 28] | - |",
    ]


def test_terminal_table_fits_eighty_columns(write_run: Callable[..., Path]) -> None:
    console = Console(width=80, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as capture:
        console.print(terminal_table([write_run(budgets=(100,), seeds=(0,))]))
    printed = capture.get()
    assert "…" not in printed
    assert "Reflect-RL" in printed
    assert "[84, 100]" in printed  # oracle, 20 of 20: 20 / 23.84


def test_terminal_table_shows_brackets_of_names_as_they_are(tmp_path: Path) -> None:
    write_json(tmp_path / "results.json", [result_row(method="[bold]mine[/bold]")])
    console = Console(width=120)
    with console.capture() as capture:
        console.print(terminal_table([tmp_path]))
    assert "[bold]mine[/bold]" in capture.get()
