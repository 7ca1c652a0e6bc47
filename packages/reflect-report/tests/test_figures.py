"""scripts/results_figures.py: figures are valid SVG, follow the page's theme, and say what they show."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a_script import load_script
from reflect_report.charts import on_common_grid
from reflect_report.runs import Curve, describe_algorithm, summarise
from reflect_report.tables import grids

from .conftest import typed_row

script = load_script("results_figures")


def curve(name: str = "reflect_rl", seed: int = 0, algorithm: str = "ppo", **keys: list[Any]) -> Curve:
    rows = [dict(zip(keys, values, strict=True)) for values in zip(*keys.values(), strict=True)]
    rows = [{key.replace("__", "/"): value for key, value in row.items()} for row in rows]
    return Curve("clean", 100, seed, name, algorithm, tuple(rows), 0)


def learning(name: str = "reflect_rl", seed: int = 0, stage: str = "full", algorithm: str = "ppo") -> Curve:
    return curve(
        name,
        seed,
        algorithm,
        turns=[100, 200, 300],
        stage=["pickup", "pickup", stage],
        rollout__success_rate=[0.1, 0.2, 0.4],
        validation__full__success_rate=[None, 0.3, None],
    )


def texts(svg: str | None) -> str:
    assert svg is not None
    return " ".join(ElementTree.fromstring(svg).itertext())


def test_learning_curves_have_a_panel_per_method_and_name_the_stages() -> None:
    shown = texts(script.figure_learning_curves([learning("reflect_rl"), learning("rlft")]))
    for text in ("Reflect-RL", "RLFT", "pickup", "full", "environment turns", "validation, full", "rollout"):
        assert text in shown


def test_algorithms_of_one_method_share_panels_and_have_a_line_each() -> None:
    curves = [learning(algorithm=name, seed=seed) for name in ("ppo", "grpo") for seed in (0, 1)]
    svg = script.figure_algorithm_curves([*curves, learning("rlft")])
    shown = texts(svg)
    for text in ("Reflect-RL, rollout", "Reflect-RL, validation, full", "GRPO", "PPO"):
        assert text in shown
    assert "RLFT" not in shown  # one algorithm: it has the panel of its method
    assert svg is not None
    assert all(describe_algorithm(name).colour.lower() in svg for name in ("ppo", "grpo"))
    assert "Reflect-RL" not in texts(script.figure_learning_curves([*curves, learning("rlft")]))


def test_one_algorithm_needs_no_figure_of_algorithms() -> None:
    assert script.figure_algorithm_curves([learning(seed=0), learning(seed=1)]) is None


def test_one_stage_is_not_shaded() -> None:
    assert "pickup" not in texts(script.figure_learning_curves([learning(stage="pickup")]))


def test_names_from_files_cannot_break_the_figure() -> None:
    shown = texts(script.figure_learning_curves([learning("<b>$x_$</b>", stage="$\\frac{")]))
    assert "<b>$x_$</b>" in shown
    assert "$\\frac{" in shown


def test_nothing_to_draw_is_none() -> None:
    assert script.figure_learning_curves([curve(turns=[1, 2], policy__kl=[0.1, 0.2])]) is None
    assert script.figure_learning_curves([]) is None


def test_seeds_meet_on_the_turns_that_all_reached() -> None:
    grid, values = on_common_grid([[(0, 0.0), (100, 1.0)], [(50, 0.5), (150, 0.5)]])
    np.testing.assert_allclose(grid, [50, 100])
    np.testing.assert_allclose(values, [[0.5, 1.0], [0.5, 0.5]])


def test_a_single_seed_keeps_its_own_points() -> None:
    grid, values = on_common_grid([[(0, 0.0), (10, 1.0), (100, 0.5)]])
    np.testing.assert_allclose(grid, [0, 10, 100])
    np.testing.assert_allclose(values, [[0.0, 1.0, 0.5]])


def test_results_figure_names_methods_modes_and_the_paper() -> None:
    (grid,) = grids(summarise([typed_row(mode=mode) for mode in ("pickup", "full")]))
    shown = texts(script.figure_results(grid))
    for text in ("Reflect-RL", "pickup", "full", "sampled", "paper, horizon 15"):
        assert text in shown


def test_budget_figure_needs_two_budgets() -> None:
    one = summarise([typed_row(demonstration_starts=100)])
    two = summarise([typed_row(demonstration_starts=starts, horizon=h) for starts in (10, 100) for h in (15, 30)])
    assert script.figure_demonstration_budget(one, "full") is None
    assert script.figure_demonstration_budget(two, "pickup") is None
    assert "full, horizon 30, sampled" in texts(script.figure_demonstration_budget(two, "full"))


@pytest.mark.parametrize("forbidden", ["#010203", "<metadata", 'id="figure_1"', "<?xml"])
def test_svg_can_stand_inside_a_page(forbidden: str) -> None:
    svg = script.figure_learning_curves([learning()])
    assert svg is not None
    assert forbidden not in svg
    assert "currentColor" in svg


def test_figures_are_reproducible_and_can_be_saved(tmp_path: Path) -> None:
    first, second = script.figure_learning_curves([learning()]), script.figure_learning_curves([learning()])
    assert first == second
    assert first is not None
    saved = script.save(first, tmp_path / "new" / "curves.svg").read_text()
    assert saved.replace(script.DARK, "") == first
    # A picture on a dark page has to know that page's ink itself.
    assert ElementTree.fromstring(saved)[0].text == "@media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }"


def test_before_and_after_show_both_rates_of_every_game_and_regime() -> None:
    won = {"sft_reflect": 3, "reflect_rl": 17}
    rows = [typed_row(method=name, successes=count, episodes=20) for name, count in won.items()]
    before, after = summarise(rows)
    lines = {
        "A game": [script.Pair("its starts", before, after), script.Pair("not run")],
        "Another": [script.Pair("few starts", before, after), script.Pair("stopped")],
    }
    shown = texts(script.figure_before_after(("noisy", "clean"), lines))
    for text in ("A game", "Another", "noisy", "clean", "its starts", "not run", "stopped", "before", "after"):
        assert text in shown
    # Two panels have bars, and those that were not run have none.
    assert (shown.count("15"), shown.count("85")) == (2, 2)
