r"""The state of an exploration as text, and back: the one place that knows its sections.

Each section is a line; what a file holds stands behind `> `, on one line, and has lost all that could pass for a part
of the prompt (`repositories.passages.plain`). A listing is never cut inside a name.

Behind each entry stands `=` and the place of its action in the action list, which is its number unless labels are
shuffled. So a reflection can say which number it means, and the policy need not look a name up in the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from reflect_locate.repositories.passages import plain
from reflect_locate.repositories.words import words

__all__ = [
    "Note",
    "Scene",
    "advised",
    "asked_words",
    "numbers",
    "read_scene",
    "reflection_text",
    "shown",
    "surface",
    "write_scene",
]

Note = tuple[str, tuple[str, ...]]
"""A file, and the words of the question that its nearest passage holds."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that the state text says."""

    question: str
    turn: int
    horizon: int
    folder: str
    """Where one is; the root is the empty text."""
    folders: tuple[tuple[str, int], ...] = ()
    """Folders of this page, and how many files below each are unread."""
    files: tuple[str, ...] = ()
    """Unread files of this page."""
    page: int = 1
    pages: int = 1
    read: tuple[Note, ...] = ()
    """Files that were read, in order."""
    hits: tuple[Note, ...] = ()
    """Files that a search found and that are unread, best first."""
    searches: tuple[str, ...] = ()
    """Words of the question that can be looked up, where a search is offered."""
    last: str = ""
    """The last command."""
    result: str = ""
    """What it showed."""

    @property
    def answers_only(self) -> bool:
        """Whether this is the last turn, at which only answers are listed (if there is a file to name)."""
        return self.turn >= self.horizon and bool(self.read)


LONGEST_NAME = 80
"""Letters of a name or path; of a longer one the middle is left out."""


@lru_cache(50_000)
def shown(name: str) -> str:
    r"""A name as it stands in the state and in the actions: one line, no separator of a listing.

    >>> shown('a, b;$(touch x)\n.py')
    'a,b;$(touch x) .py'
    """
    text = plain(name).replace(", ", ",").replace(" (", "(")
    if len(text) > LONGEST_NAME:
        text = f"{text[: LONGEST_NAME - 20]}~{text[-19:]}"
    return text[:-1] + ";" if text.endswith(",") else text


def numbers(scene: Scene) -> dict[str, int]:
    """Action -> its place in the action list, for all that the state says (a search that a reflection adds comes last).

    >>> numbers(Scene("Parsing", 2, 15, "docs", files=("a.md",), read=(("b.py", ()),)))
    {'cd ..': 0, 'cat a.md': 1, 'id b.py': 2}
    """
    actions: dict[str, int] = {}
    for place, action in enumerate(_actions(scene)):
        actions.setdefault(action, place)
    return actions


def _actions(scene: Scene) -> Iterator[str]:
    if scene.folder and not scene.answers_only:
        yield "cd .."
    yield from (f"cd {shown(name)}" for name, _ in scene.folders)
    yield from (f"cat {shown(name)}" for name in scene.files)
    if scene.pages > 1:
        yield "more"
    yield from (f"cat /{shown(path)}" for path, _ in scene.hits)
    yield from (f"id {shown(path)}" for path, _ in scene.read)
    yield from (f"search {query}" for query in scene.searches)


def write_scene(scene: Scene) -> str:
    """The state text."""
    place = f"Turn {scene.turn} of {scene.horizon} in /{shown(scene.folder)}"
    if scene.pages > 1:
        place += f", page {scene.page} of {scene.pages}"
    lines = [f"Task: {scene.question}", place]
    number = count(1 if scene.folder and not scene.answers_only else 0)
    if scene.folders:
        entries = [f"{shown(name)} {unread}={next(number)}" for name, unread in scene.folders]
        lines.append("Folders: " + ", ".join(entries))
    if scene.files:
        lines.append("Files: " + ", ".join(f"{shown(name)}={next(number)}" for name in scene.files))
    if scene.pages > 1:
        next(number)
    hits = _notes(scene.hits, number)
    if scene.read:
        lines.append("Read: " + _notes(scene.read, number))
    if scene.hits:
        lines.append("Found: " + hits)
    if scene.searches:
        lines.append("Search: " + ", ".join(f"{query}={next(number)}" for query in scene.searches))
    if scene.last:
        lines.append(f"Last: {scene.last}")
    if scene.result:
        lines.append(f"> {scene.result}")
    return "\n".join(lines)


def _notes(notes: Iterable[Note], number: Iterator[int]) -> str:
    return ", ".join(f"{shown(path)} ({' '.join(found)})={next(number)}" for path, found in notes)


PLACE = re.compile(r"Turn (\d+) of (\d+) in /(.*?)(?:, page (\d+) of (\d+))?$")
NOTE = re.compile(r"(.*) \((.*)\)")


def read_scene(text: str) -> Scene:
    """The scene that `write_scene` wrote.

    Raises:
        ValueError: the text is no state of an exploration.
    """
    lines = text.split("\n")
    place = PLACE.fullmatch(lines[1]) if len(lines) > 1 else None
    if place is None or not lines[0].startswith("Task: "):
        raise ValueError(f"no state of an exploration: {text[:80]!r}")
    parts = dict(line.split(": ", 1) for line in lines[2:] if ": " in line and not line.startswith("> "))
    turn, horizon, folder, page, pages = place.groups()
    return Scene(
        question=lines[0].removeprefix("Task: "),
        turn=int(turn),
        horizon=int(horizon),
        folder=folder,
        folders=tuple((name, int(left)) for name, _, left in (e.rpartition(" ") for e in _entries(parts, "Folders"))),
        files=tuple(_entries(parts, "Files")),
        page=int(page or 1),
        pages=int(pages or 1),
        read=_read_notes(parts, "Read"),
        hits=_read_notes(parts, "Found"),
        searches=tuple(_entries(parts, "Search")),
        last=parts.get("Last", ""),
        result=lines[-1].removeprefix("> ") if lines[-1].startswith("> ") else "",
    )


def _entries(parts: dict[str, str], section: str) -> list[str]:
    return [entry.rpartition("=")[0] for entry in parts[section].split(", ")] if section in parts else []


def _read_notes(parts: dict[str, str], section: str) -> tuple[Note, ...]:
    matches = (NOTE.fullmatch(entry) for entry in _entries(parts, section))
    return tuple((match[1], tuple(match[2].split())) for match in matches if match)


MOST_ASKED = 12
"""Content words of a question that files are compared with; more would let the notes on files grow without bound."""


@lru_cache(4096)
def asked_words(question: str) -> tuple[str, ...]:
    """The distinct content words of a question, in order, as many as are looked for."""
    return tuple(dict.fromkeys(words(question)))[:MOST_ASKED]


def surface(question: str, found: Sequence[str]) -> tuple[str, ...]:
    """Words of a question as they are written in it, in lower case.

    >>> surface("Parsing rate limits", ("pars", "limit"))
    ('parsing', 'limits')
    """
    written = _written(question)
    return tuple(dict.fromkeys(written[word] for word in found))


@lru_cache(4096)
def _written(question: str) -> dict[str, str]:
    """Content word -> the piece of the question that it comes from, in lower case."""
    written: dict[str, str] = {}
    for piece in re.findall(r"[^\W_]+", question):
        for word in words(piece):
            written.setdefault(word, piece.lower())
    return written


def _count(note: Note) -> int:
    return len(note[1])


def _overlap(name: str, asked: Sequence[str]) -> tuple[str, ...]:
    own = set(words(name.rpartition(".")[0] or name))
    return tuple(word for word in asked if word in own)


def best_name(names: Iterable[str], asked: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The name that shares most words with the question (of several the first), and these words."""
    best, shared = "", tuple[str, ...]()
    for name in names:
        overlap = _overlap(name, asked)
        if len(overlap) > len(shared):
            best, shared = name, overlap
    return best, shared


ENOUGH = 0.8
"""Share of a question's words in one passage at which a file counts as found."""


def advised(scene: Scene) -> str:
    """What comparing words alone recommends: answer, read what was found, search, go to the best name, or move on."""
    asked = asked_words(scene.question)
    best = max(scene.read, key=_count, default=None)
    if best and (_count(best) >= ENOUGH * len(asked) or scene.turn >= scene.horizon):
        return f"id {best[0]}"
    return explored(scene)


def explored(scene: Scene) -> str:
    """What comparing words recommends to someone who knows that no file read so far is the answer.

    The best file that was found, else the next search; where none is offered or left, the next place.
    """
    if scene.hits:
        return f"cat /{scene.hits[0][0]}"
    if scene.searches:
        return f"search {scene.searches[0]}"
    return _next_place(scene, asked_words(scene.question))


def _next_place(scene: Scene, asked: Sequence[str]) -> str:
    """The file or folder of the best name; else, at the root the fullest folder first, elsewhere the files first."""
    file, in_file = best_name(scene.files, asked)
    unread = [name for name, left in scene.folders if left]
    folder, in_folder = best_name(unread, asked)
    if len(in_folder) > len(in_file):
        return f"cd {folder}"
    fullest = max(scene.folders, key=lambda entry: entry[1], default=("", 0))
    if not file and fullest[1] and (not scene.folder or not scene.files):
        return f"cd {fullest[0]}"
    if file or scene.files:
        return f"cat {file or scene.files[0]}"
    return "more" if scene.page < scene.pages else "cd .."


def reflection_text(scene: Scene, advice: str, *, numbered: bool = True) -> str:
    """A reflection from facts that code can check, the advice last.

    It says how many words of the question the last file holds and which are missing, which file that was read holds
    most, and which unread file and folder have the best names.

    Args:
        scene: what is seen.
        advice: the action that is recommended.
        numbered: say the places of actions too, as `numbers` gives them.

    >>> notes = (("a.py", ("limits",)),)
    >>> scene = Scene("Parsing rate limits", 3, 15, "", files=("rates.py",), read=notes, last="cat a.py")
    >>> text = reflection_text(scene, "cat rates.py")
    >>> text.split(". ")[:3]
    ['a.py has 1 of 3, not parsing rate', 'Best read: a.py 1 of 3 =1', 'Best file: rates.py (rate) =0']
    >>> text.split(". ")[3]
    'Next: cat rates.py =0.'
    """
    asked, place = asked_words(scene.question), numbers(scene) if numbered else {}
    total, parts = len(asked), []

    def behind(action: str) -> str:
        return f" ={place[action]}" if action in place else ""

    if scene.last.startswith("cat ") and scene.read:
        path, found = scene.read[-1]
        here = {word for piece in found for word in words(piece)}
        missing = surface(scene.question, [word for word in asked if word not in here])
        lack = f", not {' '.join(missing[:4])}" if missing else ""
        parts.append(f"{path} has {total - len(missing)} of {total}{lack}.")
    if scene.read:
        path, found = max(scene.read, key=_count)
        parts.append(f"Best read: {path} {len(found)} of {total}{behind(f'id {path}')}.")
    unread = [name for name, left in scene.folders if left]
    for kind, verb, names in (("file", "cat", scene.files), ("folder", "cd", unread)):
        name, shared = best_name(names, asked)
        if name:
            those = " ".join(surface(scene.question, shared))
            parts.append(f"Best {kind}: {name} ({those}){behind(f'{verb} {name}')}.")
    return " ".join([*parts, f"Next: {advice}{behind(advice)}."])
