"""MCP clients that send anything over a real pipe; the server is `reflect_locate.serve` around a scripted search."""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from table import Outcome, attempt

PROGRAM = """
import sys, time
from reflect_locate.serve import make_server, serve_stdio
from reflect_locate.served_answers import Located
from reflect_rl.errors import UserError

class Scripted:
    def find_file(self, question, path, top_k, is_stopped):
        print("began", question[:40], file=sys.stderr, flush=True)
        while question.startswith("wait"):
            if is_stopped():
                raise UserError("stopped")
            time.sleep(0.005)
        return Located(root=question[:40], sureness="a guess", confidence=0, files=[])

    find_passage = what_is_in = None

serve_stdio(make_server(Scripted()))
"""
PATIENCE = 300
"""Seconds until a missing reply counts as missing; no reply is asked to come within a time."""


class Session:
    """A server process and its two pipes, after the handshake."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.began: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        self.request("hello", "initialize", about)
        self.until("hello")
        self.send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        # `began` is whole only now: a reply can be read before what the server said on the way to it.
        self._watching.join()

    def _listen(self) -> None:
        for line in self.process.stdout:  # type: ignore[union-attr]
            self.lines.put(line)
        self.lines.put(b"")

    def _watch(self) -> None:
        for line in self.process.stderr:  # type: ignore[union-attr]
            if line.startswith(b"began "):
                self.began.append(line[6:].decode().strip())

    def write(self, line: bytes) -> None:
        self.process.stdin.write(line + b"\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def request(self, number: object, method: str, values: dict[str, Any] | None = None) -> None:
        self.send({"id": number, "method": method, "params": values or {}})

    def ask(self, number: object, question: object, **more: object) -> None:
        self.request(number, "tools/call", {"name": "find_file", "arguments": {"question": question, **more}})

    def cancel(self, number: object) -> None:
        self.send({"method": "notifications/cancelled", "params": {"requestId": number}})

    def until(self, *numbers: object) -> list[dict[str, Any]]:
        """The replies up to the last of these numbers, in their order.

        Raises:
            queue.Empty: it does not come.
        """
        wanted, found = set(numbers), []
        while wanted:
            line = self.lines.get(timeout=PATIENCE)
            if not line:
                raise EOFError("the server has ended")
            found.append(json.loads(line))
            wanted.discard(found[-1].get("id"))
        return found


def is_answer(reply: dict[str, Any]) -> bool:
    """Tell an answer of the search from a refusal."""
    return "result" in reply and not reply["result"].get("isError")


JUNK = (
    b"",
    b"null",
    b"[]",
    b"{",
    b"[" * 100_000,
    b"\xff\xfe\x00",
    b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    b'{"jsonrpc": "1.0", "id": "old", "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "method": 3}',
    b'{"jsonrpc": "2.0", "id": "x", "result": {}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nobody"}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": null}',
    b"x" * 3_000_000,
)
QUESTIONS = ("where?", "", " ", "x" * 5000, "x" * 2_000_000, 3, None, ["a"], "\ud800", "\x1b[2J", "wait")


def attack(session: Session, name: str, draw: random.Random) -> str:
    """A series of messages; each request is answered, or was cancelled, and the server goes on."""
    wanted, waiting = [], []
    for step in range(draw.randrange(5, 25)):
        number = f"{name}-{step}"
        kind = draw.randrange(5)
        if kind == 0:
            session.write(draw.choice(JUNK))
        elif kind == 1:
            session.request(number, draw.choice(("tools/list", "ping", "resources/list", "no/such", "tools/call")))
            wanted.append(number)
        elif kind == 2 and waiting:
            session.cancel(waiting.pop(draw.randrange(len(waiting))))
        else:
            question = draw.choice(QUESTIONS)
            session.ask(number, question, **draw.choice(({}, {"top_k": -1}, {"path": "../.."}, {"path": 3}, {"z": 1})))
            (waiting if question == "wait" else wanted).append(number)
    # What waits may hold the others up, or be refused; once it is cancelled everything else is answered.
    for number in waiting:
        session.cancel(number)
    session.request(f"{name}-end", "tools/list")
    replies = session.until(*wanted, f"{name}-end")
    return "held" if all(reply.get("jsonrpc") == "2.0" for reply in replies) else "unexpected"


def attempts(place: Path, seed: int, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Try the series of messages of these numbers with one server, which has to outlive them all."""
    with Session() as session:
        for number in numbers:
            name = f"{seed}-{number}"
            outcome = attempt(
                "MCP session",
                number,
                f"seed {seed}, case {number}",
                lambda name=name: attack(session, name, random.Random(name)),
            )
            yield outcome
            if outcome.word == "unexpected":
                break
