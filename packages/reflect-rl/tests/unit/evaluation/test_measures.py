"""What result rows say besides success."""

import numpy as np
import pytest

from reflect_locate.envs import autoexplore
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import FaultyEnvironmentError
from reflect_rl.evaluation.evaluate import (
    EvaluationConfig,
    by_strata,
    cut,
    evaluate,
    measured,
    summary,
    wilson_interval,
)
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, play
from reflect_rl.types import Decision, Episode, Task, Turn, View
from small_task_set import save_small_task_set


class Script:
    """Plays actions by their texts."""

    name = "script"
    sees_oracle = False

    def __init__(self, *actions):
        self.actions = iter(actions)

    def decide(self, views: list[View], rngs):
        return [Decision(view.observation.actions.index(next(self.actions)), self.name) for view in views]


@pytest.fixture
def spec(tmp_path):
    return EnvSpec.of(
        autoexplore.AutoExplore,
        tasks=save_small_task_set(tmp_path),
        max_episode_steps=6,
        modes=("d1raw",),
        leaks=("none", "name"),
    )


def episode(spec, number, *actions):
    task = spec.tasks("d1raw", "test")[number]
    (played,) = play(spec, [Request(task, 0)], NoReflector(), Script(*actions))
    return played


def results(played):
    """Lengths of what the commands showed."""
    lines = (turn.observation.text.split("\n")[-1] for turn in played.turns)
    return sum(len(line) - 2 for line in lines if line.startswith("> "))


def test_a_detour_halves_the_weight_of_a_success(spec):
    """The shortest way to a file one folder deep is cd, cat, id: 3 turns; 6 were taken."""
    ways = ("cd core", "cat engine.py", "cd ..", "cd net", "cat sockets.py", "id net/sockets.py")
    played = episode(spec, 0, *ways)
    assert played.success
    measured = spec.prototype.measures(played)
    assert measured == {
        "spl": 0.5,
        "characters_read": results(played),
        "files_read": 2,
        "wrong_answers": 0,
        "timeouts": 0,
    }
    # Two files were read; what each showed has some characters.
    assert measured["characters_read"] > 50


def test_a_wrong_answer_and_a_missing_one(spec):
    wrong = episode(spec, 0, "cat setup.py", "id setup.py")
    late = episode(spec, 0, *("cd net", "cd ..") * 3)
    assert not wrong.success
    assert not late.success
    assert spec.prototype.measures(wrong) | {"characters_read": 0} == {
        "spl": 0,
        "characters_read": 0,
        "files_read": 1,
        "wrong_answers": 1,
        "timeouts": 0,
    }
    assert spec.prototype.measures(late) == {
        "spl": 0,
        "characters_read": 0,
        "files_read": 0,
        "wrong_answers": 0,
        "timeouts": 1,
    }


def test_means_and_strata_of_rows(spec):
    """Won in 3 turns of 3, in 6 of 3, and lost: SPL (1 + 1/2 + 0) / 3."""
    quick = episode(spec, 0, "cd net", "cat sockets.py", "id net/sockets.py")
    slow = episode(spec, 1, "cd core", "cat engine.py", "cd ..", "cd core", "cat gears.py", "id core/gears.py")
    lost = episode(spec, 2, "cat setup.py", "id setup.py")
    result = measured([quick, slow, lost], 6, 100.0, spec)
    assert result.measures["spl"] == pytest.approx(0.5)
    assert result.measures["wrong_answers"] == pytest.approx(1 / 3)
    # 3 + 6 + 2 turns at 100 a second, over three episodes.
    assert result.measures["seconds_per_episode"] == pytest.approx(0.11 / 3)
    kinds = [[s.properties[key] for key in ("source", "leak", "depth")] for s in result.strata]
    assert kinds == [["moddoc", "name", "1"], ["moddoc", "none", "1"], ["symdoc", "none", "1"]]
    assert [(s.successes, s.episodes) for s in result.strata] == [(0, 1), (1, 1), (1, 1)]
    assert result.strata[0].ci95 == wilson_interval(0, 1)


def test_at_a_shorter_horizon_a_slow_success_is_none(spec):
    slow = episode(spec, 1, "cd core", "cat engine.py", "cd ..", "cd core", "cat gears.py", "id core/gears.py")
    result = measured([slow], 5, 100.0, spec)
    assert (result.successes, result.measures["spl"], result.measures["timeouts"]) == (0, 0, 1)
    assert result.strata[0].successes == 0
    short = cut(slow, 5)
    assert (len(short.turns), short.success, short.terminated, short.truncated) == (5, False, False, True)
    assert cut(slow, 6) is slow


def test_a_game_that_measures_nothing_has_the_rows_it_always_had():
    corridor = EnvSpec.of(Corridor)
    episodes, speed = evaluate(
        corridor, EvaluationConfig(repetitions=1), corridor.modes[0], "sampled", NoReflector(), RandomPolicy()
    )
    assert summary(corridor, episodes) == {}
    assert by_strata(corridor, [(each.task, each.success) for each in episodes]) == ()
    assert by_strata(corridor, []) == ()
    assert measured(episodes, 15, speed, corridor) == measured(episodes, 15, speed)


def evaluated(game, **options):
    spec = EnvSpec.of(game)
    episodes, speed = evaluate(
        spec, EvaluationConfig(repetitions=1), "near", "sampled", NoReflector(), RandomPolicy(), **options
    )
    return measured(episodes, 20, speed, spec)


@pytest.mark.parametrize(
    ("measures", "words"),
    [
        (lambda: {"x": float("nan")}, " gives 'x' the value nan. Give a text as name and a finite number."),
        (lambda: {"x": "1"}, " gives 'x' the value '1'. Give a text as name and a finite number."),
        (lambda: {3: 1.0}, " gives 3 the value 1.0. Give a text as name and a finite number."),
        (lambda: 1 / 0, ": ZeroDivisionError: division by zero."),
    ],
)
def test_a_wrong_measure_is_named_at_the_first_episode(measures, words):
    class Measuring(Corridor):
        def measures(self, episode):
            return measures()

    ended = []
    with pytest.raises(FaultyEnvironmentError) as caught:
        evaluated(Measuring, on_episode=ended.append)
    (first,) = ended
    assert str(caught.value) == f"measuring-v1, task {first.task.key}, HasMeasures: measures(){words}"


def test_measures_that_differ_between_episodes_are_named():
    class Measuring(Corridor):
        def measures(self, episode):
            return {"x": 1.0, "lost": 0.0} if episode.success else {"x": 1.0}

    with pytest.raises(FaultyEnvironmentError) as caught:
        evaluated(Measuring)
    assert "HasMeasures: measures() names ['" in str(caught.value)
    assert str(caught.value).endswith("Give every episode the same measures.")


def test_measures_may_be_numbers_of_numpy_and_booleans():
    class Measuring(Corridor):
        def measures(self, episode):
            return {"half": np.float32(0.5), "won": episode.success, "turns": np.int64(len(episode.turns))}

    result = evaluated(Measuring)
    assert (result.measures["half"], result.measures["won"]) == (0.5, result.success_rate)
    assert type(result.measures["turns"]) is float


@pytest.mark.parametrize(
    ("strata", "words"),
    [
        (lambda: {"room": 3}, " gives 'room' the value 3. Give texts, such as str(...)."),
        (lambda: None, ": TypeError: 'NoneType' object is not iterable."),
    ],
)
def test_a_wrong_stratum_is_named_before_a_game_is_played(strata, words):
    class Layered(Corridor):
        def strata(self, task):
            return strata()

    ended = []
    with pytest.raises(FaultyEnvironmentError) as caught:
        evaluated(Layered, on_episode=ended.append)
    first = EnvSpec.of(Layered).tasks("near", "test")[0]
    assert str(caught.value) == f"layered-v1, task {first.key}, HasStrata: strata(){words}"
    assert not ended


def test_the_solver_walks_the_shortest_way(spec):
    evaluation = EvaluationConfig(horizons=(6,))
    episodes, speed = evaluate(spec, evaluation, "d1raw", "greedy", NoReflector(), OraclePolicy())
    result = measured(episodes, 6, speed, spec)
    assert (result.success_rate, result.measures["spl"], result.mean_turns) == (1, 1, 3)


def test_an_episode_of_another_game_is_refused(spec):
    turn = Turn(episode(spec, 0, "cat setup.py", "id setup.py").turns[0].observation, (0,), None, Decision(0, "x"), 0)
    with pytest.raises(Exception, match="none of autoexplore"):
        spec.prototype.measures(Episode(Task("a", "d1raw", "test"), (turn,), True, False, True, 0, "x-v1"))


def test_a_slow_player_is_timed_as_exactly_as_a_fast_one(spec):
    """Two turns at 0.04 a second take 50 s; the speed that is stored is rounded to 0."""
    wrong = episode(spec, 0, "cat setup.py", "id setup.py")
    result = measured([wrong], 6, 0.04, spec)
    assert result.measures["seconds_per_episode"] == pytest.approx(50)
    assert result.turns_per_second == 0
