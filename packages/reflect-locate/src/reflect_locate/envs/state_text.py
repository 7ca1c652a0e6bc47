r"""The state of an exploration as text, and back: the one place that knows its sections.

Each section is a line; what a file holds stands behind `> `, on one line, and has lost all that could pass for a part
of the prompt (`repositories.passages.plain`). A listing is never cut inside a name.

Behind each entry stands `=` and the place of its action in the action list, which is its number unless labels are
shuffled. So a reflection can say which number it means, and the policy need not look a name up in the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from reflect_locate.repositories.passages import plain
from reflect_locate.repositories.words import question_words, surface, words
from reflect_rl.types import Advice

FileNote = tuple[str, tuple[str, ...]]
"""A file, and the words of the question that its nearest passage holds."""


@dataclass(frozen=True, slots=True)
class ExplorationState:
    """Facts that the state text tells."""

    question: str
    turn: int
    horizon: int
    folder: str
    """Current folder; the root is the empty text."""
    folders: tuple[tuple[str, int], ...] = ()
    """Folders of this page, and how many files below each are unread."""
    files: tuple[str, ...] = ()
    """Unread files of this page."""
    page: int = 1
    pages: int = 1
    read: tuple[FileNote, ...] = ()
    """Files that were read, in order."""
    hits: tuple[FileNote, ...] = ()
    """Files that a search found and that are unread, best first."""
    searches: tuple[str, ...] = ()
    """Words of the question that can be looked up, where a search is offered."""
    last: str = ""
    """The last command."""
    result: str = ""
    """Text that it showed."""

    @property
    def answers_only(self) -> bool:
        """Tell whether this is the last turn, at which only answers are listed (if there is a file to name)."""
        return self.turn >= self.horizon and bool(self.read)


NextPlace = Callable[[ExplorationState], str]
"""A rule that chooses where to look next: the command that reads a file, enters a folder, or leaves this one."""

# A stranger may have chosen the names: without a bound one of them fills the model's context.
LONGEST_NAME = 80
"""Letters of a name or path; of a longer one the middle is left out."""


@lru_cache(50_000)
def shown(name: str) -> str:
    r"""A name as it stands in the state and in the actions: one line, no separator of a listing.

    >>> shown('a, b;$(touch x)\n.py')
    'a,b;$(touch x) .py'
    """
    # These are the separators that `read_state` splits at; a name must not forge an entry.
    text = plain(name).replace(", ", ",").replace(" (", "(")
    if len(text) > LONGEST_NAME:
        # The end stays, because it tells the type of the file and often its version.
        text = f"{text[: LONGEST_NAME - 20]}~{text[-19:]}"
    # A comma at the end and the blank after it would read as a separator.
    return text[:-1] + ";" if text.endswith(",") else text


def numbers(state: ExplorationState) -> dict[str, int]:
    """Action -> its place in the action list, for all that the state says (a search that a reflection adds comes last).

    >>> numbers(ExplorationState("Parsing", 2, 15, "docs", files=("a.md",), read=(("b.py", ()),)))
    {'cd ..': 0, 'cat a.md': 1, 'id b.py': 2}
    """
    actions: dict[str, int] = {}
    for place, action in enumerate(_actions(state)):
        # Two long names can be shown alike; the first keeps the plain text, as in the game.
        actions.setdefault(action, place)
    return actions


def _actions(state: ExplorationState) -> Iterator[str]:
    if state.folder and not state.answers_only:
        yield "cd .."
    yield from (f"cd {shown(name)}" for name, _ in state.folders)
    yield from (f"cat {shown(name)}" for name in state.files)
    if state.pages > 1:
        yield "more"
    yield from (f"cat /{shown(path)}" for path, _ in state.hits)
    yield from (f"id {shown(path)}" for path, _ in state.read)
    # Last, because a reflection can add searches, and no other number may change by that.
    yield from (f"search {query}" for query in state.searches)


def write_state(state: ExplorationState) -> str:
    """The state text."""
    place = f"Turn {state.turn} of {state.horizon} in /{shown(state.folder)}"
    if state.pages > 1:
        place += f", page {state.page} of {state.pages}"
    lines = [f"Task: {state.question}", place]
    # Counts along with `_actions`: `cd ..` has a number but no entry in the text.
    number = count(1 if state.folder and not state.answers_only else 0)
    if state.folders:
        entries = [f"{shown(name)} {unread}={next(number)}" for name, unread in state.folders]
        lines.append("Folders: " + ", ".join(entries))
    if state.files:
        lines.append("Files: " + ", ".join(f"{shown(name)}={next(number)}" for name in state.files))
    if state.pages > 1:
        next(number)
    # Numbered before `Read`, as their actions come first, but shown after it.
    hits = _notes(state.hits, number)
    if state.read:
        lines.append("Read: " + _notes(state.read, number))
    if state.hits:
        lines.append("Found: " + hits)
    if state.searches:
        lines.append("Search: " + ", ".join(f"{query}={next(number)}" for query in state.searches))
    if state.last:
        lines.append(f"Last: {state.last}")
    if state.result:
        lines.append(f"> {state.result}")
    return "\n".join(lines)


def _notes(notes: Iterable[FileNote], number: Iterator[int]) -> str:
    return ", ".join(f"{shown(path)} ({' '.join(found)})={next(number)}" for path, found in notes)


PLACE = re.compile(r"Turn (\d+) of (\d+) in /(.*?)(?:, page (\d+) of (\d+))?$")
NOTE = re.compile(r"(.*) \((.*)\)")


def read_state(text: str) -> ExplorationState:
    """The state that `write_state` wrote.

    Raises:
        ValueError: the text is no state of an exploration.
    """
    lines = text.split("\n")
    place = PLACE.fullmatch(lines[1]) if len(lines) > 1 else None
    if place is None or not lines[0].startswith("Task: "):
        raise ValueError(f"no state of an exploration: {text[:80]!r}")
    # Lines with `> ` hold text of files, which may look like any section.
    parts = dict(line.split(": ", 1) for line in lines[2:] if ": " in line and not line.startswith("> "))
    turn, horizon, folder, page, pages = place.groups()
    return ExplorationState(
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
    # From the right, because a name may hold `=` itself.
    return [entry.rpartition("=")[0] for entry in parts[section].split(", ")] if section in parts else []


def _read_notes(parts: dict[str, str], section: str) -> tuple[FileNote, ...]:
    matches = (NOTE.fullmatch(entry) for entry in _entries(parts, section))
    return tuple((match[1], tuple(match[2].split())) for match in matches if match)


MOST_NAMED = 4
"""Words of the question that a goal repeats."""


def _count(note: FileNote) -> int:
    return len(note[1])


def name_overlap(name: str, asked: Iterable[str]) -> tuple[str, ...]:
    """Words of the question in the name of a file or folder, its ending left out.

    >>> name_overlap("rate_limits.py", ("rat", "limit", "tool"))
    ('rat', 'limit')
    """
    # The ending is left out: `md` or `py` would match questions about file types.
    own = set(words(name.rpartition(".")[0] or name))
    return tuple(word for word in asked if word in own)


def best_name(names: Iterable[str], asked: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The name that shares most words with the question (of several the first), and these words."""
    best, shared = "", tuple[str, ...]()
    for name in names:
        overlap = name_overlap(name, asked)
        # Strictly more, so that of equal names the first one listed wins, for the player as for the teacher.
        if len(overlap) > len(shared):
            best, shared = name, overlap
    return best, shared


# Wording differs between question and file, so all words are seldom together even in the right one.
ENOUGH = 0.8
"""Share of a question's words in one passage at which a file counts as found."""


def place_by_words(state: ExplorationState) -> str:
    """The file or folder of the best name; else, at the root the fullest folder first, elsewhere the files first."""
    asked = question_words(state.question)
    file, in_file = best_name(state.files, asked)
    unread = [name for name, left in state.folders if left]
    folder, in_folder = best_name(unread, asked)
    if len(in_folder) > len(in_file):
        return f"cd {folder}"
    # Without a matching name the largest folder is the likeliest place of a file drawn at random.
    fullest = max(state.folders, key=lambda entry: entry[1], default=("", 0))
    if not file and fullest[1] and (not state.folder or not state.files):
        return f"cd {fullest[0]}"
    if file or state.files:
        return f"cat {file or state.files[0]}"
    return "more" if state.page < state.pages else "cd .."


def advised(state: ExplorationState, next_place: NextPlace = place_by_words) -> str:
    """Action that comparing names recommends: answer, read what was found, search, or look at the next place.

    Args:
        state: what is seen.
        next_place: rule that chooses among names.
    """
    asked = question_words(state.question)
    # At the last turn any answer is better than none: a missing one loses as surely as a wrong one.
    best = max(state.read, key=_count, default=None)
    if best and (_count(best) >= ENOUGH * len(asked) or state.turn >= state.horizon):
        return f"id {best[0]}"
    return explored(state, next_place)


def explored(state: ExplorationState, next_place: NextPlace = place_by_words) -> str:
    """Action that comparing names recommends to someone who knows that no file read so far is the answer.

    The best file that was found, else the next search; where none is offered or left, the next place.

    Args:
        state: what is seen.
        next_place: rule that chooses among names.
    """
    if state.hits:
        return f"cat /{state.hits[0][0]}"
    if state.searches:
        return f"search {state.searches[0]}"
    return next_place(state)


def reflection_text(
    state: ExplorationState, advice: str, *, numbered: bool = True, fullness: Advice = "command"
) -> str:
    """A reflection from facts that code can check, the advice last.

    It says how many words of the question the last file holds and which are missing, which file that was read holds
    most, and which unread file and folder have the best names.

    Args:
        state: what is seen.
        advice: the action that is recommended.
        numbered: say the places of actions too, as `numbers` gives them; without a command none is said.
        fullness: `command` ends with the action, `goal` with what kind of thing to look for, `facts` with neither.

    >>> notes = (("a.py", ("limits",)),)
    >>> state = ExplorationState("Parsing rate limits", 3, 15, "", files=("rates.py",), read=notes, last="cat a.py")
    >>> text = reflection_text(state, "cat rates.py")
    >>> text.split(". ")[:3]
    ['a.py has 1 of 3, not parsing rate', 'Best read: a.py 1 of 3 =1', 'Best file: rates.py (rate) =0']
    >>> text.split(". ")[3]
    'Next: cat rates.py =0.'
    """
    asked = question_words(state.question)
    place = numbers(state) if numbered and fullness == "command" else {}
    total, parts = len(asked), []

    def behind(action: str) -> str:
        return f" ={place[action]}" if action in place else ""

    if state.last.startswith("cat ") and state.read:
        path, found = state.read[-1]
        here = {word for piece in found for word in words(piece)}
        missing = surface(state.question, [word for word in asked if word not in here])
        # Bounded, as a reflection has to fit into a small model's context.
        lack = f", not {' '.join(missing[:4])}" if missing else ""
        parts.append(f"{path} has {total - len(missing)} of {total}{lack}.")
    if state.read:
        path, found = max(state.read, key=_count)
        parts.append(f"Best read: {path} {len(found)} of {total}{behind(f'id {path}')}.")
    unread = [name for name, left in state.folders if left]
    for kind, verb, names in (("file", "cat", state.files), ("folder", "cd", unread)):
        name, shared = best_name(names, asked)
        if name:
            those = " ".join(surface(state.question, shared))
            parts.append(f"Best {kind}: {name} ({those}){behind(f'{verb} {name}')}.")
    if fullness == "command":
        parts.append(f"Next: {advice}{behind(advice)}.")
    elif fullness == "goal":
        parts.append(f"Seek: {_goal(state, advice)}.")
    # A first state may hold no fact at all, and an empty reflection would be none.
    return " ".join(parts) or "Nothing was read."


def _goal(state: ExplorationState, advice: str) -> str:
    """The kind of thing that an action looks for, without its name.

    >>> _goal(ExplorationState("Parsing rate limits", 3, 15, ""), "cd net")
    'a folder about parsing rate limits'
    """
    verb = advice.partition(" ")[0]
    if verb == "id":
        return "an answer"
    if advice == "cd ..":
        return "another folder"
    if verb == "more":
        return "the rest of this folder"
    topic = " ".join(surface(state.question, question_words(state.question)[:MOST_NAMED]))
    return f"{'a folder' if verb == 'cd' else 'a file'} about {topic}"


def advise(state: str, fullness: Advice = "command", next_place: NextPlace = place_by_words) -> str:
    """The reflection of someone who compares names, and knows no more than a state text.

    Args:
        state: text of the state.
        fullness: what the reflection says of the next action (`reflection_text`).
        next_place: rule that chooses among names.

    Raises:
        ValueError: the text is no state of AutoExplore.
    """
    scene = read_state(state)
    return reflection_text(scene, advised(scene, next_place), fullness=fullness)


def action_numbers(state: str) -> dict[str, int]:
    """Numbers of the actions that a state text names.

    Raises:
        ValueError: the text is no state of AutoExplore.
    """
    return numbers(read_state(state))
