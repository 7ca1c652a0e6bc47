"""Games that TextWorld opens, here household games that are generated in its own format."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from reflect_games.textworld import env as textworld_env
from reflect_games.textworld.env import TextWorld, TextWorldConfig
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import UnknownNameError, UserError
from reflect_rl.evaluation.evaluate import TestedGames
from reflect_rl.types import Task


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A game in each split."""
    pytest.importorskip("textworld")
    pytest.importorskip("alfworld")
    from alfworld_native.generate import Mix, numbered_game
    from alfworld_native.official import write_games

    top = tmp_path_factory.mktemp("games")
    for seed, split in enumerate(("train", "validation", "test")):
        write_games([numbered_game(seed, 0, Mix(("pick_and_place_simple",), size=0.4))], top / split)
    return top


def game(folder: Path, **settings) -> TextWorld:
    return TextWorld(TextWorldConfig(games=str(folder), **settings))


def test_tasks_are_the_files_of_a_split(folder):
    env = game(folder)
    keys = [env.tasks("games", split)[0].key for split in ("train", "validation", "test")]
    assert [key.split("/")[1] for key in keys] == ["train", "validation", "test"]
    assert all(len(env.tasks("games", split)) == 1 for split in ("train", "validation", "test"))


def test_endings_are_known_in_capitals_and_the_home_folder_by_its_sign(tmp_path, monkeypatch):
    (tmp_path / "games" / "train").mkdir(parents=True)
    (tmp_path / "games" / "train" / "GAME.Z8").write_bytes(b"no story")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    env = TextWorld(TextWorldConfig(games="~/games"))
    (task,) = env.tasks("games", "train")
    assert task.key == "games/train/GAME.Z8"
    with pytest.raises(UserError, match=r"cannot open .*GAME\.Z8 \(it has 8 bytes"):
        env.reset(task)


def test_the_description_beside_a_game_is_no_game(tmp_path):
    (tmp_path / "train").mkdir()
    for name in ("a.z8", "a.json", "b.tw-pddl", "traj_data.json", "readme.txt"):
        (tmp_path / "train" / name).touch()
    assert [task.key for task in game(tmp_path).tasks("games", "train")] == [
        "games/train/a.z8",
        "games/train/b.tw-pddl",
    ]


def unopened_games(folder: Path, content: str) -> Path:
    """A file in each split, which no interpreter is asked to open."""
    for split in ("train", "validation", "test"):
        (folder / split).mkdir(parents=True)
        (folder / split / "game.tw-pddl").write_text(f"{content} of {split}")
    return folder


def test_other_games_under_the_same_names_are_told_apart_in_results(tmp_path):
    folders = [unopened_games(tmp_path / name, content) for name, content in (("a", "one"), ("b", "one"), ("c", "two"))]
    one, same, other = (TestedGames.of(EnvSpec.of(TextWorld, games=str(folder)), "games", "test") for folder in folders)
    assert one.can_pool(same)
    assert other.differ(one)
    assert not other.can_pool(one)


def test_a_file_that_has_changed_since_its_task_was_made_is_refused(tmp_path, monkeypatch):
    open_as_dice(monkeypatch)
    env = game(unopened_games(tmp_path, "one"))
    (task,) = env.tasks("games", "test")
    first = env.reset(task)
    made_of = tmp_path / "test" / "game.tw-pddl"
    content = made_of.read_text()
    made_of.write_text("another game")
    with pytest.raises(UserError, match=r"test/game\.tw-pddl has not the content that task 'games/test/game\.tw-pddl'"):
        env.reset(task)
    made_of.write_text(content)
    assert env.reset(task) == first


def make_simple(folder: Path) -> Path:
    """A game of `tw-make`; the test is skipped where it makes none."""
    pytest.importorskip("textworld")
    made = folder / "train" / "simple.z8"
    made.parent.mkdir()
    make = [shutil.which("tw-make", path=str(Path(sys.executable).parent)), "tw-simple", "--rewards", "sparse"]
    if (
        make[0] is None
        or subprocess.run(
            [*make, "--goal", "brief", "--seed", "1", "--output", made], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("tw-make makes no game here")
    return made


def test_a_game_of_tw_make_whose_ending_is_in_capitals_is_played(tmp_path):
    made = make_simple(tmp_path)
    env = game(tmp_path)
    seen = env.reset(env.tasks("games", "train")[0])
    for ending in (".z8", ".json"):
        made.with_suffix(ending).rename(made.with_suffix(ending.upper()))
    capitals = game(tmp_path)
    textworld_env._tasks.cache_clear()
    (task,) = capitals.tasks("games", "train")
    assert task.data["file"] == "train/simple.Z8"
    assert capitals.reset(task) == seen


def test_a_damaged_game_of_tw_make_is_named_and_does_not_end_the_process(tmp_path):
    made = make_simple(tmp_path)
    story = made.read_bytes()
    assert textworld_env.story_fault(story) == ""
    for content in (story[:1000], story[:-2048], b"", b"junk" * 1000, bytes([*story[:5000], 1, *story[5001:]])):
        made.write_bytes(content)
        with pytest.raises(UserError, match=r"TextWorld cannot open .*simple\.z8 \(.*\)\. Remove it"):
            game(tmp_path).reset(Task("x", "games", "train", {"file": "train/simple.z8"}))


def test_a_game_that_tw_make_made_is_played_and_won(tmp_path):
    made = make_simple(tmp_path)
    import textworld

    env = game(tmp_path)
    (task,) = env.tasks("games", "train")
    seen = env.reset(task)
    walkthrough = textworld.Game.load(str(made.with_suffix(".json"))).metadata["walkthrough"]
    for command in walkthrough:
        # Neither the prompt nor the line with the points and the turns is a part of the text.
        assert not seen.text.endswith(">")
        assert "=-0/" not in seen.text
        step = env.step(seen.actions.index(command))
        seen = step.observation
    assert (step.terminated, step.success, step.reward) == (True, True, 1.0)


def test_a_game_is_opened_and_told_in_its_own_words(folder):
    env = game(folder, history=1)
    start = env.reset(env.tasks("games", "train")[0])
    assert "Your task is to:" in start.text
    assert "look" in start.actions
    assert list(start.actions) == sorted(start.actions)
    step = env.step(start.actions.index("inventory"))
    assert step.observation.text == f"{start.text}\n> inventory\nYou are not carrying anything."
    # With a history of one answer, the answer before falls out, and the opening stays.
    again = env.step(step.observation.actions.index("look"))
    assert again.observation.text.startswith(f"{start.text}\n> look\n")
    assert "inventory" not in again.observation.text
    assert (again.reward, again.terminated, again.success) == (0.0, False, False)


def test_the_same_game_under_two_names_has_the_same_states(folder, tmp_path):
    env = game(folder)
    (task,) = env.tasks("games", "train")
    (tmp_path / "test").mkdir()
    shutil.copy(folder / task.data["file"], tmp_path / "test" / "other.tw-pddl")
    copy = game(tmp_path)
    assert copy.reset(copy.tasks("games", "test")[0]).state == env.reset(task).state
    assert copy.step(0).observation.state == env.step(0).observation.state
    assert env.reset(env.tasks("games", "test")[0]).state != env.reset(task).state


def test_a_game_keeps_nothing_of_the_episode_before(folder):
    env = game(folder)
    (task,) = env.tasks("games", "train")
    start = env.reset(task)
    env.step(0)
    assert env.reset(task) == start


def test_a_game_is_won_by_its_goal(folder):
    import textworld

    env = game(folder)
    (task,) = env.tasks("games", "train")
    # TextWorld plans for games in this format, so that the test needs no solution of ours.
    planned = textworld.start(str(folder / task.data["file"]), textworld.EnvInfos(policy_commands=True))
    commands = planned.reset().policy_commands
    planned.close()
    observation, steps = env.reset(task), []
    for command in commands:
        steps.append(env.step(observation.actions.index(command)))
        observation = steps[-1].observation
    assert [step.success for step in steps] == [False] * (len(commands) - 1) + [True]
    assert (sum(step.reward for step in steps), steps[-1].terminated) == (1.0, True)


# ------------------------------------------------------------------------------------------------------- bad input


def test_a_folder_without_splits_is_named(tmp_path):
    with pytest.raises(UserError, match="has no folder 'train'"):
        game(tmp_path).tasks("games", "train")
    (tmp_path / "train").mkdir()
    with pytest.raises(UserError, match="has no game file"):
        game(tmp_path).tasks("games", "train")


def test_unknown_names_are_named(tmp_path):
    with pytest.raises(UnknownNameError, match="dev"):
        game(tmp_path).tasks("games", "dev")


def story(version: int = 8, length: int = 100, checksum: int | None = None) -> bytes:
    """A file with a header that fits it."""
    scale, content = textworld_env.STORY_SCALE[version], bytearray(64 + 1000)
    content[0], content[64:] = version, b"\7" * 1000
    for place in (0x08, 0x0A, 0x0C, 0x0E):
        content[place + 1] = 64
    content[0x1A:0x1C] = length.to_bytes(2, "big")
    right = sum(content[64 : length * scale]) % 65_536
    content[0x1C:0x1E] = (right if checksum is None else checksum).to_bytes(2, "big")
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "it has 0 bytes"),
        (b"junk" * 100, "it begins with 106, which is no version of the Z-machine"),
        (bytes(100), "it begins with 0,"),
        (story()[:700], "it is cut off: its header says 800 bytes, and it has 700"),
        (story(length=0), "its header gives no length"),
        (b"\3" + bytes(100), "its header names places that it does not have"),
        (story(checksum=1), "its checksum is not that of its content"),
    ],
    ids=["empty", "junk", "zeros", "cut off", "no length", "no places", "checksum"],
)
def test_a_damaged_story_is_named_before_the_interpreter_opens_it(tmp_path, monkeypatch, content, fault):
    monkeypatch.setattr(textworld_env, "_start", lambda path: pytest.fail("opened"))
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "bad.z8").write_bytes(content)
    env = game(tmp_path)
    with pytest.raises(UserError, match=rf"TextWorld cannot open .*bad\.z8 \({fault}.*\)\. Remove it"):
        env.reset(env.tasks("games", "train")[0])


def test_whole_stories_of_all_versions_pass():
    for whole in (*map(story, textworld_env.STORY_SCALE), story(3, 0, 0)):
        assert textworld_env.story_fault(whole) == ""


def test_a_game_beside_another_of_the_same_name_in_small_letters_is_copied_itself(tmp_path):
    (tmp_path / "a.Z8").write_bytes(b"one")
    (tmp_path / "a.z8").write_bytes(b"other")
    if len(list(tmp_path.iterdir())) < 2:
        pytest.skip("this disk does not tell capitals from small letters")
    (tmp_path / "a.json").write_text("{}")
    copy = textworld_env._in_small_letters(tmp_path / "a.Z8")
    assert (copy.name, copy.read_bytes()) == ("a.z8", b"one")
    assert sorted(path.name for path in copy.parent.iterdir()) == ["a.json", "a.z8"]


def test_a_game_that_is_in_two_splits_is_refused_with_both_names(tmp_path):
    for split, name, content in (
        ("train", "a.tw-pddl", "one"),
        ("train", "b.tw-pddl", "one"),
        ("validation", "a.tw-pddl", "two"),
        ("test", "c.tw-pddl", "six"),
    ):
        (tmp_path / split).mkdir(exist_ok=True)
        (tmp_path / split / name).write_text(content)
    assert len(game(tmp_path).tasks("games", "train")) == 2
    (tmp_path / "test" / "deep").mkdir()
    (tmp_path / "test" / "deep" / "d.tw-pddl").write_text("one")
    textworld_env._tasks.cache_clear()
    for split in ("train", "test"):
        with pytest.raises(UserError, match=r"train/a\.tw-pddl and .*test/deep/d\.tw-pddl are the same.* Remove one"):
            game(tmp_path).tasks("games", split)


def test_a_broken_game_file_is_named(tmp_path):
    pytest.importorskip("textworld")
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "bad.tw-pddl").write_text("no game")
    env = game(tmp_path)
    with pytest.raises(UserError, match=r"TextWorld cannot open .*bad\.tw-pddl"):
        env.reset(env.tasks("games", "train")[0])


def test_a_task_without_a_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="names no game file"):
        game(tmp_path).reset(Task("x", "games", "train", {"file": "train/none.z8"}))


class Dice:
    """A game that draws from the clock unless it is seeded before it begins, as Jericho's."""

    drawn = iter(range(100))

    def __init__(self) -> None:
        self._seed = -1

    def seed(self, seed: int) -> None:
        self._seed = seed or -1

    def reset(self) -> SimpleNamespace:
        rolled = next(self.drawn) if self._seed == -1 else self._seed
        return SimpleNamespace(feedback=f"You rolled {rolled}.", admissible_commands=["roll"])

    def close(self) -> None:
        pass


def open_as_dice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a stand-in for TextWorld open every file as that game."""
    stand_in = SimpleNamespace(EnvInfos=SimpleNamespace, start=lambda path, wanted: Dice())
    monkeypatch.setitem(sys.modules, "textworld", stand_in)


def test_games_that_draw_are_repeated(tmp_path, monkeypatch):
    open_as_dice(monkeypatch)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.tw-pddl").write_text("a game")
    env = game(tmp_path)
    (task,) = env.tasks("games", "train")
    assert env.reset(task) == env.reset(task)


def test_a_missing_textworld_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(UserError, match=r"pip install 'reflect-games\[textworld\]'"):
        textworld_env._start(Path("game.z8"))
