"""The connection to a server of the OpenAI kind, and the key that only it knows."""

from __future__ import annotations

import os
from typing import Any, Protocol

from reflect_rl.errors import ConfigError
from reflect_rl.llm.address import KEY
from reflect_rl.llm.errors import NO_KEY

__all__ = ["NEEDS", "RETRIES", "Reachable", "key_in", "open_client"]

NEEDS = "Models behind servers need the package openai: pip install 'reflect-rl[api]'."

RETRIES = 2
"""Further attempts of the package itself, after a pause, when a failure may pass."""


class Reachable(Protocol):
    """What a client has to know of a server."""

    @property
    def base_url(self) -> str:
        """Its address."""

    @property
    def timeout_seconds(self) -> float:
        """Longest wait for one answer."""

    @property
    def is_local(self) -> bool:
        """Whether it is a server on this machine."""


def key_in(variable: str) -> str:
    """The key in an environment variable, empty without one.

    Raises:
        ConfigError: what it holds is no key.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(
            f"{variable} holds characters that no key has. Set it anew, or unset it for servers without key."
        )
    return key


def open_client(server: Reachable, retries: int = RETRIES, needs: str = NEEDS, variable: str = KEY) -> Any:
    """A client of a server of the OpenAI kind.

    Args:
        server: its address and patience.
        retries: further attempts of the package itself when a failure may pass.
        needs: what is said where the package is missing.
        variable: the environment variable that holds the key.

    Raises:
        ConfigError: the package `openai` is not installed, or the variable holds no key.

    A server on this machine is asked directly, never through a proxy, and no server can send the client elsewhere.
    """
    try:
        from openai import DefaultHttpxClient, OpenAI
    except ImportError:
        raise ConfigError(needs) from None
    client = OpenAI(
        base_url=server.base_url,
        api_key=key_in(variable) or NO_KEY,
        timeout=server.timeout_seconds,
        max_retries=retries,
        http_client=DefaultHttpxClient(trust_env=not server.is_local, follow_redirects=False),
    )
    # The package takes these from the environment, and would tell them to any server.
    client.organization = client.project = None
    return client
