"""AutoExplore: its state, pages, search, rewards, and that no file can pass for a part of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odd_files import ODD_NAMES, ODD_TEXTS, letters, odd_files
from playing import begin, do, nothing_outside
from reflect_locate.envs.autoexplore import MODES, AutoExplore, Config
from reflect_locate.envs.state_text import advise, read_state
from reflect_locate.envs.task_sampling import question_tasks
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import WordStore
from reflect_rl.errors import UserError
from reflect_rl.players.scripted import LexicalReflector
from reflect_rl.prompts import policy_prompt
from reflect_rl.types import Observation, Step, Task, View
from three_projects import save_task_set, save_three_projects

FILES = {
    "pkg/web/limits.py": '"""Parsing rate limits of callers."""\n\n\ndef parse():\n    return 1\n',
    "pkg/web/views.py": "shows = 'pages'\n",
    "pkg/core/run.sh": "echo run\n",
    "pkg/LICENSE": "all rights\n",
    "pkg/readme.md": "# Read me\n\nIt limits callers.\n",
}
ASKED = ("How rate limits are parsed", "pkg/web/limits.py")
H = 15


def game(folder: Path, files: dict[str, str] = FILES, asked: tuple[str, str] = ASKED, **changes: Any) -> AutoExplore:
    """The environment on one question, depth 1, all files."""
    save_task_set(folder, files, asked)
    return AutoExplore(Config(tasks=folder, **{"modes": ("d1raw",), **changes}))


def _ended(step: Step) -> tuple[float, bool]:
    return step.reward, step.terminated


# ------------------------------------------------------------------------------------------------------- state, actions


def test_the_state_says_where_one_is_what_is_there_and_what_was_read(tmp_path: Path):
    environment = game(tmp_path)
    observation = begin(environment)
    assert observation.text == (
        "Task: How rate limits are parsed\nTurn 1 of 15 in /\nFolders: core 1=0, web 2=1\nFiles: LICENSE=2, readme.md=3"
    )
    assert observation.actions == ("cd core", "cd web", "cat LICENSE", "cat readme.md")
    observation = do(environment, "cat readme.md", "cd web").observation
    assert observation.text == (
        "Task: How rate limits are parsed\nTurn 3 of 15 in /web\nFiles: limits.py=1, views.py=2\n"
        "Read: readme.md (limits)=3\nLast: cd web"
    )
    assert observation.actions == ("cd ..", "cat limits.py", "cat views.py", "id readme.md")


def test_reading_shows_the_head_the_nearest_passage_and_the_names(tmp_path: Path):
    environment = game(tmp_path)
    begin(environment)
    observation = do(environment, "cd web", "cat limits.py").observation
    assert observation.text.endswith(
        "Read: web/limits.py (rate limits parsed)=2\nLast: cat limits.py\n"
        "> Parsing rate limits of callers. def parse(): return 1 | "
        '"""Parsing rate limits of callers.""" | parse'
    )


def test_the_result_keeps_its_budget(tmp_path: Path):
    files = {**FILES, "pkg/web/limits.py": "def limits(): 'x' * 1000\n" * 1000}
    environment = game(tmp_path, files, result_characters=90)
    begin(environment)
    observation = do(environment, "cd web", "cat limits.py").observation
    assert len(read_state(observation.text).result) <= 90 + 2 * len(" | ")


def test_an_answer_can_be_given_from_anywhere_but_only_once_it_was_read(tmp_path: Path):
    environment = game(tmp_path)
    begin(environment)
    observation = do(environment, "cd web").observation
    assert not any(action.startswith("id ") for action in observation.actions)
    step = do(environment, "cat limits.py", "cd ..", "id web/limits.py")
    assert (step.reward, step.terminated, step.success, environment.answer) == (
        (H - 1) / 16,
        True,
        True,
        "web/limits.py",
    )


def test_wrong_answers_and_the_horizon_cost_the_same(tmp_path: Path):
    environment = game(tmp_path, max_episode_steps=3)
    begin(environment)
    assert _ended(do(environment, "cat readme.md")) == (-1 / 4, False)
    assert _ended(do(environment, "id readme.md")) == (-4 / 4, True)
    begin(environment)
    assert _ended(do(environment, "cd web", "cd ..", "cd web")) == (-4 / 4, True)
    assert environment.answer == ""


def test_to_reach_the_last_turn_is_no_progress(tmp_path: Path):
    """One turn left there, with the target unread, would reward online RL for playing to the last turn."""
    environment = game(tmp_path, max_episode_steps=5)
    begin(environment)
    left = [environment.oracle().turns_left]
    for command in ("cat readme.md", "cd web", "cd ..", "cd web"):
        do(environment, command)
        left.append(environment.oracle().turns_left)
    assert all(action.startswith("id ") for action in environment.shown.actions)
    assert left[4] == left[2]
    assert left[3] == left[1]


def test_at_the_last_turn_only_answers_are_listed_if_there_are_any(tmp_path: Path):
    environment = game(tmp_path, max_episode_steps=3)
    begin(environment)
    observation = do(environment, "cat readme.md", "cd web").observation
    assert observation.actions == ("id readme.md",)
    oracle = environment.oracle()
    assert environment.shown.actions[oracle.best] == "id readme.md"
    # Folders and files, which cannot be entered or read any more, are not shown.
    assert observation.text == (
        "Task: How rate limits are parsed\nTurn 3 of 3 in /web\nRead: readme.md (limits)=0\nLast: cd web"
    )
    begin(environment)
    assert do(environment, "cd web", "cd ..").observation.actions == (
        "cd core",
        "cd web",
        "cat LICENSE",
        "cat readme.md",
    )


# ------------------------------------------------------------------------------------------------------- pages, search


def many(count: int) -> dict[str, str]:
    return {f"pkg/large/{number:03}.py": f"number {number}\n" for number in range(count)} | FILES


def test_a_large_folder_is_paged_and_every_entry_is_on_one_page(tmp_path: Path):
    environment = game(tmp_path, many(25), page_entries=10)
    begin(environment)
    seen = [
        do(environment, "cd large").observation,
        do(environment, "more").observation,
        do(environment, "more").observation,
    ]
    assert [read_state(observation.text).page for observation in seen] == [1, 2, 3]
    files = [name for observation in seen for name in read_state(observation.text).files]
    assert files == [f"{number:03}.py" for number in range(25)]
    assert do(environment, "more").observation.text.splitlines()[1] == "Turn 5 of 15 in /large, page 1 of 3"


def test_reading_the_only_entry_of_the_last_page_goes_back_to_the_one_before(tmp_path: Path):
    environment = game(tmp_path, many(11), page_entries=10)
    begin(environment)
    observation = do(environment, "cd large", "more", "cat 010.py").observation
    assert "page" not in observation.text.splitlines()[1]
    assert "more" not in observation.actions


@pytest.mark.parametrize("place", [0, 9, 10, 24])
def test_the_oracle_counts_pages(tmp_path: Path, place: int):
    asked = ("Which is the number", f"pkg/large/{place:03}.py")
    environment = game(tmp_path, many(25), asked, page_entries=10)
    begin(environment)
    announced = environment.oracle().turns_left
    # In, as many pages as lie before, read, name.
    assert announced == 1 + place // 10 + 2
    for turn in range(announced):
        assert environment.oracle().turns_left == announced - turn
        step = environment.step(environment.oracle().best)
    assert step.success


@pytest.mark.parametrize("search", [False, True])
def test_the_oracle_is_right_wherever_one_walks(tmp_path: Path, search: bool):
    environment = game(tmp_path, many(25), page_entries=10, search=search, max_episode_steps=40)
    rng = np.random.default_rng(0)
    for _ in range(6):
        begin(environment)
        for _ in range(20):
            oracle = environment.oracle()
            assert environment._actions[oracle.best][0] != "id" or oracle.turns_left == 1
            if oracle.turns_left > 1:
                saved = environment.shown
                environment.step(oracle.best)
                assert environment.oracle().turns_left == oracle.turns_left - 1, saved.text
            choices = [i for i, (kind, _) in enumerate(environment._actions) if kind != "id"]
            environment.step(int(rng.choice(choices)))
        left = environment.oracle().turns_left
        for _ in range(left):
            step = environment.step(environment.oracle().best)
        assert step.success


def test_search_offers_words_of_the_question_and_then_what_the_reflection_adds(tmp_path: Path):
    environment = game(tmp_path, search=True)
    observation = begin(environment)
    searches = [action for action in observation.actions if action.startswith("search ")]
    assert searches == ["search rate limits parsed"]
    assert f"Search: rate limits parsed={observation.actions.index(searches[0])}" in observation.text.split("\n")
    assert advise(observation.text).endswith(f"Next: {searches[0]} ={observation.actions.index(searches[0])}.")
    told = environment.hear("Callers and pages, limits.")
    (heard,) = set(told.actions) - set(observation.actions)
    assert heard.startswith("search ")
    # It moves no number, and the text that the reflection was written about stays.
    assert told.actions[:-1] == observation.actions
    assert told.text == observation.text
    # Both of its words stand in two files, of which one each holds only one.
    assert {path for path, _ in read_state(do(environment, heard).observation.text).hits} == {
        "web/limits.py",
        "web/views.py",
        "readme.md",
    }
    observation = do(environment, "search rate limits parsed").observation
    assert "Found: web/limits.py (rate limits parsed)=4, readme.md (limits)=5" in observation.text
    assert "search rate limits parsed" not in observation.actions
    assert "Next: cat /web/limits.py =4." in advise(observation.text)
    assert {"cat /web/limits.py", "cat /readme.md"} <= set(observation.actions)
    assert do(environment, "cat /web/limits.py", "id web/limits.py").success


@pytest.mark.parametrize("state", ["notes", "raw"])
def test_a_search_finds_what_locate_finds_and_nothing_outside_of_the_tree(tmp_path: Path, state: str):
    # The tree begins at `pkg`; the best match of the whole repository lies beside it.
    files = {**FILES, "other/rates.py": "Rate limits are parsed here: parsed rate limits.\n"}
    environment = game(tmp_path, files, search=True, state=state)
    begin(environment)
    observation = do(environment, "search rate limits parsed").observation
    found = [action.removeprefix("cat /") for action in observation.actions if action.startswith("cat /")]
    # All three words stand in the first one, one in the second.
    assert found == ["web/limits.py", "readme.md"]
    matches, _ = StoredIndex(Tree(Snapshot("kettle", files), "pkg"), WordStore()).ask("rate limits parsed")
    assert list(matches.contents) == found
    assert not any("rates.py" in shown or "other" in shown for shown in (observation.text, *observation.actions))


def test_where_it_can_search_the_explorer_searches_and_knows_the_target_among_what_was_found(tmp_path: Path):
    environment = game(tmp_path, search=True)
    observation = begin(environment)
    assert observation.actions[environment.oracle().explorer] == "search rate limits parsed"
    observation = do(environment, "search rate limits parsed").observation
    assert observation.actions[environment.oracle().explorer] == "cat /web/limits.py"
    observation = do(environment, "cat /web/limits.py").observation
    assert observation.actions[environment.oracle().explorer] == "id web/limits.py"


def test_without_search_a_reflection_changes_nothing(tmp_path: Path):
    environment = game(tmp_path)
    observation = begin(environment)
    assert environment.hear("Callers and pages.") is observation


@pytest.mark.parametrize(
    "changes", [{}, {"search": True}, {"page_entries": 4}, {"max_episode_steps": 40, "search": True}]
)
def test_no_state_has_more_actions_than_announced(tmp_path: Path, changes: dict[str, Any]):
    environment = game(tmp_path, many(60), **changes)
    rng = np.random.default_rng(1)
    for _ in range(10):
        observation, over = begin(environment), False
        while not over:
            heard = environment.hear("Callers, pages, rights and echoes.")
            assert len(heard.actions) <= environment.max_actions
            # Reading as much as possible makes the list of answers long.
            cats = [i for i, (kind, _) in enumerate(environment._actions) if kind in ("cat", "search", "page")]
            index = rng.choice(cats) if cats else rng.integers(len(heard.actions))
            step = environment.step(index)
            observation, over = step.observation, step.terminated
            assert len(observation.actions) <= environment.max_actions


# ------------------------------------------------------------------------------------------------------- tasks, trees


def test_a_task_at_a_state_begins_there(tmp_path: Path):
    save_three_projects(tmp_path, folders=4, files=4)
    environment = AutoExplore(Config(tasks=tmp_path))
    rng = np.random.default_rng(0)
    for task in question_tasks(environment.config, "d2k16", "train")[:10]:
        observation, over = environment.reset(task), False
        while not over:
            met = AutoExplore(environment.config).reset(environment.task_at("d2k16", observation.state))
            scene, again = read_state(observation.text), read_state(met.text)
            assert (again.folder, again.turn, again.read) == (scene.folder, scene.turn, scene.read)
            assert (again.folders, again.files) == (scene.folders, scene.files)
            assert again.last == again.result == ""
            step = environment.step(rng.integers(len(observation.actions)))
            observation, over = step.observation, step.terminated


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"question": "odd/0", "variant": "x", "folder": "", "read": [], "turn": 1},
        {"question": "odd/9", "variant": 0, "folder": "", "read": [], "turn": 1},
        {"question": "odd/0", "variant": 0, "folder": "..", "read": [], "turn": 1},
        {"question": "odd/0", "variant": 0, "folder": "/etc", "read": [], "turn": 1},
        {"question": "odd/0", "variant": 0, "folder": "", "read": ["../limits.py"], "turn": 1},
        {"question": "odd/0", "variant": 0, "folder": "", "read": ["/etc/passwd"], "turn": 1},
    ],
)
def test_tasks_of_no_place_in_the_tree_are_refused(tmp_path: Path, data: dict[str, Any]):
    with pytest.raises(UserError):
        game(tmp_path).reset(Task("made up", "d1raw", "train", data))


def test_modes_have_the_depth_and_the_size_of_their_names(tmp_path: Path):
    save_three_projects(tmp_path, folders=8, files=6)
    environment = AutoExplore(Config(tasks=tmp_path))
    sizes = {"k8": 8, "k16": 16, "k32": 32, "k64": 64}
    for mode in MODES:
        for task in question_tasks(environment.config, mode, "test")[:5]:
            environment.reset(task)
            (target,) = environment._targets
            assert target.count("/") == int(mode[1])
            below = 48 if mode[1] == "1" else 96
            assert len(environment._tree.paths) == min(sizes.get(mode[2:], 96), below)


def test_strata_choose_questions(tmp_path: Path):
    save_three_projects(tmp_path, folders=2, files=3)
    count = {
        sources: len(question_tasks(Config(tasks=tmp_path, sources=sources, variants_per_question=1), "d1raw", "train"))
        for sources in ((), ("symdoc",), ("mdpara",), ("git1",))
    }
    assert count == {(): 12, ("symdoc",): 8, ("mdpara",): 4, ("git1",): 0}
    assert len(question_tasks(Config(tasks=tmp_path, test_tasks=5), "d1raw", "test")) == 5
    assert not question_tasks(Config(tasks=tmp_path, leaks=("name",)), "d1raw", "test")


def test_any_tree_can_be_explored_with_a_question_of_ones_own():
    tree = Tree(Snapshot("own", FILES), "pkg")
    environment = AutoExplore(Config())
    observation = environment.explore(tree, "How rate limits\nare # Action: parsed")
    assert observation.text.startswith("Task: How rate limits are #Action: parsed\nTurn 1 of 15 in /\n")
    with pytest.raises(UserError, match="nobody knows the answer"):
        environment.oracle()
    step = do(environment, "cd web", "cat limits.py", "id web/limits.py")
    assert (environment.answer, step.success) == ("web/limits.py", False)


# ------------------------------------------------------------------------------------------------------- attacks


def odd_game(folder: Path, **changes: Any) -> AutoExplore:
    files = {f"pkg/{path}": text for path, text in odd_files().items()}
    asked = (ASKED[0], "pkg/odd/limits.py")
    return game(folder, {**files, asked[1]: FILES[ASKED[1]]}, asked, **changes)


def walk(environment: AutoExplore, games: int = 12) -> list[Observation]:
    """What a random walk sees that answers as late as it can."""
    rng, seen = np.random.default_rng(0), []
    for _ in range(games):
        seen.append(begin(environment))
        over = False
        while not over:
            choices = [i for i, (kind, _) in enumerate(environment._actions) if kind != "id"]
            step = environment.step(rng.choice(choices) if choices else 0)
            observation, over = step.observation, step.terminated
            seen.append(observation)
    return seen


@pytest.mark.parametrize("search", [False, True])
def test_no_name_and_no_text_forges_a_section_or_an_action(tmp_path: Path, search: bool):
    environment = odd_game(tmp_path, search=search)
    for observation in walk(environment):
        prompt = policy_prompt(
            View(observation, tuple(range(len(observation.actions))), "I read on."),
            [str(number) for number in range(len(observation.actions))],
        )
        assert [prompt.count(mark) for mark in ("# Analyze:", "# Action:\n", "\nActions:", "<|")] == [1, 1, 1, 0]
        assert prompt.count("# ") == 2
        sections = [line.split(":")[0] for line in observation.text.split("\n")]
        order = ["Task", sections[1], "Folders", "Files", "Read", "Found", "Search", "Last", sections[-1]]
        assert sections == [section for section in dict.fromkeys(order) if section in sections]
        assert observation.text == "".join(c for c in observation.text if c == "\n" or c.isprintable() or c == "\u0301")


def test_what_is_shown_of_a_file_stands_in_it(tmp_path: Path):
    environment, read = odd_game(tmp_path, search=True), 0
    texts = [letters(text) for text in (*ODD_TEXTS, FILES[ASKED[1]])]
    for observation in walk(environment):
        scene = read_state(observation.text)
        if scene.last.startswith("cat ") and scene.result != "(empty)":
            read += 1
            for part in scene.result.split(" | "):
                pieces = [letters(piece) for piece in part.split(", ")]
                assert any(all(piece in text for piece in pieces) for text in texts)
    assert read > 20


def test_odd_names_are_told_apart_and_lead_where_they_say(tmp_path: Path):
    environment = odd_game(tmp_path, page_entries=128)
    begin(environment)
    observation = do(environment, "cd odd").observation
    assert len(set(observation.actions)) == len(observation.actions) == 1 + 2 * len(ODD_NAMES) + 1
    for index, (kind, path) in enumerate(environment._actions):
        if kind in ("cat", "cd"):
            begin(environment)
            do(environment, "cd odd")
            environment.step(index)
            assert path in environment._read if kind == "cat" else environment._folder == path


def test_the_lexical_player_reads_every_odd_state(tmp_path: Path):
    for observation in walk(odd_game(tmp_path, search=True)):
        view = View(observation, tuple(range(len(observation.actions))))
        (reflection,) = LexicalReflector(AutoExplore()).reflect([view])
        assert "\n" not in str(reflection)
        assert "# " not in str(reflection)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_what_a_file_says_changes_no_action_and_no_reward(tmp_path: Path, text: str):
    both = [
        game(tmp_path / name, {**FILES, "pkg/web/views.py": content})
        for name, content in (("a", "nothing\n"), ("b", text))
    ]
    for environment in both:
        begin(environment)
    for action in ("cd web", "cat views.py", "cat limits.py", "id web/limits.py"):
        first, second = [do(environment, action) for environment in both]
        assert first.observation.actions == second.observation.actions
        assert (first.reward, first.terminated, first.success) == (second.reward, second.terminated, second.success)


def test_nothing_is_opened_run_or_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    environment = odd_game(tmp_path, search=True)
    begin(environment)  # reads the task set
    with nothing_outside(monkeypatch):
        walk(environment, games=4)


def test_states_are_json_without_the_texts_of_files(tmp_path: Path):
    for observation in walk(odd_game(tmp_path), games=3):
        state = json.loads(observation.state)
        assert set(state) == {"question", "variant", "folder", "page", "turn", "last", "read", "hits"}
