"""The connection: one client of the package `openai`, one place where requests leave, and words for what goes wrong.

The package retries (connection, HTTP 408, 409, 429, 5xx) and waits as long as `Retry-After` asks for, two minutes at
most. Each of its attempts passes through `send` below, so each is written down and counted before it leaves.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from reflect_rl.errors import ConfigError, UserError
from reflect_served.llm.config import KEY_VARIABLE, ServerAddress
from reflect_served.llm.errors import EndpointError, RefusedError, UnreadableError
from reflect_served.llm.store import RequestLog

INSTALL = "Models behind servers need the package openai: pip install 'reflect-served[api]'."

NO_KEY = "none"
"""Key for servers without one, because the package insists on a key."""

ROW = "request_log_row"
"""Extension of a response: the row of its request in the log, which the reader of the reply completes."""

LARGEST_REPLY = 16 * 2**20
"""Bytes of a reply that are read."""

LONGEST_QUOTE = 300
"""Characters of a server's own words that a message repeats."""

UNSENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}
"""Exceptions of the transport with which nothing has left."""

KINDS = {"TimeoutError": "timeout", "TimeoutException": "timeout", "UnreadableError": "unreadable"}
"""Words for the log, by class of the exception."""

GOES_ON = "The same command goes on from here."


def key_in(variable: str) -> str:
    """Read the key from an environment variable, empty without one.

    Raises:
        ConfigError: what it holds is no key.
    """
    key = os.environ.get(variable, "").strip()
    # A header holds nothing else; the message names the variable and never its value.
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(
            f"{variable} holds characters that no key has. Set it anew, or unset it for servers without key."
        )
    return key


def open_client(server: ServerAddress, log: RequestLog | None, retries: int, variable: str = KEY_VARIABLE) -> Any:
    """Make a client of the package `openai`, loaded here because it is an extra.

    A server on this machine is asked directly, never through a proxy, and no server can send the client elsewhere.

    Args:
        server: its address and how long to wait.
        log: writes each attempt down before it leaves (None: there is no list).
        retries: further attempts when a failure may pass.
        variable: the environment variable that holds the key.

    Raises:
        ConfigError: the package is not installed, or the variable holds no key.
    """
    try:
        from openai import DefaultHttpxClient, OpenAI
    except ImportError:
        raise ConfigError(INSTALL) from None

    # The package has changed the transport below it once; its client says which one it is.
    transport: Any = importlib.import_module(DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])

    class LoggedClient(DefaultHttpxClient):
        def send(self, request: Any, **options: Any) -> Any:
            """Send one attempt; the base class is httpx's, whose `send` everything passes through."""
            if request.method != "POST":  # the list of models: nothing of the user's is in it
                with _in_time(request, server.timeout_seconds, transport.ReadTimeout):
                    return _whole(super().send(request, **options | {"stream": True}), server.timeout_seconds)
            row = -1
            if log is not None:
                row = log.begin(json.loads(request.content), hashlib.sha256(request.content).hexdigest())
            began = time.monotonic()
            try:
                # Streamed, so that size and time are bounded while the reply arrives.
                with _in_time(request, server.timeout_seconds, transport.ReadTimeout):
                    reply = _whole(super().send(request, **options | {"stream": True}), server.timeout_seconds, row)
            except Exception as error:
                names = {kind.__name__ for kind in type(error).__mro__}
                kind = next((kind for name, kind in KINDS.items() if name in names), "unreachable")
                if log is not None:
                    # A request that left and has no answer may be on the bill, so its most stays reserved.
                    log.end(row, kind, (0, 0) if names & UNSENT else None, time.monotonic() - began)
                raise
            if log is not None and not reply.is_success:  # refusals are not paid for
                log.end(row, str(reply.status_code), (0, 0), time.monotonic() - began)
            return reply

    client = OpenAI(
        base_url=server.base_url,
        api_key=key_in(variable) or NO_KEY,
        timeout=server.timeout_seconds,
        max_retries=retries,
        # Replies are short, and one that is not packed cannot unfold into more than was sent.
        default_headers={"Accept-Encoding": "identity"},
        # A proxy of the environment would see prompts to this machine, a redirection would send them elsewhere.
        # A connection for each request, whose socket `_in_time` therefore sees; an answer takes far longer to write.
        http_client=LoggedClient(
            trust_env=not server.is_local, follow_redirects=False, limits=transport.Limits(max_keepalive_connections=0)
        ),
    )
    # The package takes these from the environment, and would tell them to any server.
    client.organization = client.project = None
    return client


@contextmanager
def _in_time(request: Any, seconds: float, error_class: type[Exception]) -> Iterator[None]:
    """Cut the connection of a request when its time is up, whatever the server has sent by then.

    The transport's own limit is for each read, so headers that drip, or "100 Continue" without end, never meet it.

    Args:
        request: before it is sent.
        seconds: from now.
        error_class: of the exception when the time is up; the package asks again after one of the transport's own.
    """
    sockets: list[Any] = []
    late = threading.Event()

    def trace(event: str, facts: dict[str, Any]) -> None:
        # TLS wraps the socket and takes its number away.
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            sockets[:] = [facts["return_value"].get_extra_info("socket")]

    def cut() -> None:
        late.set()
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    request.extensions = {**request.extensions, "trace": trace}
    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        raise (error_class("the time is up") if late.is_set() else error) from None
    finally:
        timer.cancel()


def _whole(reply: Any, timeout_seconds: float, row: int = -1) -> Any:
    """Read a reply to its end, which comes in time and is of a sane size; no single read of a dripping one is long."""
    ends, parts, size = time.monotonic() + timeout_seconds, [], 0
    named = reply.headers.get("content-encoding", "identity")
    encoding = named.lower()
    # Unpacked here and not by the transport, which makes gigabytes of one packed block.
    unpack = zlib.decompressobj(31) if encoding in ("gzip", "x-gzip") else None
    try:
        if unpack is None and encoding != "identity":
            raise UnreadableError(f"the reply is packed with {named!r}, which was not asked for")
        for raw in reply.iter_raw():
            part = raw if unpack is None else unpack.decompress(raw, LARGEST_REPLY + 1 - size)
            parts.append(part)
            size += len(part)
            if size > LARGEST_REPLY:
                raise UnreadableError(f"the reply has more than {LARGEST_REPLY} bytes")
            if time.monotonic() > ends:
                raise TimeoutError
    except zlib.error as error:
        raise UnreadableError(f"the reply cannot be unpacked ({error})") from None
    finally:
        reply.close()
    body = b"".join(parts)
    # The body is unpacked by now; the new response must not unpack it again.
    headers = {name: text for name, text in reply.headers.items() if name.lower() != "content-encoding"}
    if reply.status_code == 501 or (reply.status_code == 429 and b"insufficient_quota" in body):
        headers["x-should-retry"] = "false"  # the package obeys it; neither passes by waiting
    return type(reply)(reply.status_code, headers=headers, content=body, request=reply.request, extensions={ROW: row})


@dataclass(frozen=True, slots=True)
class Failure:
    """Cause of a missing answer."""

    kind: Literal["timeout", "unreachable", "redirect", "status", "unreadable"]
    words: str = ""
    """Words of the server or the connection, or the address that it redirects to: one line, without the key."""
    status: int = 0
    """HTTP status, where there is one."""
    subject: str = ""
    """The server's own names for what it refuses, in small letters: the parameter or, without that, the message."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Names and remedies in the messages about one server."""

    name: str
    """Name of the server: `the endpoint 127.0.0.1:8000 (model 'tiny')`."""
    section: str
    """The table of the configuration."""
    attempts: int
    """Number of times that a request is tried."""
    timeout_seconds: float
    """Longest wait for one answer."""
    variable: str = KEY_VARIABLE
    """The environment variable of the key."""
    start: str = "Start it"
    """Remedy where nobody answers."""
    route: str = " with /v1/chat/completions"
    """Route that the server has to offer."""
    refused: str = (
        "Is there room for the prompt and the answer in the model's context? Does the model need {}.reasoning = true?"
    )
    """Questions about a request that is refused; `{}` stands for the table."""


def failure_of(error: Exception, key: str, variable: str = KEY_VARIABLE) -> Failure | None:
    """Explain an exception of the package `openai`, or of the transport below it; None for any other.

    Args:
        error: the exception.
        key: the server's key, which no message may hold.
        variable: the environment variable that stands in its place.

    Exceptions of the transport are known by the names of their classes: `openai` has changed the package they are from.
    """
    from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAIError

    names = {kind.__name__ for kind in (*type(error).__mro__, *type(error.__cause__).__mro__)}
    if isinstance(error, UserError):
        return None
    if isinstance(error, APIStatusError):
        return _status_failure(error, key, variable)
    if isinstance(error, APITimeoutError | TimeoutError) or "TimeoutException" in names:
        return Failure("timeout")
    if isinstance(error, APIConnectionError) or "TransportError" in names:
        return Failure("unreachable", one_line(str(error.__cause__ or error), key, variable))
    if isinstance(error, OpenAIError | ValueError | AttributeError | TypeError | LookupError | RecursionError):
        return Failure("unreadable", one_line(str(error), key, variable))
    return None


def _status_failure(error: Any, key: str, variable: str) -> Failure:
    if error.response.has_redirect_location:
        return Failure("redirect", one_line(error.response.headers["location"], key, variable), error.status_code)
    text = without_key(error.response.text, key, variable)
    subject = error.param if isinstance(error.param, str) and error.param else _message(text)
    return Failure("status", one_line(text, key, variable), error.status_code, subject.lower())


def _message(text: str) -> str:
    """Cut a refusal down to what is the server's own; some servers add a copy of the request."""
    try:
        value = json.loads(text)
        detail = value.get("error", value)
        detail = detail.get("message", detail) if isinstance(detail, dict) else detail
        entries = detail["detail"] if isinstance(detail, dict) and "detail" in detail else detail
        if isinstance(entries, list):
            # Servers on FastAPI repeat the input beside place and message.
            entries = [[entry.get("loc"), entry.get("msg")] for entry in entries]
        return json.dumps(entries)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return text


def error_message(failure: Failure, wording: Wording) -> str:
    """Say in a sentence or two which server it is, what it did, and the remedy."""
    name, section = wording.name, wording.section
    if failure.kind == "timeout":
        return (
            f"{name} did not answer within {wording.timeout_seconds:g} s, {wording.attempts} times. Is it at work? "
            f"Raise {section}.timeout_seconds, or lower {section}.parallel_requests."
        )
    if failure.kind == "unreachable":
        return f"{name} cannot be reached: {failure.words}. {wording.start}, or correct {section}.base_url. {GOES_ON}"
    if failure.kind == "redirect":
        return (
            f"{name} redirects to {failure.words!r} (HTTP {failure.status}), which is not followed: a server must not "
            f"choose who reads the prompts. Set {section}.base_url to the address that is meant."
        )
    if failure.kind == "status":
        return f"{name} refused a request: HTTP {failure.status}, {failure.words}. {_remedy(failure, wording)}"
    return (
        f"{name} gave an answer that cannot be read: {failure.words}. Is it a server of the OpenAI kind"
        f"{wording.route}, and does {section}.base_url end as it should, mostly in /v1?"
    )


def _remedy(failure: Failure, wording: Wording) -> str:
    code, section = failure.status, wording.section
    if code in (401, 403):
        return f"Set {wording.variable} to the server's key."
    if code == 404:
        return f"Does it serve this model, and does {section}.base_url end as it should, mostly in /v1?"
    if code == 429 and "insufficient_quota" in failure.words:  # the status is that of too many requests
        return f"The account has no credit left. {GOES_ON}"
    if code == 429:
        return f"Wait, or lower {section}.parallel_requests. {GOES_ON}"
    if code >= 500:
        return f"See the server's own log. {GOES_ON}"
    return wording.refused.format(section)


def endpoint_error(failure: Failure, wording: Wording) -> EndpointError:
    """Make the exception for a failure."""
    # These three are about the request itself; any other status would meet all requests.
    kind = RefusedError if failure.kind == "status" and failure.status in (400, 413, 422) else EndpointError
    return kind(error_message(failure, wording))


def one_line(words: str, key: str, variable: str = KEY_VARIABLE) -> str:
    """Shorten what a server says to one line that cannot steer a terminal; a server may repeat the key it refuses."""
    clean = without_key(words, key, variable)
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in clean).split())
    return (line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]} ...").rstrip(". ")


def without_key(words: str, key: str, variable: str = KEY_VARIABLE) -> str:
    r"""Put the name of the variable in place of the key, also where JSON or an address writes it with escapes.

    >>> without_key(r"sk/1 and sk\/1, sk%2F1, sk\u002f1", "sk/1", "KEY")
    '(KEY) and (KEY), (KEY), (KEY)'
    """
    return words if key in ("", NO_KEY) else _key_pattern(key).sub(lambda _: f"({variable})", words)


@lru_cache(8)
def _key_pattern(key: str) -> re.Pattern[str]:
    # A key is ASCII. A text in a text has a backslash for each of its levels.
    escaped = (rf"\\{{0,4}}(?:{re.escape(letter)}|u00(?i:{ord(letter):02x}))|%(?i:{ord(letter):02x})" for letter in key)
    return re.compile("".join(f"(?:{letter})" for letter in escaped))
