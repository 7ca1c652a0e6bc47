"""Draw one recorded episode of DangerousTaxi as an animated SVG, the picture of the README.

    reflect-rl run configs/taxi/demo.toml
    python scripts/make_picture.py runs/taxi-demo/starts-100/seed-0/evaluation/reflect_rl/episodes.jsonl \
        docs/pictures/episode.svg

Of the file's episodes it takes the first that was won in mode `full` in 8 to 12 turns; `--task full/137` takes the
first of that task. The picture is CSS animation alone: no script, no font and no file from elsewhere, as GitHub asks.
"""

from __future__ import annotations

import argparse
import math
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import reflect_rl as rrl

WIDTH, HEIGHT, MARGIN = 640, 436, 22
CELL, GRID = 35, 5
MAP_X, MAP_Y = MARGIN, 66
TEXT_X = 226
ROWS_Y, ROW = 250, 30
BAR_X, BAR_WIDTH = 336, 180
SECONDS = 3.0
"""Time that a turn is shown; the last one stays twice as long."""
REFLECTION_AT, CHOICE_AT = 0.12, 0.42
"""Shares of a turn after which the reflection and the choice appear: the order in which the players act."""

STYLE = """
text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 17px; fill: #1f2933; }
.card { fill: #ffffff; stroke: #c9d1d9; }
.title { font-weight: 600; }
.quiet, .stand { fill: #5b6773; }
.quiet { font-size: 15px; }
.cell { fill: #eef1f4; stroke: #d5dbe1; }
.wall { stroke: #1f2933; stroke-width: 4; stroke-linecap: round; }
.stand, .piece { text-anchor: middle; font-weight: 600; }
.piece { fill: #ffffff; }
.T, .O, .X { fill: #b35900; }
.P { fill: #0b62c4; }
.D { fill: #8a3ffc; }
.track { fill: #eef1f4; }
.bar { fill: #8fa1b3; }
.chosen .bar { fill: #1a7f37; }
.chosen text { font-weight: 700; }
.end { text-anchor: end; }
.won { fill: #1a7f37; font-weight: 700; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .card { fill: #0d1117; stroke: #3d444d; }
  .quiet, .stand { fill: #9da7b1; }
  .cell { fill: #1b222b; stroke: #2f3843; }
  .wall { stroke: #e6edf3; }
  .piece { fill: #ffffff; }
  .track { fill: #1b222b; }
  .bar { fill: #6b7b8c; }
  .chosen .bar { fill: #2ea043; }
  .won { fill: #3fb950; }
}
"""


def element(parent: ET.Element, tag: str, text: str = "", **attributes: object) -> ET.Element:
    """A child element; `kind` is its class, as `class` is a word of Python."""
    names = {"kind": "class"}
    child = ET.SubElement(parent, tag, {names.get(key, key): str(value) for key, value in attributes.items()})
    child.text = text or None
    return child


def keyframes(turns: int) -> str:
    """The CSS that shows one turn after the other, for ever.

    All turns share three animations and differ by their delay alone. `step-end` switches without fading, so that two
    turns never lie over each other. Where nothing is animated the first turn stands still.
    """
    slots = turns + 1
    rules = [f".turn, .turn .later {{ opacity: 0; animation: turn {slots * SECONDS:g}s step-end infinite; }}"]
    rules.append(".still, .still .later { opacity: 1; }")
    for name, start in (("turn", 0.0), ("reflection", REFLECTION_AT), ("choice", CHOICE_AT)):
        for kind, length in ((name, 1), (f"{name}-last", 2)):
            begin, end = 100 * start / slots, 100 * length / slots
            hidden = "0% { opacity: 0; } " if start else ""
            shown = f"{hidden}{begin:.3f}% {{ opacity: 1; }} {end:.3f}%, 100% {{ opacity: 0; }}"
            rules.append(f"@keyframes {kind} {{ {shown} }}")
    for name in ("reflection", "choice"):
        rules.append(f".turn .{name} {{ animation-name: {name}; }} .last .{name} {{ animation-name: {name}-last; }}")
    rules.append(".last { animation-name: turn-last; }")
    rules += [
        f".turn-{number}, .turn-{number} .later {{ animation-delay: {number * SECONDS:g}s; }}"
        for number in range(turns)
    ]
    return "\n".join(rules)


def draw_map(group: ET.Element, lines: list[str]) -> None:
    """The taxi's grid: cells, walls, stands and pieces, read from the map that the players read."""
    for row in range(GRID):
        for column in range(GRID):
            x, y = MAP_X + column * CELL, MAP_Y + row * CELL
            element(group, "rect", kind="cell", x=x, y=y, width=CELL, height=CELL)
    element(group, "rect", kind="wall", fill="none", x=MAP_X, y=MAP_Y, width=GRID * CELL, height=GRID * CELL)
    for row in range(GRID):
        for column in range(GRID):
            draw_cell(group, row, column, lines[1 + row])


def draw_cell(group: ET.Element, row: int, column: int, line: str) -> None:
    """A cell's letter, and the wall on its right side; a cell is every second character of the line."""
    x, y = MAP_X + column * CELL, MAP_Y + row * CELL
    letter, right = line[1 + 2 * column], line[2 + 2 * column]
    if right == "|" and column < GRID - 1:
        element(group, "line", kind="wall", x1=x + CELL, y1=y, x2=x + CELL, y2=y + CELL)
    if letter in "TOXPD":
        element(group, "rect", kind=letter, x=x + 4, y=y + 4, width=CELL - 8, height=CELL - 8, rx=6)
    if letter != " ":
        kind = "piece" if letter in "TOXPD" else "stand"
        element(group, "text", letter, kind=kind, x=x + CELL / 2, y=y + CELL / 2 + 6)


def draw_reflection(group: ET.Element, reflection: str) -> None:
    """What the reflection player wrote."""
    element(group, "text", "reflection player writes", kind="quiet", x=TEXT_X, y=78)
    for number, line in enumerate(textwrap.wrap(reflection, 47)):
        element(group, "text", line, x=TEXT_X, y=102 + number * 23)


def draw_choice(group: ET.Element, turn: rrl.Turn) -> None:
    """The numbered actions with their probabilities; the chosen one stands out."""
    element(group, "text", "policy picks a number", kind="quiet", x=TEXT_X, y=ROWS_Y - 30)
    for number, index in enumerate(turn.order):
        y = ROWS_Y + number * ROW
        chosen = index == turn.decision.index
        row = element(group, "g", kind="chosen" if chosen else "other")
        element(row, "text", f"{number}  {turn.observation.actions[index]}", x=TEXT_X, y=y)
        element(row, "rect", kind="track", x=BAR_X, y=y - 14, width=BAR_WIDTH, height=18, rx=4)
        share = math.exp(turn.decision.log_probs[index]) if turn.decision.log_probs else float(chosen)
        if share >= 0.005:
            element(row, "rect", kind="bar", x=BAR_X, y=y - 14, width=round(BAR_WIDTH * share, 1), height=18, rx=4)
        label = f"{share:.1%}{' ✓' if chosen else ''}"
        element(row, "text", label, kind="end", x=WIDTH - MARGIN, y=y)


def draw_turn(picture: ET.Element, episode: rrl.Episode, number: int) -> None:
    """One turn: the map at once, then the reflection, then the choice with its reward."""
    turn, last = episode.turns[number], number == len(episode.turns) - 1
    kinds = f"turn turn-{number}{' last' if last else ''}{' still' if number == 0 else ''}"
    group = element(picture, "g", kind=kinds)
    element(group, "text", f"turn {number + 1} of {len(episode.turns)}", kind="end", x=WIDTH - MARGIN, y=36)
    draw_map(group, turn.observation.text.splitlines())
    draw_reflection(element(group, "g", kind="later reflection"), turn.reflection or "(none)")
    choice = element(group, "g", kind="later choice")
    draw_choice(choice, turn)
    total = sum(past.reward for past in episode.turns[: number + 1])
    element(choice, "text", f"reward {turn.reward:+.2f}", x=MARGIN, y=HEIGHT - 62)
    element(choice, "text", f"so far {total:+.2f}", kind="quiet", x=MARGIN, y=HEIGHT - 40)
    if last:
        verdict = "won" if episode.success else "lost"
        element(choice, "text", verdict, kind="won" if episode.success else "title", x=MARGIN, y=HEIGHT - 18)


def draw(episode: rrl.Episode) -> ET.ElementTree[ET.Element]:
    """The picture of an episode."""
    picture = ET.Element(
        "svg",
        {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"},
    )
    element(picture, "title", f"An episode of DangerousTaxi ({episode.task.key}), turn by turn")
    element(picture, "style", STYLE + keyframes(len(episode.turns)))
    element(picture, "rect", kind="card", x=1, y=1, width=WIDTH - 2, height=HEIGHT - 2, rx=10)
    element(picture, "text", "DangerousTaxi: fetch P, bring it to D", kind="title", x=MARGIN, y=36)
    for number, line in enumerate(
        ("T  the taxi", "O  at the passenger", "X  passenger on board", "P  passenger", "D  destination")
    ):
        element(picture, "text", line, kind="quiet", x=MARGIN, y=MAP_Y + GRID * CELL + 24 + number * 20)
    for number in range(len(episode.turns)):
        draw_turn(picture, episode, number)
    return ET.ElementTree(picture)


def choose(episodes: Iterable[rrl.Episode], task: str | None) -> rrl.Episode:
    """The episode to draw.

    Raises:
        UserError: no episode fits.
    """
    for episode in episodes:
        short = episode.task.mode == "full" and episode.success and 8 <= len(episode.turns) <= 12
        if (task is None and short) or episode.task.key == task:
            return episode
    wanted = f"of task {task!r}" if task else "of mode 'full' that was won in 8 to 12 turns"
    raise rrl.UserError(f"no episode {wanted} in the file; name another task with --task")


def main(words: list[str] | None = None) -> None:
    """Read the episodes and write the picture."""
    parser = argparse.ArgumentParser(description="Draw one recorded episode of DangerousTaxi as an animated SVG.")
    parser.add_argument("episodes", type=Path, help="episodes.jsonl of an evaluation")
    parser.add_argument("picture", type=Path, help="SVG file to write")
    parser.add_argument("--task", help="key of the task whose first episode is drawn, such as full/137")
    arguments = parser.parse_args(words)
    picture = draw(choose(rrl.read_episodes(arguments.episodes), arguments.task))
    ET.indent(picture, " ")
    arguments.picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write(arguments.picture, encoding="unicode")


if __name__ == "__main__":
    main()
