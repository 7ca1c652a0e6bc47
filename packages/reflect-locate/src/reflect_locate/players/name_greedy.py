"""Greedy by name: a floor for AutoExplore that compares the question with names, and reads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from reflect_locate.envs.state_text import ExplorationState, read_state
from reflect_locate.players.names import path_overlap, ranked_entries
from reflect_locate.repositories.words import question_words
from reflect_rl.players.scripted import first_listed
from reflect_rl.types import Decision, View


class NameGreedyPolicy:
    """Goes to the file or folder whose name shares most words with the question, opens one file, and answers with it.

    Where no name shares a word, it enters the fullest folder at the root and opens the first file elsewhere.
    """

    name = "name_greedy"
    sees_oracle = False

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The best name of each view.

        Raises:
            ValueError: a state is none of AutoExplore.
        """
        states = [read_state(view.observation.text) for view in views]
        return [
            Decision(first_listed(view, _wishes(state)), self.name) for view, state in zip(views, states, strict=True)
        ]


def _wishes(state: ExplorationState) -> Iterator[str]:
    """Actions, best first."""
    asked = question_words(state.question)
    for path, _ in sorted(state.read, key=lambda note: -path_overlap(note[0], asked)):
        yield f"id {path}"
    entries = ranked_entries(state, asked)
    # A matching name on this page is taken before other pages are seen, which cost a turn each.
    if state.page < state.pages and not any(shared for shared, _ in entries):
        yield "more"
    yield from (action for _, action in entries)
    yield "cd .."
