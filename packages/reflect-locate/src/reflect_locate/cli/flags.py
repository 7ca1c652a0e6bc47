"""Flags of `locate`: its options, checked when they are parsed."""

from __future__ import annotations

from pydantic import Field

from reflect_locate.cli.options import LocateOptions
from reflect_rl.config import Frozen


class LocateFlags(Frozen, LocateOptions):
    """Find the file of a folder, an archive or a git revision that answers a question.

    Exit codes are those of grep: 0 = sure or likely, 1 = only a guess, 2 = a mistake.
    """

    # A field may not be called `json`, as models have a method of that name.
    as_json: bool = Field(False, alias="json")
