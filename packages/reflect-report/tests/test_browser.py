"""The page in a real browser: no error, no request, nothing cut, and every control does what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from reflect_report.page import write_report

from .browser import AXE, CHROMIUM, Browser, browser
from .conftest import episode_row, result_row, write_full_run, write_json, write_lines

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; the page is not tried in a browser")

WIDTHS = (1280, 400)
OVERFLOWING = """[...document.querySelectorAll("body *")].filter(part => !part.closest(".scroll, .uplot, option, #list")
    && part.getClientRects().length && part.getBoundingClientRect().right > innerWidth + 1)
    .map(part => part.tagName + "." + part.className + " " + part.textContent.slice(0, 40))"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of the page of a run of all methods with two budgets and two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    run = write_full_run(folder / "clean", "clean", (10, 100), (0, 1))
    # The least likely action of all: 1% in the third of nine turns.
    odd = episode_row(task={"key": "full/odd", "mode": "full", "split": "test", "data": {}}, success=True)
    odd["turns"] = [
        turn | {"reflection": f"Thought {number} of the ninefold game."}
        for number, turn in enumerate([odd["turns"][0]] * 9)
    ]
    odd["turns"][2] = odd["turns"][2] | {"decision": {"index": 1, "log_probs": [math.log(0.99), math.log(0.01)]}}
    other = odd | {"success": False, "turns": odd["turns"][:4]}
    for method, row in (("reflect_rl", odd), ("sft", other)):
        with (run / "starts-100" / "seed-0" / "evaluation" / method / "episodes.jsonl").open("a") as lines:
            write_lines(folder / "row", [row])
            lines.write((folder / "row").read_text())
    return write_report([run], folder / "report.html").as_uri()


def value(tab: Browser, name: str) -> Any:
    return tab.do(f'document.getElementById("{name}").value')


def text(tab: Browser, selector: str) -> str:
    return tab.do(f"document.querySelector({selector!r}).textContent")


def choose(tab: Browser, name: str, chosen: str) -> None:
    event = "input" if name == "search" else "change"
    change = f'e.value = {chosen!r}; e.dispatchEvent(new Event("{event}", {{ bubbles: true }}))'
    tab.do(f'(e => {{ {change} }})(document.querySelector("#{name}, .{name}"))')
    # The search waits for the next letter.
    tab.do("new Promise(done => setTimeout(done, 250))")


def click(tab: Browser, selector: str) -> None:
    tab.do(f"document.querySelector({selector!r}).click()")


def listed(tab: Browser) -> list[str]:
    return tab.do('[...document.querySelectorAll("#list button")].map(b => b.textContent)')


@contextmanager
def before_scripts(tab: Browser, script: str) -> Iterator[None]:
    """Every page that is opened runs this script first."""
    made = tab.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    try:
        yield
    finally:
        tab.call("Page.removeScriptToEvaluateOnNewDocument", identifier=made)
        tab.errors.clear()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_fails_is_loaded_or_cut(tab: Browser, page: str, width: int, dark: bool) -> None:
    tab.errors.clear()
    tab.requests.clear()
    tab.open(page, width, dark=dark)
    assert tab.errors == []
    assert set(tab.requests) <= {page, "about:blank"}
    assert tab.do("document.documentElement.scrollWidth") == width
    assert tab.do(OVERFLOWING) == []
    # Wide tables scroll inside their frames; at the width of a desktop none needs to.
    fits = tab.do('[...document.querySelectorAll(".scroll")].every(s => s.scrollWidth <= s.clientWidth)')
    assert fits or width == 400
    texts = '[...document.querySelectorAll("p, td, th, li, button, label")]'
    sizes = tab.do(f"{texts}.map(e => parseFloat(getComputedStyle(e).fontSize))")
    assert min(sizes) >= 12
    buttons = '[...document.querySelectorAll(".stepper button")]'
    tops = tab.do(f"{buttons}.map(b => Math.round(b.getBoundingClientRect().top))")
    assert len(tops) == 5
    assert len(set(tops)) == 1


def test_text_can_be_read_on_its_ground_in_both_schemes(tab: Browser, page: str) -> None:
    for dark in (False, True):
        tab.open(page, dark=dark)
        colours = {name: tab.do(f'getComputedStyle(document.documentElement).getPropertyValue("--{name}").trim()')
                   for name in ("paper", "ink", "soft", "accent", "won", "lost")}  # fmt: skip
        for name in ("ink", "soft", "accent", "won", "lost"):
            # WCAG 2, level AA, for text of normal size.
            assert contrast(colours[name], colours["paper"]) >= 4.5, (dark, name)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2 of two colours `#rrggbb`."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_charts_zoom_hide_lines_change_scale_and_measure(tab: Browser, page: str) -> None:
    tab.open(page)
    plot = 'document.querySelector(".chart").plot'
    lines = tab.do(f"{plot}.series.slice(1).filter(s => s.class !== 'end').map(s => s.label)")
    assert lines == ["RLFT", "SFT + RLFT", "Reflect-RL, no negatives", "Reflect-RL"]
    whole = tab.do(f"[{plot}.scales.x.min, {plot}.scales.x.max]")
    box = tab.do('(r => [r.left, r.top, r.width])(document.querySelector(".chart .u-over").getBoundingClientRect())')
    for kind, share in (("mouseMoved", 0.2), ("mousePressed", 0.2), ("mouseMoved", 0.6), ("mouseReleased", 0.6)):
        tab.mouse(kind, box[0] + share * box[2], box[1] + 80)
    zoomed = tab.do(f"[{plot}.scales.x.min, {plot}.scales.x.max]")
    assert zoomed[0] == pytest.approx(whole[0] + 0.2 * (whole[1] - whole[0]), rel=0.02)
    assert zoomed[1] == pytest.approx(whole[0] + 0.6 * (whole[1] - whole[0]), rel=0.02)
    assert "–" not in text(tab, ".chart .u-legend")  # the values under the mouse
    click(tab, ".chart .whole")
    assert tab.do(f"[{plot}.scales.x.min, {plot}.scales.x.max]") == whole
    ends = f"[{plot}.scales.x.min, {plot}.scales.x.max, {plot}.scales.y.min, {plot}.scales.y.max]"
    tab.do(f'{plot}.zoomed = true; {plot}.setScale("x", {{ min: 9000, max: 9999 }})')
    # A rate has its one scale again, from 0 to 1.
    tab.do('document.querySelector(".chart .u-over").dispatchEvent(new MouseEvent("dblclick", { bubbles: true }))')
    assert tab.do(ends) == [*whole, -0.03, 1.03]
    assert "; at the end: RLFT 0" in tab.do('document.querySelector(".chart canvas").getAttribute("aria-label")')
    name = 'document.querySelectorAll(".chart .u-legend th[role=button]")[0]'
    for expected in (False, True):
        tab.do(f"{name}.focus()")
        tab.press("Enter")
        # A line and the two ends of its band.
        assert tab.do(f"{plot}.series.slice(1, 4).map(s => s.show)") == [expected] * 3
        assert tab.do(f'{name}.getAttribute("aria-pressed")') == str(expected).lower()
    click(tab, ".chart .log")
    assert tab.do(f"{plot}.scales.y.distr") == 3
    click(tab, ".chart .log")
    assert tab.do(f"{plot}.scales.y.distr") == 1
    choose(tab, "measure", "rollout/success_rate")
    assert tab.do(f"{plot}.data[0].length") > 50
    assert tab.errors == []


def test_episodes_are_searched_filtered_and_ordered(tab: Browser, page: str) -> None:
    tab.open(page)
    choose(tab, "search", "NINEFOLD")
    assert [line.split(" · ")[0] for line in listed(tab)] == ["✗ SFT, sampled", "✓ Reflect-RL, sampled"]
    assert text(tab, "#count") == "2 episodes, 1 won"
    choose(tab, "choose-outcome", "won")
    assert len(listed(tab)) == 1
    choose(tab, "search", "")
    assert all(line.startswith("✓") for line in listed(tab))
    choose(tab, "order", "longest")
    assert "full/odd" in listed(tab)[0]
    choose(tab, "order", "surprise")
    assert listed(tab)[0].endswith("9 turns, 1.00% in turn 3")
    assert text(tab, "#position") == "turn 3 of 9"
    choose(tab, "choose-outcome", "")
    choose(tab, "choose-method", "sft")
    assert all("SFT, " in line for line in listed(tab))
    choose(tab, "choose-decoding", "greedy")
    assert all("SFT, greedy" in line for line in listed(tab))
    choose(tab, "search", "no such words")
    assert listed(tab) == []
    assert tab.errors == []


def test_two_methods_stand_side_by_side_on_the_same_start(tab: Browser, page: str) -> None:
    tab.open(page)
    choose(tab, "search", "ninefold")
    choose(tab, "choose-method", "reflect_rl")
    click(tab, "#list button")
    choose(tab, "beside", "sft sampled")
    names = tab.do('[...document.querySelectorAll(".pane .name")].map(e => e.textContent)')
    assert names == ["Reflect-RL, sampled", "SFT, sampled"]
    left, right = tab.do('[...document.querySelectorAll(".pane")].map(e => e.getBoundingClientRect().left)')
    assert right > left + 300
    for _ in range(5):
        click(tab, "#next")
    assert text(tab, "#position") == "turn 6 of 9"
    rewards = tab.do('[...document.querySelectorAll(".pane .reward")].map(e => e.textContent)')
    assert rewards[0].startswith("Turn 6: ")
    assert rewards[1].startswith("Turn 4 (the episode ended before)")
    link = tab.do('document.getElementById("link").href')
    tab.open(link)
    assert text(tab, "#position") == "turn 6 of 9"
    assert tab.do('document.querySelectorAll(".pane").length') == 2
    choose(tab, "beside", "")
    assert tab.do('document.querySelectorAll(".pane").length') == 1


def test_keys_and_buttons_step_play_and_move(tab: Browser, page: str) -> None:
    tab.open(page)
    choose(tab, "search", "ninefold")
    click(tab, "#list button")  # the lost one, of four turns
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    tab.press("ArrowLeft")
    assert text(tab, "#position") == "turn 2 of 4"
    click(tab, "#last")
    assert text(tab, "#position") == "turn 4 of 4"
    assert tab.do('document.getElementById("next").disabled')
    click(tab, "#first")
    tab.press("p")
    assert text(tab, "#play") == "Pause"
    tab.do("new Promise(done => setTimeout(done, 1000))")
    assert text(tab, "#position") != "turn 1 of 4"
    click(tab, "#play")
    assert text(tab, "#play") == "Play"
    tab.press("j")
    assert text(tab, ".pane .name") == "Reflect-RL, sampled"
    tab.press("k")
    assert text(tab, ".pane .name") == "SFT, sampled"
    tab.press("/")
    assert tab.do("document.activeElement.id") == "search"
    tab.press("j")  # a letter of the search now
    assert text(tab, ".pane .name") == "SFT, sampled"
    tab.do('(s => { s.value = 2; s.dispatchEvent(new Event("input")) })(document.getElementById("slider"))')
    assert text(tab, "#position") == "turn 3 of 4"


def test_the_list_is_one_stop_of_the_tab_key_and_its_arrows_move(tab: Browser, page: str) -> None:
    tab.open(page)
    assert tab.do('document.querySelectorAll("#list button").length') > 100
    assert tab.do('[...document.querySelectorAll("#list button")].filter(b => b.tabIndex === 0).length') == 1
    names = listed(tab)
    tab.do('document.querySelector("#list button").click(); document.querySelector("#list button").focus()')
    for key, place in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
        tab.press(key)
        assert tab.do("document.activeElement.textContent") == names[place]
        # An empty value would mean that it is not the current one.
        assert tab.do('document.activeElement.getAttribute("aria-current")') == "true"
    tab.do('document.getElementById("slider").focus()')
    tab.press("j")
    assert text(tab, "#list [aria-current]") == names[2]


def test_a_link_leaves_the_search_of_the_page_that_it_stands_on(tab: Browser, page: str) -> None:
    tab.open(page)
    choose(tab, "search", "ninefold")
    click(tab, "#list li:last-child button")
    click(tab, "#next")
    click(tab, "#link")
    tab.do("new Promise(done => setTimeout(done, 100))")
    assert (value(tab, "search"), text(tab, "#count")) == ("ninefold", "2 episodes, 1 won")
    assert text(tab, "#position") == "turn 2 of 9"


def test_charts_are_drawn_whatever_the_language_of_the_browser(tab: Browser, page: str) -> None:
    # So Chromium calls the locale C.UTF-8, and no number can be formatted in it.
    language = 'Object.defineProperty(Navigator.prototype, "language", { get: () => "en-US@posix" })'
    with before_scripts(tab, language):
        tab.errors.clear()
        tab.open(page)
        assert tab.errors == []
        assert tab.do('document.querySelectorAll(".chart canvas").length') == 5
        assert tab.do('document.querySelector(".no-charts").hidden')


def test_without_charts_the_page_says_so_and_the_rest_works(tab: Browser, page: str) -> None:
    with before_scripts(tab, 'Intl.NumberFormat = () => { throw new Error("broken"); }'):
        tab.open(page)
        assert not tab.do('document.querySelector(".no-charts").hidden')
        assert tab.do('[...document.querySelectorAll(".chart")].every(figure => figure.hidden)')
        tab.press("ArrowRight")
        assert text(tab, "#position") == "turn 2 of 2"
        choose(tab, "horizon", "15")
        assert tab.do('document.querySelectorAll(".horizon:not([hidden])").length') == 1


def test_on_paper_nothing_is_cut_or_pale(tab: Browser, page: str) -> None:
    tab.open(page, 700, dark=True)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    tab.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
    assert tab.do('getComputedStyle(document.documentElement).getPropertyValue("--ink").trim()') == "#1d2127"
    assert tab.do('[...document.querySelectorAll(".scroll")].every(s => getComputedStyle(s).overflowX === "visible")')
    tab.call("Emulation.setEmulatedMedia", media="")


def test_a_long_name_leaves_the_numbers_of_its_table_in_sight(tab: Browser, tmp_path: Path) -> None:
    write_json(tmp_path / "results.json", [result_row(method="m" * 200)])
    tab.open(write_report([tmp_path], tmp_path / "report.html").as_uri(), 400)
    assert tab.do('document.querySelector(".horizon tbody th").getBoundingClientRect().right') < 300
    # Names stay at their place, and the values pass beside them.
    assert tab.do('document.querySelector(".horizon tbody td").getBoundingClientRect().right') <= 400


def test_speed_empty_searches_and_links_to_nothing(tab: Browser, page: str) -> None:
    tab.open(f"{page}#episode&method=reflect_rl&start=nowhere")
    assert not tab.do('document.getElementById("unknown").hidden')
    assert tab.do('document.querySelectorAll(".pane").length') == 1
    choose(tab, "search", "ninefold")
    assert tab.do('document.getElementById("none").hidden')
    choose(tab, "search", "no such words")
    assert not tab.do('document.getElementById("none").hidden')
    choose(tab, "search", "ninefold")
    click(tab, "#list li:last-child button")  # the won one, of nine turns
    # Steps of 200 milliseconds, which the browser is told to wait.
    tab.do(
        "window.waits = []; const wait = setInterval; window.setInterval = (f, t) => (window.waits.push(t), wait(f, t))"
    )
    for speed in ("4", "0.5"):
        choose(tab, "speed", speed)
        click(tab, "#play")
        click(tab, "#play")
    assert tab.do("window.waits") == [200, 1600]
    assert tab.errors == []


def test_a_hidden_line_stays_hidden_in_another_metric(tab: Browser, page: str) -> None:
    tab.open(page)
    plot = 'document.querySelector(".chart").plot'
    click(tab, ".chart .u-legend th[role=button]")
    for metric in ("rollout/success_rate", "validation/full/success_rate"):
        choose(tab, "measure", metric)
        assert tab.do(f"{plot}.series.filter(s => s.class !== 'end').map(s => s.show)") == [
            True,
            False,
            True,
            True,
            True,
        ]
    assert tab.do('document.querySelector(".chart .u-legend th[role=button]").getAttribute("aria-pressed")') == "false"


@pytest.mark.skipif(AXE is None, reason="axe-core is not installed (npm install --no-save axe-core)")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_no_serious_fault(tab: Browser, page: str, width: int, dark: bool) -> None:
    assert AXE is not None
    tab.open(page, width, dark=dark)
    choose(tab, "search", "ninefold")
    choose(tab, "beside", "reflect_rl sampled")
    tab.do('for (const part of document.querySelectorAll("details")) part.open = true')
    tab.do(f"{AXE.read_text()}; 0")
    faults = tab.do("""axe.run().then(found => found.violations
        .filter(fault => ["serious", "critical"].includes(fault.impact))
        .map(fault => [fault.id, fault.nodes[0].html]))""")
    assert faults == []
    assert tab.do("axe.run().then(found => found.passes.length)") > 20


def test_the_tables_follow_the_horizon(tab: Browser, page: str) -> None:
    tab.open(page)
    choose(tab, "horizon", "15")
    shown = tab.do('[...document.querySelectorAll(".horizon")].filter(e => !e.hidden).map(e => e.dataset.horizon)')
    assert shown == ["15"]


def test_hostile_text_stays_text(tab: Browser, tmp_path: Path) -> None:
    attack = "</script><script>window.attacked=1</script><img src=x onerror=window.attacked=1>\"'`${window.attacked=1}"
    row = episode_row(mode=attack, task={"key": attack, "mode": attack, "split": "test", "data": {}})
    row["turns"][0]["observation"] = {"text": attack, "actions": [attack, "north"], "state": "0"}
    row["turns"][0] |= {"order": [], "reflection": attack}
    row["turns"][0]["decision"] = {"index": 0, "log_probs": None, "answer": attack}
    unit = tmp_path / "starts-100" / "seed-0"
    write_lines(unit / "evaluation" / "reflect_rl" / "episodes.jsonl", [row])
    curve = [{"turns": k, "stage": f"{attack}{k}", "rollout/success_rate": 0.1 * k, attack: k} for k in range(3)]
    write_lines(unit / "rlft" / "reflect_rl" / "metrics.jsonl", curve)
    names = dict.fromkeys(("mode", "model", "benchmark", "label_source"), attack)
    write_json(tmp_path / "results.json", [result_row(**names), result_row(**names, method=attack)])
    write_json(tmp_path / "config.json", {"data": {"label_source": attack}})
    card = {"schema_version": 2, "benchmark": attack, "command": attack, "git_commit": attack}
    write_json(tmp_path / "run.json", card | {"stages": [{"unit": attack, "job": attack, "seconds": 1}]})
    address = write_report([tmp_path], tmp_path / "report.html").as_uri()
    for place in (address, f"{address}#episode&start={quote(attack)}&turn={quote(attack)}"):
        tab.errors.clear()
        tab.open(place)
        assert (tab.errors, tab.do("window.attacked"), tab.do("document.images.length")) == ([], None, 0)
        assert attack in text(tab, ".pane .state")
        assert attack in text(tab, ".pane .reflection")
        assert attack in text(tab, ".pane .answer")
        assert attack in tab.do("document.title")


HEIGHTS = {1280: 8051, 400: 12123}
"""Heights in pixels of the page when its pictures were last looked at."""


@pytest.mark.parametrize("width", WIDTHS)
def test_pictures_have_the_size_of_those_that_were_looked_at(
    tab: Browser, page: str, tmp_path: Path, width: int
) -> None:
    tab.open(page, width)
    tab.picture(tmp_path / "page.png")
    data = (tmp_path / "page.png").read_bytes()
    # A PNG says its size in its first chunk.
    size = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    assert size[0] == width
    # Fonts differ between machines; a section that is lost, empty or twice as long is more than that.
    assert 0.85 * HEIGHTS[width] < size[1] < 1.15 * HEIGHTS[width], size
