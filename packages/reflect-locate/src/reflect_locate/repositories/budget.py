"""Limits of reading something of a stranger: bytes, seconds and memory, one object for every reader."""

from __future__ import annotations

import time

from reflect_rl.errors import UserError

MOST_BYTES = 512_000_000
"""Most bytes of a snapshot's file, unpacked."""


class SnapshotError(UserError):
    """A tree of files cannot be read."""


class Budget:
    """Limits that a reader checks as it goes.

    Args:
        source: what is read, for messages.
        most_bytes: unpacked.
        seconds: from now.
        memory: bytes of memory of git; an unpacker gets a sixteenth of it.
    """

    def __init__(
        self, source: str, most_bytes: int = MOST_BYTES, seconds: float = 300, memory: int = 2_000_000_000
    ) -> None:
        self.source, self.most_bytes, self.seconds, self.memory = source, most_bytes, seconds, memory
        self._left, self._deadline = most_bytes, time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Time that is left; negative when it is up."""
        return self._deadline - time.monotonic()

    @property
    def unpacking_memory(self) -> int:
        """Bytes for the dictionary of an unpacker; `xz -9` needs half of them."""
        return self.memory // 16

    def rewind(self) -> None:
        """Count bytes from zero, for another pass over the same file; the time goes on."""
        self._left = self.most_bytes

    def check_time(self) -> None:
        """Stop a reader whose time is up.

        Raises:
            SnapshotError: it is.
        """
        if self.seconds_left <= 0:
            raise SnapshotError(
                f"reading {self.source!r} took longer than {self.seconds:g} s. "
                "Choose a smaller folder, exclude parts of it, or raise max_seconds."
            )

    def spend(self, size: int) -> None:
        """Count bytes that were unpacked.

        Raises:
            SnapshotError: they are too many, or the time is up.
        """
        # Checked per block: a bomb can spend all its time inside one member.
        self.check_time()
        self._left -= size
        if self._left < 0:
            raise SnapshotError(
                f"{self.source!r} unpacks to more than max_unpacked_bytes = {self.most_bytes}. "
                "Raise that limit if you trust it."
            )
