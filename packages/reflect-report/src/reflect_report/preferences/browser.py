"""Pairs in a browser of this machine: a page without scripts, whose form adds answers to the file."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from reflect_report.frame import style, templates
from reflect_report.preferences.session import Session
from reflect_report.preferences.shown import ANSWERS
from reflect_report.server import HOSTS, Gate

LONGEST = 1000
"""Bytes of an answer."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


def application(session: Session, token: str) -> Starlette:
    """The page and its answers.

    Args:
        session: what is asked; nothing else can be read or written.
        token: first part of every path.
    """

    def page(request: Request) -> Response:
        # `same-origin`, because a form of a page without a referrer says that it comes from nowhere.
        return HTMLResponse(
            html_of(session), headers={"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
        )

    async def answer(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST:
                return PlainTextResponse("This is no answer.\n", 413)
        fields = parse_qs(body.decode("utf-8", "replace"))
        choice = ANSWERS.get(fields.get("choice", [""])[0])
        # A page that stands in two windows, or was sent twice, answers an earlier pair.
        if session.pair is not None and choice is not None and fields.get("pair") == [session.pair.hash]:
            session.record(choice)
        return RedirectResponse(f"/{token}/", 303)

    routes = [Route("/{token}/", page, methods=["GET"]), Route("/{token}/answer", answer, methods=["POST"])]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False)
    gate = Middleware(Gate, token=token, methods=("GET", "POST"))
    return Starlette(routes=routes, middleware=[gate, hosts])


def html_of(session: Session) -> str:
    """The page of the present pair, or of the end."""
    # Its policy, which is that of a form, stands in the headers.
    page = templates().get_template("prefer.html")
    return page.render(session=session, pair=session.pair, style=style(), scripts=(), policy="")
