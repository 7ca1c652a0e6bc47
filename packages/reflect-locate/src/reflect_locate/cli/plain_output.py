"""Lines on a stream: styled on a terminal, and elsewhere as they are, without loading what styles them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Style = Literal["", "bold", "dim"]


class PlainOutput:
    """Lines on a stream.

    Args:
        stream: where they are written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def print(self, text: str, style: Style = "") -> None:
        """Write a line."""
        if style and self._stream.isatty():
            self._console.print(text, style=style)
        else:
            # Flushed as a console does, so that a reader who has left is noticed here.
            print(text, file=self._stream, flush=True)

    @cached_property
    def _console(self) -> Console:
        # Imported here: in a pipe nothing is styled, and rich takes a tenth of the call.
        from rich.console import Console

        return Console(file=self._stream, highlight=False, soft_wrap=True, markup=False, emoji=False)
