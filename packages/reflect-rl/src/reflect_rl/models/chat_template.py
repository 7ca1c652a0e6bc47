"""A model's chat template: what it puts before and after the message of a user.

A prompt's text is the same for every model. Models that were trained to chat read it as a message and answer after the
generation prompt. Template and text are tokenised apart, so that a game's text cannot end the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reflect_rl.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MESSAGE = "\N{WHITE DIAMOND CONTAINING BLACK SMALL DIAMOND}message\N{WHITE DIAMOND CONTAINING BLACK SMALL DIAMOND}"
"""Stands for the user's text while the template is rendered."""

FIXED: dict[str, Any] = {"date_string": "26 Jul 2024", "enable_thinking": False}
"""Variables of well-known templates. Llama 3 writes the day into the prompt, and a run must not depend on the day; Qwen
3 would begin with thoughts, where one label is asked."""


@dataclass(frozen=True)
class ChatFrame:
    """A rendered template around the place of the message."""

    head: str
    tail: str
    """The end of the message and the beginning of the answer."""
    head_ids: tuple[int, ...]
    tail_ids: tuple[int, ...]
    border: str
    """The end of the tail that is no special token: an answer's first token can depend on it."""
    start: str
    """The start token that the tokenizer puts before every text; empty where it puts none."""

    def text(self, prompt: str) -> str:
        """The whole text, for programs that tokenise on their own, and so add the start token themselves."""
        return self.head.removeprefix(self.start) + prompt.rstrip() + self.tail


def start_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The start token that a tokenizer puts before every text, if it does."""
    # GPT-2 and others name a start token and never write it, so one text is tokenised to see.
    start = tokenizer.bos_token_id
    return [int(start)] if start is not None and tokenizer.encode("a")[0] == start else []


def frame_of(tokenizer: PreTrainedTokenizerBase, source: str) -> ChatFrame | None:
    """Render what a tokenizer's chat template puts around a message; None without a template.

    Args:
        tokenizer: of the model.
        source: name of the model, for messages.

    Raises:
        ModelError: the template cannot be rendered, or does not show the message.
    """
    if tokenizer.chat_template is None:
        return None
    remedy = "Set model.chat_template = 'never'."
    # Rendered as text and tokenised afterwards, part by part: a game's text must not be able to end the message.
    message = [{"role": "user", "content": MESSAGE}]
    try:
        text = str(tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False, **FIXED))
    except Exception as error:  # a template is a program, so it can fail in any way
        raise ModelError(f"the chat template of {source!r} cannot be rendered ({error}). {remedy}") from error
    head, found, tail = text.partition(MESSAGE)
    if not found or MESSAGE in tail:
        raise ModelError(f"the chat template of {source!r} does not show the user's message once. {remedy}")
    head_ids, tail_ids = (
        tuple(tokenizer.encode(part, add_special_tokens=False, verbose=False)) for part in (head, tail)
    )
    start = str(tokenizer.bos_token) if start_ids(tokenizer) else ""
    return ChatFrame(head, tail, head_ids, tail_ids, _after_last_special(tokenizer, tail), start)


def _after_last_special(tokenizer: PreTrainedTokenizerBase, tail: str) -> str:
    names = [str(token) for token in tokenizer.added_tokens_decoder.values()]
    # Tokenizers cut at special tokens first, so only what follows the last one can join the answer in a token.
    return tail[max((tail.rfind(name) + len(name) for name in names if name and name in tail), default=0) :]
