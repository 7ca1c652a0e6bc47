"""AutoExplore in raw text: what the last commands print, and the expert that reads file after file."""

from __future__ import annotations

from pathlib import Path

import pytest

from playing import begin, do
from reflect_locate.envs.autoexplore import AutoExplore, Config
from reflect_locate.envs.shell_text import Shell, depth_first
from reflect_locate.envs.state_text import ExplorationState
from reflect_rl.envs.base import EnvSpec
from reflect_rl.players.scripted import Annotator, OracleReflector
from reflect_rl.rollout import NoReflector, Request, play
from three_projects import save_task_set

FILES = {
    "pkg/web/limits.py": '"""Parsing rate limits of callers."""\n\n\ndef parse():\n    return 1\n',
    "pkg/web/views.py": "shows = 'pages'\n",
    "pkg/readme.md": "# Read me\n\nIt limits callers.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_task_set(tmp_path, FILES, ("How rate limits are parsed", "pkg/web/limits.py"))
    return tmp_path


def settings(folder: Path, **changes: object) -> Config:
    raw = {"modes": ("d1raw",), "state": "raw", "history": 2, "advice": "goal", "expert": "depth_first"}
    return Config(tasks=folder, **{**raw, **changes})  # type: ignore[arg-type]


def test_the_state_is_what_the_last_commands_printed(folder: Path):
    game = AutoExplore(settings(folder))
    assert begin(game).text == "Task: How rate limits are parsed\nTurn 1 of 15 in /\n$ ls\n> web/  readme.md"
    # The heading sign is taken out, so that no file can forge a part of the prompt.
    assert do(game, "cat readme.md").observation.text.split("\n") == [
        "Task: How rate limits are parsed",
        "Turn 2 of 15 in /",
        *("$ cat readme.md", "> #Read me It limits callers."),
        *("$ ls", "> web/"),
    ]
    text = do(game, "cd web", "cat views.py").observation.text
    assert "readme.md" not in text
    assert text.split("\n")[1:] == [
        "Turn 4 of 15 in /web",
        "$ cd web",
        *("$ cat views.py", "> shows = 'pages'"),
        *("$ ls", "> limits.py"),
    ]


def test_reflections_know_the_window_alone_and_name_no_command(folder: Path):
    game = AutoExplore(settings(folder))
    begin(game)
    do(game, "cat readme.md")
    assert game.teach() == (
        "readme.md has 1 of 3, not rate parsed. Best read: readme.md 1 of 3. Seek: a folder about rate limits parsed."
    )
    do(game, "cd web", "cat views.py")
    told = game.teach()
    assert "readme.md" not in told
    assert told.endswith(" Seek: a file about rate limits parsed.")
    do(game, "cat limits.py")
    assert game.teach().endswith(" Seek: an answer.")
    facts = AutoExplore(settings(folder, advice="facts"))
    begin(facts)
    assert "Seek:" not in facts.teach()


def test_every_fullness_of_reflections_can_be_demonstrated_and_none_holds_a_number_of_the_list(folder: Path):
    for advice in ("command", "goal", "facts"):
        spec = EnvSpec(AutoExplore, settings(folder, advice=advice))
        requests = [Request(task, 0) for task in spec.tasks("d1raw", "train")]
        for episode in play(spec, requests, OracleReflector(), Annotator(0.0, "exploring")):
            assert episode.success
            for turn in episode.turns:
                assert " =" not in (turn.reflection or " =")
                assert spec.prototype.action_numbers(turn.observation.text) == {}
                assert ("Next: " in (turn.reflection or "")) == (advice == "command")


def test_the_depth_first_expert_reads_files_in_order_and_answers_with_the_target(folder: Path):
    spec = EnvSpec(AutoExplore, settings(folder))
    (task,) = spec.tasks("d1raw", "train")[:1]
    (episode,) = play(spec, [Request(task, 0)], NoReflector(), Annotator(0.0, "exploring"))
    assert [turn.action for turn in episode.turns] == ["cat readme.md", "cd web", "cat limits.py", "id web/limits.py"]


def test_the_depth_first_expert_turns_pages_and_goes_up_when_all_is_read():
    assert depth_first(ExplorationState("Parsing", 2, 15, "a", folders=(("b", 0),), page=1, pages=2)) == "more"
    assert depth_first(ExplorationState("Parsing", 2, 15, "a", folders=(("b", 0),), page=2, pages=2)) == "cd .."


def test_costs_are_those_of_what_was_seen(folder: Path):
    spec = EnvSpec(AutoExplore, settings(folder))
    (task,) = spec.tasks("d1raw", "train")[:1]
    (episode,) = play(spec, [Request(task, 0)], NoReflector(), Annotator(0.0, "exploring"))
    # Of four turns the last one's text is not seen any more; the shortest way reads the target alone.
    assert AutoExplore(settings(folder)).measures(episode) == {
        "spl": 3 / 4,
        "characters_read": float(len("#Read me It limits callers.") + len(printed_by_limits(spec))),
        "files_read": 2.0,
        "wrong_answers": 0.0,
        "timeouts": 0.0,
    }


def printed_by_limits(spec: EnvSpec) -> str:
    """What `cat limits.py` prints."""
    game = spec.make()
    assert isinstance(game, AutoExplore)
    begin(game)
    return do(game, "cd web", "cat limits.py").observation.text.partition("$ cat limits.py\n> ")[2].split("\n")[0]


def test_results_say_what_was_seen_and_told(folder: Path):
    facts = AutoExplore(settings(folder)).games_tested("d1raw", "train")
    assert (facts["state"], facts["advice"], facts["expert"]) == ("raw 2", "goal", "depth_first")


def test_rules_that_read_states_back_are_withheld(folder: Path):
    spec = EnvSpec(AutoExplore, settings(folder))
    assert not {"HasStateTeacher", "HasFiles"} & set(spec.capabilities)
    assert {"HasStateTeacher", "HasFiles"} <= set(EnvSpec(AutoExplore, settings(folder, state="notes")).capabilities)
    assert "nearest" not in AutoExplore(settings(folder)).rules


def test_an_empty_window_recalls_nothing():
    state = ExplorationState("Parsing", 2, 15, "", read=(("a.py", ()),))
    assert Shell(2).recall(state).read == ()
