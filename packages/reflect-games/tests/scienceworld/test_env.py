"""ScienceWorld as an environment, in its Java program; skipped where Java or the package is missing."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from reflect_games.scienceworld import java, world as world_module
from reflect_games.scienceworld.env import MODES, ScienceWorld, ScienceWorldConfig, state_text
from reflect_games.scienceworld.world import Scene, World
from reflect_rl.errors import ReflectRLWarning, UnknownNameError, UserError
from reflect_rl.types import Task

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="no command 'java': install a Java runtime")
LIFE, FIND = "lifespan-longest-lived", "find-non-living-thing"


@pytest.fixture(scope="module")
def program():
    """The Java program, ended when the tests of this file are over."""
    pytest.importorskip("scienceworld")
    yield
    java.stop()


@pytest.fixture
def game(program) -> ScienceWorld:
    return ScienceWorld(ScienceWorldConfig(most_variations=4, java_memory_mb=512))


@needs_java
def test_splits_are_those_of_the_authors(program):
    env = ScienceWorld()
    numbers = {
        split: [task.data["variation"] for task in env.tasks(LIFE, split)] for split in ("train", "validation", "test")
    }
    # 125 variations in quarters of 31: two for training, one for validation, the rest for the test.
    assert numbers == {"train": list(range(62)), "validation": list(range(62, 93)), "test": list(range(93, 125))}


@needs_java
def test_fewer_variations_are_spread_over_all_there_are(game):
    assert [task.data["variation"] for task in game.tasks(LIFE, "train")] == [0, 15, 31, 46]


@needs_java
@pytest.mark.parametrize("mode", [LIFE, FIND, "power-component", "chemistry-mix-paint-secondary-color"])
def test_the_gold_path_wins_with_all_points(game, mode):
    game.reset(game.tasks(mode, "train")[0])
    total, step = 0.0, None
    while step is None or not step.terminated:
        oracle = game.oracle()
        assert oracle is not None
        assert oracle.safe == ()
        step = game.step(oracle.best)
        total += step.reward
    assert step.success
    assert total == pytest.approx(1.0)


@needs_java
def test_a_task_whose_gold_path_may_lose_is_named(game):
    with pytest.warns(ReflectRLWarning, match="the gold path of 'freeze' was not seen to win"):
        game.tasks("freeze", "train")


@needs_java
def test_off_the_gold_path_the_expert_is_silent(game):
    observation = game.reset(game.tasks(LIFE, "train")[0])
    assert game.oracle() is not None
    game.step(observation.actions.index("wait1"))
    assert game.oracle() is None


@needs_java
def test_focusing_on_a_wrong_thing_fails_the_task(game):
    observation = game.reset(game.tasks(LIFE, "train")[0])
    wrong = next(index for index, action in enumerate(observation.actions) if action.startswith("focus on"))
    step = game.step(wrong)
    assert (step.terminated, step.success, step.reward) == (True, False, -1.0)


@needs_java
def test_success_can_be_the_only_reward(program):
    env = ScienceWorld(ScienceWorldConfig(most_variations=4, java_memory_mb=512, reward="success"))
    task = env.tasks(FIND, "train")[0]
    env.reset(task)
    step = env.step(env.oracle().best)
    rewards = [step.reward]
    while not step.terminated:
        step = env.step(env.oracle().best)
        rewards.append(step.reward)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    observation = env.reset(env.tasks(LIFE, "train")[0])
    lost = env.step(next(k for k, action in enumerate(observation.actions) if action.startswith("focus on")))
    assert (lost.terminated, lost.reward) == (True, 0.0)
    assert env.measures(None) == {}


@needs_java
def test_games_that_are_played_at_once_are_what_they_are_alone(program):
    commands = ("go to greenhouse", "look around", "wait1", "go to outside")

    def played(others: bool) -> list[Scene]:
        world, other = World(512), World(512)
        scenes = [world.load("find-plant", 0, "easy")]
        if others:
            other.load("power-component", 1, "")
        for command in commands:
            scenes.append(world.give(command))
            if others:
                other.give("look around")
        return [*scenes, world.commands(scenes[-1])]

    assert played(others=True) == played(others=False)


@needs_java
@pytest.mark.parametrize("mode", ["boil", "chemistry-mix"])
def test_the_list_after_a_command_is_the_games_own(program, mode):
    env = ScienceWorld(ScienceWorldConfig(java_memory_mb=512))
    task = Task(f"{mode}/2", mode, "train", {"variation": 2})
    seen = env.reset(task)
    # The same description before and after: what an open jar holds is not told.
    for command in ("go to kitchen", "open glass jar"):
        if command in seen.actions:
            seen = env.step(seen.actions.index(command)).observation
    fresh = World(512)
    scene = fresh.load(mode, task.data["variation"], "easy")
    for command in env._given:
        scene = fresh.give(command)
    assert env._given
    assert env._world.commands(scene) == fresh._ask(scene)


@needs_java
def test_a_list_does_not_depend_on_what_was_played_before(program):
    def seen(*commands: str) -> tuple:
        played = World(512)
        scene = played.load("find-animal", 0, "easy")
        for command in commands:
            scene = played.give(command)
        return played.commands(scene)

    alone = seen("look around", "go to outside")
    java.simulator(512).known.clear()
    seen("go to outside")
    assert seen("look around", "go to outside") == alone


@needs_java
def test_eight_games_take_less_than_eight_megabytes_each(program):
    running = java.simulator(512)
    runtime = running.gateway.jvm.java.lang.Runtime.getRuntime()

    def used() -> float:
        running.gateway.jvm.java.lang.System.gc()
        return (runtime.totalMemory() - runtime.freeMemory()) / 2**20

    before, worlds = used(), [World(512) for _ in range(8)]
    for number, world in enumerate(worlds):
        world.load(LIFE, number, "easy")
    # 11 MiB each, were the variations of all tasks kept; 64 games are played at once.
    assert used() - before < 8 * 8


@needs_java
def test_a_program_that_has_ended_is_started_again(game):
    task = game.tasks(LIFE, "train")[0]
    before = game.reset(task)
    java.stop()
    assert game.reset(task) == before


@needs_java
def test_a_program_that_dies_is_told_in_one_sentence_and_started_again(game, caplog, capfd):
    task = game.tasks(LIFE, "train")[0]
    before = game.reset(task)
    java.simulator(512).process.kill()
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(java.EndedError, match=r"exit code -9.*the next reset starts it"),
    ):
        game.step(0)
    assert game.reset(task) == before
    # Killed, and not yet seen to have ended.
    java.simulator(512).process.kill()
    assert game.reset(task) == before
    assert not caplog.text
    assert "Traceback" not in capfd.readouterr().err


@needs_java
def test_a_task_that_names_no_variation_is_refused(game):
    with pytest.raises(UserError, match="Take tasks from tasks"):
        game.reset(Task("x", LIFE, "train", {"variation": "first"}))


# ------------------------------------------------------------------------------------------------------- without Java


class FakeProgram:
    """A program that plays one game: a jar, which the description does not tell to be open.

    Args:
        deaths: how often it ends while a variation is loaded.
    """

    def __init__(self, deaths: int = 0) -> None:
        self.deaths, self.known, self.asked, self.runs, self.playing = deaths, {}, 0, True, None
        self.lock = nullcontext()
        self.ids = SimpleNamespace(count=lambda: 0, **{"count_$eq": lambda count: None})
        self.random = SimpleNamespace(setSeed=lambda seed: None)
        self.simplifier = SimpleNamespace(
            getSimplificationsUsed=lambda: "easy", parseSimplificationStr=lambda text: None
        )

    def held(self):
        return nullcontext()

    def new_game(self):
        return self

    def load(self, *variation) -> None:
        self.open = False
        if self.deaths:
            self.deaths -= 1
            raise java.EndedError("ended")

    def step(self, command: str) -> str:
        self.open |= command == "open jar"
        return "Ambiguous request" if command == "open" else "Done."

    def getValidActionObjectCombinationsJSON(self) -> str:
        self.asked += 1
        texts = ["open jar", *(["pour salt"] if self.open else [])]
        return json.dumps({"validActions": [{"action": text, "template_id": 1, "obj_ids": [1]} for text in texts]})

    def __getattr__(self, name: str):
        if not name.startswith(("get", "freeAction", "taskMaker_")):
            raise AttributeError(name)
        told = {
            "getPossibleObjectReferentLUTJSON": '{"1": "jar"}',
            "getAllObjectIdsTypesReferentsLUTJSON": '{"1": {"referents": ["jar"]}}',
            "getScore": 0.0,
            "getCompleted": False,
        }
        return lambda *given: told.get(name, "A jar.")


@pytest.fixture
def fake(monkeypatch) -> FakeProgram:
    made = FakeProgram()
    monkeypatch.setattr(world_module, "simulator", lambda memory_mb: made)
    return made


def listed_after(*commands: str, variation: int = 0) -> list[str]:
    played = World(512)
    scene = played.load(LIFE, variation, "easy")
    found = [command.text for command in played.commands(scene)]
    for given in commands:
        found = [command.text for command in played.commands(played.give(given))]
    return found


def test_a_list_follows_what_was_done_and_not_the_description(fake):
    assert listed_after() == ["open jar"]
    assert listed_after("open jar") == ["open jar", "pour salt"]
    assert listed_after("wait1") == ["open jar"]


def test_games_of_a_group_are_listed_once_as_far_as_they_are_the_same(fake):
    for _ in range(3):
        listed_after("wait1", "open jar")
    assert fake.asked == 3
    listed_after("wait1", "open")
    assert fake.asked == 4
    listed_after(variation=1)
    assert fake.asked == 5


def test_no_more_lists_are_kept_than_may_be_and_those_that_are_used_stay(fake, monkeypatch):
    monkeypatch.setattr(world_module, "MOST_KNOWN", 3)
    for variation in (0, 1, 2, 0, 3):
        listed_after(variation=variation)
    assert [key[1] for key in fake.known] == [2, 0, 3]


def test_a_program_that_ends_while_it_loads_is_started_again_once(fake):
    fake.deaths = 1
    assert listed_after() == ["open jar"]
    fake.deaths = 2
    with pytest.raises(UserError, match=r"ends whenever variation 0 of 'life.*lower environment\.java_memory_mb = 512"):
        listed_after()


def test_the_text_of_a_state_leaves_out_what_every_room_has():
    scene = Scene(
        "Find it.", "In it, you see: \n\tthe agent\n\ta picture\n", "You see:\n\tan orange\n", "You wait.", 0, False
    )
    assert state_text(scene, ["wait1"]) == (
        "Find it.\nIn it, you see: a picture\nYou see: an orange\nDone: wait1.\nAnswer: You wait."
    )
    assert state_text(scene, []).endswith("Done: nothing.\nAnswer: none")


@pytest.mark.parametrize(("mode", "split"), [("boiling", "train"), ("boil", "dev")])
def test_unknown_names_are_named(mode, split):
    with pytest.raises(UnknownNameError, match=r"boiling|dev"):
        ScienceWorld().tasks(mode, split)


def test_an_unknown_task_in_a_run_file_is_refused():
    with pytest.raises(ValidationError, match="lifespan-longest-lived"):
        ScienceWorldConfig(modes=("boiling",))


def test_missing_java_is_named(monkeypatch):
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match=r"no command 'java' is found\. Install a Java runtime"):
        java.Simulator(512)


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(java.shutil, "which", lambda name: "/usr/bin/java")
    monkeypatch.setitem(sys.modules, "scienceworld.constants", None)
    with pytest.raises(UserError, match=r"pip install 'reflect-games\[scienceworld\]'"):
        java.Simulator(512)


def test_all_tasks_of_scienceworld_are_modes():
    constants = pytest.importorskip("scienceworld.constants")
    assert set(MODES) == set(constants.ID2TASK.values())
