"""The live page on loopback: read-only, under an address that nobody can guess, for this machine's browsers alone."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from secrets import compare_digest, token_urlsafe

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reflect_report.live import LivePage
from reflect_report.page import html_of
from reflect_rl.errors import UserError

ADDRESS = "127.0.0.1"
HOSTS = ("127.0.0.1", "localhost")
"""Names that a browser may use for this server. The port is not compared, as a tunnel has another one."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of each answer: no other page may embed or read it, and its address, which holds the token, stays private."""


class Gate:
    """Lets pass what a browser on the page itself asks, and nothing else.

    Args:
        app: what is behind it.
        token: first part of the path.
        methods: what may be asked.
    """

    def __init__(self, app: ASGIApp, token: str, methods: Sequence[str] = ("GET",)) -> None:
        self.app, self.token, self.methods = app, token, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._refusal(Request(scope)) or self.app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        first = str(request.scope["path"]).removeprefix("/").partition("/")[0]
        if request.method not in self.methods:
            return PlainTextResponse("This page can be read only.\n", 405, {"Allow": ", ".join(self.methods)})
        # A browser names the origin of every form that is sent; whoever writes must be this page.
        is_own = origin == f"http://{host}" or (origin is None and request.method == "GET")
        if not is_own:
            return PlainTextResponse("Another page asks; only this one may.\n", 403)
        # In constant time: that of an answer tells nothing about a token that is partly right.
        if not compare_digest(first.encode(), self.token.encode()):
            return PlainTextResponse("There is no such page.\n", 404)
        return None


def application(page: LivePage, token: str) -> Starlette:
    """The server's answers: the page, what is new of it, and its sections.

    Args:
        page: what is shown.
        token: first part of every path.
    """

    # Plain functions: starlette runs them in threads, so one that reads large files holds up no other.
    def whole(request: Request) -> Response:
        # The rest of its policy stands in the page.
        policy = {"Content-Security-Policy": "frame-ancestors 'none'"}
        return HTMLResponse(html_of(page.look().page, live=True), headers=policy)

    def state(request: Request) -> Response:
        look = page.look()
        told = {"title": f"Reflect-RL report: {look.page.title}", "summary": look.summary, "fault": look.fault}
        return JSONResponse(told | {"versions": look.page.versions})

    def section(request: Request) -> Response:
        look, name = page.look(), request.path_params["name"]
        if name not in look.page.sections:
            return PlainTextResponse("There is no such section.\n", 404)
        # The version of what is sent: the page may be newer than the one that was asked about.
        return HTMLResponse(look.page.sections[name], headers={"X-Version": look.page.versions[name]})

    answers: dict[str, Callable[[Request], Response]] = {"": whole, "state": state, "section/{name}": section}
    routes = [Route(f"/{{token}}/{path}", answer, methods=["GET"]) for path, answer in answers.items()]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False)
    return Starlette(routes=routes, middleware=[Middleware(Gate, token=token), hosts])


def listen(port: int) -> socket.socket:
    """A socket of this machine alone.

    Args:
        port: its port; 0 for any that is free.

    Raises:
        UserError: the port is in use, or may not be used.
    """
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise UserError(
            f"cannot serve on port {port}: {reason}. Name another --port, or none for a free one."
        ) from None


def serve(page: LivePage, port: int, tell: Callable[[str], None]) -> None:
    """Serve the live page until the process is interrupted.

    Args:
        page: what is shown.
        port: 0 for any that is free.
        tell: gets the address once the server can be reached.

    Raises:
        UserError: the port is in use, or may not be used.
    """
    serve_application(lambda token: application(page, token), port, tell)


def serve_application(make: Callable[[str], Starlette], port: int, tell: Callable[[str], None]) -> None:
    """Serve an application on loopback until the process is interrupted.

    Args:
        make: makes it with the token that its paths begin with.
        port: 0 for any that is free.
        tell: gets the address once the server can be reached.

    Raises:
        UserError: the port is in use, or may not be used.
    """
    token = token_urlsafe(24)
    # A page that is open while the server ends is no error.
    logging.getLogger("uvicorn.error").addFilter(lambda record: "graceful shutdown" not in record.getMessage())
    with listen(port) as opened:
        settings = uvicorn.Config(
            make(token),
            # A page that is open must not keep the server from ending.
            timeout_graceful_shutdown=1,
            access_log=False,  # it would print the token
            log_level="warning",
            lifespan="off",
            server_header=False,
            ws="none",
        )
        tell(f"http://{ADDRESS}:{opened.getsockname()[1]}/{token}/")
        uvicorn.Server(settings).run(sockets=[opened])
