"""Parts that all pages share: templates, style, the chart library, and a policy by which only their own scripts run."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

HERE = Path(__file__).parent


@cache
def templates() -> Environment:
    """The templates of this package."""
    # Names and texts come from files, which may hold HTML. A misspelt name in a template fails instead of leaving a
    # hole in the page.
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment


def percent(rate: float) -> str:
    """A share as a number of percent, for example `57.8`."""
    return f"{100 * rate:.1f}"


def source(name: str) -> str:
    """Text of a file of this package."""
    return (HERE / name).read_text("utf-8")


def style() -> str:
    """Style of a page, charts included."""
    return source("vendor/uPlot.min.css") + "\n" + source("page.css")


def library() -> str:
    """The chart library with its licence; a script of its own, as both are strict or not by their first statement."""
    # It formats numbers by the browser's language. The page is in English, and a language that is no proper one, such
    # as that of the locale C.UTF-8, would end the library with an error.
    language = 'Object.defineProperty(navigator, "language", { value: "en" });'
    return f"{language}\n/*\n{source('vendor/LICENSE')}*/\n{source('vendor/uPlot.iife.min.js')}"


def policy(scripts: Sequence[str], *, asks: bool = False) -> str:
    """Content security policy: these scripts and no other, so that an attribute of a hostile text could run none.

    Args:
        scripts: of the page.
        asks: whether they may ask the server that the page came from.
    """
    sums = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts)
    own = " connect-src 'self';" if asks else ""
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {sums};{own} base-uri 'none'; form-action 'none'"
