"""A server of the OpenAI kind on this machine that goes wrong as it is told, and counts what it is asked.

with FaultServer(faults=[refuse(429), DROP]) as server:   # the first two requests go wrong, the others do not
    Endpoint(server.config(), folder).answer([question("one"), question("two")])
assert server.counts == {"one": 2, "two": 2}
"""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from reflect_served.llm import ChatRequest, EndpointConfig

Fault = Callable[["Handler", dict[str, Any]], object]
"""Answers one request in place of the server."""


def question(text: str, **changes: Any) -> ChatRequest:
    """A short request."""
    return ChatRequest(**{"messages": (("user", text),), "max_new_tokens": 16, **changes})


def rows(folder: Path, table: str = "requests") -> list[dict[str, Any]]:
    """All rows of one table of a folder's SQLite file: `requests` or `answers`."""
    if not (folder / "requests.sqlite").exists():
        return []
    with closing(sqlite3.connect(folder / "requests.sqlite", 60)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid")]


class FaultServer:
    """Serves from the beginning to the end of a `with` block.

    Args:
        faults: of the first requests, one each, in the order in which they come (None: this one is answered).
        fault: of all requests after those.
        write: text of an answer, by the text of the last message.
        refused: settings that it does not take.
        key: without it, it answers nothing.
    """

    def __init__(
        self,
        faults: Sequence[Fault | None] = (),
        fault: Fault | None = None,
        write: Callable[[str], str] = lambda text: f"answer to {text}",
        refused: Sequence[str] = (),
        key: str | None = None,
    ) -> None:
        self.faults, self.fault, self.write, self.refused, self.key = list(faults), fault, write, refused, key
        self.model = "tiny"
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.counts: Counter[str] = Counter()
        """How often each prompt came."""
        self.at_once = self.most_at_once = 0
        self.released = threading.Event()
        """Ends all hanging."""
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.service = self  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.released.set()
        self.http.shutdown()
        self.http.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.http.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/v1"

    def config(self, **changes: Any) -> EndpointConfig:
        return EndpointConfig.model_validate(
            {"base_url": self.url, "model": self.model, "timeout_seconds": 10, "parallel_requests": 4, **changes}
        )

    def next_fault(self, body: dict[str, Any]) -> Fault | None:
        with self.lock:
            self.bodies.append(body)
            self.counts[prompt_of(body)] += 1
            return self.faults.pop(0) if self.faults else self.fault

    def written(self, body: Mapping[str, Any]) -> str:
        """The text of an answer."""
        return self.write(prompt_of(body))

    def likeliest(self, body: Mapping[str, Any]) -> list[tuple[str, float]]:
        """First tokens and their log-probabilities; none where they are not offered."""
        return [(str(k), -1.0 - k) for k in range(body["top_logprobs"])]

    def used(self, body: Mapping[str, Any], text: str) -> tuple[int, int]:
        """Tokens of the prompt and of the answer."""
        return len(prompt_of(body).split()), len(text.split())


def prompt_of(body: Mapping[str, Any]) -> str:
    return body["prompt"] if "prompt" in body else body["messages"][-1]["content"]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    @property
    def service(self) -> FaultServer:
        return self.server.service  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            self.refuse(404, "not found")
        elif self.allowed():
            self.answer({"object": "list", "data": [{"id": self.service.model, "object": "model"}]})

    def do_POST(self) -> None:
        service = self.service
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with service.lock:
            service.headers.append({name.lower(): text for name, text in self.headers.items()})
            service.at_once += 1
            service.most_at_once = max(service.most_at_once, service.at_once)
        try:
            fault = service.next_fault(body)
            if fault is not None:
                fault(self, body)
            elif self.allowed() and self.acceptable(body):
                self.complete(body)
        except (BrokenPipeError, ConnectionResetError):  # the client has left
            pass
        finally:
            with service.lock:
                service.at_once -= 1

    def allowed(self) -> bool:
        wanted = self.service.key
        if wanted is None or self.headers["Authorization"] == f"Bearer {wanted}":
            return True
        self.refuse(401, f"Incorrect API key provided: {self.headers['Authorization'].removeprefix('Bearer ')}")
        return False

    def acceptable(self, body: Mapping[str, Any]) -> bool:
        if self.path not in ("/v1/chat/completions", "/v1/completions"):
            self.refuse(404, "not found")
        elif body["model"] != self.service.model:
            self.refuse(404, f"The model `{body['model']}` does not exist")
        elif names := [name for name in body if name in self.service.refused]:
            self.refuse(400, f"Unrecognized request argument supplied: {', '.join(names)}")
        else:
            return True
        return False

    def complete(self, body: Mapping[str, Any], text: str | None = None, ending: str = "stop") -> None:
        """An answer as it should be."""
        text = self.service.written(body) if text is None else text
        choice: dict[str, Any] = {"index": 0, "finish_reason": ending}
        if "prompt" in body:
            choice["text"] = text
        else:
            choice["message"] = {"role": "assistant", "content": text}
        if body.get("top_logprobs") and (likeliest := self.service.likeliest(body)):
            tops = [{"token": token, "logprob": value} for token, value in likeliest]
            choice["logprobs"] = {"content": [{**tops[0], "top_logprobs": tops}]}
        self.answer(self.reply([choice], *self.service.used(body, text)))

    def reply(self, choices: list[Any] | None, prompt_tokens: int = 1, completion_tokens: int = 1) -> dict[str, Any]:
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        return {"id": "1", "object": "chat.completion", "model": "tiny-1", "choices": choices, "usage": usage}

    def refuse(self, code: int, message: str, headers: Mapping[str, str] | None = None, kind: str = "error") -> None:
        self.answer({"error": {"message": message, "type": kind, "code": kind}}, code, headers)

    def answer(self, value: Any, code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.send(json.dumps(value).encode(), code, headers)

    def send(self, body: bytes, code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        standard = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        self.send_response_only(code)  # without a date, unless the headers have one
        for name, text in (standard | dict(headers or {})).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def leave(self) -> None:
        """Drop the connection."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *words: object) -> None:
        """Quiet."""


def refuse(code: int, message: str = "no", kind: str = "error", **headers: str) -> Fault:
    """An HTTP status; headers are written with `_` for `-`: `refuse(429, retry_after="7")`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda handler, body: handler.refuse(code, message, named, kind)


def say(value: Any) -> Fault:
    """HTTP 200 with this instead of an answer: bytes as they are, else JSON."""
    return lambda handler, body: handler.send(value if isinstance(value, bytes) else json.dumps(value).encode())


def end(ending: str, text: str = "cut") -> Fault:
    """An answer that ends so."""
    return lambda handler, body: handler.complete(body, text, ending)


def DROP(handler: Handler, body: Mapping[str, Any]) -> None:
    """The connection breaks off before the answer."""
    handler.leave()


def HALF(handler: Handler, body: Mapping[str, Any]) -> None:
    """The connection breaks off in the middle of the answer."""
    whole = json.dumps(handler.reply([{"message": {"content": "lost"}}])).encode()
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    handler.wfile.write(f"Content-Length: {len(whole)}\r\n\r\n".encode() + whole[: len(whole) // 2])
    handler.leave()


def HANG(handler: Handler, body: Mapping[str, Any]) -> None:
    """Nothing is said until the server is released, or for 20 s."""
    handler.service.released.wait(20)
    handler.leave()


def DRIP(handler: Handler, body: Mapping[str, Any]) -> None:
    """A byte every few hundredths of a second, so that no single wait is long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(4000):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.02)


def ECHO_KEY(handler: Handler, body: Mapping[str, Any]) -> None:
    """The answer repeats the key, in the text, in the tokens and in the name of the model."""
    key = handler.headers["Authorization"].removeprefix("Bearer ")
    top = [{"token": key, "logprob": -1.0}]
    choice = {
        "message": {"content": f"The key is {key}."},
        "finish_reason": "stop",
        "logprobs": {"content": [{"top_logprobs": top}]},
    }
    handler.answer(handler.reply([choice]) | {"model": key})


def REFUSE_KEY(handler: Handler, body: Mapping[str, Any]) -> None:
    """The refusal repeats the key."""
    handler.refuse(401, f"Incorrect API key provided: {handler.headers['Authorization']}")


def HUGE(handler: Handler, body: Mapping[str, Any]) -> None:
    """An answer of 40 MiB."""
    handler.send(b'{"choices": "' + b"x" * (40 * 2**20) + b'"}')


EMPTY_CHOICES: Fault = say({"id": "1", "model": "tiny-1", "choices": []})
