"""The page: complete, self-contained, and honest about what is missing."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reflect_rl.errors import RunFolderError
from reflect_rl.reports.page import _duration, _points, write_report

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
    assert '<th scope="row">PPO</th><td>REINFORCE</td>' in page
    assert page.count("<figure>") == 1 + 1 + 1  # results, curves of the algorithms, losses
    names = [["sft_reflect", "SFT, reflection"]]
    names += [
        [f"reflect_rl {key}", f"Reflect-RL ({label})"] for key, label in (("reinforce", "REINFORCE"), ("ppo", "PPO"))
    ]
    assert json.loads(embedded(page))["methods"] == names


def test_one_algorithm_is_named_nowhere(algorithms: list[Path], tmp_path: Path) -> None:
    page = written(algorithms[:2], tmp_path / "report.html")
    assert "Reflect-RL (PPO)" not in page
    assert '<th scope="row">Reflect-RL</th>' in page


def test_the_legend_explains_what_is_drawn(page: str, algorithms: list[Path], tmp_path: Path) -> None:
    assert "Hatched bars: trained without negative examples." in page
    assert "Dashed: trained without negative examples." in page
    bare = written(algorithms, tmp_path / "report.html")
    assert "without negative examples" not in bare
    assert "Lines: 95% intervals." in bare


def test_elements_are_balanced(page: str) -> None:
    balance = Balance()
    balance.feed(page)
    assert (balance.open, balance.wrong) == ([], [])


def test_the_page_loads_nothing(page: str) -> None:
    # XML namespaces inside SVG are names and are not loaded.
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', page) == []
    assert "@import" not in page
    assert "url(http" not in page
    assert len(page.encode()) < 3_000_000


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
            assert (
                f"label source {label_source}, {starts} demonstration starts, test split, horizon {horizon}</h3>"
                in page
            )


def test_every_part_is_there(page: str) -> None:
    assert 'class="missing"' not in page.replace('<noscript><p class="missing">', "")
    assert (
        page.count("<figure>") == 3 + 3 + 3 + 1
    )  # results, learning, losses per label source and budget; budget of clean
    assert "1 h 02 min" in page
    assert len(json.loads(embedded(page))["episodes"]) > 100


def embedded(page: str) -> str:
    match = re.search(r'<script type="application/json" id="episode-data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return match[1]


def test_results_alone_make_a_page_that_says_what_is_missing(bare_run: Path, tmp_path: Path) -> None:
    page = written([bare_run], tmp_path / "report.html")
    for text in (
        "No run.json",
        "No config.json",
        "Nothing to compare",
        "No reinforcement learning metrics",
        "No supervised training metrics",
        "One number of demonstration starts only",
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


def test_a_folder_as_output_gets_report_html(bare_run: Path, tmp_path: Path) -> None:
    assert write_report([bare_run], tmp_path) == tmp_path / "report.html"


def test_two_writings_are_equal(bare_run: Path, tmp_path: Path) -> None:
    assert written([bare_run], tmp_path / "a.html") == written([bare_run], tmp_path / "b.html")


def test_no_run_folder_no_page(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no run folder"):
        write_report([tmp_path / "nowhere"], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (4.21, "4.2 s"), (75, "1 min 15 s"), (119.6, "2 min 00 s"), (3725, "1 h 02 min")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert _duration(seconds) == text


def test_differences_carry_a_sign() -> None:
    assert (_points(0.125), _points(-0.5)) == ("+12.5", "−50.0")


def test_reports_load_no_torch() -> None:
    code = "import sys, reflect_rl.reports.page; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
