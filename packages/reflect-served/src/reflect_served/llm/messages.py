"""Requests and answers as values without a key, and as JSON on the wire."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reflect_served.llm.config import EndpointConfig
from reflect_served.llm.errors import UnreadableError
from reflect_served.secrets import without_secrets

FEATURES: dict[str, tuple[str, ...]] = {
    "response": ("response_format", "json_schema"),
    "logprobs": ("logprobs", "top_logprobs"),
    "stop": ("stop",),
    "seed": ("seed",),
}
"""Features that not every server offers, and the names by which a refusal speaks of them."""

LONGEST_TOKEN = 128
"""Characters of the longest token: a text with more than this for each token that was asked for is cut."""
LONGEST_TEXT = 100_000
"""Characters of an answer that are read."""

MOST_TOKENS = 10**9
"""Highest count of tokens that is believed: no model reads or writes so many at once."""

BROKEN = ("abort", "error")
"""Endings with which servers say that an answer is none."""

TEMPLATE_TOKENS = 16
"""Most tokens that a chat template puts around one message."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Question to a language model."""

    messages: tuple[tuple[str, str], ...]
    """Role (`system`, `user`, `assistant`) and text of each."""
    max_new_tokens: int = 512
    """Longest answer; of a reasoning model, thoughts included."""
    response: Mapping[str, Any] | None = None
    """JSON schema of the answer; where the server does not offer that, the answer is any text."""
    top_logprobs: int = 0
    """Alternatives to the first token whose log-probabilities are wanted; where they are not offered, none come."""
    stop: tuple[str, ...] = ()
    """The answer ends before the first of these."""
    sample: int = 0
    """Number of the answer, where a prompt is asked several times with a temperature."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """Answer of a language model."""

    text: str
    """Empty where the model gave none."""
    ending: str
    """Reason why it ended: `stop`, `length`, `content_filter`, ..."""
    prompt_tokens: int
    completion_tokens: int
    """Counts of the server, or the most that they can be where it gives none."""
    seconds: float
    """From the request to the answer, failed attempts included."""
    cached: bool
    """True = it was here already, so nothing was sent."""
    logprobs: tuple[tuple[str, float], ...] | None = None
    """The likeliest first tokens and their log-probabilities (None: not wanted or not offered)."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Requests so far, and what they took."""

    requests: int = 0
    """Sent, further attempts included."""
    cached: int = 0
    """Answered without being sent."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """Cost in the currency of the prices."""
    seconds: float = 0.0
    """Sum over the answers, however many were under way at a time."""


def request_body(
    config: EndpointConfig, request: ChatRequest, withheld: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], frozenset[str]]:
    """Build the request as it is sent, and name the features (`FEATURES`) that it makes use of.

    Args:
        config: of the endpoint.
        request: what is asked.
        withheld: features that the server does not offer.
    """
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": role, "content": without_secrets(_plain(text))} for role, text in request.messages],
        "stream": False,  # the default of some servers is to stream
    }
    if config.reasoning:  # these models refuse `max_tokens` and a temperature
        body["max_completion_tokens"] = request.max_new_tokens
    else:
        body["max_tokens"] = request.max_new_tokens
        body |= {"temperature": config.temperature} if config.temperature is not None else {}
    if config.reasoning_effort is not None:
        body["reasoning_effort"] = config.reasoning_effort
    wanted: dict[str, dict[str, Any]] = {}
    if request.response is not None:
        schema = {"name": "answer", "schema": dict(request.response), "strict": True}
        wanted["response"] = {"response_format": {"type": "json_schema", "json_schema": schema}}
    if request.top_logprobs:
        wanted["logprobs"] = {"logprobs": True, "top_logprobs": request.top_logprobs}
    if request.stop:
        wanted["stop"] = {"stop": list(request.stop)}
    if config.seed is not None:
        wanted["seed"] = {"seed": config.seed + request.sample}
    used = frozenset(wanted) - withheld
    # Sorted, because the log holds a hash of the bytes, and a set has no order.
    for feature in sorted(used):
        body |= wanted[feature]
    return body, used


def bounded(text: str, tokens: int) -> str:
    """Part of an answer that is taken: it goes to disk and into prompts, where a broken server must not fill either.

    Args:
        text: what the server wrote.
        tokens: what it was asked for at most.
    """
    return _plain(text[: min(LONGEST_TEXT, LONGEST_TOKEN * tokens)])


def _plain(text: str) -> str:
    """Replace what cannot be sent, because it is no character of Unicode, by a question mark."""
    # File names that are no UTF-8 come with lone surrogates, which JSON on the wire cannot carry.
    return text.encode("utf-8", "replace").decode()


def answer_key(config: EndpointConfig, request: ChatRequest) -> str:
    """Hash all that determines an answer (SHA-256): host and path, the body, and the number of the sample.

    The body has all features that are wished for, so an answer is found whatever the server has refused since.
    """
    body, _ = request_body(config, request)
    # Neither http or https nor a last slash makes it another server.
    asked = [config.base_url.partition("://")[2].rstrip("/"), body, request.sample]
    # Sorted, so that the key does not change where fields are built in another order.
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def max_prompt_tokens(body: Mapping[str, Any]) -> int:
    """Bound the tokens of a prompt from above: no tokenizer makes more tokens than bytes; a template adds a few."""
    messages = body.get("messages") or [{"content": body.get("prompt", "")}]
    texts = [message["content"] for message in messages]
    if "response_format" in body:
        texts.append(json.dumps(body["response_format"]))
    return sum(len(text.encode()) for text in texts) + TEMPLATE_TOKENS * (len(messages) + 1)


def max_new_tokens(body: Mapping[str, Any]) -> int:
    """Longest answer, in tokens."""
    return int(body.get("max_tokens") or body["max_completion_tokens"])


def read_answer(
    raw: bytes, body: Mapping[str, Any], stop: tuple[str, ...], clean: Callable[[str], str] = str
) -> tuple[ChatAnswer, str]:
    """Read a server's reply: the answer, and the name of the model that the server says wrote it.

    Args:
        raw: the reply.
        body: of the request.
        stop: see `ChatRequest`.
        clean: takes the key out of what a message repeats.

    Raises:
        UnreadableError: the reply is no JSON or of another shape, or says itself that it is no answer.
    """
    try:
        reply = json.loads(raw)
        choice = reply["choices"][0]
        text, ending = choice["message"].get("content") or "", choice.get("finish_reason") or "stop"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # Cleaned before it is cut: half a key would be no key to look for.
        begun = clean(raw.decode("utf-8", "replace"))[:80]
        raise UnreadableError(f"{type(error).__name__}: {error}; it begins with {begun!r}") from None
    if not isinstance(text, str) or not isinstance(ending, str):
        raise UnreadableError("the message is no text")
    if ending in BROKEN:
        raise UnreadableError(f"the server broke off ({ending})")
    text = bounded(text, max_new_tokens(body))
    # Servers that do not know `stop` write on.
    text = text[: min((place for mark in stop if (place := text.find(mark)) >= 0), default=len(text))]
    prompt_tokens, completion_tokens = used_tokens(reply.get("usage"), body, text)
    answer = ChatAnswer(text, ending, prompt_tokens, completion_tokens, 0.0, False, _logprobs(choice))
    return answer, str(reply.get("model") or "")


def used_tokens(usage: object, body: Mapping[str, Any], text: str) -> tuple[int, int]:
    """Tokens of prompt and answer, as counted by the server, or as they are at most.

    Args:
        usage: what the server says of them.
        body: of the request.
        text: of the answer.
    """
    counts = usage if isinstance(usage, dict) else {}
    most = max_new_tokens(body)
    # Thoughts are paid for and not shown, so their number does not follow from the text.
    likely = most if "max_completion_tokens" in body else min(len(text.encode()) + 1, most)
    return _count(counts.get("prompt_tokens"), max_prompt_tokens(body)), _count(counts.get("completion_tokens"), likely)


def _count(value: Any, otherwise: int) -> int:
    # bool is an int in Python.
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
    return value if is_count else otherwise


def _logprobs(choice: Mapping[str, Any]) -> tuple[tuple[str, float], ...] | None:
    """The alternatives to the first token, if the reply has them in the shape of the OpenAI kind."""
    try:
        entries = choice["logprobs"]["content"][0]["top_logprobs"]
        found = tuple((str(entry["token"]), float(entry["logprob"])) for entry in entries)
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    return tuple(entry for entry in found if math.isfinite(entry[1])) or None
