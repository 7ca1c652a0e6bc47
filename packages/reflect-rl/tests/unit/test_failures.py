"""Environments and players that fail, hang, or answer what cannot be played: named, and never learnt from."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reflect_rl.data.recorded import reflected
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import (
    EnvironmentTimeoutError,
    FaultyEnvironmentError,
    FaultyPlayerError,
    PlayerTimeoutError,
    UserError,
)
from reflect_rl.evaluation.evaluate import EvaluationConfig, evaluate
from reflect_rl.players.scripted import OraclePolicy, OracleReflector
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, failure_row, play
from reflect_rl.types import Decision, Oracle, Task
from reflect_rl.watchdog import Limits
from troubled.game import Config, Troubled

SHAPE = {"length": 7, "lengths": 2}
TASKS = Corridor(Config(**SHAPE)).tasks("far", "train")
REQUESTS = [Request(task, 100 + k) for k, task in enumerate(TASKS)]
BAD = TASKS[1].key
"""Its episode has seed 101; the oracle needs more than two turns, so the trouble of the second one is met."""
QUICK = Limits(environment_seconds=0.2)
ONE = Limits(environment_seconds=0.2, failed_episodes=1)


def game(trouble="", *at):
    return EnvSpec(Troubled, Config(**SHAPE, trouble=trouble, at=at or (BAD,)))


def games(trouble, *at, limits=None, policy=None, **options):
    # Elsewhere a busy machine must not look like a game that hangs.
    limits = limits or (QUICK if trouble in ("sleeps", "loops") else Limits())
    return play(game(trouble, *at), REQUESTS, NoReflector(), policy or OraclePolicy(), limits=limits, **options)


def act(task: Task) -> str:
    return "left" if task.data["goal"] == 0 else "right"


NAMED = f"corridor-v1, task {BAD} (seed 101), turn 2, action {act(TASKS[1])!r}"


@pytest.mark.parametrize("trouble", ["sleeps", "loops"])
def test_an_environment_that_hangs_is_stopped_and_named(trouble):
    started = time.monotonic()
    with pytest.raises(EnvironmentTimeoutError) as caught:
        games(trouble)
    assert time.monotonic() - started < 50
    assert str(caught.value) == (
        f"{NAMED} did not come back within 0.2 s. Raise limits.environment_seconds (0 = no limit), or leave such "
        "episodes out with limits.failed_episodes."
    )


def test_an_exception_of_an_environment_is_named_and_kept():
    with pytest.raises(FaultyEnvironmentError) as caught:
        games("raises")
    assert str(caught.value) == f"{NAMED}: ZeroDivisionError: a wall where none should be."
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("nan", "the reward is nan"),
        ("endless", "the reward is -inf"),
        ("wordless", "TypeError"),
        ("stuck", "no action is admissible, and the game goes on"),
        ("leaves", "it called sys.exit(), which would end the whole program"),
        ("numbers", "the state 7 is no text but of type int: give str(...), or leave it out"),
    ],
)
def test_an_answer_that_would_poison_training_is_refused(trouble, words):
    with pytest.raises(FaultyEnvironmentError) as caught:
        games(trouble)
    assert str(caught.value).startswith(NAMED)
    assert words in str(caught.value)


def test_reset_and_making_are_named_too():
    with pytest.raises(FaultyEnvironmentError, match=r"\(seed 101\), turn 1, reset: KeyError: 'no such level'\.$"):
        games("reset")
    with pytest.raises(FaultyEnvironmentError, match=r"making the environment: ConnectionError: no server\.$"):
        games("making")


def test_a_mistake_of_the_user_stays_one():
    stranger = Task("strange", "far", "train", {"cells": "many"})
    with pytest.raises(UserError):
        play(game(), [Request(stranger, 0)], NoReflector(), OraclePolicy(), limits=ONE)


@pytest.mark.parametrize("trouble", ["sleeps", "raises", "nan", "reset", "leaves"])
@pytest.mark.parametrize("num_envs", [1, 3, 64])
def test_a_failed_episode_is_left_out_and_the_others_are_what_they_were(trouble, num_envs):
    failed = []
    whole = games("", policy=RandomPolicy(), shuffle_labels=True)
    # A bad task that a random player does not lose in its first turn.
    bad = next(e for e in whole[1:] if len(e.turns) > 2)
    rest = games(
        trouble,
        bad.task.key,
        limits=ONE,
        policy=RandomPolicy(),
        shuffle_labels=True,
        num_envs=num_envs,
        on_failure=lambda request, error: failed.append((request, error)),
    )
    assert rest == [episode for episode in whole if episode is not bad]
    ((request, error),) = failed
    assert (request.task, request.seed) == (bad.task, bad.seed)
    row = json.loads(json.dumps(failure_row(request, error)))
    assert row["error"] == ("EnvironmentTimeoutError" if trouble == "sleeps" else "FaultyEnvironmentError")
    assert (row["task"], row["mode"], row["seed"]) == (bad.task.key, "far", bad.seed)
    assert bad.task.key in row["message"]


def test_the_slot_of_a_failed_episode_is_filled_with_a_new_environment():
    widths = []

    class Wide(RandomPolicy):
        def decide(self, views, rngs):
            widths.append(len(views))
            return super().decide(views, rngs)

    Troubled.made = 0
    failing = [task.key for task in TASKS[::2]]
    rest = games("raises", *failing, limits=Limits(failed_episodes=1000), policy=Wide(), num_envs=4)
    # A random player may fall or win in the first turn; the other half of the tasks is always there.
    assert len(rest) >= len(TASKS) // 2
    assert (widths[0], widths) == (4, sorted(widths, reverse=True))
    # The game itself fails when an environment that failed is used again.
    assert Troubled.made > 4


def test_one_failure_too_many_names_all():
    at = [TASKS[k].key for k in (1, 4, 6)]
    heard = []
    with pytest.raises(FaultyEnvironmentError) as caught:
        games("raises", *at, limits=Limits(failed_episodes=2), on_failure=lambda r, e: heard.append(r.task.key))
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("3 episodes failed, more than limits.failed_episodes = 2 allows")
    assert sorted(key for key in at if any(key in line for line in rest)) == sorted(at) == sorted(heard)


def test_when_all_fail_nothing_is_left_to_learn_from():
    with pytest.raises(FaultyEnvironmentError, match=f"^{len(TASKS)} episodes failed"):
        games("reset", *(task.key for task in TASKS), limits=Limits(failed_episodes=1000))


def test_evaluation_leaves_no_episode_out():
    bad = game().tasks("far", "test")[0].key
    config = EvaluationConfig(horizons=(5,), repetitions=1)
    with pytest.raises(FaultyEnvironmentError, match=bad):
        evaluate(
            game("raises", bad),
            config,
            "far",
            "greedy",
            NoReflector(),
            OraclePolicy(),
            limits=Limits(failed_episodes=9),
        )


class Slow(NoReflector):
    name = "slow"

    def reflect(self, views):
        time.sleep(60)
        return super().reflect(views)


class SlowPolicy(RandomPolicy):
    name = "dreamer"

    def decide(self, views, rngs):
        time.sleep(60)
        return super().decide(views, rngs)


def test_a_player_that_hangs_is_stopped_and_named_and_never_left_out():
    limits = Limits(player_seconds=0.2, failed_episodes=1000)
    with pytest.raises(PlayerTimeoutError) as caught:
        play(game(), REQUESTS[:3], Slow(), OraclePolicy(), limits=limits)
    assert str(caught.value) == (
        "the reflection player 'slow' (3 views) did not come back within 0.2 s. Is its server at work? Raise "
        "limits.player_seconds (0 = no limit), or lower num_envs."
    )
    with pytest.raises(PlayerTimeoutError, match=r"^the policy 'dreamer' \(2 views\) did not come back within 0.2 s\."):
        play(game(), REQUESTS[:2], NoReflector(), SlowPolicy(), limits=limits)


def test_an_exception_of_a_player_stays_what_it_is():
    class Broken(NoReflector):
        def reflect(self, views):
            raise MemoryError("out of memory")

    with pytest.raises(MemoryError, match="out of memory"):
        play(game(), REQUESTS, Broken(), OraclePolicy(), limits=ONE)


class Says(RandomPolicy):
    """Makes the decisions it was given."""

    name = "sayer"

    def __init__(self, *decisions):
        self.decisions = decisions

    def decide(self, views, rngs):
        return list(self.decisions)


@pytest.mark.parametrize(
    ("decisions", "words"),
    [
        ((), "the policy 'sayer' made 0 decisions for 1 views."),
        ((Decision(0, "sayer"),) * 2, "the policy 'sayer' made 2 decisions for 1 views."),
        ((1,), "the policy 'sayer' decided 1. Give a Decision for each view, whose index is a whole number."),
        ((Decision("left", "sayer"),), "whose index is a whole number."),
        ((Decision(3, "sayer"),), "the policy 'sayer' chose action 3 in the state"),
        ((Decision(-1, "sayer"),), "the policy 'sayer' chose action -1 in the state"),
        ((Decision(0, "sayer", (0.0,)),), "gave the log-probabilities [0.0] to the 3 actions"),
        ((Decision(0, "sayer", (float("nan"),) * 3),), "its weights or its logits are no longer numbers."),
    ],
)
def test_an_answer_of_a_policy_that_cannot_be_played_is_refused(decisions, words):
    task = next(task for task in TASKS if task.data["start"] % 2 == 0)  # `wait` is admissible: three actions
    with pytest.raises(FaultyPlayerError) as caught:
        play(game(), [Request(task, 0)], NoReflector(), Says(*decisions))
    assert words in str(caught.value)


def test_a_reflection_player_that_forgets_a_view_is_refused():
    class Short(NoReflector):
        name = "short"

        def reflect(self, views):
            return super().reflect(views)[1:]

    with pytest.raises(FaultyPlayerError, match=r"^the reflection player 'short' wrote 2 texts for 3 views\.$"):
        play(game(), REQUESTS[:3], Short(), OraclePolicy())


class Writes(NoReflector):
    """Gives what it was given, however many views there are."""

    name = "writer"

    def __init__(self, answer):
        self.answer = answer

    def reflect(self, views):
        return self.answer


WRITER = "the reflection player 'writer'"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], f"{WRITER} wrote 0 texts for 1 views."),
        (["a", "b"], f"{WRITER} wrote 2 texts for 1 views."),
        ([5], f"{WRITER} wrote 5 (int), which is no text. Return str(...), or None to write nothing."),
        (
            ["\ud800"],
            f"{WRITER} wrote '\\ud800', which is no UTF-8 text: surrogates not allowed. Replace such characters.",
        ),
        ("a", f"{WRITER} gave 'a', no list. Return a list with a text for each view."),
        (None, f"{WRITER} gave None, no list. Return a list with a text for each view."),
    ],
)
def test_what_is_no_reflection_is_refused_in_play_and_on_recorded_states(answer, message):
    episode = replace(played := games("", policy=RandomPolicy())[0], turns=played.turns[:1])
    with pytest.raises(FaultyPlayerError) as in_play:
        play(game(), REQUESTS[:1], Writes(answer), RandomPolicy())
    with pytest.raises(FaultyPlayerError) as recorded:
        reflected([episode], Writes(answer))
    assert str(in_play.value) == str(recorded.value) == message


def test_a_reflection_may_be_empty_or_missing():
    for text in ("", None):
        (played,) = play(game(), REQUESTS[:1], Writes([text]), RandomPolicy())
        assert {turn.reflection for turn in played.turns} == {text}


def test_a_player_that_would_end_the_program_is_named():
    class Leaves(RandomPolicy):
        name = "leaver"

        def decide(self, views, rngs):
            sys.exit("enough")

        def reflect(self, views):
            sys.exit(0)

    end = "which would end the whole program. Raise an exception instead."
    with pytest.raises(FaultyPlayerError) as caught:
        play(game(), REQUESTS[:2], NoReflector(), Leaves())
    assert str(caught.value) == f"the policy 'leaver' (2 views): it called sys.exit('enough'), {end}"
    with pytest.raises(FaultyPlayerError) as caught:
        play(game(), REQUESTS[:2], Leaves(), RandomPolicy())
    assert str(caught.value) == f"the reflection player 'leaver' (2 views): it called sys.exit(0), {end}"


def test_the_solver_of_an_environment_is_guarded_as_well(monkeypatch):
    def oracle(self):
        raise RecursionError("too deep")

    monkeypatch.setattr(Troubled, "oracle", oracle)
    with pytest.raises(FaultyEnvironmentError, match=r"turn 1, reset: RecursionError: too deep\.$"):
        play(game(), REQUESTS[:1], OracleReflector(), RandomPolicy())
    assert len(play(game(), REQUESTS[:2], NoReflector(), RandomPolicy())) == 2


SCRIPT = """
import sys
from pathlib import Path
from reflect_rl import watchdog
from reflect_rl.watchdog import Limits, report_in
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector
from reflect_rl.rollout import Request, play
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from troubled.game import Config, Troubled
watchdog.GRACE = 0.3
trouble, key, folder = sys.argv[1:]
config = Config(length=7, lengths=2, trouble=trouble, at=(key,))
requests = [Request(task, 100 + k) for k, task in enumerate(Corridor(config).tasks("far", "train"))]
with report_in(Path(folder)):
    limits = Limits(environment_seconds=0.3, failed_episodes=9)
    play(EnvSpec(Troubled, config), requests, NoReflector(), OraclePolicy(), limits=limits)
"""


@pytest.mark.parametrize("trouble", ["swallows", "reads", "matches"])
def test_an_environment_that_cannot_be_interrupted_ends_the_process_by_name(trouble, tmp_path):
    from reflect_rl.watchdog import hang_in

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, trouble, BAD, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 1
    assert hang_in(tmp_path).startswith(NAMED)
    assert f"in {trouble}" in (tmp_path / "hang-0.txt").read_bytes().decode()


@pytest.mark.parametrize(
    ("oracle", "lesson", "words"),
    [
        ("left", "Go.", "oracle must return an Oracle or None, and no str"),
        (Oracle(9, (9,), (), 1), "Go.", r"oracle names the actions \[9\], and the state lists 0 to "),
        (Oracle(0, (0,), (), 1, explorer=7), "Go.", r"oracle names the actions \[0, 7\]"),
        (Oracle(0, (0,), (), 1), None, "teach must return a text, and no NoneType"),
    ],
)
def test_what_an_expert_says_is_checked(oracle, lesson, words):
    class Taught(Corridor):
        def oracle(self):
            return oracle

        def teach(self):
            return lesson

    with pytest.raises(FaultyEnvironmentError, match=words):
        play(EnvSpec.of(Taught), REQUESTS[:1], OracleReflector(), OraclePolicy())


def test_a_reflection_must_leave_the_text_that_it_was_written_about():
    class Hears(Corridor):
        def reset(self, task, rng=None):
            self.seen = super().reset(task, rng)
            return self.seen

        def hear(self, reflection):
            return replace(self.seen, text=f"{self.seen.text} {reflection}")

    with pytest.raises(
        FaultyEnvironmentError,
        match=r"turn 1, taking up the reflection: ValueError: hear changed the text .* and the text must stay",
    ):
        play(EnvSpec.of(Hears), REQUESTS[:1], OracleReflector(), OraclePolicy())


def test_a_reflection_may_add_an_action():
    class Adds(Corridor):
        max_actions = 4

        def reset(self, task, rng=None):
            self.seen = super().reset(task, rng)
            return self.seen

        def step(self, action):
            answer = super().step(action)
            self.seen = answer.observation
            return answer

        def hear(self, reflection):
            return replace(self.seen, actions=(*self.seen.actions, "listen"))

    (episode,) = play(EnvSpec.of(Adds), REQUESTS[:1], OracleReflector(), OraclePolicy())
    assert all(turn.observation.actions[-1] == "listen" for turn in episode.turns)
