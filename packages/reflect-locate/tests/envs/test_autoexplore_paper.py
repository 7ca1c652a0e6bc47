"""The paper's AutoExplore: its state, actions, rewards and trees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playing import begin, do
from reflect_locate.envs import autoexplore
from reflect_locate.envs.autoexplore_paper import MODES, AutoExplorePaper, Config, tasks
from reflect_locate.envs.paper_text import LINES, view_of
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.repositories.snapshot import Snapshot
from reflect_rl import registry
from reflect_rl.config import narrow
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import UserError
from reflect_rl.players.scripted import OraclePolicy
from reflect_rl.rollout import NoReflector, Request, play
from reflect_rl.runs.config import RunConfig
from reflect_rl.types import Observation, Task
from three_projects import save_task_set, save_three_projects

FILES = {
    "pkg/web/limits.py": '"""Parsing rate limits of callers."""\n\n\ndef parse():\n    return 1\n',
    "pkg/web/my views.py": "shows = 'pages'\n",
    "pkg/web/empty.py": "\n",
    "pkg/core/run.sh": "echo run\n",
    "pkg/LICENSE": "all rights\n",
    "pkg/readme.md": "# Read me\n",
}
ASKED = ("How rate limits are parsed", "pkg/web/limits.py")
H = 15


def game(
    folder: Path, files: dict[str, str] | None = None, asked: tuple[str, str] = ASKED, **changes: Any
) -> AutoExplorePaper:
    """The environment on one question, depth 1, all files."""
    save_task_set(folder, files or FILES, asked)
    return AutoExplorePaper(Config(tasks=folder, **{"modes": ("d1raw",), "leave_out": 0.0, **changes}))


# ------------------------------------------------------------------------------------------------------- state, actions


def test_the_state_has_the_papers_sections_in_its_order(tmp_path: Path):
    environment = game(tmp_path)
    begin(environment)
    observation = do(environment, "cd web", "cat limits.py").observation
    assert observation.text == (
        "# Task\nHow rate limits are parsed\n\n"
        "# Current working directory\nweb/\n\n"
        '# Files under current working directory\nempty.py\nlimits.py\n"my views.py"\n\n'
        "# Command history\ncd web\ncat limits.py\n\n"
        "# Execution result of your last command\nExecuting: cat limits.py\nSuccess: The content of limits.py is:\n"
        '> """Parsing rate limits of callers."""\n>\n>\n> def parse():\n>     return 1'
    )


def test_the_first_state_has_an_empty_history_and_no_result(tmp_path: Path):
    observation = begin(game(tmp_path))
    assert "# Current working directory\n\n" in observation.text
    assert observation.text.endswith("# Command history\n\n\n# Execution result of your last command\n")
    # Files that cannot be read are listed, and have no action.
    assert "\nLICENSE\ncore\nreadme.md\nweb\n" in observation.text
    assert observation.actions == ("cd core", "cd web", "cat readme.md", "id readme.md")


def test_actions_are_of_the_current_folder_and_what_was_read_is_not_read_again(tmp_path: Path):
    environment = game(tmp_path)
    begin(environment)
    observation = do(environment, "cd web", "cat limits.py").observation
    assert observation.actions == (
        "cd ..",
        "cat empty.py",
        "id empty.py",
        "id limits.py",
        'cat "my views.py"',
        'id "my views.py"',
    )
    observation = do(environment, "cd ..").observation
    assert observation.text.endswith("Executing: cd ..\nSuccess: Now at .")
    assert "cat readme.md" in observation.actions


@pytest.mark.parametrize("ending", sorted(LINES))
def test_all_types_of_the_paper_can_be_read(tmp_path: Path, ending: str):
    observation = begin(game(tmp_path, {f"a{ending}": "x", "b/c.py": ""}, ("where is it", "b/c.py"), modes=("d1raw",)))
    assert f"cat a{ending}" in observation.actions
    assert len(LINES) == 23


@pytest.mark.parametrize(
    ("name", "lines", "shown"),
    [
        ("a.py", 1001, 1000),
        ("a.csv", 6, 5),
        ("a.tsv", 5, 5),
        ("a.md", 101, 100),
        ("a.json", 100, 100),
        ("a.sh", 11, 10),
    ],
)
def test_files_are_cut_by_type(name: str, lines: int, shown: int):
    text = "".join(f"{number}\n" for number in range(lines))
    view = view_of(name, text, 20_000).split("\n")
    assert view[:shown] == [f"> {number}" for number in range(shown)]
    cut = ["...", f"Large file, only display first {shown} lines and 20000 characters."]
    assert view[shown:] == (cut if shown < lines else [])


def test_files_are_cut_at_a_number_of_characters():
    assert view_of("a.py", "x" * 2000, 2000) == "> " + "x" * 2000
    assert view_of("a.py", "x" * 2001, 2000).split("\n") == [
        "> " + "x" * 2000,
        "...",
        "Large file, only display first 1000 lines and 2000 characters.",
    ]


# ------------------------------------------------------------------------------------------------------- rewards, ends


@pytest.mark.parametrize(("charges", "scale"), [("described", 17.0), ("implemented", 16.0)])
def test_the_right_answer_earns_the_horizon_and_a_wrong_one_costs_it(tmp_path: Path, charges: str, scale: float):
    environment = game(tmp_path, charges=charges)
    begin(environment)
    step = do(environment, "cd web")
    assert (step.reward, step.terminated) == (-1 / scale, False)
    step = do(environment, "id limits.py")
    assert (step.reward, step.terminated, step.success) == ((H - 1) / scale, True, True)
    assert environment.answer == "web/limits.py"
    begin(environment)
    step = do(environment, "id readme.md")
    assert (step.reward, step.terminated, step.success) == ((-H - 1) / scale, True, False)


def test_the_horizon_ends_the_game_like_a_wrong_answer_unless_the_last_turn_answers(tmp_path: Path):
    environment = game(tmp_path, max_episode_steps=4)
    begin(environment)
    step = do(environment, "cd web", "cd ..", "cd web", "cd ..")
    assert (step.reward, step.terminated, step.success) == ((-1 - 4) / 6, True, False)
    begin(environment)
    step = do(environment, "cd web", "cd ..", "cd web", "id limits.py")
    assert (step.reward, step.terminated, step.success) == ((-1 + 4) / 6, True, True)


def test_a_warning_is_charged_as_described_and_not_as_implemented(tmp_path: Path):
    for charges, expected in (("described", -2 / 17), ("implemented", -1 / 16)):
        environment = game(tmp_path / charges, charges=charges)
        begin(environment)
        step = do(environment, "cd web", "cat empty.py")
        assert step.observation.text.endswith("Executing: cat empty.py\nWarning: empty.py is empty.")
        assert step.reward == expected


def test_words_of_files_are_never_charged(tmp_path: Path):
    files = {**FILES, "pkg/web/my views.py": "Error Warning\nError: no\nWarning: Error\n"}
    environment = game(tmp_path, files)
    begin(environment)
    assert do(environment, "cd web", 'cat "my views.py"').reward == -1 / 17


@pytest.mark.parametrize("seed", range(8))
def test_returns_are_the_papers(tmp_path: Path, seed: int):
    environment, rng, rewards, over = game(tmp_path), np.random.default_rng(seed), [], False
    observation = begin(environment)
    while not over:
        step = environment.step(int(rng.integers(len(observation.actions))))
        observation, over = step.observation, step.terminated
        rewards.append(step.reward)
    assert all(-1 <= reward <= 1 for reward in rewards)
    warned = "web/empty.py" in environment._read
    assert sum(rewards) * 17 == pytest.approx((H if step.success else -H) - len(rewards) - warned)


# ------------------------------------------------------------------------------------------------------- tasks, trees


@pytest.fixture(scope="module")
def projects(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("projects")
    save_three_projects(folder, folders=8, files=6)
    return folder


def tree_of(environment: AutoExplorePaper, task: Task) -> tuple[str, ...]:
    environment.reset(task)
    return environment._tree.paths


def test_tasks_and_trees_are_those_of_autoexplore(projects: Path):
    paper, ours = AutoExplorePaper(Config(tasks=projects)), autoexplore.AutoExplore(autoexplore.Config(tasks=projects))
    for mode in MODES:
        for split in ("validation", "test") if mode.endswith("raw") else ("train", "test"):
            chosen = tasks(paper.config, mode, split)
            assert chosen == ours.tasks(mode, split)
            for task in chosen[:3]:
                ours.reset(task)
                assert tree_of(paper, task) == ours._tree.paths


def test_targets_that_cannot_be_read_are_not_asked_for(tmp_path: Path):
    save_task_set(tmp_path, FILES, ASKED, ("Which rights there are", "pkg/LICENSE"))
    keys = {task.data["question"] for task in tasks(Config(tasks=tmp_path), "d1raw", "train")}
    assert keys == {"odd/0"}
    assert not tasks(Config(tasks=tmp_path), "d1raw", "test")


def test_half_of_the_files_are_left_out_in_training_and_none_in_tests(projects: Path):
    environment = AutoExplorePaper(Config(tasks=projects))
    train, test = (tasks(environment.config, "d1raw", split) for split in ("train", "test"))
    assert {len(tree_of(environment, task)) for task in test} == {48}
    # The target's folder stays, with its five other files at 1/2 each; 7 folders stay with 1/2, their 6 files with 1/2.
    expected = 1 + 5 / 2 + 7 * 6 / 4
    sizes = [len(tree_of(environment, task)) for task in train]
    assert abs(np.mean(sizes) - expected) < 3 * np.std(sizes) / np.sqrt(len(sizes))


def test_the_target_always_stays_and_whole_folders_go(projects: Path):
    environment = AutoExplorePaper(Config(tasks=projects, leave_out=0.9))
    for task in tasks(environment.config, "d2raw", "train")[:40]:
        paths = tree_of(environment, task)
        assert environment._targets <= set(paths)
    assert any(len(tree_of(environment, task)) == 1 for task in tasks(environment.config, "d2raw", "train"))


def test_a_folder_whose_name_begins_like_the_way_to_the_target_is_no_part_of_it(tmp_path: Path):
    files = {f"{name}/x.py": "" for name in ("s", "sr", "src", "src_old", "src2")}
    save_task_set(tmp_path, files, ("where is it", "src/x.py"))
    environment = AutoExplorePaper(Config(tasks=tmp_path, variants_per_question=200))
    seen = Counter(path for task in tasks(environment.config, "d1raw", "train") for path in tree_of(environment, task))
    assert seen.pop("src/x.py") == 200
    # Folder and file must both stay: a quarter of 200, give or take four standard deviations of 6.1.
    assert all(abs(count - 50) < 25 for count in seen.values())


def test_variants_differ_and_each_is_always_the_same(projects: Path):
    first, second = AutoExplorePaper(Config(tasks=projects)), AutoExplorePaper(Config(tasks=projects))
    variants = tasks(first.config, "d1raw", "train")[:4]
    assert len({task.data["question"] for task in variants}) == 1
    assert len({tree_of(first, task) for task in variants}) > 1
    assert [tree_of(first, task) for task in variants] == [tree_of(second, task) for task in reversed(variants)][::-1]


def test_a_folder_with_more_actions_than_labels_is_sub_sampled(tmp_path: Path):
    files = {f"pkg/{number}.py": "" for number in range(200)} | {f"pkg/f{number}/a.py": "" for number in range(100)}
    environment = game(tmp_path, {**files, "pkg/deep/z.py": "x"}, ("where is it", "pkg/deep/z.py"))
    observation = begin(environment)
    assert "cd deep" in observation.actions
    assert 250 <= len(observation.actions) <= 251  # `cd ..` would be the 252nd
    assert begin(environment) == observation


def test_of_more_targets_than_labels_the_first_stays(tmp_path: Path):
    files = {f"pkg/a/{number}.py": "same" for number in range(300)}
    targets = ("pkg/a/7.py", *sorted(set(files) - {"pkg/a/7.py"}))
    TaskSet.save(tmp_path, [Question("q", "which", "x", "x", targets, "symdoc")], [Snapshot("x", files)], {})
    environment = AutoExplorePaper(Config(tasks=tmp_path, modes=("d1raw",), leave_out=0.0))
    begin(environment)
    observation = do(environment, "cd a").observation
    assert "id 7.py" in observation.actions
    assert len(observation.actions) <= 252


def test_the_sentence_of_the_question_is_masked_in_the_hard_variant(projects: Path):
    environment = AutoExplorePaper(Config(tasks=projects, hard=True, modes=("d1k8",)))
    task = tasks(environment.config, "d1k8", "test")[0]
    environment.reset(task)
    while environment.oracle().turns_left > 1:
        environment.step(environment.oracle().best)
    assert environment._question not in environment.shown.text.partition("# Execution")[2]


# ------------------------------------------------------------------------------------------------------- states, oracle


def test_a_task_at_a_state_shows_the_same_text_and_actions(projects: Path):
    environment = AutoExplorePaper(Config(tasks=projects, modes=("d2k16",)))
    rng, compared = np.random.default_rng(0), 0
    for task in tasks(environment.config, "d2k16", "train")[:20]:
        observation, over = environment.reset(task), False
        while not over:
            met = AutoExplorePaper(environment.config).reset(environment.task_at("d2k16", observation.state))
            assert met == observation
            compared += 1
            step = environment.step(rng.integers(len(observation.actions)))
            observation, over = step.observation, step.terminated
    assert compared > 60


def test_the_oracle_reads_before_it_answers(tmp_path: Path):
    environment = game(tmp_path)
    begin(environment)
    taken, over = [], False
    while not over:
        oracle = environment.oracle()
        taken.append((environment.shown.actions[oracle.best], oracle.turns_left))
        over = environment.step(oracle.best).terminated
    assert taken == [("cd web", 3), ("cat limits.py", 2), ("id limits.py", 1)]


def test_the_oracle_answers_unread_when_no_turn_is_left_to_read(tmp_path: Path):
    environment = game(tmp_path, max_episode_steps=4)
    begin(environment)
    do(environment, "cd core", "cd ..", "cd web")
    oracle = environment.oracle()
    assert environment.shown.actions[oracle.best] == "id limits.py"
    assert (oracle.turns_left, oracle.safe) == (1, ())


def test_mistakes_are_wrong_reads_and_wrong_ways_but_no_answers(tmp_path: Path):
    environment = game(tmp_path)
    begin(environment)
    do(environment, "cd web")
    oracle = environment.oracle()
    actions = environment.shown.actions
    assert [actions[index] for index in oracle.safe] == ["cd ..", "cat empty.py", 'cat "my views.py"']


def test_the_reflection_tells_what_was_read_and_what_to_do(tmp_path: Path):
    environment = game(tmp_path)
    begin(environment)
    assert environment.teach() == "Next: cd web."
    do(environment, "cd web", 'cat "my views.py"')
    assert environment.teach() == (
        'web/"my views.py" has 0 of 3, not rate limits parsed. Best read: web/"my views.py" 0 of 3. '
        "Best file: limits.py (limits). Next: cat limits.py."
    )


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"question": "odd/0", "variant": 0},
        {"question": "odd/0", "variant": "x", "folder": "", "read": []},
        {"question": "odd/9", "variant": 0, "folder": "", "read": []},
        {"question": "odd/0", "variant": 0, "folder": "..", "read": []},
        {"question": "odd/0", "variant": 0, "folder": "/etc", "read": []},
        {"question": "odd/0", "variant": 0, "folder": "web/", "read": []},
        {"question": "odd/0", "variant": 0, "folder": "", "read": ["../limits.py"]},
        {"question": "odd/0", "variant": 0, "folder": "", "read": ["/etc/passwd"]},
    ],
)
def test_tasks_of_no_place_in_the_tree_are_refused(tmp_path: Path, data: dict[str, Any]):
    with pytest.raises(UserError):
        game(tmp_path).reset(Task("made up", "d1raw", "train", data))


def test_what_an_episode_cost(tmp_path: Path):
    environment = game(tmp_path)
    task = tasks(environment.config, "d1raw", "train")[0]
    episode = play(EnvSpec(AutoExplorePaper, environment.config), [Request(task, 0)], NoReflector(), OraclePolicy())[0]
    shown = "Executing: cd web\nSuccess: Now at web" + environment_result(episode.turns[2].observation)
    assert environment.measures(episode) == {
        "spl": 1.0,
        "characters_read": float(len(shown)),
        "files_read": 1.0,
        "wrong_answers": 0.0,
        "timeouts": 0.0,
    }
    late = replace(episode, turns=(*episode.turns[:2], *episode.turns), success=False)
    assert environment.measures(late)["spl"] == 0.0
    assert environment.measures(late)["wrong_answers"] == 1.0
    assert environment.strata(task) == {"depth": "1", "source": "symdoc", "leak": "none"}


def environment_result(observation: Observation) -> str:
    return observation.text.partition("# Execution result of your last command\n")[2]


def test_the_name_may_be_written_with_a_dash():
    assert registry.find("environments", "autoexplore-paper").name == "autoexplore_paper"
    values = {"environment": {"name": "autoexplore-paper"}}
    assert narrow(RunConfig, values).model_validate(values).environment.name == "autoexplore_paper"
