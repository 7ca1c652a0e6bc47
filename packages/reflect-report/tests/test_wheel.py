"""The wheel in an environment of its own: the core finds what it adds, and its tests are not in it."""

import json
from pathlib import Path

import pytest

from installed_wheel import FreshEnvironment, check_contents, install_above, registered
from reflect_report.page import LIVE_SCRIPT, SCRIPTS, SECTIONS

from .conftest import result_row

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    return install_above(tmp_path_factory.mktemp("wheel"), PROJECT)


def test_all_that_it_registers_can_be_loaded(fresh: FreshEnvironment):
    groups = registered(fresh, "reflect-report")
    assert groups == {
        "reflect_rl.commands": ["play", "prefer", "report", "status", "sweep", "watch"],
        "reflect_rl.reports": ["page"],
    }


def test_a_page_is_written_with_all_that_the_wheel_holds(fresh: FreshEnvironment, tmp_path: Path):
    (tmp_path / "results.json").write_text(json.dumps([result_row()]))
    place = fresh.run(f"""
import reflect_report
from pathlib import Path
from reflect_rl import report
print(reflect_report.__file__, report({str(tmp_path)!r}))
""").split()
    assert Path(place[0]).is_relative_to(fresh.folder)
    page = Path(place[1]).read_text(encoding="utf-8")
    # One piece of each file that is drawn from: the charts, their script and style, and the page's own.
    for piece in ("var uPlot=", ".uplot", "</html>"):
        assert piece in page


def test_the_wheel_has_types_and_licence_and_no_tests(fresh: FreshEnvironment):
    files = ["page.css", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css", "vendor/LICENSE"]
    files += [f"templates/{name}.html" for name in ("frame", "page", "macros", "now", "sweep", "prefer", *SECTIONS)]
    files += [*SCRIPTS, LIVE_SCRIPT, "script/sweep.js"]
    check_contents(fresh.names, "reflect_report", *files)
    # Its own, and uPlot's.
    assert sum(name.endswith("/LICENSE") and ".dist-info/" in name for name in fresh.names) == 2
