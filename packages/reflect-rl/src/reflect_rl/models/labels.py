"""Labels of the listed actions: each is one token where the answer begins, whatever the tokenizer.

Numbers, if the tokenizer has one token for each that is needed: GPT-2 has for 0 to 199, the embedded model for all.
Llama, Qwen and SmolLM split numbers into digits, and a list whose first ten entries are numbers and the rest letters is
hard to read. There the labels are A to Z, then two letters: AA, AB, ... as far as the vocabulary holds them.

A model that was trained keeps the labels that it learned; where more are needed, they follow those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from string import ascii_letters, ascii_lowercase, ascii_uppercase
from typing import Literal

from reflect_rl.config import Rule
from reflect_rl.errors import ModelError
from reflect_rl.models.load import LanguageModel

PROMPT_END = " # Action:\n"
"""The end of every policy prompt."""
LETTERS = frozenset(ascii_letters)
UNLABELLED = {
    "line_end": "Actions are listed one to a line, without labels.",
    "sum": "Actions are not listed: each is scored by its own text.",
    "token_mean": "Actions are not listed: each is scored by the mean of its text's tokens.",
}
"""Sentences for the record of a run, of the scoring rules that need no labels."""


@dataclass(frozen=True)
class Labels:
    """Names of the listed actions and the token of each, in order; where the rule needs none, their numbers alone."""

    texts: tuple[str, ...]
    ids: tuple[int, ...]
    rule: Rule = "choice_token"

    @property
    def kind(self) -> Literal["numbers", "letters"]:
        """Kind of the labels: `numbers` are 0, 1, 2, ..."""
        return "numbers" if all(text.isdigit() for text in self.texts) else "letters"

    @property
    def sentence(self) -> str:
        """Sentence for the record of a run: the labels, and the reason for their kind."""
        if self.rule in UNLABELLED:
            return UNLABELLED[self.rule]
        span, count = f"{self.texts[0]} to {self.texts[-1]}", len(self.texts)
        if self.kind == "numbers":
            return f"Actions are listed under {span}: the tokenizer has one token for each of these {count} numbers."
        return (
            f"Actions are listed under {count} labels of letters, {span}: the tokenizer splits some of the numbers "
            f"below {count} into several tokens."
        )


def find_labels(language_model: LanguageModel, count: int, rule: Rule = "choice_token") -> Labels:
    """The first `count` labels of a model: those that it was trained with, then numbers, or letters.

    Each label is one token when written after a prompt, no two share a token, and each decodes back.

    Args:
        language_model: whose tokenizer decides.
        count: how many labels are needed: the largest number of actions in one state.
        rule: by which actions are scored; under all but one nothing is asked of the tokenizer.

    Raises:
        ModelError: the tokenizer has fewer labels.
    """
    if rule in UNLABELLED:
        return Labels(tuple(map(str, range(count))), tuple(range(count)), rule)
    known = language_model.labels
    numbers = () if any(not text.isdigit() for text in known) else map(str, range(count))
    found: dict[int, str] = {}
    for candidates in (numbers, _letters(language_model)):
        found = {}
        for text in chain(known, candidates):
            token = _token(language_model, text)
            if token is not None:
                # A tokenizer without case gives `A` and `a` one token; the first text keeps it.
                found.setdefault(token, text)
            texts = tuple(found.values())
            if len(texts) == count and texts[: len(known)] == known[:count]:
                return Labels(texts, tuple(found))
    if any(_token(language_model, text) is None for text in known):
        raise ModelError(
            f"labels.json of {language_model.title} holds labels that are no single tokens of its tokenizer. "
            "Delete the file, or put back the tokenizer that the model was trained with."
        )
    raise ModelError(
        f"{count} actions need one-token labels, the tokenizer of {language_model.title} has {len(found)}. "
        "Set prompt.scoring = 'line_end' or 'sum', which need none, or use a model with a larger vocabulary."
    )


def _letters(language_model: LanguageModel) -> Iterator[str]:
    """Labels without digits, the most readable first: A-Z, two capitals, then a-z and short words of the vocabulary."""
    entries = language_model.tokenizer.get_vocab()
    # Nothing but an entry of the vocabulary can be one token, so nothing else is tried.
    words = [entry for entry in entries if 2 <= len(entry) <= 4 and LETTERS.issuperset(entry)]
    pairs = sorted(entry for entry in words if len(entry) == 2 and entry.isupper())
    yield from ascii_uppercase
    yield from pairs
    yield from ascii_lowercase
    yield from sorted((word for word in words if word not in pairs), key=lambda word: (len(word), word))


def _token(language_model: LanguageModel, text: str) -> int | None:
    """The token of `text` after a prompt; None if it is split, or joined with the prompt's end."""
    ids = language_model.continuation(PROMPT_END, text)
    if ids is None or len(ids) != 1:
        return None
    # A token can stand for more than the text, such as a space before it, which the list does not show.
    return ids[0] if language_model.decode(ids) == text else None
