"""An MCP server with one tool, `locate`, for editors and coding agents (Model Context Protocol, official SDK).

It speaks over stdin and stdout, or over HTTP on this machine only. Nothing outside the folders that it was started with
can be asked about, and nothing leaves the machine.
"""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from pydantic import BaseModel, Field

from reflect_locate.finder import SearchOptions, StoppedError, locate
from reflect_locate.ranking import Answer
from reflect_locate.served_folders import ServedFolders
from reflect_rl import __version__
from reflect_rl.errors import ReflectRLError, UserError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from reflect_locate.trained_player import Player

# No setting: code of the user must not become readable from the network by a flag.
ADDRESS = "127.0.0.1"
"""The only address that is listened on."""
NEEDS = "reflect-rl serve needs the MCP SDK: pip install 'reflect-locate[serve]'"
MOST_FILES = 50
MOST_WAITING = 8
"""Questions that wait for the one that is being answered; further ones are refused at once."""
MOST_CHARACTERS = 4_000
"""Longest question and longest path."""
MOST_BYTES = 1_000_000
"""Largest message; a larger one is never read into memory."""
ESCAPE = re.compile(
    r"\\(?:\\|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
"""An escaped backslash, a pair of surrogates, or a lone one (the group)."""
IDENTITY = re.compile(r'"id"\s*:\s*(\d{1,18}|"[\w-]{1,100}")')
INSTRUCTIONS = (
    "Finds the file of a repository that answers a question in words. Ask what the file does, not for its name. Scores "
    "are shares of the evidence; `found` is false when no file stands out, and then `files` is empty."
)


class LocatedFile(BaseModel):
    """A file that may answer the question."""

    path: str = Field(description="Relative to `root`.")
    score: float = Field(description="Evidence that it answers the question, in [0, 1].")
    named: float = Field(description="Mean probability with which the player names it.")
    match: float = Field(description="Its index score divided by that of the best file; 0 without the index.")
    path_match: float = Field(description="The same for the words of its path.")
    is_test: bool = Field(description="A test file; false where the question speaks of tests.")
    words: list[str] = Field(description="Words of the question that stand close together in it.")
    coverage: float = Field(description="Share of the question's words that these are.")
    walk: list[str] = Field(description="Commands on the way to it.")
    reasons: list[str] = Field(description="What was noted on the way.")


class Located(BaseModel):
    """Answer to a call of the tool."""

    found: bool = Field(description="Whether the confidence reaches the threshold.")
    root: str = Field(description="The folder that paths are relative to.")
    files: list[LocatedFile] = Field(description="Best first; empty when nothing was found.")
    confidence: float
    threshold: float


class LocateService:
    """Answers questions, one at a time: the players share a model.

    Args:
        folders: the folders that may be asked about.
        player: who plays.
        effort: how long to search.
        threshold: confidence below which nothing is found (None: the player's).
    """

    def __init__(
        self, folders: ServedFolders, player: Player, effort: SearchOptions, threshold: float | None = None
    ) -> None:
        self._folders, self._player, self._effort, self._threshold = folders, player, effort, threshold
        self._alone = threading.Lock()

    def answer(self, question: str, path: str, top_k: int, is_stopped: Callable[[], bool]) -> Located:
        """The answer to one call.

        Raises:
            UserError: the question or the path is of no use.
            StoppedError: the call was cancelled.
        """
        # One model, and caches that are not made for several threads.
        with self._alone:
            if is_stopped():
                raise StoppedError("the search was stopped.")
            root, tree = self._folders.tree(path)
            answer = locate(self._player, tree, question, self._effort, self._threshold, is_stopped)
        return _located(answer, str(root.place), tree.prefix, top_k)


def _located(answer: Answer, root: str, prefix: str, top_k: int) -> Located:
    # A caller that is a program would use a doubtful file as if it were found.
    rows = [entry.to_json() for entry in answer.files[:top_k]] if answer.found else []
    return Located(
        found=answer.found,
        root=root,
        files=[LocatedFile(**{**row, "path": prefix + row["path"]}) for row in rows],
        confidence=round(answer.confidence, 4),
        threshold=answer.threshold,
    )


def make_server(answer: Callable[[str, str, int, Callable[[], bool]], Located]) -> MCPServer[Any]:
    """The server.

    Args:
        answer: see `LocateService.answer`; it is called in another thread, so that the server goes on listening.

    Raises:
        UserError: the SDK is not installed.
    """
    try:
        # Imported here: the SDK is an optional dependency, and other commands start without it.
        import anyio
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations
    except ImportError:
        raise UserError(NEEDS) from None

    server: MCPServer[Any] = MCPServer(
        "reflect-rl", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    reads_only = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    # One thread of its own: the threads of the server read and write messages, whatever is asked meanwhile.
    turn, waiting = anyio.CapacityLimiter(1), [0]

    async def locate_tool(
        question: Annotated[str, Field(description="What the file does or holds, in words.")],
        path: Annotated[str, Field(description="Folder to search (empty: all that is served).")] = "",
        top_k: Annotated[int, Field(ge=1, le=MOST_FILES, description="Most files to return.")] = 5,
    ) -> Located:
        if max(len(question), len(path)) > MOST_CHARACTERS:
            raise ToolError(f"the question or the path has more than {MOST_CHARACTERS} characters. Ask in a sentence.")
        if waiting[0] > MOST_WAITING:
            raise ToolError(f"busy: {MOST_WAITING} questions are waiting. Ask again when one is answered.")
        waiting[0] += 1
        cancelled = threading.Event()
        work = partial(answer, question, path, top_k, cancelled.is_set)
        try:
            # In a thread, because a search takes seconds and the server has to hear a cancellation meanwhile.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=turn)
        except ReflectRLError as error:
            raise ToolError(str(error)) from None
        except Exception as error:
            # To stderr: on stdout a stray line would break the protocol.
            print(f"locate failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            raise ToolError(f"unexpected {type(error).__name__}: {error}") from None
        finally:
            waiting[0] -= 1
            cancelled.set()  # when the call was cancelled, the thread stops at its next turn

    server.tool(
        "locate",
        title="Locate a file",
        description="Find the file that answers a question about a repository.",
        annotations=reads_only,
        structured_output=True,
    )(locate_tool)
    return server


def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve the process that started this one, until it closes stdin. Stdout belongs to the protocol."""
    import anyio
    from mcp.server.stdio import stdio_server

    lowlevel = server._lowlevel_server

    async def main() -> None:
        lines: Any = _Lines(sys.stdin.buffer)
        async with stdio_server(stdin=lines) as (reading, writing):
            await lowlevel.run(reading, writing, lowlevel.create_initialization_options())

    anyio.run(main)


class _Lines:
    """The messages of a stream, a line each, of a bounded size and as JSON that can be read.

    Args:
        stream: bytes.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        import anyio

        line = await anyio.to_thread.run_sync(self._next, abandon_on_cancel=True)
        if not line:
            raise StopAsyncIteration
        return line

    def _next(self) -> str:
        data = self._stream.readline(MOST_BYTES + 1)
        text = data.decode("utf-8", "replace")
        if len(data) <= MOST_BYTES:
            return readable(text)
        while data and not data.endswith(b"\n"):
            data = self._stream.readline(MOST_BYTES)
        # A method that nobody has, with the caller's own number, so that it gets an answer that says why.
        found = IDENTITY.search(text[:1000])
        return (
            f'{{"jsonrpc": "2.0", "id": {found[1] if found else 0}, '
            f'"method": "refused: a message of more than {MOST_BYTES} bytes"}}\n'
        )


def readable(line: str) -> str:
    r"""A JSON text whose lone surrogates, which no UTF-8 has, are replacement characters.

    >>> readable(r'"\ud83d\ude00 \ud800 \\ud800"')
    '"\\ud83d\\ude00 \\ufffd \\\\ud800"'
    """
    return ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], line)


def limited(app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """An ASGI application that gets no body above the limit; it is cut off before it is whole in memory."""

    async def inner(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[..., Any]) -> None:
        size = 0

        async def counted() -> Any:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            return {"type": "http.disconnect"} if size > MOST_BYTES else message

        given = dict(scope.get("headers", ())).get(b"content-length", b"0")
        if scope["type"] == "http" and int(given if given.isdigit() else 0) > MOST_BYTES:
            await send({"type": "http.response.start", "status": 413, "headers": [(b"connection", b"close")]})
            await send({"type": "http.response.body", "body": b"a message has at most %d bytes" % MOST_BYTES})
            return
        await app(scope, counted, send)

    return inner


def serve_http(server: MCPServer[Any], port: int, tell: Callable[[str], None]) -> None:
    """Serve programs of this machine over HTTP, until interrupted.

    Args:
        server: what to serve.
        port: 0 = a free one.
        tell: is told the address.

    Raises:
        UserError: the port is taken.
    """
    import anyio
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A server that is started again at once would find its port busy for a minute.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen()  # before the address is told, so that nobody who is quick is refused
    except OSError as error:
        listening.close()
        raise UserError(f"port {port} of {ADDRESS} cannot be used ({error.strerror}). Choose another --port.") from None
    number = listening.getsockname()[1]
    # A page in a browser can reach this address under another name (DNS rebinding), so only these names are served.
    names = [f"{name}:{number}" for name in (ADDRESS, "localhost")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=names,
        allowed_origins=[f"http://{name}" for name in names],
    )
    app = server.streamable_http_app(host=ADDRESS, transport_security=security)
    config = uvicorn.Config(limited(app), log_config=None, log_level="warning", access_log=False)
    tell(f"http://{ADDRESS}:{number}/mcp")
    with listening:
        anyio.run(partial(uvicorn.Server(config).serve, sockets=[listening]))
