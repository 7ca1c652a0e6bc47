"""Recordings of episodes: a terminal's, which asciinema plays, and a moving picture for a page."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

NARROWEST, WIDEST, WIDEST_OF_TWO = 40, 76, 52
"""Columns of an episode, alone and beside another."""
GAP = 3
"""Columns between two episodes."""

CAST_BEGINS, SVG_BEGINS = b'{"version": 2', b"<svg "
"""Beginning of a file of each kind."""

PAUSE = 1.0
"""Seconds that a turn is shown, where nobody says."""
REST = 3.0
"""Seconds that the last turn is shown longer than the others, before a picture begins anew."""

COLUMN, LINE, SIZE = 8.4, 19, 14
"""Width of a letter, height of a line and size of the font in a picture, in pixels."""
MARGIN = 16
FONT = f"{SIZE}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
"""A terminal's cursor."""

Frame = Sequence[Text]
"""Texts that are shown at one turn, one text below the other."""


@dataclass(frozen=True, slots=True)
class Film:
    """Frames of one size."""

    title: str
    frames: tuple[tuple[tuple[Segment, ...], ...], ...]
    """Pieces of one style, by frame and line."""
    width: int
    height: int


def beside(columns: Sequence[Sequence[Frame]]) -> list[RenderableType]:
    """Several episodes turn by turn, beside each other; one that has ended keeps its last turn."""
    length = max(map(len, columns))
    return [_row([frames[min(number, len(frames) - 1)] for frames in columns]) for number in range(length)]


def _row(frames: Sequence[Frame]) -> RenderableType:
    # The gap also after the last one, so that lines break at the same words in all.
    grid = Table.grid(padding=(0, GAP, 0, 0), expand=len(frames) > 1, pad_edge=True)
    for _ in frames:
        # All of equal width, so that nothing moves from turn to turn.
        grid.add_column(ratio=1 if len(frames) > 1 else None, overflow="fold")
    grid.add_row(*(Text("\n").join(frame) for frame in frames))
    return grid


def film(title: str, columns: Sequence[Sequence[Frame]]) -> Film:
    """The frames as a terminal of fitting size would show them.

    Args:
        title: of the recording.
        columns: the frames of each episode; several are shown beside each other.
    """
    lines = [line for frames in columns for frame in frames for text in frame for line in text.plain.splitlines()]
    widest = max((cell_len(line.expandtabs()) for line in lines), default=0)
    one = min(WIDEST if len(columns) == 1 else WIDEST_OF_TWO, max(NARROWEST, widest))
    width = len(columns) * (one + GAP)
    # A terminal, or there would be no colours.
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    frames = tuple(tuple(map(tuple, console.render_lines(shown, pad=False))) for shown in beside(columns))
    return Film(title, frames, width, max(map(len, frames)))


def write_cast(path: Path, shown: Film, seconds: float = PAUSE) -> None:
    """Write a recording of asciinema's format, version 2, which `asciinema play` and `agg` read.

    Args:
        path: the file.
        shown: the frames.
        seconds: between two turns.
    """
    head = {"version": 2, "width": shown.width, "height": shown.height, "title": shown.title}
    events: list[list[float | str]] = []
    for number, frame in enumerate(shown.frames):
        # Each line is drawn over the one before it, and the rest of it erased: a screen that is cleared flickers.
        lines = "".join(f"{_ansi(line)}\x1b[K\r\n" for line in frame[:-1]) + "".join(map(_ansi, frame[-1:])) + "\x1b[K"
        events.append([round(number * seconds, 3), "o", f"{'' if number else HIDE}\x1b[H{lines}\x1b[J"])
    # Without an event at its end a player stops at once.
    events.append([round(len(shown.frames) * seconds + REST, 3), "o", f"{SHOW}\r\n"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(part) + "\n" for part in (head, *events)), encoding="utf-8")


def _ansi(line: Sequence[Segment]) -> str:
    return "".join((style or Style()).render(text, color_system=ColorSystem.TRUECOLOR) for text, style, _ in line)


def write_svg(path: Path, shown: Film, seconds: float = PAUSE) -> None:
    """Write a picture that moves where it is shown, also inside a page, and stands still on paper.

    Args:
        path: the file.
        shown: the frames.
        seconds: between two turns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_svg(shown, seconds)), encoding="utf-8")


def _svg(shown: Film, seconds: float) -> Iterator[str]:
    width, height = round(shown.width * COLUMN + 2 * MARGIN), round(shown.height * LINE + 2 * MARGIN)
    ink, paper = SVG_EXPORT_THEME.foreground_color.hex, SVG_EXPORT_THEME.background_color.hex
    count = len(shown.frames)
    space = 'xmlns="http://www.w3.org/2000/svg"'
    yield f'<svg {space} viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
    yield f"<title>{escape(shown.title)}</title>\n<style>\n"
    yield f"text {{ font: {FONT}; fill: {ink}; white-space: pre; }}\n"
    if count > 1:
        yield from _animation(count, seconds)
    yield f'</style>\n<rect width="100%" height="100%" rx="8" fill="{paper}"/>\n'
    for number, frame in enumerate(shown.frames):
        name = "last" if number == count - 1 else "turn"
        # A delay that is over before the picture begins: every frame moves from the first moment on.
        delay = number * seconds - (count * seconds + REST)
        yield f'<g class="{name}" style="animation-delay: {delay:.2f}s">\n'
        for row, line in enumerate(frame):
            yield from _svg_line(line, row)
        yield "</g>\n"
    yield "</svg>\n"


def _animation(count: int, seconds: float) -> Iterator[str]:
    """Styles that show one frame after the other."""
    total = count * seconds + REST
    yield ".turn { visibility: hidden; }\n"
    for name, time in (("turn", seconds), ("last", seconds + REST)):
        yield f".{name} {{ animation: {name} {total:.2f}s step-end infinite; }}\n"
        end = f"{100 * time / total:.4f}%"
        yield f"@keyframes {name} {{ 0% {{ visibility: visible; }} {end} {{ visibility: hidden; }} }}\n"
    # A reader who wants no motion gets the end, and so does a printer.
    yield "@media (prefers-reduced-motion: reduce) { .turn, .last { animation: none; } }\n"


def _svg_line(line: Sequence[Segment], row: int) -> Iterator[str]:
    column = 0
    for text, style, _ in line:
        cells = cell_len(text)
        x, y = MARGIN + column * COLUMN, MARGIN + row * LINE
        column += cells
        if style is not None and style.bgcolor is not None and not style.bgcolor.is_default:
            fill = _hex(style.bgcolor, foreground=False)
            yield f'<rect x="{x:.1f}" y="{y}" width="{cells * COLUMN:.1f}" height="{LINE}" fill="{fill}"/>\n'
        if text.strip():
            # Fonts differ in width: the length keeps letters in their columns.
            length = f'textLength="{cells * COLUMN:.1f}"'
            yield f'<text x="{x:.1f}" y="{y + SIZE}" {length}{_look(style)}>{escape(text)}</text>\n'


def _look(style: Style | None) -> str:
    if style is None:
        return ""
    parts = []
    if style.color is not None and not style.color.is_default:
        parts.append(f"fill: {_hex(style.color, foreground=True)}")
    parts += ["font-weight: bold"] * bool(style.bold) + ["font-style: italic"] * bool(style.italic)
    parts += ["opacity: 0.65"] * bool(style.dim)
    return f' style="{"; ".join(parts)}"' if parts else ""


def _hex(colour: Color, foreground: bool) -> str:
    return colour.get_truecolor(SVG_EXPORT_THEME, foreground).hex
