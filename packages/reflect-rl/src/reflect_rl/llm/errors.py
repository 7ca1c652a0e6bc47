"""What goes wrong with a server, in words that name it and the remedy, and never the key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from reflect_rl.errors import UserError
from reflect_rl.llm.address import KEY

__all__ = [
    "BudgetError",
    "EndpointError",
    "Failure",
    "RefusedError",
    "Wording",
    "error_of",
    "explained",
    "failure_of",
    "told",
    "without_key",
]

NO_KEY = "none"
"""What servers without a key are sent, because the client insists on one."""

LONGEST = 300
"""Letters of a server's own words that a message repeats."""

GOES_ON = "The same command goes on from here."

UNSENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}
"""Exceptions of the transport with which nothing has left."""


class EndpointError(UserError):
    """The endpoint does not answer as it should; nothing that it has answered is lost."""


class RefusedError(EndpointError):
    """The endpoint does not take this one request (HTTP 400, 413, 422)."""


class BudgetError(EndpointError):
    """The next request could exceed the budget, so it was not sent."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no answer."""

    kind: Literal["timeout", "unreachable", "status", "unreadable"]
    words: str = ""
    """What the server or the connection said: one line, without the key."""
    status: int = 0
    """HTTP status, where there is one."""
    headers: tuple[tuple[str, str], ...] = ()
    """That say how long to wait."""
    subject: str = ""
    """The server's own names for what it refuses, in small letters: the parameter or, without that, the message."""
    was_sent: bool = True
    """Whether the request may have reached the server."""
    attempts: int = 1
    """After how many attempts."""

    @property
    def may_pass(self) -> bool:
        """Whether a further attempt makes sense."""
        if self.kind == "status":
            passing = self.status in (408, 409, 425, 429) or (self.status >= 500 and self.status != 501)
            return passing and not self.lacks_credit
        return True

    @property
    def lacks_credit(self) -> bool:
        """Whether the account has to be paid for first; the status is that of too many requests."""
        return self.status == 429 and "insufficient_quota" in self.words

    @property
    def asked_to_wait(self) -> bool:
        """Whether the server said for how long."""
        return any(name != "date" for name, _ in self.headers)

    @property
    def is_free(self) -> bool:
        """Whether it is certain that nothing has to be paid for the request."""
        return self.kind == "status" or not self.was_sent


@dataclass(frozen=True, slots=True)
class Wording:
    """How messages about one server speak."""

    name: str
    """What the server is: `the endpoint 127.0.0.1:8000 (model 'tiny')`."""
    section: str = "endpoint"
    """The table of the configuration."""
    variable: str = KEY
    """The environment variable of the key."""
    start: str = "Start it"
    """What to do where nobody answers."""
    route: str = " with /v1/chat/completions"
    """What the server has to offer."""
    room: str = (
        "Is there room for the prompt and the answer in the model's context? Does the model need {}.reasoning = true?"
    )
    """What may be wrong with a request that is refused; `{}` stands for the table."""


def failure_of(error: Exception, key: str, variable: str = KEY) -> Failure | None:
    """What an exception of the package `openai`, or of the transport below it, says; None for any other.

    The transport is told by the names of its classes, because `openai` has changed the package that it comes from.
    """
    from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAIError

    names = {kind.__name__ for kind in (*type(error).__mro__, *type(error.__cause__).__mro__)}
    if isinstance(error, APIStatusError):
        return _refusal(error, key, variable)
    if isinstance(error, APITimeoutError | TimeoutError) or "TimeoutException" in names:
        return Failure("timeout", was_sent=not names & UNSENT)
    if isinstance(error, APIConnectionError) or "TransportError" in names:
        return Failure("unreachable", told(str(error.__cause__ or error), key, variable), was_sent=not names & UNSENT)
    if isinstance(error, OpenAIError | ValueError | AttributeError | TypeError | LookupError):
        return Failure("unreadable", told(str(error), key, variable))
    return None


def _refusal(error: Any, key: str, variable: str) -> Failure:
    """Of an answer with an HTTP status other than success."""
    text = without_key(error.response.text, key, variable)
    headers = error.response.headers
    waits = tuple((name, headers[name]) for name in ("retry-after-ms", "retry-after", "date") if name in headers)
    subject = error.param if isinstance(error.param, str) and error.param else _message(text)
    return Failure("status", told(text, key, variable), error.status_code, waits, subject.lower())


def _message(text: str) -> str:
    """The part of a refusal that is the server's own, without a copy of the request that some servers add."""
    try:
        value = json.loads(text)
        detail = value.get("error", value)
        detail = detail.get("message", detail) if isinstance(detail, dict) else detail
        entries = detail["detail"] if isinstance(detail, dict) and "detail" in detail else detail
        if isinstance(entries, list):
            entries = [[entry.get("loc"), entry.get("msg")] for entry in entries]
        return json.dumps(entries)
    except (ValueError, AttributeError, TypeError):
        return text


def explained(failure: Failure, wording: Wording, timeout_seconds: float) -> str:
    """The message: server, what it did, remedy."""
    name, section = wording.name, wording.section
    if failure.kind == "timeout":
        return (
            f"{name} did not answer within {timeout_seconds:g} s, {failure.attempts} times. Is it at work? Raise "
            f"{section}.timeout_seconds, or lower {section}.parallel_requests."
        )
    if failure.kind == "unreachable":
        return f"{name} cannot be reached: {failure.words}. {wording.start}, or correct {section}.base_url. {GOES_ON}"
    if failure.kind == "status":
        return f"{name} refused a request: HTTP {failure.status}, {failure.words}. {_remedy(failure, wording)}"
    return (
        f"{name} gave an answer that cannot be read: {failure.words}. Is it a server of the OpenAI kind"
        f"{wording.route}, and does {section}.base_url end as it should, mostly in /v1?"
    )


def _remedy(failure: Failure, wording: Wording) -> str:
    """What to do about an HTTP status."""
    code, section = failure.status, wording.section
    if code in (401, 403):
        return f"Set {wording.variable} to the server's key."
    if code == 404:
        return f"Does it serve this model, and does {section}.base_url end as it should, mostly in /v1?"
    if failure.lacks_credit:
        return f"The account has no credit left. {GOES_ON}"
    if code == 429:
        wait = f"Wait, or raise {section}.longest_pause_seconds. " if failure.asked_to_wait else ""
        return f"{wait}Lower {section}.parallel_requests. {GOES_ON}"
    if code >= 500:
        return f"See the server's own log. {GOES_ON}"
    return wording.room.format(section)


def error_of(failure: Failure, wording: Wording, timeout_seconds: float) -> EndpointError:
    """The exception for a failure that does not pass."""
    kind = RefusedError if failure.kind == "status" and failure.status in (400, 413, 422) else EndpointError
    return kind(explained(failure, wording, timeout_seconds))


def told(words: str, key: str, variable: str = KEY) -> str:
    """What a server or the connection says, in one short line; a server may repeat the key that it refuses."""
    clean = without_key(words, key, variable)
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in clean).split())
    return (line if len(line) <= LONGEST else f"{line[:LONGEST]} ...").rstrip(". ")


def without_key(words: str, key: str, variable: str = KEY) -> str:
    """A text in which the name of the variable stands for the key."""
    return words if key in ("", NO_KEY) else words.replace(key, f"({variable})")
