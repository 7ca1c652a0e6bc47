"""Labels of the numbered actions: each is one token right after the prompt, whatever the tokenizer.

GPT-2 has one token for each of 0..199; Llama and Qwen tokenizers split numbers into digits, so there the list goes on
with letters and then with short entries of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from string import ascii_letters, ascii_lowercase, ascii_uppercase

from reflect_rl.errors import ModelError
from reflect_rl.models.load import LanguageModel

__all__ = ["PROMPT_END", "Labels", "find_labels"]

PROMPT_END = " # Action:\n"
"""The end of every policy prompt."""
ALPHANUMERIC = frozenset(ascii_letters + "0123456789")


@dataclass(frozen=True)
class Labels:
    """Names of the listed actions and the token of each, in order."""

    texts: tuple[str, ...]
    ids: tuple[int, ...]


def find_labels(language_model: LanguageModel, count: int, contexts: Sequence[str] = (PROMPT_END,)) -> Labels:
    """The first `count` labels of a tokenizer: 0, 1, 2, ..., then A-Z, a-z, then other short words.

    Each label is one token when written after any of the contexts, no two share a token, and each decodes back.

    Args:
        language_model: whose tokenizer decides.
        count: how many labels are needed: the largest number of actions in one state.
        contexts: ends of the prompts after which a label is written.

    Raises:
        ModelError: the tokenizer has fewer labels.
    """
    starts = [(context, language_model.encode(context)) for context in contexts]
    found: dict[int, str] = {}
    for text, token in _candidates(language_model, starts):
        if len(found) == count:
            break
        found.setdefault(token, text)
    if len(found) < count:
        raise ModelError(
            f"{count} actions need one-token labels, the tokenizer of {language_model.name!r} has {len(found)}. "
            "Use a model with a larger vocabulary, or an environment with fewer actions in a state."
        )
    return Labels(tuple(found.values()), tuple(found))


Starts = Sequence[tuple[str, list[int]]]


def _candidates(language_model: LanguageModel, starts: Starts) -> Iterator[tuple[str, int]]:
    """Label texts with their token, best first. The numbers end at the first one that is split."""
    for number in count_from():
        token = _token(language_model, str(number), starts)
        if token is None:
            break
        yield str(number), token
    for text in (*ascii_uppercase, *ascii_lowercase, *_short_entries(language_model)):
        token = _token(language_model, text, starts)
        if token is not None:
            yield text, token


def _token(language_model: LanguageModel, text: str, starts: Starts) -> int | None:
    """The one token of `text` after every start; None if it is split, joined, or depends on the start."""
    tokens = set()
    for context, start in starts:
        ids = language_model.encode(context + text)
        if ids[:-1] != start:
            return None
        tokens.add(ids[-1])
    if len(tokens) != 1:
        return None
    token = tokens.pop()
    return token if language_model.decode([token]) == text else None


def _short_entries(language_model: LanguageModel) -> list[str]:
    """Vocabulary entries of two to four letters and digits, short ones first; no numbers (their order misleads)."""
    entries = (
        entry
        for entry in language_model.tokenizer.get_vocab()
        if 2 <= len(entry) <= 4 and ALPHANUMERIC.issuperset(entry) and not entry.isdigit()
    )
    return sorted(entries, key=lambda entry: (len(entry), entry))
