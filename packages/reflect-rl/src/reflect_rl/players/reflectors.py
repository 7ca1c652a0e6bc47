"""Reflection players that write with a model, the likeliest text of each state.

With greedy decoding an answer is a function of its prompt, and in closed games most states recur, so answers are cached
and reflections then cost almost nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from reflect_rl.models.generate import generate_greedy
from reflect_rl.models.kept import Kept
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import check_context
from reflect_rl.prompts import reflection_prompt, state_in, with_right_number
from reflect_rl.types import View

Numbers = Callable[[str], Mapping[str, int]]
"""State text -> numbers of the actions that it names."""

Gather = Callable[[Sequence[tuple[str, str]]], Sequence[tuple[str, str]]]
"""Pairs of prompt and text of this process -> those of all processes."""


class CachedReflector(ABC):
    """Writes a reflection for each prompt that it does not remember.

    Args:
        cache_size: prompts to remember; the least recently used go first.
        numbers: state text -> numbers of the actions that it names, to set right the one behind the action that a
            reflection recommends (None: reflections stay as they were written).
    """

    name: str
    sees_oracle = False

    def __init__(self, cache_size: int, numbers: Numbers | None = None) -> None:
        self.cache_size, self.numbers = cache_size, numbers
        self.hits = self.requests = 0
        self._cache: OrderedDict[str, str] = OrderedDict()
        self._unshared: dict[str, str] | None = None

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """Write a reflection for each view; prompts seen before are answered from memory."""
        prompts = [reflection_prompt(view) for view in views]
        missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._cache]
        self.requests += len(prompts)
        self.hits += len(prompts) - len(missing)
        # Several environments are often in the same state, so a batch is reduced to its distinct prompts first.
        fresh = dict(zip(missing, self._write(missing), strict=True)) if missing else {}
        # Read before `_remember`: a batch larger than the cache pushes out its own entries.
        answers = [fresh.get(prompt) or self._cache.get(prompt, "") for prompt in prompts]
        self._remember(prompts, fresh)
        # Kept apart where somebody takes them only: they would grow without end.
        if self._unshared is not None:
            self._unshared.update(fresh)
        if self.numbers is None:
            return [*answers]
        known = [self.numbers(view.observation.text) for view in views]
        return [with_right_number(text, numbers) for text, numbers in zip(answers, known, strict=True)]

    def exchange(self, gather: Gather) -> None:
        """Give the other processes the texts that were written since the last exchange, and take theirs."""
        mine = self._cache if self._unshared is None else self._unshared
        found = dict(gather(list(mine.items())))
        self._unshared = {}
        self._remember(list(found), found)

    @property
    def hit_rate(self) -> float:
        """Share of the requests so far that were answered from memory."""
        return self.hits / self.requests if self.requests else 0.0

    @abstractmethod
    def _write(self, prompts: Sequence[str]) -> list[str]:
        """The most likely continuation of each prompt; all are different."""

    def _remember(self, prompts: Sequence[str], fresh: dict[str, str]) -> None:
        self._cache.update(fresh)
        for prompt in prompts:
            # Also for prompts that were found, which makes the oldest entry the least recently used one.
            self._cache.move_to_end(prompt)
        while len(self._cache) > self.cache_size:
            self._cache.popitem(last=False)


REFLECTION_TOKENS = 96
"""Longest reflection where nothing else is said."""


class GreedyReflector(CachedReflector):
    """Greedy, batched, memoised (least recently used of `cache_size` prompts go first).

    Its texts are those of the weights at the time of a prompt's first request.
    """

    name = "greedy"
    freezes = False
    """True = the weights stay as they are from now on."""

    def __init__(
        self,
        model: LanguageModel,
        max_new_tokens: int = REFLECTION_TOKENS,
        cache_size: int = 50_000,
        numbers: Numbers | None = None,
    ) -> None:
        super().__init__(cache_size, numbers)
        # Dropout would make the same prompt give different texts, and the cache would hide it.
        model.model.eval()
        if self.freezes:
            model.model.requires_grad_(False)
        self.model, self.max_new_tokens = model, max_new_tokens
        self._kept = Kept()

    def forget(self) -> None:
        """Drop keys and values of the prompts; the texts stay."""
        self._kept.clear()

    def _write(self, prompts: Sequence[str]) -> list[str]:
        ids = [self.model.encode_prompt(prompt) for prompt in prompts]
        longest = max(range(len(ids)), key=lambda row: len(ids[row]))
        # Here, because token ids alone would not show the user which state it is.
        check_context(self.model, len(ids[longest]), state_in(prompts[longest]), self.max_new_tokens)
        return generate_greedy(self.model, ids, self.max_new_tokens, self._kept)


class FrozenReflector(GreedyReflector):
    """A `GreedyReflector` whose weights nobody trains any more."""

    name = "frozen"
    freezes = True
