"""The one table of methods, and what other distributions add to it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from reflect_report.runs import describe, in_order, start_of
from reflect_rl.config import parse
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import ConfigError, UnknownNameError, UserError
from reflect_rl.evaluation.methods import METHODS, Method, find_method, method_names
from reflect_rl.runs.config import RunConfig


def test_names_and_places_are_unique_and_the_table_is_in_their_order():
    names, places = [method.name for method in METHODS], [method.place for method in METHODS]
    assert len(set(names)) == len(names)
    assert places == sorted(set(places))


def test_online_training_starts_from_the_method_with_the_same_players():
    starts = {method.name: start_of(method) for method in METHODS if method.online}
    assert starts == {
        "rlft": "base",
        "sft_rlft": "sft",
        "reflect_rl": "sft_reflect",
        "reflect_rl_no_negatives": "sft_reflect_no_negatives",
        "reflect_rl_lexical": "sft_lexical",
        "reflect_rl_lexical_no_negatives": "sft_lexical_no_negatives",
    }
    assert all(start_of(method) == "" for method in METHODS if not method.online)


def test_a_method_without_a_model_learns_from_no_data():
    unlearned = {method.name for method in METHODS if not method.model}
    assert unlearned == {"random", "oracle", "advice"}
    assert all(find_method(name).datasets == () for name in unlearned)


def test_lexical_methods_need_states_that_can_be_compared():
    lacking = {method.name for method in METHODS if "HasStateTeacher" in method.missing(EnvSpec.of(Corridor))}
    assert lacking == {method.name for method in METHODS if "lexical" in method.name} | {"advice"}
    assert find_method("advice").missing(EnvSpec.of(Corridor)) == ("HasStateTeacher",)
    assert find_method("oracle").missing(EnvSpec.of(Corridor)) == ()


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(UnknownNameError, match=r"no method named 'reflect_lr'\. Did you mean 'reflect_rl'\?"):
        find_method("reflect_lr")
    with pytest.raises(ConfigError, match=r"methods: no method named 'stf'\. Did you mean 'sft'\?"):
        parse(RunConfig, {"methods": ["random", "stf"]})


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("somebodys_methods")
    monkeypatch.setitem(sys.modules, "somebodys_methods", made)
    find_method.cache_clear()
    return made


def test_a_method_of_another_module_is_found_and_named_as_it_was_asked_for(module: ModuleType):
    module.Mine = Method("mine", "My own", policy="policy_plain", online=True, place=65)
    name = "somebodys_methods:Mine"
    config = parse(RunConfig, {"methods": [name]})
    assert config.methods == (name,)
    assert (config.method(name).title, config.method(name).online) == ("My own", True)


def test_a_method_says_which_stage_trains_its_policy():
    assert [find_method(name).trainer for name in ("sft", "rlft", "random")] == ["", "rlft", ""]
    assert Method("mine", "My own", stage="learn").trainer == "learn"


def test_a_report_imports_no_module_that_its_results_name(module: ModuleType):
    module.Mine = Method("mine", "My own")
    assert describe("somebodys_methods:Mine").title == "Mine"
    assert describe("no_such_module:Mine").title == "Mine"


def test_a_function_is_a_method_without_a_player(module: ModuleType):
    module.word_count = lambda *_: []
    method = find_method("somebodys_methods:word_count")
    assert (method.title, method.measure, method.model) == ("word count", module.word_count, False)


def test_anything_else_is_refused(module: ModuleType):
    module.number = 3
    with pytest.raises(UserError, match="'somebodys_methods:number' is 3, and a reflect_rl Method or a function"):
        find_method("somebodys_methods:number")


def test_a_result_of_a_method_that_is_not_installed_is_shown_under_its_name():
    assert describe("somebodys_method") == Method("somebodys_method", "somebodys_method")
    assert in_order(["somebodys_method", "reflect_rl"]) == ["reflect_rl", "somebodys_method"]


def test_methods_of_an_installed_distribution_are_listed_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A distribution is what its metadata says; no file of this package names it."""
    from reflect_rl import registry

    (tmp_path / "stranger.py").write_text(
        "from reflect_rl.evaluation.methods import Method\n"
        "POLITE = Method('polite', 'Polite', script='random', place=65)\n"
    )
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[reflect_rl.methods]\npolite = stranger:POLITE\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget() -> None:
        for remembered in (registry._offered, registry._installed, find_method):
            remembered.cache_clear()

    forget()
    try:
        assert "polite" in method_names()
        assert (find_method("polite").title, find_method("polite").script) == ("Polite", "random")
        assert parse(RunConfig, {"methods": ["polite"]}).methods == ("polite",)
        assert in_order(["polite", "rlft", "sft"]) == ["sft", "polite", "rlft"]
    finally:
        forget()
        sys.modules.pop("stranger", None)


@pytest.mark.parametrize(
    ("kind", "reflector", "writer"),
    [("own", "reflector", ""), ("prompted", None, "prompted"), ("lexical", "lexical", ""), ("chat", None, "chat")],
)
def test_who_writes_in_place_of_the_trained_player(kind: str, reflector: str | None, writer: str):
    method = find_method("reflect_rl").with_reflector(kind)
    assert (method.reflector, method.writer) == (reflector, writer)
    assert method.is_lexical == (kind == "lexical")
    # Players without reflections stay as they are.
    assert find_method("sft_rlft").with_reflector(kind) == find_method("sft_rlft")
