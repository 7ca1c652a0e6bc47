"""Recordings of episodes: sizes, times, and texts that stay texts."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.text import Text

from reflect_report.recording import GAP, NARROWEST, REST, WIDEST, WIDEST_OF_TWO, beside, film, write_cast, write_svg

SVG = "{http://www.w3.org/2000/svg}"
COLOURS = re.compile(r"\x1b\[[\d;]*m")
"""Select graphic rendition: the only sequence that changes no more than the look of letters."""


def frames(*texts: str) -> list[list[Text]]:
    return [[Text(text)] for text in texts]


def cast_of(path: Path) -> tuple[dict, list]:
    head, *events = (json.loads(line) for line in path.read_text().splitlines())
    return head, events


def words(path: Path) -> list[list[str]]:
    """The pieces of text of each frame of a picture."""
    root = ElementTree.fromstring(path.read_text())
    return [[part.text or "" for part in group.iter(f"{SVG}text")] for group in root.iter(f"{SVG}g")]


def test_a_cast_draws_each_turn_over_the_last_one(tmp_path: Path) -> None:
    write_cast(tmp_path / "new" / "a.cast", film("Taxi", [frames("one\ntwo", "three", "four")]), 0.5)
    head, events = cast_of(tmp_path / "new" / "a.cast")
    assert head == {"version": 2, "width": NARROWEST + GAP, "height": 2, "title": "Taxi"}
    assert [event[:2] for event in events] == [[0, "o"], [0.5, "o"], [1.0, "o"], [1.5 + REST, "o"]]
    # From the first place of the screen, each line to its end, and nothing below.
    drawn = [event[2].replace(" ", "") for event in events]
    assert drawn[0] == "\x1b[?25l\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J"
    assert drawn[1] == "\x1b[Hthree\x1b[K\x1b[J"
    assert drawn[3] == "\x1b[?25h\r\n"


def test_a_picture_has_a_frame_for_each_turn_and_rests_at_the_last(tmp_path: Path) -> None:
    write_svg(tmp_path / "a.svg", film("Taxi", [frames("one", "two", "three")]), 2)
    text = (tmp_path / "a.svg").read_text()
    assert words(tmp_path / "a.svg") == [["one"], ["two"], ["three"]]
    # Nine seconds: three turns of two, and three more for the last. Each begins two seconds after the one before.
    assert re.findall(r"animation-delay: (-[\d.]+)s", text) == ["-9.00", "-7.00", "-5.00"]
    assert "@keyframes turn { 0% { visibility: visible; } 22.2222% { visibility: hidden; } }" in text
    assert "@keyframes last { 0% { visibility: visible; } 55.5556% { visibility: hidden; } }" in text
    assert "prefers-reduced-motion" in text
    assert not re.search(r"https?://(?!www.w3.org/2000/svg)|<script|@import|url\(", text)


def test_one_turn_stands_still(tmp_path: Path) -> None:
    write_svg(tmp_path / "a.svg", film("Taxi", [frames("one")]))
    assert "keyframes" not in (tmp_path / "a.svg").read_text()
    assert words(tmp_path / "a.svg") == [["one"]]


def test_colours_and_places_of_a_picture(tmp_path: Path) -> None:
    line = Text.assemble("ab", ("T", "bold black on yellow"), ("cd", "dim italic"))
    write_svg(tmp_path / "a.svg", film("Taxi", [[[line]]]))
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text())
    parts = {part.text: part for part in root.iter(f"{SVG}text")}
    # Letters are 8.4 pixels wide, and the margin is 16.
    assert [parts[text].get("x") for text in ("ab", "T", "cd")] == ["16.0", "32.8", "41.2"]
    assert "font-weight: bold" in parts["T"].get("style", "")
    assert "font-style: italic; opacity" in parts["cd"].get("style", "")
    (ground,) = [part for part in root.iter(f"{SVG}rect") if part.get("x")]
    assert (ground.get("x"), ground.get("width")) == ("32.8", "8.4")


def test_two_episodes_stand_beside_each_other_and_the_shorter_one_waits(tmp_path: Path) -> None:
    columns = [frames("a1", "a2", "a3"), frames("b1")]
    assert len(beside(columns)) == 3
    write_svg(tmp_path / "a.svg", film("Taxi", columns))
    assert [[piece.strip() for piece in "".join(frame).split()] for frame in words(tmp_path / "a.svg")] == [
        ["a1", "b1"],
        ["a2", "b1"],
        ["a3", "b1"],
    ]


@pytest.mark.parametrize(("count", "widest"), [(1, WIDEST), (2, WIDEST_OF_TWO)])
def test_long_lines_are_broken_and_lose_nothing(tmp_path: Path, count: int, widest: int) -> None:
    long = "x" * 300
    shown = film("Taxi", [frames(long)] * count)
    assert shown.width == count * (widest + GAP)
    write_cast(tmp_path / "a.cast", shown)
    _, events = cast_of(tmp_path / "a.cast")
    assert events[0][2].count("x") == 300 * count


def test_an_episode_without_turns_is_one_frame(tmp_path: Path) -> None:
    shown = film("Taxi", [[[]]])
    write_cast(tmp_path / "a.cast", shown)
    write_svg(tmp_path / "a.svg", shown)
    assert len(cast_of(tmp_path / "a.cast")[1]) == 2


def test_text_of_a_picture_is_escaped(tmp_path: Path) -> None:
    attack = "</text></svg><script>alert(1)</script>&\"'<!--]]>"
    write_svg(tmp_path / "a.svg", film(attack, [frames(attack)]))
    assert "<script" not in (tmp_path / "a.svg").read_text()
    assert "".join(words(tmp_path / "a.svg")[0]) == attack
    assert ElementTree.fromstring((tmp_path / "a.svg").read_text()).findtext(f"{SVG}title") == attack
