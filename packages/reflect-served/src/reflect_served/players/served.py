"""The frozen reflection player behind a server of the OpenAI kind (vLLM, `transformers serve`, llama.cpp, ...).

It writes elsewhere, for example on another GPU, while the policy trains here. The server gets the text of the
reflection prompt and decodes greedily, so its answers are those of `FrozenReflector` up to rounding, provided that it
serves the same weights. What a player reads leaves this machine only with `allow_remote = true`.

Nothing that goes wrong becomes a reflection: an answer is a text that the server finished, or an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from reflect_rl.errors import FaultyPlayerError, ModelError, PlayerTimeoutError
from reflect_rl.models.chat_template import ChatFrame
from reflect_rl.players.reflectors import CachedReflector, Numbers
from reflect_served.llm import (
    STORE,
    EndpointConfig,
    RequestLog,
    Store,
    Wording,
    as_completed,
    error_message,
    failure_of,
    one_line,
    open_client,
)
from reflect_served.llm.connection import ROW, without_key
from reflect_served.llm.messages import bounded, used_tokens
from reflect_served.secrets import without_secrets
from reflect_served.settings import ServerConfig

RETRIES = 2


class ServedReflector(CachedReflector):
    """Greedy, several requests at a time, with a cache of the `cache_size` most recently used prompts.

    Args:
        server: address and name of the model (`ServerConfig.of` fills in a folder).
        max_new_tokens: longest reflection.
        cache_size: reflections kept in memory.
        folder: of the list of requests, which only a server on another machine has (None: there is no list).
        numbers: see `CachedReflector`.
        chat: what the model's chat template puts around a prompt; the server gets the whole text.

    Raises:
        ConfigError: the package `openai` is not installed, or OPENAI_API_KEY holds no key.
    """

    name = "served"

    def __init__(
        self,
        server: ServerConfig,
        max_new_tokens: int = 96,
        cache_size: int = 50_000,
        folder: Path | None = None,
        numbers: Numbers | None = None,
        chat: ChatFrame | None = None,
    ) -> None:
        super().__init__(cache_size, numbers)
        self.server, self.max_new_tokens, self._chat = server, max_new_tokens, chat
        self._name = f"the reflection server {server.host} (model {server.model!r})"
        self._log: RequestLog | None = None
        # Text that stays on this machine needs no list.
        if folder is not None and not server.is_local:
            listed = EndpointConfig(base_url=server.base_url, model=server.model, allow_remote=True)
            self._log = RequestLog(listed, Store(folder / STORE), "reflections")
        self._client = open_client(server, self._log, RETRIES)

    @property
    def origin(self) -> dict[str, str | int]:
        """Where the reflections come from, for the record."""
        return {"reflection_server": self.server.host, "reflection_model": self.server.model}

    @property
    def model_name(self) -> str:
        """Name of the model there."""
        return self.server.model

    def check(self) -> None:
        """Ask the server for its models before anything depends on it.

        Raises:
            ModelError: it does not answer, or does not serve the model.
        """
        try:
            with self._explained():
                names = self._listed()
                served = self.server.model in names or self._serves_unlisted(say_why_not=not names)
        except FaultyPlayerError as error:
            raise ModelError(str(error)) from None
        if not served:
            listed = one_line(", ".join(names), self._client.api_key) or "none"
            raise ModelError(
                f"{self._name} does not serve this model. It lists: {listed}. Serve it, for example with `vllm serve "
                f"{self.server.model}`, or set reflector.server.model to the name it has there."
            )

    def _listed(self) -> list[str]:
        """The models that the server says it serves; none where it cannot say."""
        from openai import APIStatusError

        try:
            return [str(model.id) for model in self._client.models.list().data or ()]
        except APIStatusError as error:
            # A refused key is the user's mistake; any other status may be a server without this route.
            if error.status_code in (401, 403):
                raise
            return []

    def _serves_unlisted(self, say_why_not: bool) -> bool:
        """Try the model: some servers load models on demand and do not list them."""
        from openai import APIStatusError

        try:
            self._greet(self.server.model)
        except APIStatusError:
            if say_why_not:
                raise
            return False
        try:  # a server that answers for any name says nothing by answering for this one
            self._greet(f"{self.server.model}-absent")
        except APIStatusError:
            return True
        return False

    def _greet(self, model: str) -> None:
        """Send the shortest request."""
        self._completion(model=model, prompt="a", max_tokens=1)

    def _write(self, prompts: Sequence[str]) -> list[str]:
        """Raise the first failure at once, and drop requests in line."""
        texts: dict[int, str] = {}
        # `closing` ends the iterator at once on an error, so that waiting requests are not sent.
        with closing(as_completed(self._ask, prompts, self.server.parallel_requests)) as results:
            for number, answer in results:
                if isinstance(answer, BaseException):
                    raise answer
                texts[number] = answer
        return [texts[number] for number in range(len(prompts))]

    def _ask(self, prompt: str) -> str:
        """The server's continuation of one prompt."""
        # A server on this machine gets what the local player reads, so that both write the same.
        prompt = prompt if self.server.is_local else without_secrets(prompt)
        prompt = prompt if self._chat is None else self._chat.text(prompt)
        with self._explained():
            text, ending = self._completion(
                model=self.server.model,
                prompt=prompt,
                max_tokens=self.max_new_tokens,
                # Greedy, as `FrozenReflector` decodes; servers sample unless told otherwise.
                temperature=0,
                frequency_penalty=0,  # some servers would take a penalty from the model's folder
            )
        if not isinstance(text, str):
            raise FaultyPlayerError(f"{self._name} gave an answer without a text. Does it offer /v1/completions?")
        # `length` is legal: `max_new_tokens` cuts the text of the local player in the same way.
        if ending not in ("stop", "length", None):
            said = one_line(str(ending), self._client.api_key)
            raise FaultyPlayerError(f"{self._name} broke off: {said}. See the server's own log.")
        # A server may repeat the key in its answer, which is written to the disk.
        return without_key(text, self._client.api_key)

    def _completion(self, **body: Any) -> tuple[object, object]:
        """Text and ending of the server's answer, None where it has none; the list gets what the request took."""
        began = time.monotonic()
        raw = self._client.completions.with_raw_response.create(**body)
        reply, seconds, used, name = raw.http_response, time.monotonic() - began, None, ""
        try:
            answer = raw.parse()
            # The package does not check the shape of what it parses.
            choices = getattr(answer, "choices", None)
            choice = choices[0] if isinstance(choices, list) and choices else None
            text, ending = getattr(choice, "text", None), getattr(choice, "finish_reason", None)
            if isinstance(text, str):
                usage = getattr(answer, "usage", None)
                text = bounded(text, body["max_tokens"])
                used = used_tokens(getattr(usage, "__dict__", None), body, text)
                name = one_line(str(getattr(answer, "model", "")), self._client.api_key)
        finally:
            if self._log is not None:
                status = "unreadable" if used is None else str(reply.status_code)
                self._log.end(reply.extensions[ROW], status, used, seconds, answered_by=name)
        return text, ending

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what goes wrong with a request into an error that names server, model and remedy, never the key."""
        try:
            yield
            return
        except Exception as error:
            failure = failure_of(error, self._client.api_key)
            if failure is None:
                raise
        # Raised outside of the block, so that no traceback shows the request and its key.
        kind = PlayerTimeoutError if failure.kind == "timeout" else FaultyPlayerError
        raise kind(error_message(failure, self._wording))

    @property
    def _wording(self) -> Wording:
        return Wording(
            self._name,
            "reflector.server",
            RETRIES + 1,
            self.server.timeout_seconds,
            start=f"Start it, for example with `vllm serve {self.server.model}`",
            route="",
            refused=(
                "Is the model's name right, and is there room for the prompt and reflector.max_new_tokens in the "
                "server's context?"
            ),
        )
