"""The endpoint: asks many requests at a time, each distinct one once ever, within a budget.

    endpoint = Endpoint(config, run / "endpoint")
    answers = endpoint.answer([ChatRequest((("user", "Where is the passenger?"),), 64)])

An answer is on the disk before it is handed out, so an interrupt at any time loses nothing.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from reflect_rl.errors import ConfigError
from reflect_served.llm.config import EndpointConfig
from reflect_served.llm.connection import (
    ROW,
    Failure,
    Wording,
    endpoint_error,
    failure_of,
    one_line,
    open_client,
    without_key,
)
from reflect_served.llm.errors import EndpointError, RefusedError, UnreadableError
from reflect_served.llm.messages import FEATURES, ChatAnswer, ChatRequest, Spent, answer_key, read_answer, request_body
from reflect_served.llm.parallel import as_completed
from reflect_served.llm.preview import preview
from reflect_served.llm.store import STORE, RequestLog, Store

Progress = Callable[[int, int, Spent], None]
"""Called after each answer: how many have come, of how many, and what was spent so far."""

REFUSALS = 3
"""Different requests refused before any is answered, at which the fault is not in the requests."""


class Endpoint:
    """A language model behind a server of the OpenAI kind.

    Args:
        config: its address, limits, prices and budget.
        folder: holds `requests.sqlite` (answers, and what left); several objects and processes can share it (None:
            nothing is kept on the disk).
        purpose: what it is asked for, for the list of requests.
        section: table of the configuration, for messages.
        keeps_answers: whether answers are kept; False where the caller keeps them in a file of its own.

    Raises:
        ConfigError: there is no address.
        RunFolderError: the folder holds another file of this name.
    """

    def __init__(
        self,
        config: EndpointConfig,
        folder: Path | None,
        purpose: str = "chat",
        section: str = "endpoint",
        *,
        keeps_answers: bool = True,
    ) -> None:
        if not config.base_url:
            raise ConfigError(f"{section}.base_url is empty. Name a server, for example http://127.0.0.1:8000/v1.")
        self.config, self.folder, self.keeps_answers = config, folder, keeps_answers
        name = f"the endpoint {config.host} (model {config.model!r})"
        self.wording = Wording(name, section, config.retries + 1, config.timeout_seconds, config.key_variable)
        self.store = Store(folder / STORE if folder is not None else None)
        self.log = RequestLog(config, self.store, purpose, section)
        self._lock = threading.Lock()
        self._asking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._spent = Spent()
        self._offered: set[str] = set()
        self._withheld: set[str] = set()
        self._refused: set[str] = set()
        self._has_answered = False

    @property
    def spent(self) -> Spent:
        """Requests, tokens and cost of this object since it was made."""
        return replace(self._spent, requests=self.log.sent)

    def ask(
        self, requests: Sequence[ChatRequest], progress: Progress | None = None
    ) -> Iterator[tuple[int, ChatAnswer | EndpointError]]:
        """Yield the number and the answer (or error) of each request, as they come.

        A RefusedError concerns one request. After any other error no more are sent, those under way are waited for,
        and those in line do not appear. When the first three are refused, the third is such an error.

        Args:
            requests: equal ones are sent once.
            progress: is called after each.

        Raises:
            ConfigError: the package `openai` is not installed, or the environment variable holds no key.
            RunFolderError: the folder cannot be written.
        """
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            numbers[answer_key(self.config, request)].append(number)
        # Equal requests are one: the others get its answer, marked as cached.
        keys, done = list(numbers), 0
        distinct = [(key, requests[numbers[key][0]]) for key in keys]
        with (
            closing(self.store),
            # Closed even when the caller stops early, so that no further request is begun.
            closing(as_completed(self._obtain, distinct, self.config.parallel_requests, _concerns_one)) as results,
        ):
            for place, result in results:
                if isinstance(result, BaseException) and not isinstance(result, EndpointError):
                    raise result
                for copy, number in enumerate(numbers[keys[place]]):
                    if copy and isinstance(result, ChatAnswer):
                        self._count(result := replace(result, cached=True))
                    done += 1
                    if progress is not None and (isinstance(result, ChatAnswer) or _concerns_one(result)):
                        progress(done, len(requests), self.spent)
                    yield number, result

    def answer(self, requests: Sequence[ChatRequest], progress: Progress | None = None) -> list[ChatAnswer]:
        """Ask, and return the answers in the order of the requests.

        Raises:
            EndpointError: the first that went wrong; all that came is kept.
            ConfigError, RunFolderError: see `ask`.
        """
        answers: dict[int, ChatAnswer] = {}
        failure: EndpointError | None = None
        for number, result in self.ask(requests, progress):
            if isinstance(result, EndpointError):
                # Not raised yet: answers of requests under way still arrive, and are kept.
                failure = failure or result
            else:
                answers[number] = result
        if failure is not None:
            raise failure
        return [answers[number] for number in range(len(requests))]

    def preview(self, requests: Sequence[ChatRequest], shown: int = 1) -> str:
        """Describe what `ask` would send, and what it would take; nothing is sent and nothing is written.

        Args:
            requests: that would be asked.
            shown: how many of them are given in full.
        """
        distinct = {answer_key(self.config, request): request for request in requests}
        missing = [request_body(self.config, one)[0] for key, one in distinct.items() if self.store.find(key) is None]
        return preview(self.log, (len(requests), len(distinct)), missing, shown)

    def _obtain(self, asked: tuple[str, ChatRequest]) -> ChatAnswer:
        """Find the answer to one request, or ask for it with the features that the server offers.

        Raises:
            EndpointError: there is none.
        """
        key, request = asked
        with self._lock:
            asking = self._asking[key]
        with asking:  # another thread that asks the same waits here, and finds the answer
            if self.keeps_answers and (found := self.store.find(key)) is not None:
                self._count(found)
                return found
            withheld = frozenset(self._withheld)
            while True:
                body, used = request_body(self.config, request, withheld)
                result = self._exchange(key, body, request.stop)
                if isinstance(result, ChatAnswer):
                    self._learn(used, withheld)
                    self._count(result)
                    return result
                # The second request leaves out what the refusal names; a refusal of anything else is final.
                refused = _refused_features(result) & used
                if not refused:
                    raise self._error(key, result)
                withheld |= refused

    def _exchange(self, key: str, body: Mapping[str, Any], stop: tuple[str, ...]) -> ChatAnswer | Failure:
        """Ask the server; a reply that cannot be read is asked for once more."""
        result = self._attempt(key, body, stop)
        # The package retries what it can see; a reply that is cut or garbled comes with status 200.
        if isinstance(result, Failure) and result.kind == "unreadable" and self.config.retries:
            result = self._attempt(key, body, stop)
        return result

    def _attempt(self, key: str, body: Mapping[str, Any], stop: tuple[str, ...]) -> ChatAnswer | Failure:
        """Ask once, with the retries of the package; the answer and what it took are kept together."""
        secret, variable, began = self._client.api_key, self.config.key_variable, time.monotonic()
        try:
            # The raw response, because the package's own types take replies of any shape.
            reply = self._client.chat.completions.with_raw_response.create(**body).http_response
        except Exception as error:
            if (failure := failure_of(error, secret, variable)) is None:
                raise
            return failure
        row, seconds = reply.extensions[ROW], time.monotonic() - began
        try:
            answer, name = read_answer(reply.content, body, stop, partial(without_key, key=secret, variable=variable))
        except UnreadableError as error:
            self.log.end(row, "unreadable", None, seconds)
            return Failure("unreadable", one_line(str(error), secret, variable))
        # A server may repeat the key in its answer, which is written to the disk.
        pairs = answer.logprobs and tuple((without_key(token, secret, variable), p) for token, p in answer.logprobs)
        text, ending = without_key(answer.text, secret, variable), one_line(answer.ending, secret, variable)
        name = one_line(name, secret, variable)
        answer = replace(answer, text=text, ending=ending, seconds=round(seconds, 3), logprobs=pairs)
        used = answer.prompt_tokens, answer.completion_tokens
        self.log.end(row, str(reply.status_code), used, seconds, (key, answer) if self.keeps_answers else None, name)
        return answer

    def _learn(self, used: frozenset[str], withheld: frozenset[str]) -> None:
        """Remember what an answered request has shown; later refusals are about a request, such as its own schema."""
        with self._lock:
            self._offered |= used
            self._withheld |= withheld - self._offered

    def _error(self, key: str, failure: Failure) -> EndpointError:
        """Make the error for a request; where everything is refused, it is that of the whole endpoint."""
        error = endpoint_error(failure, self.wording)
        if isinstance(error, RefusedError):
            with self._lock:
                self._refused.add(key)
                if len(self._refused) >= REFUSALS and not self._has_answered:
                    return EndpointError(f"{error} So were all requests so far ({len(self._refused)}).")
        return error

    def _count(self, answer: ChatAnswer) -> None:
        with self._lock:
            old = self._spent
            if answer.cached:
                self._spent = replace(old, cached=old.cached + 1)
                return
            self._has_answered = True
            prompt, completion = answer.prompt_tokens, answer.completion_tokens
            self._spent = replace(
                old,
                prompt_tokens=old.prompt_tokens + prompt,
                completion_tokens=old.completion_tokens + completion,
                cost=old.cost + self.config.cost(prompt, completion),
                seconds=old.seconds + answer.seconds,
            )

    @cached_property
    def _client(self) -> Any:
        config = self.config
        # Made for the first request: a dry run and stored answers need neither the package nor a key.
        return open_client(config, self.log, config.retries, config.key_variable)


def _refused_features(failure: Failure) -> frozenset[str]:
    """Find the features (`FEATURES`) that a refusal speaks of."""
    words = set(re.findall(r"[a-z_]+", failure.subject)) if failure.status in (400, 422, 501) else set()
    return frozenset(feature for feature, names in FEATURES.items() if words & set(names))


def _concerns_one(error: object) -> bool:
    """Tell whether the other requests can go on."""
    return isinstance(error, RefusedError)
