"""What the wordwise policies of AutoExplore share: how well a name fits, and the way from a wish to a listed action."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reflect_locate.envs.text import Note
from reflect_locate.repositories.words import words
from reflect_rl.types import View

__all__ = ["best_note", "first_listed", "fit"]


def fit(path: str, asked: Iterable[str]) -> int:
    """How many words of the question stand in the last part of a path, its ending left out.

    >>> fit("tools/rate_limits.py", ("rat", "limit", "tool"))
    2
    """
    name = path.rpartition("/")[2]
    own = set(words(name.rpartition(".")[0] or name))
    return sum(word in own for word in asked)


def best_note(notes: Sequence[Note], asked: Sequence[str]) -> Note | None:
    """The file whose nearest passage holds most words of the question; then the best name, then the one read first."""
    return max(notes, key=lambda note: (len(note[1]), fit(note[0], asked)), default=None)


def first_listed(view: View, wishes: Iterable[str]) -> int:
    """Index of the first wish that is an admissible action; the last action where none is, an answer if there is one.

    Raises:
        ValueError: the view lists no actions.
    """
    actions = view.observation.actions
    if not actions:
        raise ValueError("a policy was shown a state without actions")
    answers = (index for index in reversed(range(len(actions))) if actions[index].startswith("id "))
    fallback = next(answers, len(actions) - 1)
    return next((actions.index(wish) for wish in wishes if wish in actions), fallback)
