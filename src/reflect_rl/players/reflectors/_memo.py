"""What the players that write with a frozen model share: each prompt is answered once and remembered.

With greedy decoding an answer is a function of its prompt, and in closed games most states recur.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence

from reflect_rl.core.types import View
from reflect_rl.prompts.render import reflection_prompt

__all__ = ["MemoisedReflector"]


class MemoisedReflector(ABC):
    """Writes a reflection for each prompt that it does not remember.

    Args:
        memo_size: prompts to remember; the least recently used go first.
    """

    name: str
    sees_oracle = False

    def __init__(self, memo_size: int) -> None:
        self.memo_size = memo_size
        self.hits = self.requests = 0
        self._memo: OrderedDict[str, str] = OrderedDict()

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """One reflection per view; prompts seen before are answered from memory."""
        prompts = [reflection_prompt(view) for view in views]
        missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._memo]
        self.requests += len(prompts)
        self.hits += len(prompts) - len(missing)
        fresh = dict(zip(missing, self._write(missing), strict=True)) if missing else {}
        answers: list[str | None] = [fresh.get(prompt) or self._memo.get(prompt, "") for prompt in prompts]
        self._remember(prompts, fresh)
        return answers

    @property
    def hit_rate(self) -> float:
        """Share of the requests so far that were answered from memory."""
        return self.hits / self.requests if self.requests else 0.0

    @abstractmethod
    def _write(self, prompts: Sequence[str]) -> list[str]:
        """The most likely continuation of each prompt; all are different."""

    def _remember(self, prompts: Sequence[str], fresh: dict[str, str]) -> None:
        self._memo.update(fresh)
        for prompt in prompts:
            self._memo.move_to_end(prompt)
        while len(self._memo) > self.memo_size:
            self._memo.popitem(last=False)
