"""A chat server of the OpenAI kind on this machine, whose answers are a function of what it is asked; no model."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ["ChatServer", "listed", "walker"]

Speaker = Callable[[dict[str, Any]], str]
"""Body of a request -> text of the answer."""


class ChatServer:
    """Serves one scripted model, from the beginning to the end of a `with` block.

    Args:
        speak: what the model says.
        top: alternatives to the first token and their log-probabilities, where they are wanted (None: not offered).
    """

    def __init__(self, speak: Speaker, top: Callable[[dict[str, Any]], list[tuple[str, float]]] | None = None) -> None:
        self.speak, self.top = speak, top
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.http.daemon_threads = True
        self.http.service = self  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        service: ChatServer = self.server.service  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with service.lock:
            service.requests.append(body)
        text = service.speak(body)
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }
        if body.get("logprobs") and service.top is not None:
            top = [{"token": token, "logprob": value, "bytes": None} for token, value in service.top(body)]
            choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        sent = json.dumps(answer | {"usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *words: object) -> None:
        """Quiet."""


def listed(body: dict[str, Any]) -> dict[str, int]:
    """The actions of a request and their numbers."""
    actions = body["messages"][-1]["content"].partition("# Actions\n")[2]
    return {text: int(number) for number, text in re.findall(r"^(\d+): (.*)$", actions, re.MULTILINE)}


def walker(body: dict[str, Any]) -> str:
    """A model that knows the corridor: it advises, or it walks to the goal."""
    text = body["messages"][-1]["content"]
    here, goal = (int(re.search(rf"{words} (\d+)", text)[1]) for words in ("You are at", "The goal is at"))  # type: ignore[index]
    way = "left" if goal < here else "right"
    if "# Actions" not in text:
        return f"The goal is to the {way}.\nNext: {way}."
    return f"The goal is to the {way}.\nAction: {listed(body)[way]}"
