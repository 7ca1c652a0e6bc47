"""The server of the OpenAI kind that writes questions, and what it is asked with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from reflect_served import llm
from reflect_served.llm import ChatAnswer, ChatRequest, Endpoint, EndpointError, Progress


class EndpointConfig(llm.EndpointConfig):
    """A server of the OpenAI kind that writes questions about files; it is sent parts of their text."""

    sent: ClassVar[str] = "parts of your files"

    max_files: int = Field(200, ge=1, le=1_000_000)
    """Files that are asked about, chosen by a hash of their text."""
    questions_per_file: int = Field(2, ge=1, le=10)
    """Questions wanted for each file."""
    block_characters: int = Field(6000, ge=200, le=200_000)
    """Most characters of a file that are sent."""
    max_new_tokens: int = Field(512, ge=16, le=100_000)
    """Longest answer."""


class PromptClient:
    """Answers prompts.

    Args:
        config: of the endpoint.
        folder: of the list of requests, which the budget is counted from. The answers are kept by who asks, under the
            name of what was asked about.

    Raises:
        ConfigError: there is no address.
        RunFolderError: the folder holds another file of the list's name.
    """

    def __init__(self, config: EndpointConfig, folder: Path | None) -> None:
        self.config = config
        # The caller stores answers by content, for all task sets; here they would be kept a second time.
        self._endpoint = Endpoint(config, folder, "questions", keeps_answers=False)

    def ask(
        self, prompts: Mapping[str, str], progress: Progress | None = None
    ) -> Iterator[tuple[str, ChatAnswer | EndpointError]]:
        """Yield each prompt's key and answer, or the error in its place, as they come (see `Endpoint.ask`).

        Raises:
            ConfigError: the package `openai` is not installed, or the environment variable holds no key.
            RunFolderError: the list of requests cannot be written.
        """
        keys = list(prompts)
        for number, result in self._endpoint.ask(self._requests(prompts), progress):
            yield keys[number], result

    def preview(self, prompts: Mapping[str, str]) -> str:
        """Requests that `ask` would send, and their cost; nothing is sent."""
        return self._endpoint.preview(self._requests(prompts))

    def _requests(self, prompts: Mapping[str, str]) -> list[ChatRequest]:
        return [ChatRequest((("user", prompt),), self.config.max_new_tokens) for prompt in prompts.values()]
