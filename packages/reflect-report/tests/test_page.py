"""The page: complete, self-contained, and honest about what is missing."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from reflect_report.charts import measures_of
from reflect_report.page import _points, duration, write_report
from reflect_report.runs import Curve
from reflect_rl.errors import RunFolderError

from .conftest import episode_row, result_row, write_algorithm_run, write_full_run, write_json, write_lines

VOID = {"meta", "input", "br", "img", "link", "hr"}


class Balance(HTMLParser):
    """Elements that are open at the end, or closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.wrong.append(tag)


def written(folders: list[Path], output: Path) -> str:
    return write_report(folders, output).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Report of two runs: clean with two budgets, and paper with one."""
    folder = tmp_path_factory.mktemp("runs")
    clean = write_full_run(folder / "clean", "clean", (10, 100), (0, 1))
    paper = write_full_run(folder / "paper", "paper", (100,), (0,))
    return written([clean, paper], folder / "new" / "report.html")


@pytest.fixture(scope="module")
def algorithms(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run of the supervised start, and one per algorithm that begins there."""
    folder = tmp_path_factory.mktemp("algorithms")
    start = write_algorithm_run(folder / "base", None, 0.3)
    return [start, *(write_algorithm_run(folder / name, name, 0.8) for name in ("ppo", "reinforce"))]


def test_runs_of_several_algorithms_make_one_page(algorithms: list[Path], tmp_path: Path) -> None:
    page = written(algorithms, tmp_path / "report.html")
    balance = Balance()
    balance.feed(page)
    assert (balance.open, balance.wrong) == ([], [])
    for row in ("SFT, reflection", "Reflect-RL (PPO)", "Reflect-RL (REINFORCE)"):
        assert page.count(f'<th scope="row">{row}</th>') >= 3  # in the table of each horizon
    assert '<th scope="row">PPO against REINFORCE, sampled</th>' in page
    online, losses = embedded(page, "chart-data")
    lines = [line["label"] for line in online["measures"]["validation/full/success_rate"]]
    assert lines == ["Reflect-RL (REINFORCE)", "Reflect-RL (PPO)"]
    assert list(losses["measures"]) == ["loss"]
    names = [["sft_reflect", "SFT, reflection"]]
    names += [
        [f"reflect_rl {key}", f"Reflect-RL ({label})"] for key, label in (("reinforce", "REINFORCE"), ("ppo", "PPO"))
    ]
    assert embedded(page, "episode-data")["methods"] == names


def test_one_algorithm_is_named_nowhere(algorithms: list[Path], tmp_path: Path) -> None:
    page = written(algorithms[:2], tmp_path / "report.html")
    assert "Reflect-RL (PPO)" not in page
    assert '<th scope="row">Reflect-RL</th>' in page


def test_elements_are_balanced(page: str) -> None:
    balance = Balance()
    balance.feed(page)
    assert (balance.open, balance.wrong) == ([], [])


def test_the_page_loads_nothing(page: str) -> None:
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', page) == []
    assert "@import" not in page
    assert "url(http" not in page
    assert len(page.encode()) < 3_000_000


def test_charts_wait_for_their_library_and_tables_have_names(page: str) -> None:
    # Without it, or without scripts, there would be controls of nothing.
    charts = re.findall(r'<figure class="chart"[^>]*>', page)
    assert [chart for chart in charts if not chart.endswith(" hidden>")] == []
    assert page.count('<p class="missing no-charts" hidden>') == 1
    # The library reads the language when it begins.
    assert page.index('defineProperty(navigator, "language", { value: "en" })') < page.index("var uPlot=")
    frames = re.findall(r'<div class="scroll"[^>]*>', page)
    assert len(frames) > 10
    assert [frame for frame in frames if not re.search('role="region" aria-label="[^"]{9,}"', frame)] == []


def test_header_tells_how_to_repeat_the_run(page: str) -> None:
    for text in (
        "reflect-rl taxi --label-source clean --seeds 0 1",
        "cd1e23f",
        "9f2c11aa",
        "torch 2.9.0",
        "learning_rate",
    ):
        assert text in page


def test_tables_are_grouped_by_label_source_and_budget(page: str) -> None:
    for label_source, starts in (("clean", 10), ("clean", 100), ("paper", 100)):
        for horizon in (15, 20, 30):
            condition = f"label source {label_source}, {starts} demonstration starts, test split, horizon {horizon}"
            assert f"{condition}</h3>" in page


def test_every_part_is_there_in_this_order(page: str) -> None:
    assert 'class="missing"' not in page.replace('<noscript><p class="missing">', "")
    charts = embedded(page, "chart-data")
    # Online RL and losses per label source and budget, and the budgets of clean.
    assert [chart["x"] for chart in charts] == [
        *["environment turns"] * 3,
        "demonstration starts",
        *["optimiser steps"] * 3,
    ]
    assert page.count('<figure class="chart"') == 7
    assert "1 h 02 min" in page
    assert len(embedded(page, "episode-data")["episodes"]) > 100
    sections = re.findall(r'<section id="(\w+)">', page)
    assert sections == ["result", "curves", "episodes", "tables", "conditions"]


def embedded(page: str, name: str) -> Any:
    match = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def sentence(page: str) -> str:
    match = re.search(r'<p class="sentence">(.*?)</p>', page, re.DOTALL)
    assert match is not None
    return match[1]


def played(folder: Path, method: str, wins: str, horizon: int = 30) -> dict[str, Any]:
    """Writes the episodes of eight starts, won where `wins` names them; the row of results."""
    rows = [
        episode_row(task={"key": key, "mode": "full", "split": "test", "data": {}}, success=key in wins)
        for key in "abcdefgh"
    ]
    write_lines(folder / "starts-100" / "seed-0" / "evaluation" / method / "episodes.jsonl", rows)
    return result_row(method=method, horizon=horizon, episodes=8, successes=len(wins))


def test_the_page_begins_with_the_result_before_and_after_online_rl(tmp_path: Path) -> None:
    rows = [
        played(tmp_path, "sft_reflect", "ab"),
        played(tmp_path, "reflect_rl", "abcdef"),
        played(tmp_path, "sft", ""),
    ]
    write_json(tmp_path / "results.json", rows)
    page = written([tmp_path], tmp_path / "report.html")
    # Wilson for 6/8 is [40.9, 92.9] and for 2/8 [7.1, 59.1]. Four starts are won after it only, none before it only:
    # p = 2 / 2^4 = 0.125, and the interval is 0.5 -+ sqrt(0.341^2 + 0.341^2) below, sqrt(0.1785^2 + 0.1785^2) above.
    assert sentence(page) == (
        "Reflect-RL wins 75.0% [41, 93] of 8 episodes (test split, mode full, horizon 30, sampled); before online RL, "
        "as SFT, reflection, it wins 25.0% [7, 59]: a difference of +50.0 points on the same 8 starts "
        "(95% interval +1.8 to +75.2, p = 0.125)."
    )
    figure = page[page.index('<figure class="dots">') : page.index("</figure>")]
    # The start is a mark in the line of Reflect-RL and has no line of its own.
    assert re.findall(r'dot-label">(.*?)<', figure) == ["SFT", "Reflect-RL"]
    assert re.findall(r'"dot (\w+)" style="left: ([\d.]+)%', figure) == [
        ("other", "0.0"),
        ("before", "25.0"),
        ("after", "75.0"),
    ]
    assert 'class="interval after" style="left: 40.9%; width: 51.9%"' in figure


def paired(page: str) -> list[str]:
    """Headings and first rows of the comparisons on the same starts, after their common condition."""
    text = page[page.index('id="paired"') : page.index('id="times"')]
    found = re.findall(
        r'<p>(.*?)\. Difference|<h4>(.*?)</h4>|<th scope="row">(.*?)</th>\s*<td[^>]*>(\d+)', text, re.DOTALL
    )
    return [" ".join(part for part in parts if part) for parts in found]


def test_games_are_compared_on_the_same_starts_each_for_itself(tmp_path: Path) -> None:
    for game, horizon in (("dangerous_taxi", 30), ("corridor", 20)):
        rows = [played(tmp_path / game, method, "ab", horizon) for method in ("sft", "reflect_rl")]
        write_json(tmp_path / game / "results.json", [row | {"benchmark": game} for row in rows])
    page = written([tmp_path / "dangerous_taxi", tmp_path / "corridor"], tmp_path / "report.html")
    condition = "label source clean, 100 demonstration starts, mode full, horizon"
    assert paired(page) == [
        "Each in its hardest mode, at its largest horizon",
        f"Reflect-RL: corridor, {condition} 20",
        "against SFT, sampled 8",
        f"Reflect-RL: dangerous_taxi, {condition} 30",
        "against SFT, sampled 8",
    ]


def test_one_method_that_played_longer_takes_no_comparison_away(tmp_path: Path) -> None:
    rows = [played(tmp_path / "whole", method, "ab", 20) for method in ("sft_reflect", "reflect_rl")]
    write_json(tmp_path / "whole" / "results.json", rows)
    write_json(tmp_path / "long" / "results.json", [played(tmp_path / "long", "random", "", 50)])
    page = written([tmp_path / "whole", tmp_path / "long"], tmp_path / "report.html")
    assert paired(page)[0] == "Mode full, horizon 20"


def test_an_evaluation_to_a_shorter_horizon_changes_no_comparison(tmp_path: Path) -> None:
    for name, wins, horizon in (("whole", "abcdefgh", 20), ("short", "", 3)):
        rows = [played(tmp_path / name, "sft_reflect", wins[:2], horizon)]
        rows += [played(tmp_path / name, "reflect_rl", wins, horizon)]
        write_json(tmp_path / name / "results.json", rows)
    page = written([tmp_path / "whole", tmp_path / "short"], tmp_path / "report.html")
    assert paired(page)[0] == "Mode full, horizon 20"
    assert "a difference of +75.0 points on the same 8 starts" in sentence(page)


def test_without_its_start_a_method_is_told_alone(tmp_path: Path) -> None:
    write_json(tmp_path / "results.json", [played(tmp_path, "rlft", "abcd")])
    page = written([tmp_path], tmp_path / "report.html")
    assert sentence(page) == "RLFT wins 50.0% [22, 78] of 8 episodes (test split, mode full, horizon 30, sampled)."
    # Its start was not evaluated, and still it is online RL that made it.
    assert 'class="dot after" style="left: 50.0%"' in page


def test_the_metric_shown_first_is_success_on_the_hardest_validation_tasks() -> None:
    rows = (
        {"turns": 1, "update": 1, "policy/kl": 0.1, "rollout/success_rate": 0.5, "time/seconds": 1.0, "same": 3},
        {"turns": 2, "update": 2, "policy/kl": 0.2, "rollout/success_rate": 0.5, "time/seconds": 2.0, "same": 3},
        {"turns": 3, "validation/full/success_rate": 0.5, "validation/pickup/success_rate": 0.5},
    )
    names = measures_of([Curve("clean", 100, 0, "reflect_rl", "ppo", rows, 0)])
    assert names == [
        "validation/full/success_rate",
        "validation/pickup/success_rate",
        "rollout/success_rate",
        "policy/kl",
    ]


def test_a_chart_shows_the_mean_of_the_seeds_and_the_stages(tmp_path: Path) -> None:
    write_json(tmp_path / "results.json", [result_row()])
    for seed, top in ((0, 0.2), (1, 0.6)):
        rows = [
            {"turns": 100 * k, "stage": "pickup" if k < 2 else "full", "rollout/success_rate": top * k / 2}
            for k in range(3)
        ]
        rows[1]["policy/kl"] = float("nan")
        write_lines(tmp_path / "starts-100" / f"seed-{seed}" / "rlft" / "reflect_rl" / "metrics.jsonl", rows)
    (chart,) = embedded(written([tmp_path], tmp_path / "report.html"), "chart-data")
    assert chart["stages"] == [["pickup", 100], ["full", 200]]
    (line,) = chart["measures"]["rollout/success_rate"]
    assert (line["x"], line["y"]) == ([0, 100, 200], [0, 0.2, 0.4])
    assert (line["lo"], line["hi"]) == ([0, 0.1, 0.2], [0, 0.3, 0.6])
    assert chart["measures"].get("policy/kl", [{"y": [None]}])[0]["y"] == [None]


def test_trainings_of_installed_stages_have_charts_of_their_own(tmp_path: Path) -> None:
    write_json(tmp_path / "results.json", [result_row()])
    for seed in (0, 1):
        unit = tmp_path / "starts-100" / f"seed-{seed}"
        for name in ("first", "second"):
            rows = [{"step": k, "loss": seed + k, "learning_rate": 0.1 * k} for k in range(3)]
            write_lines(unit / "learn" / name / "metrics.jsonl", rows)
        playing = [{"turns": 10 * k, "rollout/success_rate": 0.2 * k} for k in range(3)]
        write_lines(unit / "learn" / "player" / "metrics.jsonl", playing)
        # A stage with one job in a unit.
        write_lines(unit / "reward" / "metrics.jsonl", [{"step": k, "loss": 1 - k / 4} for k in range(3)])
    page = written([tmp_path], tmp_path / "report.html")
    charts = {(chart["title"].partition(":")[0], chart["x"]): chart for chart in embedded(page, "chart-data")}
    assert set(charts) == {("learn", "optimiser steps"), ("learn", "environment turns"), ("reward", "optimiser steps")}
    lines = charts["learn", "optimiser steps"]["measures"]["loss"]
    assert [(line["label"], line["y"]) for line in lines] == [("first", [0.5, 1.5, 2.5]), ("second", [0.5, 1.5, 2.5])]
    (line,) = charts["learn", "environment turns"]["measures"]["rollout/success_rate"]
    assert (line["label"], line["x"], line["y"]) == ("player", [0, 10, 20], [0, 0.2, 0.4])
    (line,) = charts["reward", "optimiser steps"]["measures"]["loss"]
    assert (line["label"], line["y"]) == ("reward", [1, 0.75, 0.5])
    assert "<h3>Other trainings</h3>" in page


def test_many_long_episodes_leave_the_page_small(tmp_path: Path) -> None:
    turns = json.dumps(episode_row()["turns"] * 500)
    path = tmp_path / "starts-100" / "seed-0" / "evaluation" / "reflect_rl" / "episodes.jsonl"
    path.parent.mkdir(parents=True)
    # More than fits: the room for episodes does not depend on how many more there are.
    with path.open("w") as lines:
        for seed in range(120):
            row = json.dumps(episode_row(seed=seed, turns="@"))
            lines.write(row.replace('"@"', turns.replace("Past actions", f"Past actions {seed}")) + "\n")
    write_json(tmp_path / "results.json", [result_row(episodes=120, successes=120)])
    page = written([tmp_path], tmp_path / "report.html")
    shown = len(embedded(page, "episode-data")["episodes"])
    assert 10 < shown < 120
    assert f"{shown} of 120 evaluated episodes are on this page" in page
    assert len(page.encode()) < 20_000_000


def test_results_alone_make_a_page_that_says_what_is_missing(bare_run: Path, tmp_path: Path) -> None:
    page = written([bare_run], tmp_path / "report.html")
    for text in (
        "No run.json",
        "No config.json",
        "Nothing to compare",
        "No reinforcement learning metrics",
        "No supervised training metrics",
        "No stage times",
        "No episodes",
    ):
        assert text in page


def test_cut_lines_are_reported(bare_run: Path, tmp_path: Path) -> None:
    unit = bare_run / "starts-100" / "seed-0"
    write_lines(unit / "evaluation" / "reflect_rl" / "episodes.jsonl", [episode_row()])
    write_lines(unit / "sft" / "reflector" / "metrics.jsonl", [{"step": 0, "loss": 1.0}])
    for path in unit.rglob("*.jsonl"):
        with path.open("a") as lines:
            lines.write('{"half')
    page = written([bare_run], tmp_path / "report.html")
    assert "starts-100/seed-0/evaluation/reflect_rl/episodes.jsonl: 1 unreadable lines are left out." in page
    assert "reflector, seed 0, 100 starts: 1 unreadable lines of metrics.jsonl are left out." in page


def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    attack = "<img src=x onerror=alert(1)>"
    write_json(tmp_path / "results.json", [result_row(method=attack, mode=attack, model=attack, benchmark=attack)])
    write_json(
        tmp_path / "run.json",
        {
            "schema_version": 2,
            "benchmark": attack,
            "command": attack,
            "git_commit": attack,
            "stages": [{"unit": attack, "job": attack, "seconds": 1}],
        },
    )
    write_json(tmp_path / "config.json", {"data": {"label_source": attack}})
    unit = tmp_path / "starts-100" / "seed-0"
    write_lines(unit / "rlft" / "m" / "metrics.jsonl", [{"turns": 1, "stage": attack, "rollout/success_rate": 0.5}])
    write_lines(unit / "evaluation" / "m" / "episodes.jsonl", [episode_row(mode=attack)])
    page = written([tmp_path], tmp_path / "report.html")
    assert "<img" not in page
    assert "&lt;img" in page


def test_jobs_have_their_memory_where_it_is_known(write_run: Callable[..., Path], tmp_path: Path) -> None:
    folder = write_run()
    card = json.loads((folder / "run.json").read_text())
    first, *others = card["stages"]
    write_json(folder / "run.json", card | {"stages": [first | {"peak_gib": 3.14159}, *others]})
    page = written([folder], tmp_path / "report.html")
    assert page.count("memory, GiB") == 1
    assert page.count(">3.1<") == 1


def test_a_folder_as_output_gets_report_html(bare_run: Path, tmp_path: Path) -> None:
    assert write_report([bare_run], tmp_path) == tmp_path / "report.html"


def test_two_writings_are_equal(bare_run: Path, tmp_path: Path) -> None:
    assert written([bare_run], tmp_path / "a.html") == written([bare_run], tmp_path / "b.html")


def test_no_run_folder_no_page(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no run folder"):
        write_report([tmp_path / "nowhere"], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.21, "4.2 s"), (75, "1 min 15 s"), (119.6, "2 min 00 s"), (3725, "1 h 02 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_differences_carry_a_sign() -> None:
    assert (_points(0.125), _points(-0.5)) == ("+12.5", "−50.0")


def test_reports_load_no_torch() -> None:
    code = "import sys, reflect_report.page; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
