"""A policy that plays on where a prompt is longer than its model's context.

Folders of the wild have longer names than those that a model was trained on. What carries least goes first: the text
that the last command showed (its words are in the notes), then the listings and notes (the actions name the same
files), then actions from the end of the listing; a reflection then gives their new numbers. The question is never cut.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reflect_rl.models.network import context_of
from reflect_rl.players.language_model import LanguageModelPolicy, tokenize
from reflect_rl.types import Observation, View

# `Task` and `Turn` are not among them: without the question no action has a reason.
LINES = (("> ",), ("Last: ",), ("Files: ", "Folders: "), ("Found: ",), ("Read: ",))
"""Beginnings of the lines that are left out, in this order."""
NUMBER = re.compile(r" =(\d+)\.(?= |$)")
"""End of a sentence of a reflection that gives the number of an action."""


class TruncatingPolicy(LanguageModelPolicy):
    """Leaves out of a view what its model has no room for; an action that is left out has probability zero."""

    def _log_probs(self, views: Sequence[View]) -> list[tuple[float, ...]]:
        fitted = [self._fit(view) for view in views]
        rows = super()._log_probs([view for view, _ in fitted])
        return [
            _scatter(row, kept, len(view.observation.actions))
            for row, (_, kept), view in zip(rows, fitted, views, strict=True)
        ]

    def _fit(self, view: View) -> tuple[View, tuple[int, ...]]:
        """A view that fits, and the actions of the whole view that are in it."""
        everything = tuple(range(len(view.observation.actions)))
        limit = context_of(self.model.model.config)
        fitted = view, everything
        for fitted in _shortened(view):
            # The first view that fits; the last and shortest one is taken even if it does not.
            if limit is None or len(tokenize(self.model, self.labels, fitted[0], self.rule)[0]) <= limit:
                break
        return fitted


def _shortened(view: View) -> Iterator[tuple[View, tuple[int, ...]]]:
    """The view, and ever shorter ones."""
    kept = tuple(range(len(view.observation.actions)))
    yield view, kept
    for starts in LINES:
        lines = view.observation.text.split("\n")
        text = "\n".join(line for line in lines if not line.startswith(starts))
        view = replace(view, observation=replace(view.observation, text=text))
        yield view, kept
    named = [index for index in kept if view.observation.actions[index].startswith("id ")]
    others = [index for index in kept if index not in named]
    # An answer must stay possible, and so must a step.
    while len(others) > 1:
        # Halved: a prompt is tokenized for each try, and one action less at a time would take hundreds.
        others = others[: len(others) // 2]
        kept = tuple(sorted([*others, *named]))
        yield _only(view, kept), kept
    while len(named) > 1:
        named = named[: len(named) // 2]
        kept = tuple(sorted([*others, *named]))
        yield _only(view, kept), kept


def _only(view: View, kept: Sequence[int]) -> View:
    number = {index: place for place, index in enumerate(kept)}
    actions = tuple(view.observation.actions[index] for index in kept)
    observation = Observation(view.observation.text, actions, view.observation.state)
    # Numbers in a reflection are places in the list, which is shorter now.
    reflection = view.reflection and NUMBER.sub(lambda mark: _renumbered(mark, number), view.reflection)
    order = tuple(number[i] for i in view.order if i in number)
    return replace(view, observation=observation, order=order, reflection=reflection)


def _renumbered(mark: re.Match[str], number: Mapping[int, int]) -> str:
    """The new number of an action; none where it was left out."""
    place = number.get(int(mark[1]))
    return "." if place is None else f" ={place}."


def _scatter(row: Sequence[float], kept: Sequence[int], count: int) -> tuple[float, ...]:
    # Actions that the model did not see keep their place with probability zero.
    whole = [-math.inf] * count
    for index, value in zip(kept, row, strict=True):
        whole[index] = value
    return tuple(whole)
