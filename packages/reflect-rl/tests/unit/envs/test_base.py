from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from reflect_locate.envs.autoexplore import AutoExplore
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import EnvSpec, HasSolver, HasTeacher, TextEnv, spec_of
from reflect_rl.envs.corridor import ACTIONS, Corridor, CorridorConfig
from reflect_rl.envs.gym import ActionIndices, GymnasiumEnv, ObservationSpace
from reflect_rl.errors import ConfigError, FaultyEnvironmentError, UnknownNameError, UserError
from reflect_rl.registry import register_all
from reflect_rl.rollout import NoReflector, RandomPolicy, Request, play
from reflect_rl.types import Decision, Observation, Step, Task
from small_task_set import save_small_task_set

WAIT = ACTIONS.index("wait")


class CountToThree(TextEnv):
    """The smallest game: three methods, nothing else."""

    max_episode_steps = 5

    def tasks(self, mode, split):
        return [Task(f"{split}/{start}", mode, split, {"start": start}) for start in (0, 1)]

    def reset(self, task, rng):
        self.count = task.data["start"]
        return self._look()

    def step(self, action):
        self.count += action
        return Step(self._look(), float(self.count == 3), terminated=self.count >= 3, success=self.count == 3)

    def _look(self):
        return Observation(f"The count is {self.count}.", ("add nothing", "add one"))


class CountConfig(EnvironmentConfig):
    """Settings that leave the longest episode to the class."""

    step: int = 1
    """Size of a step."""


class LongConfig(CountConfig):
    """Settings with a longest episode of their own."""

    max_episode_steps: int = 9
    """Turns."""


def test_the_longest_episode_of_the_class_holds_beside_settings_that_leave_it_open():
    class Own(CountToThree):
        Config = CountConfig
        max_episode_steps = 7

    class Later(Own):
        max_episode_steps = 8

    class Written(CountToThree):
        Config = LongConfig
        max_episode_steps = 7

    class Changed(CountToThree):
        Config = CountConfig

    specs = [EnvSpec.of(game, step=2) for game in (Own, Later, Written, Changed)]
    assert [spec.max_episode_steps for spec in specs] == [7, 8, 9, 5]
    assert all(isinstance(spec.config, CountConfig) and spec.config.step == 2 for spec in specs)
    assert EnvSpec.of(Own, max_episode_steps=4).max_episode_steps == 4
    assert Own.Config.__doc__ == CountConfig.__doc__


def test_settings_of_a_game_that_extend_those_of_another_leave_the_longest_episode_open():
    class First(CountToThree):
        max_episode_steps = 7

    class Extended(First.Config):
        step: int = 1

    class Second(First):
        Config = Extended
        max_episode_steps = 9

    class Third(First):
        Config = Extended

    class Fixed(Extended):
        max_episode_steps: int = 8

    class Fourth(First):
        Config = Fixed
        max_episode_steps = 9

    lengths = [EnvSpec.of(game, step=2).max_episode_steps for game in (Second, Third, Fourth)]
    assert lengths == [9, 7, 8]


def test_a_game_with_settings_of_its_own_goes_by_its_own_name():
    class Alchemy(CountToThree):
        class Config(EnvironmentConfig):
            pocket: int = 6

    class Deeper(Alchemy):
        class Config(Alchemy.Config):
            depth: int = 1

    class Borrowed(CountToThree):
        Config = Alchemy.Config

    class Longer(Corridor):
        class Config(CorridorConfig):
            bends: int = 0

    class Names(CountToThree):
        class Config(EnvironmentConfig):
            name: str = "mine:Names"

    games = (Alchemy, Deeper, Borrowed, Longer, Names)
    assert [EnvSpec.of(kind).config.name for kind in games] == ["alchemy", "deeper", "borrowed", "longer", "mine:Names"]
    assert EnvSpec.of(Alchemy, name="mine:Alchemy").config.name == "mine:Alchemy"
    # The settings of shipped games stay the classes that they were written as.
    assert Corridor.Config is CorridorConfig


def test_a_spec_knows_the_name_by_which_its_class_is_found():
    names = [EnvSpec.of(kind).found_by for kind in (Corridor, CountToThree)]
    assert names == ["corridor", f"{__name__}:CountToThree"]

    class Impostor(CountToThree):
        name = "corridor"

    assert EnvSpec.of(Impostor).found_by.endswith("<locals>.Impostor")


def test_three_methods_make_an_environment():
    spec = EnvSpec.of(CountToThree)
    assert (spec.name, spec.identity, spec.modes, spec.max_episode_steps) == (
        "count_to_three",
        "count_to_three-v1",
        ("default",),
        5,
    )
    assert spec.capabilities == ()
    assert spec.capability(HasSolver) is None
    requests = [Request(task, seed) for seed in range(20) for task in spec.tasks("default", "train")]
    episodes = play(spec, requests, NoReflector(), RandomPolicy())
    for episode in episodes:
        added = sum(turn.decision.index for turn in episode.turns)
        assert episode.success == episode.terminated == (added + episode.task.data["start"] == 3)
        assert episode.truncated == (not episode.terminated)
        assert len(episode.turns) <= 5


def test_an_evaluation_of_it_ends_where_its_episodes_end():
    assert EnvSpec.of(CountToThree).horizons == (5,)
    assert EnvSpec.of(CountToThree, max_episode_steps=3).horizons == (3,)


def test_a_class_over_a_game_keeps_its_longest_episode_unless_it_says_otherwise():
    class Longer(Corridor):
        max_episode_steps = 33

    class Same(Corridor):
        pass

    assert [EnvSpec.of(kind).max_episode_steps for kind in (Corridor, Same, Longer)] == [20, 20, 33]
    assert [kind.name for kind in (Same, Longer)] == ["same", "longer"]


class Listing(CountToThree):
    """Counts how often its tasks are listed."""

    keys = {"train": "ab", "validation": "c", "test": "d"}  # noqa: RUF012
    asked: list[str]

    def __init__(self, config=None):
        super().__init__(config)
        self.asked = []

    def tasks(self, mode, split):
        self.asked.append(split)
        return [Task(key, mode, split, {"start": 0}) for key in self.keys[split]]


def test_tasks_are_listed_once_for_each_split():
    spec = EnvSpec.of(Listing)
    for split in ("test", "train", "test", "validation", "train"):
        assert [task.key for task in spec.tasks("default", split)] == list(Listing.keys[split])
    assert sorted(spec.prototype.asked) == ["test", "train", "validation"]


@pytest.mark.parametrize("asked", [("train", "test"), ("test", "train"), ("validation", "test", "train")])
def test_a_key_in_two_splits_is_refused_once_both_are_asked_for(asked):
    class Leaking(Listing):
        keys = {"train": "ab", "validation": "", "test": "db"}  # noqa: RUF012

    spec = EnvSpec.of(Leaking)
    for split in asked[:-1]:
        spec.tasks("default", split)
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            spec.tasks("default", asked[-1])
        assert str(caught.value) == (
            "leaking: the splits 'train' and 'test' of 'default' both have a task with the key 'b'. Leave it in one of "
            "them, or give different tasks keys of their own."
        )


def test_a_split_that_a_game_lacks_hinders_no_other_one():
    class Partial(Listing):
        missing = ("validation", "test")

        def tasks(self, mode, split):
            if split in self.missing:
                raise UserError(f"there is no folder {split!r}.")
            return super().tasks(mode, split)

    spec = EnvSpec.of(Partial)
    assert [task.key for task in spec.tasks("default", "train")] == ["a", "b"]
    with pytest.raises(UserError, match="no folder 'test'"):
        spec.tasks("default", "test")
    # One that comes later is compared with those that were there.
    spec.prototype.missing, spec.prototype.keys = (), Listing.keys | {"test": "da"}
    with pytest.raises(UserError, match="'train' and 'test' of 'default' both have a task with the key 'a'"):
        spec.tasks("default", "test")


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (lambda: 1 / 0, "my_game-v1, tasks('default', 'train'): ZeroDivisionError: division by zero."),
        (lambda: None, "my_game-v1, tasks('default', 'train'): TypeError: 'NoneType' object is not iterable."),
        (sys.exit, "my_game-v1, tasks('default', 'train'): it called sys.exit(), which would end the whole"),
    ],
)
def test_an_exception_in_tasks_names_the_game_and_the_method(tasks, message):
    class MyGame(CountToThree):
        def tasks(self, mode, split):
            return tasks()

    with pytest.raises(FaultyEnvironmentError) as caught:
        EnvSpec.of(MyGame).tasks("default", "train")
    assert str(caught.value).startswith(message)


def test_an_exception_in_the_making_of_a_game_names_it():
    class MyGame(CountToThree):
        def __init__(self, config=None):
            raise ValueError("no rooms")

    with pytest.raises(FaultyEnvironmentError, match=r"^my_game-v1, __init__: ValueError: no rooms\.$"):
        EnvSpec.of(MyGame).tasks("default", "train")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            Task("a", data={"room": np.int64(3)}),
            "the task 'a' with data that cannot be written as JSON: Object of type",
        ),
        (Task("a", data={"rooms": {1, 2}}), "Object of type set is not JSON serializable. Give Python's own values"),
        (Task("a", data={"file": "\udcff"}), "the task 'a' with data that cannot be written as JSON: 'utf-8' codec"),
        (Task(3), "a task with the key 3, which is no text. Give str(...)."),
        ("a", "gives 'a', which is no Task. Make it with Task(key, 'default', 'train', ...)."),
    ],
)
def test_a_task_that_cannot_be_written_is_refused_by_its_key(task, words):
    class MyGame(CountToThree):
        def tasks(self, mode, split):
            return [task]

    with pytest.raises(UserError) as caught:
        EnvSpec.of(MyGame).tasks("default", "train")
    assert str(caught.value).startswith("my_game: tasks('default', 'train') gives ")
    assert words in str(caught.value)


def test_what_a_purpose_needs_and_a_game_lacks_is_named():
    with pytest.raises(UserError, match=r"demonstrating needs HasTeacher, .* 'count_to_three' does not offer"):
        EnvSpec.of(CountToThree).needed(HasTeacher, "demonstrating")


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="lenght"):
        EnvSpec.of(CountToThree, lenght=3)


def test_a_game_is_found_by_module_and_class():
    found = spec_of(EnvironmentConfig(name=f"{Corridor.__module__}:Corridor"))
    assert found.env_class is Corridor
    with pytest.raises(UserError, match=r"no class over reflect_rl\.TextEnv"):
        spec_of(EnvironmentConfig(name="json:dumps"))


def test_the_nearest_environment_is_named():
    with pytest.raises(UnknownNameError, match="Did you mean 'dangerous_taxi'"):
        spec_of(EnvironmentConfig(name="dangerous_taxis"))


def test_configured_modes_come_easiest_first():
    assert EnvSpec.of(Corridor, modes=("far", "near")).modes == ("near", "far")
    assert EnvSpec.of(Corridor, modes=("far",)).modes == ("far",)


def test_an_observation_needs_text_and_distinct_actions():
    space = ObservationSpace(2)
    assert Observation("You are here.", ("left", "right")) in space
    assert Observation("", ("left",)) not in space
    assert Observation("You are here.", ()) not in space
    assert Observation("You are here.", ("left", "left")) not in space
    assert Observation("You are here.", ("left", "right", "wait")) not in space
    assert "You are here." not in space
    assert space.sample() in space


def test_only_listed_actions_are_members_and_samples():
    space = ActionIndices(5)
    space.admissible = 2
    assert [index in space for index in range(5)] == [True, True, False, False, False]
    assert {int(space.sample()) for _ in range(50)} == {0, 1}


def test_gymnasiums_mask_still_restricts_samples():
    space = ActionIndices(3)
    assert space.sample(mask=np.array([0, 1, 0], dtype=np.int8)) == 1


def test_a_gymnasium_loop_is_truncated_after_the_longest_episode():
    environment = GymnasiumEnv(EnvSpec.of(CountToThree))
    for seed in (0, 1):
        environment.reset(seed=seed)
        assert [environment.step(0)[2:4] for _ in range(5)] == [(False, False)] * 4 + [(False, True)]
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        environment.step(0)


def test_gymnasium_keeps_to_the_longest_episode_of_the_settings_and_to_a_shorter_one_of_its_own():
    register_all()
    for settings, turns in (
        ({}, 20),
        ({"config": CorridorConfig(max_episode_steps=25)}, 25),
        ({"max_episode_steps": 3}, 3),
    ):
        environment = gymnasium.make("reflect_rl/Corridor-v1", **settings)
        environment.reset(seed=0)
        ends = [environment.step(WAIT)[2:4] for _ in range(turns)]
        assert ends == [(False, False)] * (turns - 1) + [(False, True)], settings


class TwoTurns(CountToThree):
    """A game whose tasks have two turns."""

    def reset(self, task, rng):
        self.taken = 0
        return super().reset(task, rng)

    def step(self, action):
        self.taken += 1
        return replace(super().step(action), truncated=self.taken == 2)


@pytest.mark.parametrize(("start", "won"), [(0, False), (1, True)])
def test_a_task_with_fewer_turns_of_its_own_is_truncated_at_the_last_unless_that_wins(start, won):
    spec = EnvSpec.of(TwoTurns)
    task = spec.tasks("default", "train")[start]
    (episode,) = play(spec, [Request(task, 0)], NoReflector(), Adding())
    assert (episode.terminated, episode.truncated, len(episode.turns)) == (won, not won, 2)
    environment = GymnasiumEnv(spec)
    environment.reset(options={"task": task})
    assert [environment.step(1)[2:4] for _ in range(2)] == [(False, False), (won, not won)]


def test_a_setting_that_does_not_exist_is_named_as_on_the_command_line():
    register_all()
    with pytest.raises(ConfigError, match=r"^unknown key 'mods'.*Did you mean 'modes'") as mistake:
        gymnasium.make("reflect_rl/Corridor-v1", mods=["near"])
    assert "http" not in str(mistake.value)


def test_registering_twice_changes_nothing():
    register_all()
    before = dict(gymnasium.registry)
    register_all()
    assert dict(gymnasium.registry) == before


def test_the_last_turn_of_a_game_that_counts_its_turns_ends_it_without_truncation(tmp_path: Path):
    save_small_task_set(tmp_path, "train")
    spec = EnvSpec.of(AutoExplore, tasks=tmp_path, modes=("d1raw",), max_episode_steps=3)
    (episode,) = play(spec, [Request(spec.tasks("d1raw", "train")[0], 0)], NoReflector(), FirstListed())
    assert (episode.terminated, episode.truncated, len(episode.turns)) == (True, False, 3)


class FirstListed(RandomPolicy):
    index = 0

    def decide(self, views, rngs):
        return [Decision(self.index, self.name) for _ in views]


class Adding(FirstListed):
    index = 1


def test_importing_the_package_imports_no_game_and_no_torch():
    code = (
        "import sys, reflect_rl; heavy = {'torch', 'transformers', 'gymnasium'} & set(sys.modules); "
        "print(*heavy, *sorted(m for m in sys.modules if m.startswith('reflect_rl.envs.')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == []
