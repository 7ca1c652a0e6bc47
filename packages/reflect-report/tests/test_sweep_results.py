"""Selection by validation success alone, and the files of a sweep's table."""

import csv
import json

import pytest

from reflect_report.sweep.page import panels_of, write_page
from reflect_report.sweep.results import CellRow, Condition, Score, condition_of, tabulate, write_table

from .browser import CHROMIUM, browser
from .conftest import typed_row

CONDITION = Condition(method="reflect_rl", mode="full", horizon=30, decoding="sampled")


def score(successes: int, episodes: int = 10) -> Score:
    return Score.of([typed_row(successes=successes, episodes=episodes)])


def cell(rate: str, seed: int, won: int | None, tested: int | None = None, **changes) -> CellRow:
    values = {"rlft.learning_rate": rate, "seeds": str(seed)}
    scores = [None if count is None else score(count) for count in (won, tested)]
    row = CellRow(name=f"{rate},{seed}", values=values, state="done", validation=scores[0], test=scores[1])
    return row.model_copy(update=changes)


def table_of(cells: list[CellRow], obstacles=()):
    settings = {row.name: (("rlft.learning_rate", row.values["rlft.learning_rate"]),) for row in cells}
    return tabulate(cells, settings, CONDITION, "test", obstacles)


def test_the_highest_validation_success_over_all_seeds_is_selected_whatever_the_test_says():
    # 9 + 3 of 20 against 7 + 6 of 20; the test and the best single seed would choose the other one.
    cells = [cell("1e-4", 0, 9, 10), cell("1e-4", 1, 3, 10), cell("3e-4", 0, 7, 1), cell("3e-4", 1, 6, 2)]
    table = table_of(cells)
    assert table.selected == "learning_rate=3e-4"
    first, second = table.settings
    assert (first.validation.successes, first.validation.episodes, first.validation.seeds) == (12, 20, 2)
    assert (first.validation.lowest, first.validation.highest) == (0.3, 0.9)
    assert second.test.success_rate == 3 / 20
    assert table.sentence.startswith("learning_rate=3e-4 wins 65.0% [43, 82] of 20 validation episodes")
    assert "On the test split it wins 15.0% [5, 36] of 20 episodes." in table.sentence


def test_a_setting_without_one_of_its_seeds_is_not_selected():
    lucky = [cell("1e-4", 0, 10), cell("1e-4", 1, None, state="failed", reason="boom")]
    table = table_of([*lucky, cell("3e-4", 0, 1), cell("3e-4", 1, 1)])
    assert table.selected == "learning_rate=3e-4"
    assert table.settings[0].state == "failed"
    none = table_of(lucky)
    assert none.selected is None
    assert none.sentence.startswith("Nothing is selected: no setting is done with all its seeds")


def test_the_first_of_equal_settings_is_selected_and_the_sentence_says_so():
    table = table_of([cell("1e-4", 0, 5), cell("3e-4", 0, 5)])
    assert table.selected == "learning_rate=1e-4"
    assert "as learning_rate=3e-4 does; the first of equal ones is taken" in table.sentence


def test_nothing_is_selected_where_the_cells_play_different_games():
    table = table_of([cell("1e-4", 0, 5), cell("3e-4", 0, 6)], ["environment.length"])
    assert table.selected is None
    assert table.sentence == "Nothing is selected: environment.length changes what is played or counted."


def test_a_test_over_some_seeds_is_not_shown_as_one_over_all():
    assert table_of([cell("1e-4", 0, 5, 5), cell("1e-4", 1, 5)]).settings[0].test is None


def test_the_condition_is_the_hardest_mode_the_largest_horizon_and_the_first_decoding():
    rows = [typed_row(mode=mode, horizon=h, decoding=d, method=m)
            for mode in ("pickup", "full", "other") for h in (15, 30) for d in ("greedy", "sampled")
            for m in ("sft", "reflect_rl")]  # fmt: skip
    assert condition_of(rows, "reflect_rl") == CONDITION
    assert condition_of(rows, "reflect_rl", "pickup").mode == "pickup"
    assert sum(CONDITION.matches(row) for row in rows) == 1


def test_the_table_is_written_as_json_and_csv(tmp_path):
    table = table_of([cell("1e-4", 0, 5, 4), cell("3e-4", 0, None, state="waiting")])
    write_table(tmp_path, table)
    assert json.loads((tmp_path / "table.json").read_text())["selected"] == "learning_rate=1e-4"
    with (tmp_path / "table.csv").open(newline="") as lines:
        first, second = csv.DictReader(lines)
    assert (first["rlft.learning_rate"], first["state"], first["selected"]) == ("1e-4", "done", "1")
    assert (first["validation_successes"], first["validation_episodes"], first["test_rate"]) == ("5", "10", "0.4")
    assert (second["state"], second["selected"], second["validation_rate"]) == ("waiting", "0", "")


def test_a_chart_has_numbers_or_names_and_the_selected_setting():
    table = table_of([cell("1e-5", 0, 5), cell("1e-3", 0, 7)])
    (panel,) = panels_of(table)
    assert (panel.names, panel.is_log, panel.selected) == ((), True, (1e-3, 0.7))
    assert [(line.x, line.y) for line in panel.lines] == [((1e-5, 1e-3), (0.5, 0.7))]
    named = table.model_copy(update={"settings": tuple(
        row.model_copy(update={"values": {"algorithm": name, "kl": "0"}})
        for row, name in zip(table.settings, ("ppo", "grpo"), strict=True))})  # fmt: skip
    first, second = panels_of(named)
    assert (first.names, first.lines[0].x) == (("ppo", "grpo"), (0.0, 1.0))
    # Two settings at one place of the other field: a line for each.
    assert [(line.label, line.x) for line in second.lines] == [("algorithm ppo", (0.0,)), ("algorithm grpo", (0.0,))]


def test_many_settings_share_few_lines_without_losing_a_point():
    cells = [CellRow(name=f"{k}", values={"a": str(k % 5), "b": str(k)}, state="done", validation=score(k % 10))
             for k in range(40)]  # fmt: skip
    settings = {row.name: tuple(row.values.items()) for row in cells}
    first, second = panels_of(tabulate(cells, settings, CONDITION, "test", ()))
    # Five places with eight settings each.
    assert [len(line.x) for line in first.lines] == [5] * 8
    # Few enough to have names: a line for each value of the other field.
    assert [(line.label, len(line.x)) for line in second.lines] == [(f"a {k}", 8) for k in range(5)]
    assert sorted(y for line in first.lines for y in line.y) == sorted(k % 10 / 10 for k in range(40))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; the page is not tried in a browser")
def test_the_page_in_a_browser_has_no_error_and_fits(tmp_path):
    cells = [cell("1e-5", 0, 5, 4), cell("1e-3", 0, 7), cell("1e-2", 0, None, state="failed", reason="boom" * 50)]
    page = write_page(tmp_path, table_of(cells), "reflect-rl sweep configs/taxi/smoke.toml --over " + "x" * 200)
    with browser(tmp_path / "profile") as tab:
        for width in (1280, 400):
            for dark in (False, True):
                tab.open(page.as_uri(), width, dark=dark)
                assert tab.do("document.documentElement.scrollWidth") == width
        plot = 'document.querySelector(".panel").plot'
        assert tab.do(f"[{plot}.scales.x.distr, {plot}.scales.y.min, {plot}.scales.y.max]") == [3, -0.03, 1.03]
        assert tab.do(f"{plot}.data.map(part => [...part])") == [[1e-5, 1e-3], [0.5, 0.7]]
        assert tab.do('document.querySelector("tr.selected td").textContent') == "1e-3"
        label = tab.do('document.querySelector(".panel canvas").getAttribute("aria-label")')
        assert label == "validation success against rlft.learning_rate; the table has the numbers"
        name = 'document.querySelector(".panel .u-legend th[role=button]")'
        assert tab.do(f'{name}.getAttribute("aria-pressed")') == "true"
        tab.do(f"{name}.click()")
        assert tab.do(f'{name}.getAttribute("aria-pressed")') == "false"
        assert tab.errors == []
        assert set(tab.requests) <= {page.as_uri(), "about:blank"}


def test_hostile_values_stay_text_on_the_page(tmp_path):
    attack = "</script><script>window.attacked=1</script>"
    row = CellRow(name=attack, values={attack: attack}, state="failed", reason=attack, validation=score(5))
    table = tabulate([row], {attack: ((attack, attack),)}, CONDITION, "test", ())
    page = write_page(tmp_path, table, attack).read_text()
    assert attack not in page
    # A chart is shown by its script, and a table that scrolls has a name.
    assert page.count('<figure class="panel" hidden>') == 1
    assert page.count('<div class="scroll" tabindex="0" role="region" aria-label="Table of the ') == 2
    assert "&lt;/script&gt;&lt;script&gt;window.attacked" in page
