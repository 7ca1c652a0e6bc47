"""Addresses of servers: which are plain, which are on this machine, and which need leave."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["ADDRESS", "KEY", "check_address", "host_of", "is_loopback"]

KEY = "OPENAI_API_KEY"
"""The environment variable that holds a server's key; a key has no other place."""

ADDRESS = re.compile(r"https?://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")
"""So plain that no two programs can disagree about the host; there is no room for a key either."""


def check_address(base_url: str, allow_remote: bool, sent: str, variable: str = KEY) -> None:
    """Refuse an address that is not plain, or that is elsewhere without leave. An empty one is nobody's.

    Args:
        base_url: the address.
        allow_remote: whether another machine may be asked.
        sent: what another machine would be sent, for the message.
        variable: the environment variable in which a key belongs.

    Raises:
        ValueError: the message does not repeat the address, in case that there is a key in it.
    """
    if base_url and not ADDRESS.fullmatch(base_url):
        raise ValueError(
            f"base_url is no plain address such as http://127.0.0.1:8000/v1. A key belongs into {variable} only"
        )
    if base_url and not allow_remote and not is_loopback(base_url):
        raise ValueError(
            f"base_url names another machine ({host_of(base_url)}), which would be sent {sent}. "
            "Set allow_remote = true if it may, or use a server on 127.0.0.1"
        )


def host_of(base_url: str) -> str:
    """Machine and port.

    >>> host_of("http://127.0.0.1:8000/v1")
    '127.0.0.1:8000'
    """
    return base_url.partition("://")[2].partition("/")[0]


def is_loopback(base_url: str) -> bool:
    """Whether it is a server on this machine, by its address.

    >>> is_loopback("http://[::1]:8000/v1"), is_loopback("http://127.0.0.1.example.org/v1")
    (True, False)
    """
    found = ADDRESS.fullmatch(base_url)
    name = found[1].strip("[]") if found else ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
