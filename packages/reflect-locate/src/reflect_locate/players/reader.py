"""Best-first reader: a floor for AutoExplore with the information and the turns of the learned players.

It knows what the state says and remembers nothing else. Differs from the reader of the feasibility study: that one
remembered the listings of all folders that it had seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from reflect_locate.envs.state_text import ExplorationState, read_state
from reflect_locate.players.names import best_note, ranked_entries
from reflect_locate.repositories.words import question_words
from reflect_rl.players.scripted import first_listed
from reflect_rl.types import Decision, View


class ReaderPolicy:
    """Reads files in the order of their names, and answers with the one whose nearest passage fits best.

    The best entry is the one whose name shares most words with the question, and of equals the nearest: inside a folder
    its files, then its folders, then the way out. At the root folders come before files, the fullest first, because the
    answers of deeper games lie in them. Reading ends when a passage holds all words of the question, or with the turns.
    Where a search is offered, its files come before all others.
    """

    name = "reader"
    sees_oracle = False

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The best entry of each view, or the best answer.

        Raises:
            ValueError: a state is none of AutoExplore.
        """
        states = [read_state(view.observation.text) for view in views]
        return [
            Decision(first_listed(view, [*_answer(state), *_searches(view), *_places(state)]), self.name)
            for view, state in zip(views, states, strict=True)
        ]


def _answer(state: ExplorationState) -> Iterator[str]:
    """The best file that was read, once there is no better to be found or no turn left for it."""
    asked = question_words(state.question)
    best = best_note(state.read, asked)
    # Reading on after a passage with all words could only cost turns.
    if best and (len(best[1]) >= len(asked) or state.turn >= state.horizon):
        yield f"id {best[0]}"


def _searches(view: View) -> Iterator[str]:
    """Files that a search found, best first, else the next search."""
    actions = view.observation.actions
    yield from (action for action in actions if action.startswith("cat /"))
    yield from (action for action in actions if action.startswith("search "))


def _places(state: ExplorationState) -> Iterator[str]:
    """Entries of this page, best first, then the other pages and the way out."""
    yield from (action for _, action in ranked_entries(state, question_words(state.question)))
    # `more` comes back to the first page after the last one, and the rest of the tree is found from there.
    if state.page < state.pages:
        yield "more"
    yield "cd .."
    yield "more"
