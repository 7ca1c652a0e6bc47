"""The oracle's templated reflection, built from facts that code can check: the teacher of the reflection model."""

from __future__ import annotations

from collections.abc import Sequence

from reflect_rl.types import View

__all__ = ["OracleReflector"]


class OracleReflector:
    """Writes what the solver knows."""

    name = "oracle"
    sees_oracle = True

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """The template of each view's state.

        Raises:
            ValueError: a view carries no oracle knowledge.
        """
        if any(view.oracle is None for view in views):
            raise ValueError("the oracle reflector needs views with oracle knowledge")
        return [view.oracle.reflection for view in views if view.oracle is not None]
