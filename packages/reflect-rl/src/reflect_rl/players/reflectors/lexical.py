"""A reflection player without a language model: it reads the state text by rules, and says what it finds.

The rules are the game's own (`advise` of an environment). They see the state like any other reflection player, and
nothing else: in AutoExplore they compare words, in ALFWorld they search the likeliest places. Deterministic, and well
below a millisecond a reflection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reflect_rl import registry
from reflect_rl.types import View

__all__ = ["LexicalReflector"]


class LexicalReflector:
    """Facts of the state text, and what they recommend.

    Args:
        environment: name of a game that offers `advise`.

    Raises:
        UnknownNameError: no such environment.
        AttributeError: it offers no `advise`.
    """

    name = "lexical"
    sees_oracle = False

    def __init__(self, environment: str = "autoexplore") -> None:
        self._advise: Callable[[str], str] = registry.find("environments", environment).advise

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """One reflection per view.

        Raises:
            ValueError: a state is none of the game.
        """
        return [self._advise(view.observation.text) for view in views]
