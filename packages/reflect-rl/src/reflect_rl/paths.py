"""Paths as users write them, with `~` for the home folder."""

from __future__ import annotations

import os
from pathlib import Path

from reflect_rl.errors import UserError


def expanded(path: str | Path) -> Path:
    """The path with the home folder in place of `~` or `~user`; as it is written where there is none.

    A folder may be called `~old`, and some containers have no home folder.

    >>> expanded("~no-such-user/x").parts
    ('~no-such-user', 'x')
    """
    # `Path.expanduser` raises RuntimeError there.
    return Path(os.path.expanduser(path))  # noqa: PTH111


def in_home(path: str | Path, remedy: str) -> Path:
    """The path of a folder that is to be made, with the home folder in place of `~`.

    Args:
        path: beginning with `~/`, or any other.
        remedy: sentence that says what to set where there is no home folder.

    Raises:
        UserError: there is no home folder; a folder named `~` would be made in its place.
    """
    found = expanded(path)
    if found.parts[:1] == ("~",):
        raise UserError(f"{str(path)!r} is in the home folder, and this user has none. {remedy}")
    return found
