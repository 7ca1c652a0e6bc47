"""Settings of a language model behind a server, and the check of its address. A key is no setting."""

from __future__ import annotations

import ipaddress
import re
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from reflect_rl.config import Section

KEY_VARIABLE = "OPENAI_API_KEY"
"""Environment variable that holds a server's key, unless the settings name another."""

# So plain that no two programs can disagree about the host, and that no user:password@ or ?api-key= fits in.
ADDRESS = re.compile(r"https?://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")
LAST_PORT = 65_535
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


def check_address(base_url: str, allow_remote: bool, sent: str, key_variable: str = KEY_VARIABLE) -> None:
    """Refuse an address that is not plain, or that names another machine without permission. Empty is allowed.

    Args:
        base_url: the address.
        allow_remote: whether another machine may be asked.
        sent: what another machine would be sent, for the message.
        key_variable: the environment variable that holds the key, for the message.

    Raises:
        ValueError: the message does not repeat the address, because there may be a key in it.
    """
    if base_url and not ADDRESS.fullmatch(base_url):
        raise ValueError(
            f"base_url is no plain address such as http://127.0.0.1:8000/v1. A key belongs into {key_variable} only"
        )
    port = found[2] if base_url and (found := ADDRESS.fullmatch(base_url)) else None
    if port and not 0 < int(port[1:]) <= LAST_PORT:
        raise ValueError(f"base_url has the port {port[1:]}. Ports go from 1 to {LAST_PORT}")
    if base_url and not allow_remote and not is_loopback(base_url):
        raise ValueError(
            f"base_url names another machine ({_host(base_url)}), which would be sent {sent}. "
            "Set allow_remote = true if it may, or use a server on 127.0.0.1"
        )


def is_loopback(base_url: str) -> bool:
    """Tell from the address alone whether the server is on this machine; no name is looked up.

    >>> is_loopback("http://[::1]:8000/v1"), is_loopback("http://127.0.0.1.example.org/v1")
    (True, False)
    """
    found = ADDRESS.fullmatch(base_url)
    # Not looked up: a name can lead to another machine by the time it is used.
    name = found[1].strip("[]") if found else ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host(base_url: str) -> str:
    return base_url.partition("://")[2].partition("/")[0]


class ServerAddress(Section):
    """Address of a server, and how long to wait for it."""

    base_url: str = ""
    """Address of the server."""
    timeout_seconds: float = Field(120, gt=0, le=86_400)
    """Longest wait for one answer."""
    allow_remote: bool = False
    """Allow a server on another machine."""

    @property
    def host(self) -> str:
        """Machine and port, for example `127.0.0.1:8000`."""
        return _host(self.base_url)

    @property
    def is_local(self) -> bool:
        """True = the server is on this machine, by its address."""
        return is_loopback(self.base_url)


class EndpointConfig(ServerAddress):
    """A language model behind a server of the OpenAI kind."""

    # They say how the model is asked and paid, not what it is asked.
    free = (
        *("timeout_seconds", "parallel_requests", "allow_remote", "retries", "key_variable"),
        *("price_input", "price_output", "max_cost", "max_total_tokens"),
    )
    addresses = ("base_url",)
    sent: ClassVar[str] = "the prompts"
    """Things that another machine is sent, for messages."""

    base_url: str = ""
    """Address of the server, such as `http://127.0.0.1:8000/v1` (empty: nobody is asked)."""
    model: str = ""
    """The name of the model there."""
    key_variable: str = KEY_VARIABLE
    """Name of the environment variable that holds the server's key, where it has one; never the key itself."""
    allow_remote: bool = False
    """Allow a server on another machine, which is sent the prompts."""
    parallel_requests: int = Field(8, ge=1, le=1024)
    """Requests under way at the same time."""
    retries: int = Field(5, ge=0, le=100)
    """Further attempts, after growing pauses, when a failure may pass (the connection, HTTP 408, 409, 429, 5xx)."""
    temperature: float | None = Field(0, ge=0, le=2)
    """Randomness of the answers, 0 = always the likeliest (unset: the server's own)."""
    seed: int | None = Field(None, ge=0, le=2**31 - 1)
    """Seed of the server's draws; the n-th sample of a prompt is asked for with `seed + n` (unset: none is sent)."""
    reasoning: bool = False
    """The model thinks before it answers: it is sent `max_completion_tokens`, and no temperature."""
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None
    """Length of a reasoning model's thoughts (unset: the server's own)."""
    price_input: float = Field(0, ge=0, le=1e6)
    """Price of a million tokens of prompts, in any currency."""
    price_output: float = Field(0, ge=0, le=1e6)
    """Price of a million tokens of answers, thoughts included, in the same currency."""
    max_cost: float | None = Field(None, gt=0)
    """Most that all requests ever made from one folder may cost, in the currency of the prices (unset: any)."""
    max_total_tokens: int | None = Field(None, ge=1)
    """Most tokens, prompts and answers together, of all requests ever made from one folder (unset: any)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        # The message does not repeat the value, because it may be a key in the wrong place.
        if not VARIABLE.fullmatch(self.key_variable):
            raise ValueError(
                f"key_variable is no name of an environment variable such as {KEY_VARIABLE}. A key belongs into it"
            )
        check_address(self.base_url, self.allow_remote, self.sent, self.key_variable)
        if self.base_url and not self.model:
            raise ValueError("model is empty. Name the model that the endpoint serves")
        # Without prices every request would cost nothing, and the limit would hold nobody back.
        if self.max_cost is not None and not (self.price_input or self.price_output):
            raise ValueError("max_cost takes prices to count by. Set price_input and price_output, per million tokens")
        return self

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Price of so many tokens."""
        return (prompt_tokens * self.price_input + completion_tokens * self.price_output) / 1e6
