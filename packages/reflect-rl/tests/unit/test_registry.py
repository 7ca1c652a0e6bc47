"""Parts are found by entry points, ours like a stranger's."""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, EntryPoint, EntryPoints

import pytest

from reflect_rl import registry
from reflect_rl.config import Frozen, parse
from reflect_rl.errors import BrokenPartError, ConfigError, UnknownNameError, suggestion
from reflect_rl.registry import dotted_names, refuse_foreign
from reflect_rl.runs.config import RunConfig


def test_names_are_sorted_and_hold_our_own():
    assert {"ppo", "reinforce"} <= set(registry.names("algorithms"))
    assert {"corridor", "dangerous_taxi"} <= set(registry.names("environments"))
    assert registry.names("algorithms") == sorted(registry.names("algorithms"))


@pytest.mark.parametrize("kind", ["algorithms", "curricula", "environments"])
def test_every_part_that_is_configured_carries_settings_with_its_name(kind):
    for name in registry.names(kind):
        part = registry.find(kind, name)
        assert issubclass(part.Config, Frozen)
        assert part.Config().name == name
        assert part.__doc__


def test_names_that_are_close_and_names_that_are_not():
    with pytest.raises(UnknownNameError, match=r"no algorithm named 'reinforc'\. Did you mean 'reinforce'\?"):
        registry.find("algorithms", "reinforc")
    with pytest.raises(UnknownNameError, match=r"no curriculum named 'xyz'\. Known: stages, uniform\."):
        registry.find("curricula", "xyz")
    with pytest.raises(UnknownNameError):
        registry.find("algorithms", "_common")


def test_dashes_may_stand_for_underscores():
    assert registry.find("environments", "dangerous-taxi") is registry.find("environments", "dangerous_taxi")


def test_a_module_and_a_name_in_it_are_imported_as_they_are():
    assert registry.find("environments", "json.decoder:JSONDecoder").__name__ == "JSONDecoder"
    with pytest.raises(UnknownNameError, match=r"cannot import 'no_such_package\.game:Game' for environments"):
        registry.find("environments", "no_such_package.game:Game")
    with pytest.raises(UnknownNameError, match=r"the module json\.decoder has no 'Nothing'"):
        registry.find("environments", "json.decoder:Nothing")
    with pytest.raises(UnknownNameError, match=r"A part outside this installation is named package\.module:Name\."):
        registry.find("environments", "json.decoder")


def test_a_module_that_ends_the_program_is_named(tmp_path, monkeypatch):
    (tmp_path / "leaving_game.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownNameError, match=r"module leaving_game calls sys.exit\(\) where it is imported"):
        registry.find("environments", "leaving_game:Game")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x = (", r"SyntaxError: '\(' was never closed"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import json\njson.nothing", "AttributeError: module 'json' has no attribute 'nothing'"),
    ],
)
@pytest.mark.parametrize("kind", ["methods", "policies", "reflectors", "commands"])
def test_a_part_whose_module_fails_is_named_with_what_it_raised(tmp_path, monkeypatch, kind, line, said):
    (tmp_path / "failing_part.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("mine", "failing_part:Mine", f"reflect_rl.{kind}")
    monkeypatch.setattr(registry, "_installed", lambda _: {"mine": point})
    for name in ("failing_part:Mine", "mine"):
        remedy = re.escape('The module must import by itself: python -c "import failing_part" shows where it fails.')
        with pytest.raises(BrokenPartError, match=rf"^importing '{name}' failed: {said}.*\. {remedy}$"):
            registry.find(kind, name)


def test_a_companion_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(registry, "_installed", lambda kind: {})
    with pytest.raises(UnknownNameError, match=r"pip install alfworld-native\."):
        registry.find("environments", "alfworld")


def offered(monkeypatch, tmp_path, *packages: tuple[str, str, str]) -> None:
    """Install packages that each offer one part: name of the package, of the part, and its object."""
    points = []
    for number, (package, name, value) in enumerate(packages):
        info = tmp_path / f"{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[reflect_rl.algorithms]\n{name} = {value}\n")
        points += Distribution.at(info).entry_points
    monkeypatch.setattr(registry, "_offered", lambda: EntryPoints(points))
    for remembered in ("_installed", "_offered_twice"):
        monkeypatch.setattr(registry, remembered, getattr(registry, remembered).__wrapped__)


def test_a_name_that_two_distributions_give_to_different_objects_is_refused(monkeypatch, tmp_path):
    offered(monkeypatch, tmp_path, ("json-one", "my-part", "json:loads"), ("json_two", "my_part", "json:dumps"))
    for name in ("my_part", "my-part"):
        with pytest.raises(UnknownNameError) as raised:
            registry.find("algorithms", name)
        assert str(raised.value) == (
            "the algorithm 'my_part' is offered by two installed packages, json-one (json:loads) and json-two "
            "(json:dumps). Uninstall one of them, or name the part as package.module:Name, such as json:dumps."
        )
    assert registry.names("algorithms") == ["my_part"]
    assert registry.find("algorithms", "json:dumps") is json.dumps


@pytest.mark.parametrize(
    "others",
    [
        # An editable installation beside an older one: the first is what Python imports.
        [("Json_One", "my_part", "json:dumps")],
        # A distribution that was renamed: both mean the same.
        [("json-two", "my_part", "json : loads")],
        # Another name of the same package, and the same name that nobody asks for.
        [("json-two", "other", "json:dumps"), ("json-three", "other", "json:load")],
    ],
)
def test_a_name_that_is_listed_twice_without_doubt_is_found(monkeypatch, tmp_path, others):
    offered(monkeypatch, tmp_path, ("json-one", "my_part", "json:loads"), *others)
    assert registry.find("algorithms", "my_part") is json.loads


def test_suggestions():
    assert suggestion("pikcup", ["full", "pickup"]) == "Did you mean 'pickup'?"
    assert suggestion("q", ["b", "a"]) == "Known: a, b."


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ({"environment": {"name": "left_here:Game"}}, "--environment.name"),
        ({"rlft": {"algorithm": {"name": "left_here:Game"}}}, "--rlft.algorithm.name"),
        ({"methods": ["sft", "left_here:Game"]}, "--methods"),
        ({"environment": {"name": "antigravity:fly_to_the_moon"}}, "--environment.name"),
    ],
)
def test_a_run_folder_imports_only_what_is_installed(values, flag, tmp_path):
    name = dotted_names(values).pop()
    message = f"config.json names '{name}', which no installed distribution .* yourself, with {flag} {name}"
    with pytest.raises(UnknownNameError, match=message):
        refuse_foreign(values, tmp_path / "config.json")
    refuse_foreign(values, tmp_path / "config.json", [name])


def test_a_run_folder_may_name_parts_of_installed_distributions(tmp_path):
    refuse_foreign({"environment": {"name": "reflect_rl.envs.corridor:Corridor"}, "methods": 3}, tmp_path)
    refuse_foreign(None, tmp_path)
    refuse_foreign({"endpoint": {"base_url": "localhost:x"}}, tmp_path)


@pytest.mark.parametrize("values", [{"endpoint": {"model": "m"}}, {"data": {"annotation": {"max_words": 20}}}])
def test_settings_of_a_package_that_is_not_installed_say_what_to_install(monkeypatch, values):
    installed = registry._installed
    monkeypatch.setattr(registry, "_installed", lambda kind: {} if kind == "settings" else installed(kind))
    with pytest.raises(ConfigError, match=r"comes with the package reflect-served\. Install it: pip install"):
        parse(RunConfig, values)
