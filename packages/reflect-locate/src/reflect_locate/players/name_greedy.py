"""Greedy by name: a floor for AutoExplore that compares the question with names, and reads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from reflect_locate.envs.text import Scene, asked_words, read_scene
from reflect_rl.players.policies.wishes import first_listed, fit
from reflect_rl.types import Decision, View

__all__ = ["NameGreedyPolicy", "build"]


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
        scenes = [read_scene(view.observation.text) for view in views]
        return [
            Decision(first_listed(view, _wishes(scene)), self.name) for view, scene in zip(views, scenes, strict=True)
        ]


def build() -> NameGreedyPolicy:
    """The policy, by the name of its file."""
    return NameGreedyPolicy()


def _wishes(scene: Scene) -> Iterator[str]:
    """Actions, best first."""
    asked = asked_words(scene.question)
    for path, _ in sorted(scene.read, key=lambda note: -fit(note[0], asked)):
        yield f"id {path}"
    # A file is nearer than what a folder holds, except at the root, where no answer of a deeper game lies.
    entries = [(fit(name, asked), not scene.folder, unread, f"cd {name}") for name, unread in scene.folders if unread]
    entries += [(fit(name, asked), bool(scene.folder), 0, f"cat {name}") for name in scene.files]
    entries.sort(key=lambda entry: entry[:3], reverse=True)
    if scene.page < scene.pages and not any(entry[0] for entry in entries):
        yield "more"
    for *_, action in entries:
        yield action
    yield "cd .."
