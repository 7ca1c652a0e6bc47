"""Settings of a language model behind a server of the OpenAI kind. A key is no setting: it stays in the environment."""

from __future__ import annotations

import re
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from reflect_rl.config import Frozen
from reflect_rl.llm.address import KEY, check_address, host_of, is_loopback

__all__ = ["EndpointConfig", "ServedConfig"]

VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


class ServedConfig(Frozen):
    """Of anything that a server does: where it is."""

    base_url: str = ""
    """Its address."""

    @property
    def host(self) -> str:
        """Machine and port, for example `127.0.0.1:8000`."""
        return host_of(self.base_url)

    @property
    def is_local(self) -> bool:
        """Whether it is a server on this machine, by its address."""
        return is_loopback(self.base_url)


class EndpointConfig(ServedConfig):
    """A language model behind a server of the OpenAI kind."""

    sent: ClassVar[str] = "the prompts"
    """What another machine is sent, for messages."""

    base_url: str = ""
    """Its address, such as `http://127.0.0.1:8000/v1` (empty: nobody is asked)."""
    model: str = ""
    """The name of the model there."""
    key_variable: str = KEY
    """Name of the environment variable that holds the server's key, where it has one; never the key itself."""
    allow_remote: bool = False
    """Allow a server on another machine, which is sent the prompts."""
    timeout_seconds: float = Field(120, gt=0, le=86_400)
    """Longest wait for one answer."""
    parallel_requests: int = Field(8, ge=1, le=1024)
    """Requests under way at the same time."""
    retries: int = Field(5, ge=0, le=100)
    """Further attempts, after growing pauses, when a failure may pass (the connection, HTTP 408, 409, 429, 5xx)."""
    longest_pause_seconds: float = Field(120, gt=0, le=86_400)
    """Longest pause before a further attempt; a server that asks for a longer one is not asked again."""
    temperature: float | None = Field(0, ge=0, le=2)
    """Spread of the answers, 0 = always the likeliest (unset: the server's own)."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Share of the likeliest tokens that is drawn from (unset: the server's own)."""
    seed: int | None = Field(None, ge=0, le=2**31 - 1)
    """Root of the server's draws; the n-th sample of a prompt is asked for with `seed + n` (unset: none is sent)."""
    reasoning: bool = False
    """The model thinks before it answers: it is sent `max_completion_tokens`, and neither temperature nor `top_p`."""
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None
    """How long a reasoning model thinks (unset: the server's own)."""
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
        # The message does not repeat the value, in case that it is a key.
        if not VARIABLE.fullmatch(self.key_variable):
            raise ValueError(f"key_variable is no name of an environment variable such as {KEY}. A key belongs into it")
        check_address(self.base_url, self.allow_remote, self.sent, self.key_variable)
        if self.base_url and not self.model:
            raise ValueError("model is empty. Name the model that the endpoint serves")
        if self.max_cost is not None and not (self.price_input or self.price_output):
            raise ValueError("max_cost takes prices to count by. Set price_input and price_output, per million tokens")
        return self

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Price of so many tokens."""
        return (prompt_tokens * self.price_input + completion_tokens * self.price_output) / 1e6
