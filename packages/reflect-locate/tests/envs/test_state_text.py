"""The state of an exploration: what is written is read again, whatever the names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from odd_files import ODD_NAMES
from reflect_locate.envs.state_text import (
    ExplorationState,
    advised,
    best_name,
    read_state,
    reflection_text,
    shown,
    write_state,
)
from reflect_locate.repositories.passages import plain

STATE = ExplorationState(
    question="Parsing rate limits",
    turn=4,
    horizon=15,
    folder="src/web",
    folders=(("core", 12), ("extra", 0)),
    files=("rates.py", "views.py"),
    page=2,
    pages=3,
    read=(("setup.py", ()), ("src/app.py", ("rate",))),
    hits=(("src/limits.py", ("rate", "limits")),),
    last="cat app.py",
    result="Runs the app | def main",
)
WRITTEN = """\
Task: Parsing rate limits
Turn 4 of 15 in /src/web, page 2 of 3
Folders: core 12=1, extra 0=2
Files: rates.py=3, views.py=4
Read: setup.py ()=7, src/app.py (rate)=8
Found: src/limits.py (rate limits)=6
Last: cat app.py
> Runs the app | def main"""


def test_every_section_has_a_line():
    assert write_state(STATE) == WRITTEN
    assert read_state(WRITTEN) == STATE


def test_an_empty_place_has_two_lines():
    scene = ExplorationState("Parsing rate limits", 1, 15, "")
    assert write_state(scene) == "Task: Parsing rate limits\nTurn 1 of 15 in /"
    assert read_state(write_state(scene)) == scene


names = st.one_of(st.sampled_from(ODD_NAMES), st.text(min_size=1, max_size=12)).map(shown).filter(bool)
notes = st.tuples(names, st.lists(st.from_regex(r"[a-z]+", fullmatch=True), max_size=3).map(tuple))
states = st.builds(
    ExplorationState,
    question=st.text(max_size=30).map(plain),
    turn=st.integers(1, 15),
    horizon=st.just(15),
    folder=st.lists(names, max_size=3).map("/".join).map(shown),
    folders=st.lists(st.tuples(names, st.integers(0, 99)), max_size=3).map(tuple),
    files=st.lists(names, max_size=3).map(tuple),
    read=st.lists(notes, max_size=2).map(tuple),
    hits=st.lists(notes, max_size=2).map(tuple),
    last=st.one_of(st.just(""), names.map("cat {}".format)),
    result=st.text(max_size=30).map(plain),
)


@given(states)
def test_what_is_written_is_read_again(scene: ExplorationState):
    assert read_state(write_state(scene)) == scene


@given(states)
def test_no_name_and_no_text_makes_a_line_or_a_header(scene: ExplorationState):
    text = write_state(scene)
    sections = [scene.folders, scene.files, scene.read, scene.hits, scene.last, scene.result]
    assert text.count("\n") == 1 + sum(map(bool, sections))
    # A name may end in "#"; behind it stand the words found or a count, never a word of a prompt's header.
    assert not re.search(r"# (?![(\d])", text)
    assert "<|" not in text


@pytest.mark.parametrize(
    "text", ["", "Task: x", "Turn 1 of 15 in /", "Task: x\nTurn one of 15 in /", "x\nTurn 1 of 2 in /"]
)
def test_other_texts_are_refused(text: str):
    with pytest.raises(ValueError, match="no state of an exploration"):
        read_state(text)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_shown_names_hold_no_separator_and_stay_as_they_are(name: str):
    assert not any(mark in shown(name) for mark in (", ", " (", "# ", "<|", "\n"))
    assert shown(shown(name)) == shown(name)


def test_the_best_name_is_the_first_of_those_that_share_most_words():
    assert best_name(["views.py", "rate_limits.py", "limits_of_rate.py"], ("rat", "limit"))[0] == "rate_limits.py"
    assert best_name(["views.py"], ("rat",)) == ("", ())


def place(**changes: object) -> ExplorationState:
    return ExplorationState(**{"question": "Parsing rate limits", "turn": 2, "horizon": 15, "folder": "", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scene", "advice"),
    [
        # All of the question's words in one file, at the last turn also fewer.
        (place(read=(("a.py", ("parsing", "rate", "limits")),), files=("rates.py",)), "id a.py"),
        (place(read=(("a.py", ("rate",)), ("b.py", ("rate", "limits"))), turn=15), "id b.py"),
        # Else what a search found, the best name, the fullest folder, the first file, the next page, back.
        (place(hits=(("x/y.py", ("rate",)),), files=("rates.py",)), "cat /x/y.py"),
        (place(files=("views.py", "rate.py"), folders=(("web", 3),)), "cat rate.py"),
        (place(files=("views.py", "rate.py"), folders=(("rate_limits", 3),)), "cd rate_limits"),
        (place(files=("rate.py",), folders=(("rate_limits", 0),)), "cat rate.py"),
        (place(files=("views.py",), folders=(("web", 3), ("core", 5))), "cd core"),
        (place(files=("views.py",), folders=(("web", 3),), folder="src"), "cat views.py"),
        (place(pages=2), "more"),
        (place(folder="src"), "cd .."),
    ],
)
def test_what_comparing_words_recommends(scene: ExplorationState, advice: str):
    assert advised(scene) == advice


def test_a_reflection_says_what_was_found_what_is_missing_and_where_to_go():
    scene = place(
        read=(("a.py", ("rate",)), ("b.py", ("limits",))),
        last="cat b.py",
        files=("limits.py",),
        folders=(("rates", 2), ("limits", 0)),
    )
    assert reflection_text(scene, "cat limits.py") == (
        "b.py has 1 of 3, not parsing rate. Best read: a.py 1 of 3 =3. Best file: limits.py (limits) =2. "
        "Best folder: rates (rate) =0. Next: cat limits.py =2."
    )
    assert reflection_text(scene, "cat limits.py", numbered=False) == (
        "b.py has 1 of 3, not parsing rate. Best read: a.py 1 of 3. Best file: limits.py (limits). "
        "Best folder: rates (rate). Next: cat limits.py."
    )


def test_a_first_reflection_has_nothing_to_look_back_on():
    assert reflection_text(place(), "cd ..") == "Next: cd ..."
