"""What an index gives on the tasks of AutoExplore."""

import pytest

from reflect_locate.envs import index_floor
from reflect_locate.envs.autoexplore import AutoExplore
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import UserError
from reflect_rl.evaluation.evaluate import EvaluationConfig, evaluate, measured
from reflect_rl.evaluation.methods import find_method
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector
from small_task_set import save_small_task_set


def spec_of(folder, **changes):
    return EnvSpec.of(
        AutoExplore,
        tasks=save_small_task_set(folder),
        modes=("d1raw",),
        leaks=("none", "name"),
        max_episode_steps=15,
        **changes,
    )


def ranks(spec, index):
    return list(index_floor.ranks(spec, "test", "d1raw", index).values())


def test_names_rank_by_the_words_of_the_path(tmp_path):
    """`limits` names another file, nothing names `gears`, `engine` names the third target."""
    assert ranks(spec_of(tmp_path), "bm25_names") == [0, 0, 1]


def test_contents_rank_by_all_words(tmp_path):
    """Two files hold `motor`, one of them `cogs` too; without its sentence the target holds neither word."""
    assert ranks(spec_of(tmp_path), "bm25_contents") == [1, 1, 1]
    assert ranks(spec_of(tmp_path, hard=True), "bm25_contents") == [1, 0, 1]


def test_a_measurement_has_the_form_of_an_evaluation(tmp_path):
    """Ranks none, none, 1: one of three right; mean reciprocal rank 1/3."""
    spec = spec_of(tmp_path)
    found = index_floor.bm25_names(spec, "d1raw", "test")
    assert (found.episodes, found.successes, found.success_rate) == (3, 1, pytest.approx(1 / 3))
    assert found.measures["mrr"] == pytest.approx(1 / 3)
    assert found.measures["success_at_5"] == pytest.approx(1 / 3)
    assert (found.mean_turns, found.mean_return, found.turns_per_second) == (None, None, None)
    episodes, speed = evaluate(spec, EvaluationConfig(horizons=(15,)), "d1raw", "greedy", NoReflector(), OraclePolicy())
    played = measured(episodes, 15, speed, spec)
    assert [kind.properties for kind in found.strata] == [kind.properties for kind in played.strata]
    assert [kind.successes for kind in found.strata] == [1, 0, 0]


@pytest.mark.parametrize("name", ["bm25_names", "bm25_contents", "name_greedy", "reader"])
def test_the_methods_of_this_package_are_found_and_need_files(name):
    method = find_method(name)
    assert (method.name, method.model, method.datasets) == (name, False, ())
    assert method.missing(EnvSpec.of(Corridor)) == ("HasFiles",)
    assert (method.measure is not None) == name.startswith("bm25")


def test_a_game_without_files_is_refused():
    with pytest.raises(UserError, match="corridor has no files"):
        index_floor.ranks(EnvSpec.of(Corridor), "test", "short", "bm25_names")
