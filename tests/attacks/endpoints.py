"""Endpoint servers that answer as no server should: any bytes, at any pace, to a client with limits."""

from __future__ import annotations

import gzip
import json
import random
import socket
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from table import Outcome, attempt

from reflect_rl.errors import ReflectRLError
from reflect_served.llm import ChatRequest, Endpoint, EndpointConfig
from reflect_served.llm.messages import LONGEST_TOKEN
from reflect_served.players.served import ServedReflector
from reflect_served.settings import ServerConfig

SECONDS = 1.0
TOKENS = 4
WORDS = ("fine", "x" * 100_000, "\ud800", "\x1b[2J", "", "Action: 1", "\0")
ENDINGS = ("stop", "length", "abort", None, 3, [])


def reply_of(draw: random.Random) -> bytes:
    """A body: mostly one of the right shape with one part replaced."""
    odd = draw.choice((None, [], {}, 3, "x", -1, 1e400, True, [None], {"a": 1}))
    text = draw.choice(WORDS)
    choice = {"message": {"content": text}, "text": text, "finish_reason": draw.choice(ENDINGS)}
    reply = {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}, "model": "tiny"}
    place = draw.choice((choice, choice["message"], reply, reply["usage"], {}))
    if place and draw.random() < 0.6:
        place[draw.choice(sorted(place))] = odd
    body = json.dumps(reply).encode()
    return draw.choice((*[body] * 8, body[: len(body) // 2], b"[" * 100_000, b"\xff\xfe", b"", b"x" * 20_000_000))


def head(code: int, *lines: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {code} x", *lines, "", "")).encode()


def drip(data: bytes) -> Iterator[bytes]:
    """A byte at a time, for longer than anybody waits."""
    for place in range(len(data)):
        yield data[place : place + 1]
        time.sleep(0.05)


def performance(draw: random.Random) -> Iterator[bytes]:
    """What a server sends to one request."""
    body, code = reply_of(draw), draw.choice((*[200] * 12, 400, 401, 404, 429, 500, 503, 302))
    kinds = (*["plain"] * 8, "bomb", "badly packed", "drip", "continue", "half", "odd", "headers")
    kind = draw.choice(kinds)
    if kind == "plain":
        yield head(code, f"Content-Length: {len(body)}", "Location: http://127.0.0.1:1/") + body
    elif kind == "bomb":
        packed = gzip.compress(b"0" * 50_000_000)
        yield head(code, f"Content-Length: {len(packed)}", "Content-Encoding: gzip") + packed
    elif kind == "badly packed":
        yield head(code, "Content-Encoding: gzip", "Connection: close") + zlib.compress(body)[: draw.randrange(1, 20)]
    elif kind == "drip":
        yield from drip(head(200, "Content-Length: 1000") + b" " * 1000)
    elif kind == "continue":
        for _ in range(2000):
            yield head(100)
            time.sleep(0.002)
    elif kind == "half":
        yield head(code, f"Content-Length: {len(body) + 1000}") + body
    elif kind == "odd":
        yield draw.choice((b"", b"\0" * 1000, b"HTTP/9.9\r\n\r\n", b"HTTP/1.1 200 x\r\nContent-Length: -1\r\n\r\n"))
    else:
        for number in range(3000):
            yield (head(200)[:-2] if not number else b"") + f"X-{number}: {'a' * 500}\r\n".encode()


@contextmanager
def hostile_server(seed: str) -> Iterator[str]:
    """A server on this machine; every request gets another performance of the same draw."""
    listening = socket.create_server(("127.0.0.1", 0))
    draw = random.Random(seed)

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(5)
            # The whole request: a connection that is closed with something unread loses the reply, too.
            request = connection.makefile("rb")
            sizes = [
                int(line[15:]) for line in iter(request.readline, b"\r\n") if line[:15].lower() == b"content-length:"
            ]
            request.read(*sizes)
            for part in performance(draw):
                connection.sendall(part)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    with closing(listening):
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def asked(url: str, folder: Path, *, chat: bool) -> str:
    """The text that comes of one question."""
    if chat:
        config = EndpointConfig(base_url=url, model="tiny", timeout_seconds=SECONDS, retries=0)
        return Endpoint(config, folder).answer([ChatRequest((("user", "?"),), TOKENS)])[0].text
    server = ServerConfig(base_url=url, model="tiny", timeout_seconds=SECONDS)
    return ServedReflector(server, TOKENS)._write(["?"])[0]


def attack(place: Path, seed: str, *, chat: bool) -> str:
    """One word: within the limits of time and length, text or one sentence."""
    began = time.monotonic()
    with hostile_server(seed) as url:
        try:
            text = asked(url, place, chat=chat)
            word = "held" if len(text) <= LONGEST_TOKEN * TOKENS and text.encode() is not None else "escaped"
        except ReflectRLError as error:
            word = "refused" if str(error).isprintable() else "escaped"
    # Three attempts with pauses, and a slow machine: far below what an unbounded answer would take.
    return word if time.monotonic() - began < 60 * SECONDS else "escaped"


def attempts(place: Path, seed: int, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Try the servers of these numbers, chat and completions in turn."""
    place.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        chat = number % 2 == 0
        yield attempt(
            "chat endpoint" if chat else "completions endpoint",
            number,
            f"seed {seed}, case {number}",
            lambda number=number, chat=chat: attack(place / str(number), f"{seed} {number}", chat=chat),
        )
