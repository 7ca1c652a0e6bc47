"""AutoExplore: the numbers beside entries, and the expert who must look for the target like the player."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from odd_files import odd_files
from reflect_locate.envs.autoexplore import AutoExplore, Config
from reflect_locate.envs.state_text import ExplorationState, explored, numbers, read_state, reflection_text, shown
from reflect_locate.envs.task_sampling import question_tasks
from reflect_rl.envs.base import EnvSpec
from reflect_rl.players.scripted import Annotator, LabelSource, OracleReflector
from reflect_rl.rollout import Request, play
from reflect_rl.types import Observation, Task
from small_task_set import FILES, save_small_task_set
from three_projects import save_task_set

MODE = "d1raw"


def settings(folder: Path, **changes: object) -> Config:
    return Config(tasks=folder, **{"modes": (MODE,), "leaks": ("none", "name"), **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_task_set(tmp_path_factory.mktemp("small"), "train")


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small project, with a folder of many files and one of odd ones."""
    files = {f"pkg/{path}": text for path, text in {**FILES, **odd_files()}.items()}
    files |= {f"pkg/many/{number:02}.py": f"remote {number}\n" for number in range(11)}
    folder = tmp_path_factory.mktemp("paged")
    save_task_set(folder, files, ("Parsing rate limits of remote callers", "pkg/net/sockets.py"))
    return folder


def walk(environment: AutoExplore, task: Task, seed: int) -> list[Observation]:
    """What a random walk sees that searches and reads often, and answers late."""
    rng = np.random.default_rng(seed)
    seen, over = [environment.reset(task)], False
    while not over:
        actions = seen[-1].actions
        late = [index for index, action in enumerate(actions) if not action.startswith("id ")]
        step = environment.step(int(rng.choice(late or range(len(actions)))))
        observation, over = step.observation, step.terminated
        if not over:
            seen.append(observation)
    return seen


ENTRY = re.compile(r"(.*)=(\d+)")
SECTIONS = {"Folders": "cd ", "Files": "cat ", "Read": "id ", "Found": "cat /", "Search": "search "}
"""Section -> how its actions begin."""


def numbered_entries(text: str) -> dict[str, int]:
    """Action -> number, from the sections of a state text, read without the code under test."""
    found: dict[str, int] = {}
    for line in text.split("\n")[2:]:
        section, _, rest = line.partition(": ")
        for entry in rest.split(", ") if section in SECTIONS else ():
            match = ENTRY.fullmatch(entry)
            assert match, line
            name, number = match[1], int(match[2])
            if section in ("Folders", "Read", "Found"):
                name = name.rpartition(" (" if section != "Folders" else " ")[0]
            found.setdefault(SECTIONS[section] + name, number)
    return found


# ------------------------------------------------------------------------------------------------------- numbers


@given(seed=st.integers(0, 2**32), search=st.booleans(), horizon=st.integers(3, 20), size=st.sampled_from([4, 24]))
def test_numbers_are_the_places_of_all_actions(small: Path, seed: int, search: bool, horizon: int, size: int):
    config = settings(small, search=search, max_episode_steps=horizon, page_entries=size)
    environment, choices = AutoExplore(config), question_tasks(config, MODE, "train")
    for observation in walk(environment, choices[seed % len(choices)], seed):
        check_numbers(observation)


@pytest.mark.parametrize("search", [False, True])
def test_numbers_are_right_on_pages_among_odd_names_and_at_the_last_turn(paged: Path, search: bool):
    config = settings(paged, search=search, page_entries=5, max_episode_steps=12)
    environment, met = AutoExplore(config), set[str]()
    for seed in range(30):
        for observation in walk(environment, question_tasks(config, MODE, "train")[0], seed):
            check_numbers(observation)
            scene = read_state(observation.text)
            met |= {name for name, here in _kinds(scene).items() if here}
    assert met >= {"page", "read", "last turn"} | ({"hits", "page and hits"} if search else set())


def _kinds(scene: ExplorationState) -> dict[str, bool]:
    return {
        "page": scene.pages > 1,
        "read": bool(scene.read),
        "hits": bool(scene.hits),
        "page and hits": scene.pages > 1 and bool(scene.hits),
        "last turn": scene.answers_only,
    }


def check_numbers(observation: Observation) -> None:
    scene = read_state(observation.text)
    places = {action: place for place, action in enumerate(observation.actions)}
    counted = numbers(scene)
    # Of two names that look alike only the first is told by its name.
    alike = {action for action in places if action not in counted}
    assert all(re.search(r" \(\d+\)$", action) for action in alike)
    assert counted == {action: place for action, place in places.items() if action not in alike}
    assert numbered_entries(observation.text).items() <= counted.items()
    assert len(numbered_entries(observation.text)) == len(counted) - ("cd .." in counted) - ("more" in counted)


def test_a_reflection_gives_the_number_of_what_it_recommends(small: Path):
    config = settings(small)
    environment, checked = AutoExplore(config), 0
    for task in question_tasks(config, MODE, "train"):
        environment.reset(task)
        for _ in range(4):
            observation, oracle = environment.shown, environment.oracle()
            for name, number in re.findall(r"(\S+) (?:\d+ of \d+ |\([^)]*\) |)=(\d+)", environment.teach()):
                checked += 1
                assert observation.actions[int(number)].rpartition(" ")[2] == name
            environment.step(oracle.best if oracle.turns_left > 1 else 0)
    assert checked > 20


def test_an_action_that_is_not_numbered_is_recommended_without_a_number():
    scene = ExplorationState("Parsing rate limits", 2, 15, "", files=("a.py",))
    assert reflection_text(scene, "search rate") == "Next: search rate."


def test_of_a_long_name_the_middle_is_left_out():
    name = "a" * 70 + "middle" + "b" * 10 + ".py"
    assert shown(name) == "a" * 60 + "~" + name[-19:]
    assert len(shown(name)) == 80
    assert shown("a" * 80) == "a" * 80


# ------------------------------------------------------------------------------------------------------- the explorer


def test_the_explorer_does_what_comparing_words_recommends_whatever_was_read():
    read = (("a.py", ("parsing", "rate", "limits")),)
    scene = ExplorationState("Parsing rate limits", 2, 15, "src", files=("b.py",), read=read)
    assert explored(scene) == "cat b.py"
    assert explored(
        ExplorationState("Parsing rate limits", 2, 15, "src", hits=(("c/d.py", ("rate",)),), read=read)
    ) == ("cat /c/d.py")


@given(seed=st.integers(0, 2**32), search=st.booleans())
def test_the_explorer_leaves_a_folder_only_when_nothing_in_it_is_unread(small: Path, seed: int, search: bool):
    config = settings(small, search=search, max_episode_steps=20)
    environment, choices = AutoExplore(config), question_tasks(config, MODE, "train")
    rng = np.random.default_rng(seed)
    observation, over = environment.reset(choices[seed % len(choices)]), False
    while not over:
        oracle, scene = environment.oracle(), read_state(observation.text)
        assert oracle.explorer is not None
        chosen, best = observation.actions[oracle.explorer], observation.actions[oracle.best]
        if chosen == "cd ..":
            assert not scene.files
            assert not scene.hits
            assert not any(left for _, left in scene.folders)
        # Only where the solver would turn back does the explorer do something else, and where it can search.
        searches = bool(scene.hits or scene.searches)
        assert chosen == best or best.startswith("cd ") or (searches and not best.startswith(("id ", "cat /")))
        if chosen != best:
            assert chosen == explored(scene)
        late = [i for i, action in enumerate(observation.actions) if not action.startswith("id ")]
        step = environment.step(int(rng.choice(late)) if late else oracle.explorer)
        observation, over = step.observation, step.terminated


def chosen(folder: Path, question: int, start: str, label_source: LabelSource) -> list[str]:
    """What the annotator plays, without perturbations, when it begins in a folder."""
    config = settings(folder)
    first = question_tasks(config, MODE, "train")[question * config.variants_per_question]
    environment = AutoExplore(config)
    observation = environment.reset(first)
    task = environment.task_at(MODE, observation.state.replace('"folder": ""', f'"folder": "{start}"'))
    (episode,) = play(EnvSpec(AutoExplore, config), [Request(task, 0)], OracleReflector(), Annotator(0.0, label_source))
    assert episode.success
    for turn in episode.turns:
        action = turn.observation.actions[turn.decision.index]
        if label_source == "exploring":
            assert str(turn.reflection).endswith(f"Next: {action} ={turn.decision.index}.")
    return [turn.observation.actions[turn.decision.index] for turn in episode.turns]


def test_in_a_wrong_folder_the_explorer_reads_before_it_leaves(small: Path):
    """The first question is answered in `net`; the solver knows that and leaves `core` at once."""
    way = ["cd ..", "cd net", "cat sockets.py", "id net/sockets.py"]
    assert chosen(small, 0, "core", "clean") == way
    assert chosen(small, 0, "core", "exploring") == ["cat engine.py", "cat gears.py", *way]


def test_the_explorer_knows_the_target_when_it_sees_it(small: Path):
    """In `net`, `limits.py` has the better name; of the root's folders, `net` holds more files than `core`."""
    assert chosen(small, 0, "net", "exploring") == ["cat sockets.py", "id net/sockets.py"]
    assert chosen(small, 1, "", "exploring") == ["cd core", "cat gears.py", "id core/gears.py"]


def test_below_the_target_the_explorer_reads_the_rest_and_comes_back(small: Path):
    expected = ["cat proxies.py", "cd ..", "cat sockets.py", "id net/sockets.py"]
    assert chosen(small, 0, "net/deep", "exploring") == expected
