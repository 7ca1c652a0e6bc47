"""The annotator's label sources: what it plays, and what it names as the target."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from reflect_rl.players.scripted import Annotator, LabelSource
from reflect_rl.types import Observation, Oracle, View

ACTIONS = ("cd ..", "cat a.py", "cat b.py", "cat c.py")


def view(explorer: int | None) -> View:
    """The solver goes back; the explorer reads `c.py`, which is one of the mistakes that do no harm."""
    oracle = Oracle(best=0, optimal=(0,), safe=(1, 3), turns_left=3, explorer=explorer)
    return View(Observation("state", ACTIONS), (0, 1, 2, 3), None, oracle)


def decided(
    label_source: LabelSource, perturbation: float, explorer: int | None, count: int = 1
) -> list[tuple[int, int | None]]:
    """(played, target) in as many equal states."""
    annotator = Annotator(perturbation, label_source)
    rngs = [np.random.default_rng(seed) for seed in range(count)]
    return [(decision.index, decision.target) for decision in annotator.decide([view(explorer)] * count, rngs)]


@pytest.mark.parametrize(
    ("label_source", "explorer", "expected"),
    [
        ("clean", None, 0),
        ("clean", 3, 0),
        ("paper", 3, 0),
        ("exploring", 3, 3),
        # A game without an explorer is demonstrated by its solver.
        ("exploring", None, 0),
        ("noisy", 3, 3),
        ("noisy", None, 0),
    ],
)
def test_who_is_followed_when_nothing_is_perturbed(label_source: LabelSource, explorer: int | None, expected: int):
    assert decided(label_source, 0.0, explorer, 20) == [(expected, expected)] * 20


def test_a_perturbed_explorer_makes_a_harmless_mistake_and_is_still_the_target():
    # Of the two harmless mistakes one is what the explorer does.
    assert decided("exploring", 1.0, 3, 50) == [(1, 3)] * 50
    played = decided("exploring", 1.0, None, 200)
    assert {target for _, target in played} == {0}
    assert {index for index, _ in played} == {1, 3}


def test_the_other_label_sources_do_not_look_at_the_explorer():
    for label_source in ("clean", "paper"):
        assert decided(label_source, 0.5, 3, 200) == decided(label_source, 0.5, None, 200)  # type: ignore[arg-type]
    played = Counter(decided("paper", 1.0, 3, 400))
    assert {index for index, _ in played} == {0, 1, 2, 3}
    assert all(index == target for index, target in played)


def test_about_the_share_that_was_asked_for_is_perturbed():
    wrong = sum(index != target for index, target in decided("exploring", 0.3, 3, 1000))
    # Binomial with n = 1000, p = 0.3: five standard deviations are 72.
    assert abs(wrong - 300) < 72


def test_noisy_labels_are_what_the_perturbed_explorer_played():
    played = Counter(decided("noisy", 0.5, 3, 800))
    assert all(index == target for index, target in played)
    # The explorer's own action is drawn with probability 0.5 + 0.5 / 4, each other one with 0.5 / 4.
    assert {index for index, _ in played} == {0, 1, 2, 3}
    assert 0.56 < played[3, 3] / 800 < 0.69
