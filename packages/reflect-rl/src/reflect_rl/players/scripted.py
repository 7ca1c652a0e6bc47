"""Players without a language model: the solver, its annotator, and those that follow rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from reflect_rl.envs.base import HasStateTeacher
from reflect_rl.prompts import recommended
from reflect_rl.types import Decision, View

if TYPE_CHECKING:
    import numpy as np

LabelSource = Literal["clean", "paper", "exploring", "noisy", "successes", "recorded"]


class OraclePolicy:
    """Plays an optimal action."""

    name = "oracle"
    sees_oracle = True

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The solver's best action of each view; where an expert knows none, any."""
        return [Decision(_best(view, rng), self.name) for view, rng in zip(views, rngs, strict=True)]


class Annotator:
    """Plays the solver's action, perturbed with probability ε, and labels every state with a target action.

    - `clean`: a perturbation is a wrong action after which the game goes on; the target is always the solver's action,
      so a perturbed step is never a target, only its repair is (Reflect-RL, negative example generation).
    - `paper`: a perturbation is any admissible action, drawn uniformly, and the target is the action that was played
      (the public reference code's rule, whose labels are as noisy as its behaviour).
    - `exploring`: as `clean`, but the solver is replaced by an expert who must look for the goal like the player: from
      a solver that knows where the goal is one learns to go there, not to look for it.
    - `noisy`: as `paper`, with the expert of `exploring`.
    """

    name = "annotator"
    sees_oracle = True

    def __init__(self, perturbation: float, label_source: LabelSource) -> None:
        self.perturbation = perturbation
        self.label_source = label_source

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """A perturbed solver's action and the target of each view."""
        return [self._decide(view, rng) for view, rng in zip(views, rngs, strict=True)]

    def _decide(self, view: View, rng: np.random.Generator) -> Decision:
        oracle, best = view.oracle, _best(view, rng)
        if oracle is None:
            return Decision(best, self.name)
        if self.label_source in ("exploring", "noisy") and oracle.explorer is not None:
            best = oracle.explorer
        candidates = tuple(range(len(view.observation.actions)))
        as_played = self.label_source in ("paper", "noisy")
        if not as_played:
            # The expert's action may be a safe detour to the solver; it is no mistake of the expert.
            candidates = tuple(index for index in oracle.safe if index != best)
        index = best
        # `candidates` first: a state without a safe detour draws nothing.
        if candidates and rng.random() < self.perturbation:
            index = candidates[int(rng.integers(len(candidates)))]
        return Decision(index, self.name, target=index if as_played else best)


def _best(view: View, rng: np.random.Generator) -> int:
    # An expert that knows only its own path is silent off it: something is played, and nothing learned from it.
    return int(rng.integers(len(view.observation.actions))) if view.oracle is None else view.oracle.best


class OracleReflector:
    """Writes what the game's teacher says."""

    name = "oracle"
    sees_oracle = True

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """The template of each view's state.

        Raises:
            ValueError: a view carries no lesson.
        """
        if any(view.lesson is None for view in views):
            raise ValueError("the oracle reflector needs a game with a teacher (HasTeacher)")
        return [view.lesson for view in views]


class LexicalReflector:
    """Writes facts of the state text, and what they recommend.

    Args:
        teacher: a game that reads its own state texts.
    """

    name = "lexical"
    sees_oracle = False

    def __init__(self, teacher: HasStateTeacher) -> None:
        self._advise = teacher.advise

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """Write a reflection for each view.

        Raises:
            ValueError: a state is none of the game.
        """
        return [self._advise(view.observation.text) for view in views]


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


class AdvicePolicy:
    """Does what the last sentence of the reflection says; where that is no admissible action, the last one listed."""

    name = "advice"
    sees_oracle = False

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The advised action of each view.

        Raises:
            ValueError: a view has no reflection.
        """
        return [Decision(first_listed(view, _advice(view)), self.name) for view in views]


def _advice(view: View) -> list[str]:
    # An error and no fallback: without advice this would be a floor that means nothing.
    if view.reflection is None:
        raise ValueError("the policy 'advice' follows a reflection, and the reflection player wrote none")
    action = recommended(view.reflection)
    return [] if action is None else [action]
