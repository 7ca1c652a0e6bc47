"""Overlap of file names with a question, and the order of a page's entries, for the policies that compare words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reflect_locate.envs.state_text import ExplorationState, FileNote, name_overlap


def path_overlap(path: str, asked: Iterable[str]) -> int:
    """Number of words of the question in the last part of a path, its ending left out.

    >>> path_overlap("tools/rate_limits.py", ("rat", "limit", "tool"))
    2
    """
    return len(name_overlap(path.rpartition("/")[2], asked))


def best_note(notes: Sequence[FileNote], asked: Sequence[str]) -> FileNote | None:
    """The file whose nearest passage holds most words of the question; then the best name, then the one read first."""
    # The name decides between equal passages only: what stands in a file is better evidence than what it is called.
    return max(notes, key=lambda note: (len(note[1]), path_overlap(note[0], asked)), default=None)


def ranked_entries(state: ExplorationState, asked: Sequence[str]) -> list[tuple[int, str]]:
    """Unread files and folders of this page, best first: words that the name shares with the question, and the command.

    Of equal names files come first, except at the root, where no answer of a deeper game lies; then the fullest folder.

    >>> state = ExplorationState("Parsing", 1, 15, "", folders=(("a", 2), ("b", 0)), files=("parser.py", "c.py"))
    >>> ranked_entries(state, ("pars",))
    [(1, 'cat parser.py'), (0, 'cd a'), (0, 'cat c.py')]
    """
    entries = [
        (path_overlap(name, asked), not state.folder, unread, f"cd {name}") for name, unread in state.folders if unread
    ]
    entries += [(path_overlap(name, asked), bool(state.folder), 0, f"cat {name}") for name in state.files]
    # Without the action's text: equal entries keep the order of the listing, also in reverse.
    entries.sort(key=lambda entry: entry[:3], reverse=True)
    return [(shared, action) for shared, _, _, action in entries]
