"""Draw one recorded episode of DangerousTaxi as an animated SVG, the picture of the README.

    reflect-rl run configs/taxi/paper.toml --output-dir runs/picture --seeds 0 --methods reflect_rl \
        --sft.base.steps 250 --sft.reflector.steps 600 --sft.policy-reflect.steps 400 --rlft.total-turns 1000
    python scripts/make_picture.py runs/picture/starts-100/seed-0/evaluation/reflect_rl/episodes.jsonl \
        docs/pictures/episode.svg

The run takes minutes on one core. Its labels are noisy and its online training is short, so the policy is not sure of
itself. Of the file's episodes the script takes the first that was won in mode `full` in 8 to 10 turns although an
unlikely action was drawn; `--task full/137` takes the first of that task. The picture is CSS animation alone: no
script, no font and no file from elsewhere, as GitHub asks.
"""

from __future__ import annotations

import argparse
import math
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import reflect_rl as rrl

WIDTH, HEIGHT, MARGIN = 640, 448, 22
CELL, GRID = 35, 5
MAP_X, MAP_Y = MARGIN, 66
TEXT_X = 226
ROWS_Y, ROW = 262, 30
BAR_X, BAR_WIDTH = 336, 176
SECONDS = 3.0
"""Time that a turn is shown; the last one stays twice as long."""
CHOICE_AT = 0.4
"""Share of a turn after which the choice appears; everything that the policy reads is there from the start."""
UNLIKELY = 0.1
"""Probability below which the drawn action is called unlikely."""

LEGEND = {
    "T": "taxi",
    "P": "passenger, waiting",
    "O": "taxi at passenger",
    "X": "taxi with passenger",
    "D": "destination",
}
"""Meaning of the letters on the map."""

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
.bar.chosen { fill: #1a7f37; }
.frame { fill: none; stroke: #1a7f37; stroke-width: 2; }
.end { text-anchor: end; }
.won, .tick { fill: #1a7f37; font-weight: 700; }
.unlikely { fill: #b35900; font-size: 15px; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .card { fill: #0d1117; stroke: #3d444d; }
  .quiet, .stand { fill: #9da7b1; }
  .cell { fill: #1b222b; stroke: #2f3843; }
  .wall { stroke: #e6edf3; }
  .piece { fill: #ffffff; }
  .track { fill: #1b222b; }
  .bar { fill: #6b7b8c; }
  .bar.chosen { fill: #2ea043; }
  .frame { stroke: #3fb950; }
  .won, .tick { fill: #3fb950; }
  .unlikely { fill: #f0a04b; }
}
@media (prefers-reduced-motion: reduce) { .turn, .turn .later { animation: none; } }
"""


def element(parent: ET.Element, tag: str, text: str = "", **attributes: object) -> ET.Element:
    """A child element; `kind` is its class, as `class` is a word of Python."""
    names = {"kind": "class"}
    child = ET.SubElement(parent, tag, {names.get(key, key): str(value) for key, value in attributes.items()})
    child.text = text or None
    return child


def keyframes(turns: int) -> str:
    """The CSS that shows one turn after the other, for ever.

    All turns share two animations and differ by their delay alone. `step-end` switches without fading, so that two
    turns never lie over each other. Where nothing is animated the first turn stands still.
    """
    slots = turns + 1
    rules = [f".turn, .turn .later {{ opacity: 0; animation: turn {slots * SECONDS:g}s step-end infinite; }}"]
    rules.append(".still, .still .later { opacity: 1; }")
    for name, start in (("turn", 0.0), ("choice", CHOICE_AT)):
        for kind, length in ((name, 1), (f"{name}-last", 2)):
            begin, end = 100 * start / slots, 100 * length / slots
            hidden = "0% { opacity: 0; } " if start else ""
            shown = f"{hidden}{begin:.3f}% {{ opacity: 1; }} {end:.3f}%, 100% {{ opacity: 0; }}"
            rules.append(f"@keyframes {kind} {{ {shown} }}")
    rules.append(".turn .choice { animation-name: choice; } .last .choice { animation-name: choice-last; }")
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
    """Text that the reflection player wrote."""
    element(group, "text", "reflection player writes", kind="quiet", x=TEXT_X, y=78)
    for number, line in enumerate(textwrap.wrap(reflection, 45)):
        element(group, "text", line, x=TEXT_X, y=102 + number * 23)


def probability(turn: rrl.Turn, index: int) -> float:
    """Probability that the policy gave an action of the state; 1 for the choice of a player that gives none."""
    log_probs = turn.decision.log_probs
    return math.exp(log_probs[index]) if log_probs else float(index == turn.decision.index)


def draw_actions(group: ET.Element, turn: rrl.Turn) -> None:
    """The numbered actions with their probabilities."""
    element(group, "text", "policy picks a number", kind="quiet", x=TEXT_X, y=ROWS_Y - 32)
    for number, index in enumerate(turn.order):
        y = ROWS_Y + number * ROW
        element(group, "text", f"{number}  {turn.observation.actions[index]}", x=TEXT_X, y=y)
        element(group, "rect", kind="track", x=BAR_X, y=y - 14, width=BAR_WIDTH, height=18, rx=4)
        share = probability(turn, index)
        draw_bar(group, share, y, "bar")
        element(group, "text", f"{share:.0%}" if share >= 0.005 else "<1%", kind="end", x=WIDTH - MARGIN - 26, y=y)


def draw_bar(group: ET.Element, share: float, y: int, kind: str) -> None:
    """A bar as long as a probability; nothing where it would be thinner than its corners."""
    if share >= 0.005:
        element(group, "rect", kind=kind, x=BAR_X, y=y - 14, width=round(BAR_WIDTH * share, 1), height=18, rx=4)


def draw_choice(group: ET.Element, turn: rrl.Turn) -> None:
    """The row of the chosen action, marked; and a word on it where it was unlikely."""
    y = ROWS_Y + turn.order.index(turn.decision.index) * ROW
    share = probability(turn, turn.decision.index)
    element(group, "rect", kind="frame", x=TEXT_X - 8, y=y - 20, width=WIDTH - MARGIN - TEXT_X + 14, height=29, rx=6)
    draw_bar(group, share, y, "bar chosen")
    element(group, "text", "✓", kind="tick end", x=WIDTH - MARGIN, y=y)
    if share < UNLIKELY:
        element(group, "text", "an unlikely draw", kind="unlikely end", x=WIDTH - MARGIN, y=ROWS_Y - 32)


def draw_turn(picture: ET.Element, episode: rrl.Episode, number: int) -> None:
    """One turn: the map at once, then the reflection, then the choice with its reward."""
    turn, last = episode.turns[number], number == len(episode.turns) - 1
    kinds = f"turn turn-{number}{' last' if last else ''}{' still' if number == 0 else ''}"
    group = element(picture, "g", kind=kinds)
    element(group, "text", f"turn {number + 1} of {len(episode.turns)}", kind="end", x=WIDTH - MARGIN, y=36)
    draw_map(group, turn.observation.text.splitlines())
    draw_reflection(group, turn.reflection or "(none)")
    draw_actions(group, turn)
    choice = element(group, "g", kind="later choice")
    draw_choice(choice, turn)
    total = sum(past.reward for past in episode.turns[: number + 1])
    verdict = "" if not last else "won" if episode.success else "lost"
    element(choice, "text", f"reward {turn.reward:+.2f}", x=MARGIN, y=HEIGHT - 44)
    element(choice, "text", f"so far {total:+.2f}", kind="quiet", x=MARGIN, y=HEIGHT - 22)
    element(
        choice,
        "text",
        verdict,
        kind="won end" if episode.success else "title end",
        x=MAP_X + GRID * CELL,
        y=HEIGHT - 44,
    )


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
    for number, (letter, meaning) in enumerate(LEGEND.items()):
        y = MAP_Y + GRID * CELL + 30 + number * 22
        element(picture, "text", letter, kind=f"title {letter}", x=MARGIN + 2, y=y)
        element(picture, "text", meaning, kind="quiet", x=MARGIN + 26, y=y)
    for number in range(len(episode.turns)):
        draw_turn(picture, episode, number)
    return ET.ElementTree(picture)


def tells_a_story(episode: rrl.Episode) -> bool:
    """Tell whether an unlikely action was drawn and the game was won all the same, within few turns."""
    short = episode.task.mode == "full" and episode.success and 8 <= len(episode.turns) <= 10
    return short and any(probability(turn, turn.decision.index) < UNLIKELY for turn in episode.turns)


def choose(episodes: Iterable[rrl.Episode], task: str | None) -> rrl.Episode:
    """The episode to draw.

    Raises:
        UserError: no episode fits.
    """
    for episode in episodes:
        if tells_a_story(episode) if task is None else episode.task.key == task:
            return episode
    wanted = f"of task {task!r}" if task else "of mode 'full' that was won in 8 to 10 turns after an unlikely draw"
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
