"""The frozen reflection player R: a language model that never changes after supervised training.

With greedy decoding it is a function of its prompt, so its answers are memoised: in closed games most states recur, and
reflections then cost almost nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from reflect_rl.core.types import View
from reflect_rl.models.generate import generate_greedy
from reflect_rl.models.load import LanguageModel
from reflect_rl.prompts.render import reflection_prompt

__all__ = ["FrozenReflector"]


class FrozenReflector:
    """Greedy, batched, memoised (least recently used of `memo_size` prompts go first)."""

    name = "frozen"
    sees_oracle = False

    def __init__(self, model: LanguageModel, max_new_tokens: int = 96, memo_size: int = 50_000) -> None:
        model.model.eval().requires_grad_(False)
        self.model, self.max_new_tokens, self.memo_size = model, max_new_tokens, memo_size
        self.hits = self.requests = 0
        self._memo: OrderedDict[str, str] = OrderedDict()

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """One reflection per view; prompts seen before are answered from memory."""
        prompts = [reflection_prompt(view) for view in views]
        missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._memo]
        self.requests += len(prompts)
        self.hits += len(prompts) - len(missing)
        fresh: dict[str, str] = {}
        if missing:
            ids = [self.model.encode(prompt) for prompt in missing]
            fresh = dict(zip(missing, generate_greedy(self.model, ids, self.max_new_tokens), strict=True))
        answers: list[str | None] = [fresh.get(prompt) or self._memo.get(prompt, "") for prompt in prompts]
        self._remember(prompts, fresh)
        return answers

    @property
    def hit_rate(self) -> float:
        """Share of the requests so far that were answered from memory."""
        return self.hits / self.requests if self.requests else 0.0

    def _remember(self, prompts: Sequence[str], fresh: dict[str, str]) -> None:
        self._memo.update(fresh)
        for prompt in prompts:
            self._memo.move_to_end(prompt)
        while len(self._memo) > self.memo_size:
            self._memo.popitem(last=False)
