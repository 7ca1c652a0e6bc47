"""The jobs of each method, and configurations that a game refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reflect_rl.config import parse, sections_of
from reflect_rl.errors import ConfigError
from reflect_rl.players.scripted import AdvicePolicy, LexicalReflector
from reflect_rl.rollout import RandomPolicy
from reflect_rl.runs.check import check, feasible
from reflect_rl.runs.config import RunConfig, used_parts
from reflect_rl.runs.demonstrate import is_lexical
from reflect_rl.runs.evaluate import load_players
from reflect_rl.runs.stages import plan
from three_projects import save_three_projects

FILES = {"name": "autoexplore", "modes": ["d1k8"]}
LEXICAL_METHODS = ["sft_lexical", "sft_lexical_no_negatives", "reflect_rl_lexical_no_negatives", "reflect_rl_lexical"]


def config(*methods: str, **changes: Any) -> RunConfig:
    values = {
        "output_dir": "run",
        "methods": list(methods),
        "environment": FILES,
        "data": {"demonstration_starts": [2]},
        "evaluation": {"horizons": [15]},
    }
    return parse(RunConfig, {**values, **changes})


def jobs(*methods: str, **changes: Any) -> dict[str, set[str]]:
    """What is done -> what it needs, as the ends of paths."""
    unit = Path("run") / "starts-2" / "seed-0"
    return {
        f"{job.kind} {job.name}".strip(): {need.relative_to(unit).as_posix() for need in job.needs}
        for job in plan(config(*methods, **changes))
    }


# ------------------------------------------------------------------------------------------------------- plan


def test_policies_without_reflections_train_last():
    # With two workers, online RL of the players with reflections begins sooner.
    trained = [job.name for job in plan(config("sft", "sft_reflect", "reflect_rl")) if job.kind == "sft"]
    assert trained == ["base", "reflector", "policy_reflect", "policy_plain"]


def test_a_lexical_method_trains_a_policy_and_no_reflection_player():
    assert jobs("sft_lexical") == {
        "data": set(),
        "sft base": {"data"},
        "sft policy_lexical": {"sft/base"},
        "eval sft_lexical": {"sft/policy_lexical"},
    }


def test_a_model_that_has_read_already_begins_with_the_data():
    assert jobs("sft_lexical", model={"path": "some/model"}) == {
        "data": set(),
        "sft policy_lexical": {"data"},
        "eval sft_lexical": {"sft/policy_lexical"},
    }


@pytest.mark.parametrize("suffix", ["", "_no_negatives"])
def test_online_training_follows_the_lexical_policy(suffix: str):
    method, part = f"reflect_rl_lexical{suffix}", "policy_lexical" + "_positive" * bool(suffix)
    found = jobs(method)
    assert found[f"sft {part}"] == {"sft/base"}
    assert found[f"rlft {method}"] == {f"sft/{part}"}
    assert found[f"eval {method}"] == {f"rlft/{method}"}
    assert len(found) == 5


def test_methods_share_their_supervised_models():
    found = jobs("sft_lexical", "reflect_rl_lexical", "sft_reflect")
    assert [name for name in found if name.startswith("sft ")] == [
        "sft base",
        "sft reflector",
        "sft policy_reflect",
        "sft policy_lexical",
    ]


@pytest.mark.parametrize("method", ["name_greedy", "reader", "advice", "bm25_names", "bm25_contents", "random"])
def test_methods_without_a_model_are_evaluated_at_once(method: str):
    assert jobs(method)[f"eval {method}"] == set()


def test_an_advised_player_is_made_without_any_model():
    run = config("advice")
    (unit,) = {job.unit for job in plan(run)}
    reflector, policy = load_players(run, unit, "advice", "greedy")
    assert isinstance(reflector, LexicalReflector)
    assert isinstance(policy, AdvicePolicy)


def test_games_say_whether_their_states_can_be_compared():
    games = ("alfworld", "autoexplore", "autoexplore_paper", "dangerous_taxi", "corridor")
    lexical = [name for name in games if is_lexical(config("random", environment={"name": name}))]
    assert lexical == ["alfworld", "autoexplore"]


def test_games_without_files_are_refused_to_players_that_read_files_and_offered_to_the_advised():
    game = {"environment": {"name": "alfworld"}, "data": {"demonstration_starts": [2]}}
    check(config("advice", "reflect_rl_lexical", **game))
    with pytest.raises(ConfigError, match="methods: 'reader' needs HasFiles, which alfworld does not offer"):
        check(config("reader", **game))


def test_labels_are_shuffled_only_where_states_give_no_numbers():
    game = {"environment": {"name": "alfworld"}, "data": {"demonstration_starts": [2]}}
    shuffled = {"prompt": {"shuffle_labels": True}}
    with pytest.raises(ConfigError, match=r"prompt\.shuffle_labels: the states of alfworld give the number"):
        check(config("sft", **game, **shuffled))
    game["environment"]["numbers"] = False
    check(config("sft", **game, **shuffled))


RAW = {"environment": {"name": "alfworld", "state": "raw"}, "data": {"demonstration_starts": [2]}}
GOAL = {"environment": {"name": "alfworld", "advice": "goal"}, "data": {"demonstration_starts": [2]}}
HANDCODED = {"environment": {"name": "alfworld", "expert": "handcoded"}, "data": {"demonstration_starts": [2]}}


@pytest.mark.parametrize("settings", [RAW, HANDCODED], ids=["raw", "handcoded"])
def test_what_rules_cannot_say_of_a_state_has_no_lexical_reflections(settings):
    kept, reasons = feasible(config("advice", "sft_lexical", "sft", **settings))
    assert kept.methods == ("sft",)
    end = "is left out: it needs HasStateTeacher, which alfworld does not offer under these settings."
    assert reasons == [f"methods: 'advice' {end}", f"methods: 'sft_lexical' {end}"]


def test_reflections_without_a_command_are_not_followed_but_learnt_from():
    kept, reasons = feasible(config("advice", "sft_lexical", **GOAL))
    assert kept.methods == ("sft_lexical",)
    assert reasons == ["methods: 'advice' is left out: with environment.advice = 'goal' reflections name no command."]
    with pytest.raises(ConfigError, match=r"'advice' follows commands, and with environment\.advice = 'goal'"):
        check(config("advice", **GOAL))


def test_annotators_write_commands():
    annotated = {"data": {"demonstration_starts": [2], "annotator": "endpoint"}}
    with pytest.raises(ConfigError, match=r"data\.annotator: an annotator's reflections end in a command, and with"):
        check(config("sft_reflect", **{**GOAL, **annotated}))


# ------------------------------------------------------------------------------------------------------- check


@pytest.mark.parametrize("method", [*LEXICAL_METHODS, "advice", "name_greedy", "reader", "bm25_names", "bm25_contents"])
@pytest.mark.parametrize("game", ["dangerous_taxi", "corridor"])
def test_methods_that_compare_words_are_refused_where_there_are_no_files(method: str, game: str):
    needed = "HasFiles" if method in ("name_greedy", "reader", "bm25_names", "bm25_contents") else "HasStateTeacher"
    with pytest.raises(ConfigError, match=f"methods: {method!r} needs {needed}, which {game} does not offer"):
        check(config("random", method, environment={"name": game}))


def test_each_refused_method_is_named():
    with pytest.raises(ConfigError) as raised:
        check(config("sft", "sft_lexical", "reader", environment={"name": "dangerous_taxi"}))
    assert [line.split("'")[1] for line in str(raised.value).splitlines()] == ["sft_lexical", "reader"]


@pytest.mark.parametrize("game", ["autoexplore", "autoexplore_paper"])
def test_a_game_that_shows_the_turns_left_has_one_horizon(tmp_path: Path, game: str):
    save_three_projects(tmp_path, folders=4, files=4)
    place = {"name": game, "modes": ["d2k8"], "tasks": str(tmp_path)}
    checked = {"data": {"demonstration_starts": [2], "modes": ["d2k8"]}, "environment": place}
    check(config("sft", **checked))
    for horizons in ([15, 20], [10], [20]):
        with pytest.raises(ConfigError, match=r"^evaluation\.horizons: .* Set evaluation\.horizons = \[15\]"):
            check(config("sft", **checked, evaluation={"horizons": horizons}))
    shorter = {**checked, "environment": {**place, "max_episode_steps": 12}}
    check(config("sft", **shorter, evaluation={"horizons": [12]}))
    with pytest.raises(ConfigError, match=r"Set evaluation\.horizons = \[12\]"):
        check(config("sft", **shorter))


def test_online_training_cannot_shorten_a_game_that_shows_the_turns_left(tmp_path: Path):
    save_three_projects(tmp_path, folders=4, files=4)
    place = {**FILES, "tasks": str(tmp_path), "modes": ["d2k8"]}
    data = {"demonstration_starts": [2], "modes": ["d2k8"]}
    check(config("reflect_rl", environment=place, data=data, rlft={"max_episode_steps": 15}))
    with pytest.raises(ConfigError, match=r"^rlft\.max_episode_steps: .*Set environment\.max_episode_steps instead"):
        check(config("reflect_rl", environment=place, data=data, rlft={"max_episode_steps": 10}))


def test_other_games_have_several_horizons():
    check(config("sft", environment={"name": "corridor"}, evaluation={"horizons": [5, 10, 20]}))


def test_modes_of_a_stage_are_checked_one_by_one():
    def run(*modes: str) -> RunConfig:
        curriculum = {"name": "stages", "modes": list(modes)}
        return config("reflect_rl", environment={"name": "corridor"}, rlft={"curriculum": curriculum})

    check(run("near+far", "far"))
    with pytest.raises(ConfigError, match=r"rlft\.curriculum\.modes: corridor has no mode 'fra'\. Did you mean 'far'"):
        check(run("near+fra"))
    with pytest.raises(ConfigError, match=r"evaluation\.modes: corridor has no mode 'near\+far'"):
        check(config("sft", environment={"name": "corridor"}, evaluation={"modes": ["near+far"]}))


def test_starts_are_counted_only_for_players_that_learn():
    many = {"environment": {"name": "corridor"}, "data": {"demonstration_starts": [1000]}, "evaluation": {}}
    check(config("random", "oracle", **many))
    with pytest.raises(ConfigError, match="1000 starts are asked for"):
        check(config("random", "sft", **many))


def test_sections_that_say_nothing_are_neither_validated_nor_asked():
    run = config("random", environment={"name": "corridor"}, evaluation={})
    assert sections_of(run) == {}
    assert [part for part in used_parts(run) if part is not None] == [RandomPolicy]
    asking = config("chat", environment={"name": "corridor"}, evaluation={}, chat={"max_new_tokens": 9})
    assert list(sections_of(asking)) == ["chat"]
    with pytest.raises(ConfigError, match=r"endpoint.base_url: 'chat' asks a chat model, and none is named"):
        check(asking)
