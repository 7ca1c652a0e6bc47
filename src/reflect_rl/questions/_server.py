"""The server of the OpenAI kind that writes questions, and what it is asked with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from pydantic import Field, model_validator

from reflect_rl.core.config import Frozen
from reflect_rl.endpoints import config as endpoints
from reflect_rl.endpoints.address import check_address, host_of, is_loopback
from reflect_rl.endpoints.client import ChatRequest, Endpoint
from reflect_rl.endpoints.errors import EndpointError, RefusedError

__all__ = ["Answer", "EndpointConfig", "EndpointError", "RefusedError", "Server"]

Answer = tuple[str, str]
"""Text, and why it ended (`stop`, `length`, ...)."""


class EndpointConfig(Frozen):
    """A server of the OpenAI kind that writes questions about files; it is sent parts of their text."""

    base_url: str = ""
    """Its address, such as `http://127.0.0.1:8000/v1` (empty: no endpoint is asked)."""
    model: str = ""
    """The name of the model there."""
    allow_remote: bool = False
    """Allow a server on another machine, which is sent parts of the user's files."""
    timeout_seconds: float = Field(120, gt=0, le=86_400)
    """Longest wait for one answer."""
    parallel_requests: int = Field(8, ge=1, le=1024)
    """Requests under way at the same time."""
    retries: int = Field(5, ge=0, le=100)
    """Further attempts, after growing pauses, when a failure may pass (the connection, HTTP 408, 409, 429, 5xx)."""
    max_files: int = Field(200, ge=1, le=1_000_000)
    """Files that are asked about, chosen by a hash of their text."""
    questions_per_file: int = Field(2, ge=1, le=10)
    """Questions wanted for each file."""
    block_characters: int = Field(6000, ge=200, le=200_000)
    """Most characters of a file that are sent."""
    max_new_tokens: int = Field(512, ge=16, le=100_000)
    """Longest answer."""
    reasoning: bool = False
    """The model thinks before it answers: it is sent `max_completion_tokens`, and no temperature (else 0)."""

    @model_validator(mode="after")
    def _address_is_allowed(self) -> Self:
        check_address(self.base_url, self.allow_remote, "parts of your files")
        if self.base_url and not self.model:
            raise ValueError("model is empty. Name the model that the endpoint serves")
        return self

    @property
    def host(self) -> str:
        """Machine and port, for example `127.0.0.1:8000`."""
        return host_of(self.base_url)

    @property
    def is_local(self) -> bool:
        """Whether it is a server on this machine, by its address."""
        return is_loopback(self.base_url)


class Server:
    """Answers prompts.

    Args:
        config: of the endpoint.

    Raises:
        ConfigError: there is no address.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        self._endpoint = Endpoint(
            endpoints.EndpointConfig(
                base_url=config.base_url,
                model=config.model,
                allow_remote=config.allow_remote,
                timeout_seconds=config.timeout_seconds,
                parallel_requests=config.parallel_requests,
                retries=config.retries,
                reasoning=config.reasoning,
            ),
            None,  # the answers are kept by who asks, under the name of what was asked about
            "questions",
        )

    def ask(self, prompts: Mapping[str, str]) -> Iterator[tuple[str, Answer | EndpointError]]:
        """Each prompt's key and answer, or the error in its place, as they come (see `Endpoint.ask`).

        Raises:
            ConfigError: the package `openai` is not installed, or OPENAI_API_KEY holds no key.
        """
        keys = list(prompts)
        requests = [ChatRequest((("user", prompt),), self.config.max_new_tokens) for prompt in prompts.values()]
        for number, result in self._endpoint.ask(requests):
            yield keys[number], result if isinstance(result, EndpointError) else (result.text, result.ending)
