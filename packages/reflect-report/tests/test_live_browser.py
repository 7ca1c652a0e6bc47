"""The live page in a real browser: it takes what is new, and leaves the reader where he is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `live` is not installed")
pytest.importorskip("starlette", reason="the extra `live` is not installed")

from reflect_report.live import LivePage

from .browser import CHROMIUM, Browser, browser
from .conftest import episode_row, write_full_run, write_json, write_lines
from .test_live import TOKEN, served

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; the page is not tried in a browser")

PLOT = 'document.querySelector(".chart").plot'


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_full_run(tmp_path / "run", "clean", (10,), (0,))


@pytest.fixture
def page(run: Path, tab: Browser, monkeypatch) -> Iterator[str]:
    """Address of the live page of that run, which looks at its files whenever it is asked."""
    monkeypatch.setattr("reflect_report.live.SECONDS", 0)
    monkeypatch.setattr("reflect_report.live.SHARE", 0)
    tab.errors.clear()
    with served(LivePage([run])) as port:
        yield f"http://127.0.0.1:{port}/{TOKEN}/"
        # No page asks a server that is gone.
        tab.open("about:blank")


def wait(tab: Browser, condition: str) -> None:
    """Until a condition holds in the page; the test fails where it never does."""
    loop = f"""new Promise((done, fail) => {{
        const began = Date.now();
        const again = () => Date.now() - began > 60000 ? fail("in vain") : setTimeout(look, 50);
        const look = () => ({condition}) ? done(true) : again();
        look();
    }})"""
    assert tab.do(loop)


def told(tab: Browser) -> str:
    return tab.do('document.getElementById("connection").textContent')


def append(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def test_a_curve_grows_while_its_reader_has_zoomed_hidden_a_line_and_chosen_a_metric(
    tab: Browser, page: str, run: Path
) -> None:
    tab.open(page)
    wait(tab, 'document.getElementById("connection").textContent.includes("Up to date")')
    tab.do("""(figure => {
        const measure = figure.querySelector(".measure");
        measure.value = "rollout/success_rate";
        measure.dispatchEvent(new Event("change", { bubbles: true }));
        figure.querySelector(".log").click();
        figure.querySelectorAll(".u-legend th[role=button]")[0].click();
        figure.plot.zoomed = true;
        figure.plot.setScale("x", { min: 5000, max: 9000 });
    })(document.querySelector(".chart"))""")
    before = tab.do(f"{PLOT}.data[0].length")
    append(
        run / "starts-10" / "seed-0" / "rlft" / "reflect_rl" / "metrics.jsonl",
        {"turns": 99_999, "rollout/success_rate": 0.9},
    )
    wait(tab, f"{PLOT}.data[0].length === {before + 1}")
    assert tab.do(f"{PLOT}.data[0].at(-1)") == 99_999
    assert tab.do(f"[{PLOT}.scales.x.min, {PLOT}.scales.x.max, {PLOT}.scales.y.distr]") == [5000, 9000, 3]
    assert tab.do(f"{PLOT}.series.filter(s => s.class !== 'end').map(s => s.show)") == [True, False, True, True, True]
    assert tab.do('document.querySelector(".measure").value') == "rollout/success_rate"
    assert tab.errors == []


def test_a_new_training_brings_a_chart_and_the_others_keep_their_look(tab: Browser, page: str, run: Path) -> None:
    tab.open(page)
    tab.do("""(figure => {
        const measure = figure.querySelector(".measure");
        measure.value = "rollout/success_rate";
        measure.dispatchEvent(new Event("change", { bubbles: true }));
        figure.querySelector(".log").click();
    })(document.querySelector(".chart"))""")
    count = tab.do('document.querySelectorAll(".chart").length')
    rows = [{"step": k, "loss": 1 / (k + 1)} for k in range(9)]
    write_lines(run / "starts-999" / "seed-0" / "sft" / "reflector" / "metrics.jsonl", rows)
    wait(tab, f'document.querySelectorAll(".chart canvas").length === {count + 1}')
    assert tab.do('document.querySelector(".measure").value') == "rollout/success_rate"
    assert tab.do(f"{PLOT}.scales.y.distr") == 3
    assert tab.errors == []


def test_new_episodes_leave_the_open_one_its_turn_and_the_filters(tab: Browser, page: str, run: Path) -> None:
    tab.open(page)
    tab.do("""(() => {
        const set = (id, value, event) => {
          document.getElementById(id).value = value;
          document.getElementById(id).dispatchEvent(new Event(event, { bubbles: true }));
        };
        set("choose-method", "sft", "change");
        set("order", "longest", "change");
        document.querySelector("#list li:nth-child(7) button").click();
        document.getElementById("next").click();
    })()""")
    link = tab.do('document.getElementById("link").href')
    pane = tab.do('document.querySelector(".pane").textContent')
    scrolled = tab.do('document.getElementById("list").scrollTop = 33')
    tab.do(
        'document.getElementById("list").addEventListener("x", () => {}); window.kept = document.querySelector(".pane")'
    )
    task = {"key": "full/brand-new", "mode": "full", "split": "test", "data": {}}
    append(run / "starts-10" / "seed-0" / "evaluation" / "sft" / "episodes.jsonl", episode_row(task=task))
    wait(tab, 'document.getElementById("list").textContent.includes("brand-new")')
    assert tab.do('document.getElementById("link").href') == link
    assert tab.do('document.querySelector(".pane").textContent') == pane
    assert tab.do('document.querySelector(".pane") === window.kept')
    assert tab.do('document.getElementById("list").scrollTop') == scrolled
    assert tab.do('document.getElementById("choose-method").value') == "sft"
    assert tab.do('document.getElementById("order").value') == "longest"
    assert tab.errors == []


def test_the_reader_stays_at_the_line_that_he_reads(tab: Browser, page: str, run: Path) -> None:
    tab.open(page, 400)
    wait(tab, 'document.getElementById("connection").textContent.includes("Up to date")')
    tab.do('document.querySelector(".card .command").scrollIntoView()')
    top = tab.do('document.querySelector(".card .command").getBoundingClientRect().top')
    folder = run / "starts-10" / "seed-0" / "rlft" / "mine"
    write_json(folder / "progress.json", {"done": 1, "total": 4, "began": 1, "updated": 1, "process": 0, "machine": "",
                                          "warnings": ["It is hot."]})  # fmt: skip
    wait(tab, 'document.getElementById("now").textContent.includes("It is hot.")')
    # What came stands above, and would have pushed it down.
    assert tab.do('document.querySelector(".card .command").getBoundingClientRect().top') == pytest.approx(top, abs=2)
    tab.do('document.querySelector("#conditions details").open = true')
    card = json.loads((run / "run.json").read_text())
    write_json(run / "run.json", card | {"git_commit": "0ther"})
    wait(tab, 'document.getElementById("conditions").textContent.includes("0ther")')
    assert tab.do('document.querySelector("#conditions details").open')
    assert tab.errors == []


def test_a_marked_word_stays_marked(tab: Browser, page: str, run: Path) -> None:
    tab.open(page)
    tab.do('getSelection().selectAllChildren(document.querySelector(".sentence"))')
    marked = tab.do("getSelection().toString()")
    results = run / "results.json"
    rows = json.loads(results.read_text())
    write_json(results, [row for row in rows if row["method"] != "reflect_rl"])
    wait(tab, 'document.getElementById("connection").textContent.includes("wait until you are done")')
    assert tab.do("getSelection().toString()") == marked
    tab.do("getSelection().removeAllRanges()")
    wait(tab, f'document.querySelector(".sentence").textContent !== {json.dumps(marked)}')


def test_the_page_says_that_the_folder_is_gone_and_goes_on(tab: Browser, page: str, run: Path, tmp_path: Path) -> None:
    tab.open(page)
    run.rename(tmp_path / "away")
    wait(tab, 'document.querySelector("#connection.fault")')
    assert "no run folder" in told(tab)
    assert tab.do('document.querySelector(".sentence").textContent').startswith("Reflect-RL wins")
    (tmp_path / "away").rename(run)
    wait(tab, '!document.querySelector("#connection.fault")')
    shutil.rmtree(run)
    wait(tab, 'document.querySelector("#connection.fault")')
    # The same command again, from the start.
    write_full_run(run, "clean", (10, 100), (0,))
    wait(tab, 'document.querySelectorAll("#result .sentence, #result details").length > 1')
    wait(tab, 'document.getElementById("connection").textContent.includes("Up to date")')
    assert tab.errors == []


def test_the_first_episodes_bring_their_controls(tab: Browser, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("reflect_report.live.SECONDS", 0)
    monkeypatch.setattr("reflect_report.live.SHARE", 0)
    write_json(tmp_path / "config.json", {"data": {"label_source": "clean"}})
    write_json(tmp_path / "run.json", {"schema_version": 2, "benchmark": "dangerous_taxi"})
    with served(LivePage([tmp_path])) as port:
        tab.errors.clear()
        tab.open(f"http://127.0.0.1:{port}/{TOKEN}/")
        assert tab.do('document.getElementById("episodes").textContent').count("No episodes") == 1
        write_lines(tmp_path / "starts-100" / "seed-0" / "evaluation" / "sft" / "episodes.jsonl", [episode_row()])
        wait(tab, 'document.querySelector("#list button")')
        tab.press("ArrowRight")
        assert tab.do('document.getElementById("position").textContent') == "turn 2 of 2"
        assert tab.errors == []
        tab.open("about:blank")


def test_a_server_that_has_ended_is_told(tab: Browser, run: Path) -> None:
    with served(LivePage([run])) as port:
        tab.open(f"http://127.0.0.1:{port}/{TOKEN}/")
        wait(tab, 'document.getElementById("connection").textContent.includes("Up to date")')
    wait(tab, 'document.querySelector("#connection.fault")')
    assert told(tab).startswith("The server has not answered since ")
    assert tab.do('document.querySelector(".sentence").textContent').startswith("Reflect-RL wins")
    tab.open("about:blank")
