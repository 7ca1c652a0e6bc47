"""The client: asks many requests at a time, each distinct one at most once ever, within a budget.

    endpoint = Endpoint(config, run / "endpoint")
    answers = endpoint.answer([ChatRequest((("user", "Where is the passenger?"),), 64)])

What arrives is on the disk before anybody hears of it, so an interrupt at any time loses nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from reflect_rl.errors import ConfigError
from reflect_rl.llm.cache import Cache
from reflect_rl.llm.config import EndpointConfig
from reflect_rl.llm.connection import open_client
from reflect_rl.llm.errors import (
    BudgetError,
    EndpointError,
    Failure,
    RefusedError,
    Wording,
    error_of,
    failure_of,
    without_key,
)
from reflect_rl.llm.exchange import (
    ChatAnswer,
    ChatRequest,
    Spent,
    UnreadableError,
    answer_of,
    body_of,
    features_of,
    key_of,
)
from reflect_rl.llm.ledger import Ledger
from reflect_rl.llm.offers import Offers, refused_features
from reflect_rl.llm.patience import Clock, Patience
from reflect_rl.llm.preview import preview
from reflect_rl.llm.together import as_they_come

__all__ = ["BudgetError", "ChatAnswer", "ChatRequest", "Endpoint", "EndpointError", "Progress", "RefusedError", "Spent"]

Progress = Callable[[int, int, Spent], None]
"""Told after each answer: how many have come, of how many, and what was spent so far."""

LARGEST_REPLY = 16 * 2**20
"""Bytes of a reply that are read."""

DIRECT = {"Accept-Encoding": "identity"}
"""Replies are short, and one that is not packed cannot unfold into more than was sent."""

THREADS = "endpoint request"

REFUSALS = 3
"""When so many different requests are refused before any is answered, the fault is not in the requests."""


@dataclass(slots=True)
class _Flight:
    """A request that is under way, for all who ask the same."""

    landed: threading.Event = field(default_factory=threading.Event)
    failure: Failure | None = None


class Endpoint:
    """A language model behind a server of the OpenAI kind.

    Args:
        config: its address, patience, prices and budget.
        folder: holds `cache.jsonl` (answers), `requests.jsonl` (what left) and `offers.json` (what the server offers);
            several objects and processes can share it (None: nothing is kept on the disk).
        purpose: what it is asked for, for the list of requests.
        section: table of the configuration, for messages.
        clock: the time.
        keeps_answers: whether answers outlive this object; False where the caller keeps them in a file of its own.

    Raises:
        ConfigError: there is no address.
        RunFolderError: the folder holds other files of these names.
    """

    def __init__(
        self,
        config: EndpointConfig,
        folder: Path | None,
        purpose: str = "chat",
        section: str = "endpoint",
        clock: Clock | None = None,
        *,
        keeps_answers: bool = True,
    ) -> None:
        if not config.base_url:
            raise ConfigError(f"{section}.base_url is empty. Name a server, for example http://127.0.0.1:8000/v1.")
        self.config, self.folder, self.purpose = config, folder, purpose
        name = f"the endpoint {config.host} (model {config.model!r})"
        self.wording = Wording(name, section, config.key_variable)
        self.ledger = Ledger(config, folder, purpose, section)
        self._cache = Cache(folder if keeps_answers else None)
        self._offers = Offers(folder, f"{config.base_url.rstrip('/')} {config.model}")
        self._patience = Patience(config.retries, config.longest_pause_seconds, clock or Clock())
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}
        self._spent = Spent()
        self._refused: set[str] = set()
        self._has_answered = False

    @property
    def spent(self) -> Spent:
        """By this object, since it was made."""
        return self._spent

    def ask(
        self, requests: Sequence[ChatRequest], progress: Progress | None = None
    ) -> Iterator[tuple[int, ChatAnswer | EndpointError]]:
        """Number and answer (or error) of each request, as they come.

        A RefusedError concerns one request. After any other error no more are sent, those under way are waited for,
        and those in line do not appear. When the first three are refused, the third is such an error.

        Args:
            requests: equal ones are sent once.
            progress: is told after each.

        Raises:
            ConfigError: the package `openai` is not installed, or the environment variable holds no key.
            RunFolderError: the folder cannot be written.
        """
        results = as_they_come(self._obtain, requests, self.config.parallel_requests, THREADS, _concerns_one)
        with closing(results):
            for done, (number, result) in enumerate(results, start=1):
                if isinstance(result, BaseException) and not isinstance(result, EndpointError):
                    raise result
                if progress is not None and (isinstance(result, ChatAnswer) or _concerns_one(result)):
                    progress(done, len(requests), self._spent)
                yield number, result

    def answer(self, requests: Sequence[ChatRequest], progress: Progress | None = None) -> list[ChatAnswer]:
        """The answers, in the order of the requests.

        Raises:
            EndpointError: the first that went wrong; all that came is kept.
            ConfigError, RunFolderError: see `ask`.
        """
        answers: dict[int, ChatAnswer] = {}
        failure: EndpointError | None = None
        for number, result in self.ask(requests, progress):
            if isinstance(result, EndpointError):
                failure = failure or result
            else:
                answers[number] = result
        if failure is not None:
            raise failure
        return [answers[number] for number in range(len(requests))]

    def preview(self, requests: Sequence[ChatRequest], shown: int = 1) -> str:
        """What `ask` would send, and what it would take; nothing is sent.

        Args:
            requests: that would be asked.
            shown: how many of them are given in full.
        """
        refused = self._offers.refused()
        asked = {key_of(self.config, body := body_of(self.config, one, refused), one.sample): body for one in requests}
        missing = [body for key, body in asked.items() if self._cache.find(key) is None]
        return preview(self.config, self.ledger, self.purpose, (len(requests), len(asked)), missing, shown)

    def _obtain(self, request: ChatRequest) -> ChatAnswer:
        """The answer to one request, with the features that the server offers.

        Raises:
            EndpointError: there is none.
        """
        used = features_of(self.config, request)
        with self._offers.asking_for(used):
            withheld = self._offers.refused() & used
            while True:
                body = body_of(self.config, request, withheld)
                key = key_of(self.config, body, request.sample)
                result = self._shared(key, body, request.stop)
                if isinstance(result, ChatAnswer):
                    self._offers.learn(used - withheld, withheld)
                    self._has_answered = True
                    return result
                refused = refused_features(result) & (used - withheld)
                if not refused:
                    break
                withheld |= refused
        raise self._error(key, result)

    def _error(self, key: str, failure: Failure) -> EndpointError:
        """For a failure that does not pass; where everything is refused, it is that of the whole endpoint."""
        error = error_of(failure, self.wording, self.config.timeout_seconds)
        if isinstance(error, RefusedError):
            with self._lock:
                self._refused.add(key)
                if len(self._refused) >= REFUSALS and not self._has_answered:
                    return EndpointError(f"{error} So were all requests so far ({len(self._refused)}).")
        return error

    def _shared(self, key: str, body: Mapping[str, Any], stop: tuple[str, ...]) -> ChatAnswer | Failure:
        """The answer from the cache, from another thread that is asking for it already, or from the server."""
        while True:
            with self._lock:
                if (found := self._cache.find(key)) is not None:
                    self._spent = replace(self._spent, cached=self._spent.cached + 1)
                    return found
                flight = self._flights.get(key)
                if flight is None:
                    flight = self._flights[key] = _Flight()
                    break
            flight.landed.wait()
            if flight.failure is not None:
                return flight.failure
        try:
            result = self._attempts(key, body, stop)
            flight.failure = result if isinstance(result, Failure) else None
            return result
        finally:
            with self._lock:
                del self._flights[key]
            flight.landed.set()

    def _attempts(self, key: str, body: Mapping[str, Any], stop: tuple[str, ...]) -> ChatAnswer | Failure:
        """Ask until there is an answer, or a failure that does not pass."""
        attempts = 1
        while True:
            self._patience.wait()
            result = self._attempt(key, body, stop, attempts)
            if isinstance(result, ChatAnswer):
                return result
            if not self._patience.again(result, attempts):
                return replace(result, attempts=attempts)
            attempts += 1

    def _attempt(self, key: str, body: Mapping[str, Any], stop: tuple[str, ...], number: int) -> ChatAnswer | Failure:
        """Ask once. The answer is in the cache before the list says that it came."""
        client = self._client
        name = self.ledger.begin(key, body, number)
        status, used, seconds, answered_by = "fault", None, 0.0, ""
        began = time.monotonic()
        try:
            result, answered_by = self._exchange(client, body, stop)
            seconds = time.monotonic() - began
            if isinstance(result, Failure):
                status = str(result.status) if result.kind == "status" else result.kind
                used = (0, 0) if result.is_free else None
            else:
                status, used = "200", (result.prompt_tokens, result.completion_tokens)
                result = replace(result, seconds=seconds)
                self._cache.keep(key, result, answered_by)
            return result
        finally:
            self._count(used, seconds)
            self.ledger.end(name, status, used, seconds, answered_by)

    def _exchange(
        self, client: Any, body: Mapping[str, Any], stop: tuple[str, ...]
    ) -> tuple[ChatAnswer | Failure, str]:
        """Answer, or failure, and the name of the model that answered; the key is in none of them."""
        secret, variable = client.api_key, self.config.key_variable
        try:
            answer, name = answer_of(self._post(client, body), body, stop)
        except Exception as error:
            failure = failure_of(error, secret, variable)
            if failure is None:
                raise
            return failure, ""
        logprobs = answer.logprobs and tuple(
            (without_key(token, secret, variable), value) for token, value in answer.logprobs
        )
        clean = replace(answer, text=without_key(answer.text, secret, variable), logprobs=logprobs)
        return clean, without_key(name, secret, variable)

    def _post(self, client: Any, body: Mapping[str, Any]) -> bytes:
        """The reply to one request, which comes in time and is of a sane size."""
        ends = time.monotonic() + self.config.timeout_seconds
        parts: list[bytes] = []
        size = 0
        with client.chat.completions.with_streaming_response.create(**body, extra_headers=DIRECT) as reply:
            for part in reply.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > LARGEST_REPLY:
                    raise UnreadableError(f"the reply has more than {LARGEST_REPLY} bytes")
                if time.monotonic() > ends:
                    raise TimeoutError
        return b"".join(parts)

    def _count(self, used: tuple[int, int] | None, seconds: float) -> None:
        prompt_tokens, completion_tokens = used or (0, 0)
        with self._lock:
            spent = self._spent
            self._spent = Spent(
                spent.requests + 1,
                spent.cached,
                spent.prompt_tokens + prompt_tokens,
                spent.completion_tokens + completion_tokens,
                spent.cost + self.config.cost(prompt_tokens, completion_tokens),
                spent.seconds + seconds,
            )

    @cached_property
    def _client(self) -> Any:
        # Its own further attempts would be neither listed nor counted.
        return open_client(self.config, 0, variable=self.config.key_variable)


def _concerns_one(error: BaseException) -> bool:
    """Whether the other requests can go on."""
    return isinstance(error, RefusedError)
