"""The next place by what names mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflect_locate.envs import autoexplore as game
from reflect_locate.envs.autoexplore import AutoExplore, Config
from reflect_locate.envs.places import place_by_meaning
from reflect_locate.envs.state_text import ExplorationState, advised, place_by_words
from reflect_rl.errors import UserError
from small_task_set import save_small_task_set

pytest.importorskip("wordllama", reason="needs the extra `meaning`")

QUESTION = "Close the connection to the server"


def place(**changes: object) -> ExplorationState:
    return ExplorationState(**{"question": QUESTION, "turn": 2, "horizon": 15, "folder": "net", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scene", "command"),
    [
        # No name shares a word with the question; words would take the first one, or the fullest folder.
        (place(files=("colors.py", "sockets.py")), "cat sockets.py"),
        (place(folder="", folders=(("recipes", 12), ("network", 9)), files=("colors.py",)), "cd network"),
        (place(folder="", folders=(("tests", 9), ("recipes", 9))), "cd recipes"),
        (place(folder="", folders=(("network", 0), ("recipes", 9))), "cd recipes"),
        # Files of code before others.
        (place(files=("__init__.py", "sockets.md", "test_sockets.py", "colors.py")), "cat colors.py"),
        # Where much was read, another folder is likelier.
        (
            place(folder="", turn=5, folders=(("network", 3), ("recipes", 9)), read=(("network/a.py", ()),) * 2),
            "cd recipes",
        ),
        # A folder is left for another one, but not a second time in vain.
        (place(turn=4, files=("test_colors.py",), read=(("net/a.py", ()),)), "cd .."),
        (place(turn=8, files=("test_colors.py",), read=(("net/a.py", ()),)), "cat test_colors.py"),
        (place(files=("test_colors.py",), pages=2), "more"),
        (place(files=("test_colors.py",), page=2, pages=2), "cd .."),
        (place(), "cd .."),
    ],
)
def test_the_likeliest_place(scene: ExplorationState, command: str):
    assert place_by_meaning(scene) == command


def test_answers_and_hits_come_before_places():
    read = (("net/a.py", ("Close", "connection", "server")),)
    assert advised(place(read=read, files=("sockets.py",)), place_by_meaning) == "id net/a.py"
    assert advised(place(hits=(("x.py", ()),), files=("sockets.py",)), place_by_meaning) == "cat /x.py"


def test_reflections_and_the_explorer_follow_the_setting(tmp_path: Path):
    save_small_task_set(tmp_path, "train")
    known = {"tasks": tmp_path, "modes": ("d1raw",), "leaks": ("none", "name")}
    plain, near = AutoExplore(Config(**known)), AutoExplore(Config(**known, names="meaning"))  # type: ignore[arg-type]
    (task, *_) = plain.tasks("d1raw", "train")
    for environment, rule in ((plain, place_by_words), (near, place_by_meaning)):
        text = environment.reset(task).text
        scene = game.read_state(text)
        assert f"Next: {rule(scene)}" in environment.advise(text)
    assert plain.text_settings().keys() == {"state", "advice"}
    assert near.text_settings()["names"] == "meaning"


def test_without_the_embedding_the_game_is_refused_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def missing() -> None:
        raise UserError("names cannot be compared")

    monkeypatch.setattr(game, "installed", missing)
    save_small_task_set(tmp_path, "train")
    with pytest.raises(UserError, match="names cannot be compared"):
        AutoExplore(Config(tasks=tmp_path, modes=("d1raw",), leaks=("none", "name"), names="meaning"))
