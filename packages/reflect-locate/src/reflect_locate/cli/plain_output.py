"""Lines on a stream: styled on a terminal, and elsewhere as they are, without loading what styles them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal, TextIO

from reflect_rl.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

Style = Literal["", "bold", "dim"]


class PlainOutput:
    """Lines on a stream.

    Args:
        stream: where they are written (None: whoever started the command has closed it).
        are_notes: the lines stand beside an answer, and are dropped where they cannot be written.
    """

    def __init__(self, stream: TextIO | None, *, are_notes: bool = False) -> None:
        self._stream, self._are_notes = stream, are_notes

    def print(self, text: str, style: Style = "") -> None:
        """Write a line.

        Raises:
            UserError: there is no stream.
            OSError: the line cannot be written.
        """
        try:
            self._write(text, style)
        except (OSError, UserError):
            if not self._are_notes:
                raise

    def _write(self, text: str, style: Style) -> None:
        if self._stream is None:
            raise UserError("the standard output is closed. Give the answer a place, such as `> FILE`.")
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
