"""Many waits at a time, a bounded number of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def as_completed(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    goes_on: Callable[[BaseException], bool] = lambda error: False,
) -> Generator[tuple[int, Result | BaseException], None, None]:
    """Yield the number and the result, or the exception, of each item.

    Closing the generator begins no more items and waits for nothing.

    Args:
        work: what is done with an item.
        items: in the order in which they are begun.
        workers: most items under way.
        goes_on: whether an exception concerns its own item only; after any other no more items are begun.
    """
    waiting = deque(range(len(items)))
    results: SimpleQueue[tuple[int, Result | BaseException] | None] = SimpleQueue()

    def run() -> None:
        while waiting:
            try:
                # A single operation of the deque, so threads need no lock around it.
                number = waiting.popleft()
            except IndexError:  # another thread took the last one
                break
            try:
                results.put((number, work(items[number])))
            # In a thread it would otherwise vanish, and its item with it.
            except BaseException as error:
                if not goes_on(error):
                    waiting.clear()
                results.put((number, error))
        # One for each thread: the reader counts them to know that all have ended.
        results.put(None)

    running = min(workers, len(items))
    for _ in range(running):
        # Python joins the threads of a ThreadPoolExecutor at exit, so Ctrl-C would wait for a server that hangs.
        threading.Thread(target=run, name="endpoint request", daemon=True).start()
    try:
        while running:
            result = results.get()
            if result is None:
                running -= 1
            else:
                yield result
    finally:
        waiting.clear()
