"""The wheel in an environment of its own: the core finds what it adds, and its tests are not in it."""

from pathlib import Path

import pytest

from installed_wheel import FreshEnvironment, check_contents, install_above, registered

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    # Every run reads the settings of all installed packages, and this one is installed where the tests run.
    return install_above(tmp_path_factory.mktemp("wheel"), PROJECT, "reflect_algorithms")


def test_all_that_it_registers_can_be_loaded(fresh: FreshEnvironment):
    groups = registered(fresh, "reflect-served")
    assert groups == {
        "reflect_rl.annotators": ["endpoint"],
        "reflect_rl.methods": ["chat", "chat_reflect", "prompted", "prompted_reflect"],
        "reflect_rl.policies": ["chat", "prompted"],
        "reflect_rl.reflectors": ["chat", "prompted"],
        "reflect_rl.settings": ["chat", "data.annotation", "endpoint", "prompted", "reflector.server"],
        "reflect_rl.stages": ["annotate"],
    }


def test_settings_of_its_sections_are_read(fresh: FreshEnvironment):
    answer = fresh.run("""
import reflect_served
from reflect_rl.config import parse
from reflect_rl.runs.config import RunConfig
from reflect_served.settings import chat_config
run = parse(RunConfig, {"methods": ["chat"], "chat": {"answers": "json"}})
print(chat_config(run).answers, reflect_served.__file__)
""")
    answers, place = answer.split()
    assert answers == "json"
    assert Path(place).is_relative_to(fresh.folder)


def test_the_wheel_has_types_and_licence_and_no_tests(fresh: FreshEnvironment):
    check_contents(fresh.names, "reflect_served")
