"""A set of household games, small in memory: problems stay compressed until one is asked for."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, overload

from alfworld_native.errors import GameError, suggestion
from alfworld_native.record import TASK_TYPES, GameRecord, TaskType

NAMED: Final = {"paper": "pick_and_place_simple-Tomato-None-Microwave"}
"""Short names of kinds of games; `paper` is what Reflect-RL was tried on (arXiv 2402.12621)."""

COMPRESSION: Final = 3
"""zlib's level: 14 MB for ALFWorld's training games instead of 187 MB, in half a second."""

FIRST_LINE: Final = re.compile(r"\(define \(problem \S+\)")
"""Holds the problem's name, which differs between equal games."""


class GameSet(Sequence[GameRecord]):
    """Games in a fixed order, each with a key of its own.

    Args:
        records: the games; their problems are compressed one by one, so an iterator needs little memory.

    Raises:
        GameError: two games have the same key.
    """

    def __init__(self, records: Iterable[GameRecord]) -> None:
        self._index: dict[str, int] = {}
        self._heads: list[GameRecord] = []
        self._problems: list[bytes] = []
        for record in records:
            # Only the problem is large; the rest stays readable for the filters.
            self._add(replace(record, problem=""), zlib.compress(record.problem.encode(), COMPRESSION))

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the games, in order."""
        return tuple(self._index)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over keys, goals and problems, in order: equal exactly for equal sets."""
        digest = hashlib.sha256()
        for record in self:
            for part in (record.key, record.goal, record.problem):
                encoded = part.encode()
                # The length goes first, so that no two different sets give the same bytes.
                digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return digest.hexdigest()

    def find(self, key: str) -> GameRecord:
        """The game of a key.

        Raises:
            GameError: there is none.
        """
        if key not in self._index:
            raise GameError(f"no game {key!r} in this set of {len(self)}. {suggestion(key, self._few_keys())}")
        return self[self._index[key]]

    def select(self, task_types: Sequence[TaskType] = (), name: str = "", distinct: bool = False) -> GameSet:
        """The games that pass all filters, in the same order.

        Args:
            task_types: kinds of task to keep; none = all.
            name: as ALFWorld names a kind of game, for example `pick_and_place_simple-Tomato-None-Microwave`, or a
                short name of `NAMED`; empty = all.
            distinct: drop games whose problem, but for its name, is that of an earlier game.

        Raises:
            GameError: an unknown kind of task, or no game is left.
        """
        for task_type in task_types:
            if task_type not in TASK_TYPES:
                raise GameError(f"no kind of task named {task_type!r}. {suggestion(task_type, TASK_TYPES)}")
        # A short name, or ALFWorld's own.
        wanted = NAMED.get(name, name)
        chosen = [at for at, head in enumerate(self._heads) if not task_types or head.task_type in task_types]
        chosen = [at for at in chosen if not wanted or wanted == _name(self._heads[at])]
        # An empty selection is nearly always a typing mistake.
        if not chosen:
            raise GameError(self._nothing_left(task_types, wanted))
        return self._part(self._distinct(chosen) if distinct else chosen)

    def __len__(self) -> int:
        return len(self._heads)

    def __iter__(self) -> Iterator[GameRecord]:
        return (self[at] for at in range(len(self)))

    @overload
    def __getitem__(self, at: int) -> GameRecord: ...

    @overload
    def __getitem__(self, at: slice) -> GameSet: ...

    def __getitem__(self, at: int | slice) -> GameRecord | GameSet:
        if isinstance(at, slice):
            return self._part(range(len(self))[at])
        # Unpacked at each access, and not kept.
        return replace(self._heads[at], problem=zlib.decompress(self._problems[at]).decode())

    def _add(self, head: GameRecord, problem: bytes) -> None:
        if head.key in self._index:
            raise GameError(f"two games have the key {head.key!r}.")
        self._index[head.key] = len(self._heads)
        self._heads.append(head)
        self._problems.append(problem)

    def _part(self, chosen: Iterable[int]) -> GameSet:
        part = GameSet(())
        for at in chosen:
            # Shares the compressed problems with this set.
            part._add(self._heads[at], self._problems[at])
        return part

    def _distinct(self, chosen: Sequence[int]) -> list[int]:
        # Backwards, so that the earliest of equal games stays.
        first = {_content(self[at].problem): at for at in reversed(chosen)}
        return sorted(first.values())

    def _few_keys(self) -> list[str]:
        return list(self._index)[:5]

    def _nothing_left(self, task_types: Sequence[str], name: str) -> str:
        if not self._heads:
            return "there are no games to choose from."
        asked = " and ".join(
            [*(["of the kinds " + ", ".join(task_types)] if task_types else []), *([name] if name else [])]
        )
        return f"none of {len(self)} games is {asked}. {suggestion(name, {_name(head) for head in self._heads[:50]})}"


def _name(record: GameRecord) -> str:
    return f"{record.task_type}-{record.subject}"


def _content(problem: str) -> bytes:
    """Digest of a problem, whatever its name and the order of its lines."""
    lines = sorted(line.strip() for line in FIRST_LINE.sub("", problem, count=1).splitlines())
    return hashlib.sha256("\n".join(lines).encode()).digest()
