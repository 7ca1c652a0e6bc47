"""Many waits at a time, a bounded number of them, which no hanging server can make endless."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from queue import SimpleQueue
from typing import TypeVar

__all__ = ["as_they_come"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def as_they_come(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    at_once: int,
    name: str,
    goes_on: Callable[[BaseException], bool] = lambda error: False,
) -> Generator[tuple[int, Result | BaseException], None, None]:
    """Number and result, or exception, of each item.

    After an exception for which `goes_on` is false no more items are begun, and those under way are waited for. When
    the iterator is closed, no more are begun either, and nothing is waited for. The threads are daemons, so that
    neither an interrupt, nor the watchdog, nor the end of the program waits for a server that hangs.

    Args:
        work: what is done with an item.
        items: in the order in which they are begun.
        at_once: most items under way.
        name: of the threads.
        goes_on: whether an exception concerns its own item only.
    """
    waiting = deque(range(len(items)))
    results: SimpleQueue[tuple[int, Result | BaseException] | None] = SimpleQueue()

    def serve() -> None:
        while waiting:
            try:
                number = waiting.popleft()
            except IndexError:  # another thread took the last one
                break
            try:
                results.put((number, work(items[number])))
            except BaseException as error:
                if not goes_on(error):
                    waiting.clear()
                results.put((number, error))
        results.put(None)

    serving = min(at_once, len(items))
    for _ in range(serving):
        threading.Thread(target=serve, name=name, daemon=True).start()
    try:
        while serving:
            result = results.get()
            if result is None:
                serving -= 1
            else:
                yield result
    finally:
        waiting.clear()
